"""Tests that pipelines in TOML are those of SQL, and of their refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muntin.model.errors import OptionError
from muntin.model.trailing import trailing
from muntin.pipelines.files import read_pipeline
from muntin.pipelines.form import form_schema
from muntin.pipelines.toml import PipelineFileError, parse_pipeline
from muntin.sql import api

ROOT = Path(__file__).parents[3]

SQL = """
    CREATE TABLE clicks (k STRING, raw STRING, p INT, o BIGINT, ts AS to_timestamp(raw),
        WATERMARK FOR ts AS ts - 1 MINUTE MAX AHEAD ANY IDLE AFTER 2 MINUTES,
        OFFSET FOR (p, o), CLOCK FOR ts)
    WITH (connector = 'json', path = '${data}', multiLine = true);
    CREATE TABLE out WITH (connector = 'parquet', path = 'out');
    SET checkpoint = 'c'; SET trigger = '5 seconds'; SET shards = 3;
    INSERT INTO out SELECT k, count(*) AS n, quantile(x, 0.5) AS m
    FROM (SELECT *, length(raw) AS x FROM clicks) WHERE k <> '${not}' GROUP BY k, {windows}
    {emit}
"""
TOML = """
checkpoint = "c"
trigger = "5 seconds"
shards = 3
[tables.clicks]
connector = "json"
path = "${data}"
columns = { k = "STRING", raw = "STRING", p = "INT", o = "BIGINT" }
computed = { ts = "to_timestamp(raw)" }
time = "ts"
lateness = "1 minute"
max_ahead = "any"
idle = "2 minutes"
offset = ["p", "o"]
clock = "ts"
options = { multiLine = true }
[tables.out]
connector = "parquet"
path = "out"
[queries.out]
from = "clicks"
columns = { x = "length(raw)" }
where = "k <> '${not}'"
key = "k"
nulls = "group"
windows = { %s }
%s
agg = { n = "count(*)", m = "quantile(x, 0.5)" }
into = "out"
"""
VARIABLES = {"not": "it's"}


def write_sql(windows: str, emit: str = "") -> str:
    return SQL.replace("{windows}", windows).replace("{emit}", emit)


@pytest.mark.parametrize(
    ("windows", "call"),
    [
        ('tumbling = "1 hour"', "TUMBLE(ts, 1 HOUR)"),
        ('hopping = "1 hour", slide = "5 minutes"', "HOP(ts, 5 MINUTES, 1 HOUR)"),
        ('cumulating = "1 day", step = "1 hour"', "CUMULATE(ts, 1 HOUR, 1 DAY)"),
        ('session = "30 minutes"', "SESSION(ts, 30 MINUTES)"),
        (
            'session = "30 minutes", longest = "8 hours"',
            "SESSION(ts, 30 MINUTES, LONGEST => INTERVAL '8' HOUR)",
        ),
        (
            'session = "30 minutes", start = "a = 1", end = "b = \'x\'", same = "c"',
            "SESSION(ts, 30 MINUTES, END => b = 'x', START => a = 1, SAME => c)",
        ),
        (
            'session = "30 minutes", closed = "left"',
            "SESSION(ts, 30 MINUTES, CLOSED => 'left')",
        ),
        (
            'tumbling = "1 day", zone = "Asia/Tokyo"',
            "TUMBLE(ts, 1 DAY, ZONE => 'Asia/Tokyo')",
        ),
        (
            'tumbling = "1 day", origin = "2026-01-01T06:00"',
            "TUMBLE(ts, 1 DAY, ORIGIN => '2026-01-01T06:00')",
        ),
    ],
)
def test_windows_are_those_of_sql(windows, call):
    in_toml, in_sql = (
        parse_pipeline(TOML % (windows, ""), VARIABLES),
        api.compile_pipeline(write_sql(call), VARIABLES),
    )
    assert in_toml.flows == in_sql.flows
    assert in_toml.tables["clicks"].options == in_sql.tables["clicks"].options
    assert (in_toml.checkpoint, in_toml.trigger, in_toml.names) == ("c", 5_000_000, in_sql.names)


@pytest.mark.parametrize(
    ("entries", "windows"),
    [
        (
            'trailing = ["1 hour", "1 day"], every = "1 minute"',
            trailing(["1 hour", "1 day"], "1 minute"),
        ),
        (
            'trailing = "1 hour", every = "1 minute", origin = "2026-01-01T00:00:30"',
            trailing(["1 hour"], "1 minute", origin=30_000_000),
        ),
    ],
)
def test_trailing_windows(entries, windows):
    (flow,) = parse_pipeline(TOML % (entries, ""), VARIABLES).flows
    assert flow.query.spec.windows == windows
    assert flow.query.spec.keys == ("k", "look_back")
    assert [key.name for key in flow.query.keys] == ["k"]


@pytest.mark.parametrize(
    ("policies", "emit"),
    [
        ("early = { each = true }", "EARLY EACH"),
        ("early = { rows = 5 }\ndeltas = true", "EARLY EVERY 5 ROWS DELTAS"),
        (
            'early = { every = "1 s", at_least = 9 }\nfull = { repeat = false }',
            "EARLY EVERY 1 SECOND AT LEAST 9 ROWS FULL IF CHANGED",
        ),
        (
            'early = { rows = 9, after = "1 s", since = "last" }',
            "EARLY EVERY 9 ROWS OR AFTER 1 SECOND SINCE LAST",
        ),
        ('fill = { value = "zero", up_to = "1 day" }', "FILL ZERO UP TO 1 DAY"),
        (
            'fill = { value = "previous", values = { n = 0 }, up_to = "1 day" }',
            "FILL PREVIOUS (n = 0) UP TO 1 DAY",
        ),
        ("early = { rows = 9, over = 5 }", "EARLY EVERY 9 ROWS OVER 5 WINDOWS"),
        ("early = { over = 5, stop = true }", "EARLY OVER 5 WINDOWS OR STOP"),
        ('early = { every = "1 s" }\nkeep = "2 days"', "EARLY EVERY 1 SECOND RETAIN 2 DAYS"),
        ('late = { rows = 2 }\ngrace = "1 hour"', "LATE EVERY 2 ROWS GRACE 1 HOUR"),
        ('grace = "1 hour"\nkeep = "2 hours"', "GRACE 1 HOUR RETAIN 2 HOURS"),
        (
            'early = { rows = 1, then = { every = "1 minute" } }',
            "EARLY EVERY 1 ROWS THEN EVERY 1 MINUTE",
        ),
        ('early = { rows = 2, then = "never" }', "EARLY EVERY 2 ROWS THEN NEVER"),
        (
            'late = { each = true, then = { rows = 3, every = "1 s" } }\ngrace = "1 hour"',
            "LATE EACH THEN EVERY 3 ROWS OR 1 SECOND GRACE 1 HOUR",
        ),
    ],
)
def test_policies_are_those_of_sql(policies, emit):
    in_toml = parse_pipeline(TOML % ('tumbling = "1 hour"', policies), VARIABLES)
    assert (
        in_toml.flows
        == api.compile_pipeline(write_sql("TUMBLE(ts, 1 HOUR)", "EMIT " + emit), VARIABLES).flows
    )


def test_windows_of_rows_lie_on_offsets():
    pipeline = parse_pipeline(
        TOML % ('hopping = "6 rows", slide = "2 rows"', 'grace = "3 rows"'), VARIABLES
    )
    spec = pipeline.flows[0].query.spec
    assert (str(spec.windows), spec.keys, spec.time) == (
        "hopping 6 rows by 2 rows",
        ("p", "k"),
        None,
    )
    assert spec.firing.grace == 3


def test_having_takes_back_what_holds_no_more():
    query = (
        parse_pipeline(TOML % ('tumbling = "1 hour"', 'having = "n > 3"'), VARIABLES).flows[0].query
    )
    assert query.having == "n > 3"
    assert [c.name for c in query.columns] == [
        "k",
        "window_start",
        "window_end",
        "n",
        "m",
        "emission",
        "revision",
    ]


@pytest.mark.parametrize(
    ("windows", "more", "problem"),
    [
        (
            'tumbling = "1 hour", session = "1 s"',
            "",
            "queries.out: windows='tumbling, session' isn't",
        ),
        ('trailing = "1 hour"', "", "queries.out: every='' isn't a duration"),
        ('tumbling = "soon"', "", "queries.out: size='soon' isn't a duration"),
        ('tumbling = "1 hour", slide = "1 s"', "", "slide='1 s' isn't one of tumbling"),
        ('hopping = "1 hour"', "", "slide"),
        ('hopping = "1 hour", slide = "2 hours"', "", "is greater than the size 1 hour"),
        (
            "tumbling = 5",
            "",
            "queries.out.windows.tumbling: input should be a valid string (not 5)",
        ),
        ('tumbling = "1 hour", gap = "1 s"', "", "windows.gap: extra inputs are not permitted"),
        ('tumbling = "1 hour"', 'grace = "3 rows"', "grace='3 rows' isn't measured in time"),
        ('tumbling = "1 hour"', "late = { each = true }", "has no effect without a grace"),
        ('tumbling = "1 hour"', "early = {}", "asks for no policy"),
        ('tumbling = "1 hour"', 'rejected = "nowhere"', "queries.out.rejected: rejected='nowhere'"),
        ('tumbling = "1 hour"', 'having = "n > \\"${lots}\\""', "${lots}' has no value"),
    ],
)
def test_what_cannot_be_run_is_named(windows, more, problem):
    with pytest.raises(PipelineFileError) as caught:
        parse_pipeline(TOML % (windows, more), VARIABLES)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('connector = "json"', "", "tables.clicks.connector: field required"),
        ('"count(*)"', '"count(*"', "queries.out.agg.n: line 1: "),
        ('"count(*)"', '"corr(a, b)"', "corr isn't computed in windows"),
        ('trigger = "5 seconds"', 'trigger = "often"', "trigger: trigger='often' isn't a duration"),
        ('checkpoint = "c"', 'checkpoint = "', "this isn't TOML"),
        ('into = "out"', "", "queries.out.into: field required; add it"),
        (
            'key = "k"',
            "key = 3",
            "queries.out.key: input should be a valid string (not 3); write it in quotes",
        ),
        (
            'key = "k"',
            'key = ["k", 3]',
            "queries.out.key.1: input should be a valid string (not 3); write it in quotes",
        ),
        (
            'windows = { tumbling = "1 hour" }',
            'windows = "1 hour"',
            "queries.out.windows: input should be a table (not '1 hour'); write { name = value }",
        ),
    ],
)
def test_mistakes_are_named_by_their_place(old, new, problem):
    text = TOML % ('tumbling = "1 hour"', "")
    assert old in text
    with pytest.raises(PipelineFileError) as caught:
        parse_pipeline(text.replace(old, new), VARIABLES)
    assert problem in str(caught.value)
    assert str(caught.value).count("queries.out") <= 1


TWO = """
checkpoint = "c"
[tables]
clicks = { connector = "json", path = "clicks", columns = { k = "STRING" }, time = "ts" }
a = { connector = "parquet", path = "a" }
b = { connector = "parquet", path = "b" }
bad = { connector = "parquet", path = "bad" }
letters = { connector = "kafka", options = { topic = "letters" } }
[queries.first]
from = "clicks"
key = "k"
windows = { tumbling = "1 hour" }
agg = { n = "count(*)" }
into = "a"
rejected = "bad"
[queries.second]
from = "clicks"
key = "k"
windows = { tumbling = "1 hour" }
agg = { n = "count(*)" }
into = "b"
"""


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ('rejected = "Bad"', "queries.second.rejected: rejected='Bad' is written twice, first by "),
        ('rejected = "A"', "rejected='A' is written twice, first by queries.first.into; give each"),
        ('rejected = "b"', "rejected='b' is written twice, first by queries.second.into"),
    ],
)
def test_two_outputs_in_one_table_are_refused(more, problem):
    assert len(parse_pipeline(TWO).flows) == 2
    with pytest.raises(PipelineFileError) as caught:
        parse_pipeline(TWO + more)
    assert problem in str(caught.value)
    with pytest.raises(PipelineFileError, match=r"queries.second.into: into='A' is written twice"):
        parse_pipeline(TWO.replace('into = "b"', 'into = "A"'))


def test_rejected_messages_of_several_queries_may_go_to_one_topic():
    shared = TWO.replace('rejected = "bad"', 'rejected = "letters"')
    pipeline = parse_pipeline(shared + 'rejected = "letters"')
    assert [flow.rejected for flow in pipeline.flows] == ["letters", "letters"]
    with pytest.raises(PipelineFileError, match="written twice"):
        parse_pipeline(shared.replace('into = "b"', 'into = "letters"'))


def test_tables_that_differ_in_case_alone_are_refused():
    text = TWO.replace("[queries.first]", '[tables.Clicks]\nconnector = "rate"\n[queries.first]')
    with pytest.raises(PipelineFileError, match=r"tables.Clicks: .* is the same as clicks"):
        parse_pipeline(text)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ('password = "hunter2"', "tables.out.password is refused, extra inputs are not permitted"),
        ('pass = "hunter2"', "tables.out.pass is refused, extra inputs are not permitted"),
        ('options = { password = ["hunter2"] }', "tables.out.options.password"),
        ('options = "password=hunter2"', "tables.out.options: input should be a table"),
        ('options = [{ dsn = "hunter2" }]', "tables.out.options: input should be a table"),
    ],
)
def test_a_secret_at_the_wrong_place_is_not_shown(more, problem):
    text = f'{TWO}[tables.out]\nconnector = "postgres"\n{more}'
    with pytest.raises(PipelineFileError) as caught:
        parse_pipeline(text)
    assert problem in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_published_schema_is_the_one_in_force():
    published = json.loads((ROOT / "docs" / "pipeline.schema.json").read_text())
    assert published == form_schema()


def test_the_examples_say_the_same():
    in_toml, in_sql = (
        read_pipeline(ROOT / "examples" / "flights" / f"pipeline.{suffix}", {}, requires_all=False)
        for suffix in ("toml", "sql")
    )
    assert in_toml.flows == in_sql.flows
    assert in_toml.names == in_sql.names == {"data", "out"}


def test_what_is_given_fits_the_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TOML % ('tumbling = "1 hour"', ""))
    with pytest.raises(OptionError, match=r"lacks data, not; give --set data=\.\.\. --set not="):
        read_pipeline(path, {})
    with pytest.raises(
        OptionError, match=r"isn't a placeholder of mine\.toml; its placeholders are data, not"
    ):
        read_pipeline(path, {"outt": "x"})
    assert read_pipeline(path, {"data": "d", "not": "n"}).flows[0].query.where == "k <> 'n'"
    with pytest.raises(OptionError, match="isn't a file"):
        read_pipeline(tmp_path / "nowhere.sql", {})


@pytest.mark.parametrize(
    ("sets", "numbers"),
    [('"rollup"', (0, 1, 3)), ('"cube"', (0, 1, 2, 3)), ('[["user"], []]', (2, 3))],
)
def test_grouping_sets(sets, numbers):
    text = TWO.replace('key = "k"', f'key = ["k", "user"]\nsets = {sets}')
    flow, _ = parse_pipeline(text).flows
    assert (flow.query.spec.keys, flow.query.spec.sets) == (
        ("k", "user", "grouping_id"),
        numbers,
    )
    assert [key.name for key in flow.query.keys] == ["k", "user"]
