"""Tests that all mistakes of a pipeline are listed at once, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.cli.pipelines import read_checked_pipeline
from muntin.model.reader_options import marks_malformed

CLICKS = """
CREATE TABLE clicks (page STRING, n BIGINT, ms BIGINT, ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL '30' SECOND) WITH (connector = 'json', path = 'in');
"""
VIEWS = "CREATE TABLE views WITH (connector = 'parquet', path = 'out');\n"
COUNT = """INSERT INTO views SELECT page, count(*) AS n
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
GROUP BY page, window_start, window_end;
"""
TOML = """
checkpoint = "ck"
[tables.clicks]
connector = "json"
path = "in"
columns = { page = "string", n = "long", ts = "timestmp" }
time = "ts"
[tables.views]
connector = "parqet"
path = "out"
[queries.a]
from = "clicks"
key = "pge"
windows = { tumbling = "10 minutes" }
agg = { n = "sum(page)" }
into = "views"
[queries.b]
from = "clickz"
key = "page"
windows = { tumbling = "10 minutes" }
agg = { n = "count(*)" }
into = "views2"
"""


def list_mistakes(tmp_path: Path, text: str, suffix: str = ".sql", **variables: str) -> list[str]:
    """Return the first line of each mistake of a file."""
    file = tmp_path / f"pipeline{suffix}"
    file.write_text(text)
    _, checked = read_checked_pipeline(file, variables, whole=False)
    return [str(problem).partition("\n")[0] for problem in checked.problems]


def needs_spark(tmp_path: Path, text: str) -> bool:
    file = tmp_path / "pipeline.sql"
    file.write_text(text)
    _, checked = read_checked_pipeline(file, {})
    assert not checked.problems
    return bool(checked.flows)


def test_a_pipeline_without_mistakes_has_none(tmp_path: Path) -> None:
    assert list_mistakes(tmp_path, CLICKS + VIEWS + COUNT) == []
    assert not needs_spark(tmp_path, CLICKS + VIEWS + COUNT)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("GROUP BY", "WHERE pge = 'x' GROUP BY", "line 7: there is no column pge; write page"),
        ("ts TIMESTAMP,", "t TIMESTAMP,", "query views: there is no column ts; "),
        ("TABLE clicks,", "TABLE clikcs,", "query views: there is no table clikcs; write clicks"),
        ("INTO views", "INTO vews", "line 5: there is no table vews; write CREATE TABLE vews"),
        ("'json'", "'jsn'", "table clicks: connector='jsn' isn't a connector; write 'json'"),
        ("'parquet'", "'blackhole'", "table views: connector='blackhole' isn't a connector; "),
        ("n BIGINT,", "n BIGNIT,", "line 2: 'BIGNIT' isn't a type; write for example n STRING"),
        ("n BIGINT,", "n VARCHAR(9),", "line 2: VARCHAR(9) has a length, which isn't checked"),
        ("count(*)", "sum(page)", "query views: n: sum doesn't take STRING; cast it to a long"),
        ("ts TIMESTAMP,", "ts BIGINT,", "query views: ts is BIGINT, not a time; give a column"),
        ("'in')", "'in', multiline = 'yes')", "table clicks: multiline='yes' is neither true nor"),
        ("'in')", "'in', mutliLine = 'true')", "table clicks: option='mutliLine' isn't one of the "
         "table clicks; write multiLine"),
        ("'out')", "'out', file = '2')", "table views: option='file' isn't one of the table views; "
         "write files"),
        ("'out')", "'out', mode = 'batch')", "table views: mode='batch' has no effect on a"),
        ("TABLE views WITH", "TABLE views (page STRING, hits BIGINT) WITH",
         "table views: columns='(page, hits)' differs from the columns that the query inserts; "
         "the query inserts (page, window_start, window_end, n); rename its columns with AS"),
        ("count(*)", "max(TO_TIMESTAMP_LTZ(ms))", "line 5: TO_TIMESTAMP_LTZ(ms) has no unit; "
         "write TO_TIMESTAMP_LTZ(ms, 3) for milliseconds, or 0 for seconds"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, problem: str) -> None:
    text = CLICKS + VIEWS + COUNT
    assert old in text
    (first, *_) = list_mistakes(tmp_path, text.replace(old, new))
    assert first.startswith(problem)


JDBC = """CREATE TABLE views (page STRING, n BIGINT, window_start TIMESTAMP, window_end TIMESTAMP,
    PRIMARY KEY ({key}) NOT ENFORCED
) WITH (connector = '{connector}', url = 'jdbc:postgresql://host/db', 'table-name' = 'views');
"""
WHOLE_KEY = "page, window_start, window_end"
JOINED = """CREATE TABLE pays (page STRING, at TIMESTAMP, WATERMARK FOR at AS at) WITH (
    connector = 'json', path = 'pays');
INSERT INTO views SELECT c.page, p.at AS paid FROM clicks c JOIN pays p ON c.page = p.page
    AND p.at BETWEEN c.ts AND c.ts + INTERVAL '1' MINUTE;
"""


def test_columns_of_records_that_cant_be_read_are_known(tmp_path: Path) -> None:
    view = "CREATE VIEW v AS SELECT page, ts, malformed, malformed_detail FROM clicks;\n"
    counted = COUNT.replace("TABLE clicks", "TABLE v")
    assert list_mistakes(tmp_path, CLICKS + VIEWS + view + counted) == []
    by_spark = CLICKS.replace("n BIGINT", "_corrupt_record STRING")
    mistake, *_ = list_mistakes(tmp_path, by_spark + VIEWS + view + counted)
    assert "malformed" in mistake


def test_a_primary_key_that_identifies_the_rows_is_taken(tmp_path: Path) -> None:
    for key in (WHOLE_KEY, "WINDOW_END, window_start, Page"):
        views = JDBC.format(key=key, connector="jdbc")
        assert list_mistakes(tmp_path, CLICKS + views + COUNT) == []
    renamed = COUNT.replace("page, count", "page, window_start AS since, window_end, count")
    views = JDBC.format(key="page, since, window_end", connector="jdbc")
    views = views.replace("window_start TIMESTAMP", "since TIMESTAMP")
    assert list_mistakes(tmp_path, CLICKS + views + renamed) == []


WINDOWS = "INSERT INTO views SELECT page, count(*) AS n FROM {} GROUP BY page, {}"


@pytest.mark.parametrize(
    ("windows", "sole"),
    [
        ("TUMBLE(ts, 1 HOUR)", ("window_start", "window_end")),
        ("HOP(ts, 5 MINUTES, 1 HOUR)", ("window_start", "window_end")),
        ("TUMBLE(ts, SIZE => 1 DAY, ZONE => 'Europe/Berlin')", ("window_start", "window_end")),
        ("TUMBLE(ts, 1 MONTH)", ("window_start", "window_end")),
        ("CUMULATE(ts, 5 MINUTES, 1 HOUR)", ("window_end",)),
        ("HOP(ts, SLIDE => 1 HOUR, SIZE => 3 HOURS, ZONE => 'Europe/Berlin')", ()),
        ("SESSION(ts, 5 MINUTES)", ()),
    ],
)
def test_a_primary_key_may_leave_out_a_bound_that_follows(
    tmp_path: Path, windows: str, sole: tuple[str, ...]
) -> None:
    for bound, other_bound in (("window_start", "window_end"), ("window_end", "window_start")):
        views = JDBC.format(key=f"page, {bound}", connector="jdbc")
        problems = list_mistakes(tmp_path, CLICKS + views + WINDOWS.format("clicks", windows))
        assert (problems == []) is (bound in sole), problems
        assert not problems or f"lacks {other_bound}: rows of this query may differ" in problems[0]


def test_a_bound_follows_in_groups_of_windows(tmp_path: Path) -> None:
    views = JDBC.format(key="window_start", connector="jdbc").replace("page STRING, ", "")
    inner = WINDOWS.format("clicks", "TUMBLE(ts, 1 HOUR)").removeprefix("INSERT INTO views ")
    grouped = "INSERT INTO views SELECT max(n) AS n FROM {} GROUP BY window_start, window_end"
    assert list_mistakes(tmp_path, CLICKS + views + grouped.format(f"({inner})")) == []


@pytest.mark.parametrize(
    ("key", "connector", "insert", "problem"),
    [
        ("page", "jdbc", COUNT, "table views: PRIMARY KEY='(page)' lacks window_start, window_end: "
         f"rows of this query may differ in that alone; write PRIMARY KEY ({WHOLE_KEY}) NOT ENF"),
        ("window_start", "jdbc", COUNT, "table views: PRIMARY KEY='(window_start)' lacks page: "),
        (f"{WHOLE_KEY}, n", "jdbc", COUNT, f"table views: PRIMARY KEY='({WHOLE_KEY}, n)' has n, "
         "which doesn't identify a row of this query"),
        (WHOLE_KEY, "parquet", COUNT, f"table views: PRIMARY KEY='({WHOLE_KEY})' has no effect: "
         "parquet keeps every row that it gets; leave it out, or write to 'jdbc'"),
        ("page", "jdbc", JOINED, "table views: PRIMARY KEY='(page)' has no effect: the rows of "
         "this query are appended, each once; leave it out"),
    ],
)  # fmt: skip
def test_a_primary_key_that_cant_be_honoured_is_named(
    tmp_path: Path, key: str, connector: str, insert: str, problem: str
) -> None:
    views = JDBC.format(key=key, connector=connector)
    if connector == "parquet":
        views = views.replace(
            "url = 'jdbc:postgresql://host/db', 'table-name' = 'views'", "path=''"
        )
    lines = list_mistakes(tmp_path, CLICKS + views + insert)
    assert any(line.startswith(problem) for line in lines), lines


def test_all_mistakes_of_a_file_are_there(tmp_path: Path) -> None:
    text = CLICKS.replace("path = 'in'", "pth = 'in'") + VIEWS.replace("parquet", "parqet")
    text += COUNT.replace("page", "pge") + "INSERT INTO views SELECT 1 +;"
    assert [line.partition(";")[0] for line in list_mistakes(tmp_path, text)] == [
        "line 8: this can't be read: something is missing here",
        "table clicks: option='pth' isn't one of the table clicks",
        "table clicks: path=None is missing for json",
        "table views: connector='parqet' isn't a connector",
        "line 7: there is no column pge",
    ]


def test_all_mistakes_of_a_file_in_toml_are_there(tmp_path: Path) -> None:
    assert list_mistakes(tmp_path, TOML, ".toml") == [
        "queries.b.into: into='views2' isn't a table of this file; add it to [tables]",
        "table clicks: ts='timestmp' isn't a type of Spark's; write a type of Spark's, such as "
        "STRING, BIGINT, DOUBLE or TIMESTAMP",
        "table views: connector='parqet' isn't a connector; write 'parquet'",
        "query a: there is no column pge; write page",
        "query a: n: sum doesn't take string; cast it to a long or a double first",
    ]


@pytest.mark.parametrize("text", ["upper(page)", "ts > 5", "CAST(n AS STRING)", "page || 'x'"])
def test_spark_is_asked_for_what_nothing_else_can_judge(tmp_path: Path, text: str) -> None:
    where = COUNT.replace("GROUP BY", f"WHERE {text} = page GROUP BY")
    assert needs_spark(tmp_path, CLICKS + VIEWS + where)


@pytest.mark.parametrize("text", ["page = 'x'", "n + 1 > 2 AND page IS NOT NULL", "n IN (1, 2)"])
def test_plain_conditions_need_no_spark(tmp_path: Path, text: str) -> None:
    where = COUNT.replace("GROUP BY", f"WHERE {text} GROUP BY")
    assert not needs_spark(tmp_path, CLICKS + VIEWS + where)


def test_a_cast_of_a_whole_number_to_a_time_is_cautioned_of(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.sql"
    file.write_text(CLICKS + VIEWS + COUNT.replace("count(*)", "max(CAST(ms AS TIMESTAMP))"))
    _, checked = read_checked_pipeline(file, {})
    (caution,) = checked.cautions
    assert "reads ms as seconds. If it has milliseconds (13 digits), write" in caution


def test_names_of_flinks_jdbc_reach_postgres(tmp_path: Path) -> None:
    table = """CREATE TABLE views WITH ('connector' = 'jdbc', 'table-name' = 'v',
        'url' = 'jdbc:postgresql://host:5432/db', 'username' = 'me', 'password' = '${env:PW}');"""
    assert list_mistakes(tmp_path, CLICKS + table + COUNT) == []
    wrong = table.replace("'table-name'", "'sink.parallelism' = '2', 'table-name'")
    (problem,) = list_mistakes(tmp_path, CLICKS + wrong + COUNT)
    assert problem.startswith("table views: option='sink.parallelism' isn't one of the table views")


def test_options_of_a_watermark_that_no_query_follows_are_refused(tmp_path: Path) -> None:
    by_rows = (
        "INSERT INTO views SELECT page, count(*) AS n FROM clicks GROUP BY page, TUMBLE(3 ROWS);"
    )
    (mistake,) = list_mistakes(tmp_path, CLICKS + VIEWS + by_rows)
    assert mistake.startswith("table clicks: watermark='ts' has options without an effect: ")
    bare = CLICKS.replace("ts - INTERVAL '30' SECOND", "ts")
    assert list_mistakes(tmp_path, bare + VIEWS + by_rows) == []
    other = VIEWS.replace("views", "other").replace("out", "there")
    by_time = COUNT.replace("views", "other")
    assert list_mistakes(tmp_path, CLICKS + VIEWS + other + by_time + by_rows) == []


@pytest.mark.parametrize(
    ("connector", "options", "marks"),
    [
        ("json", {}, True),
        ("csv", {"Mode": "PERMISSIVE"}, True),
        ("csv", {"mode": "dropmalformed"}, False),
        ("json", {"columnNameOfCorruptRecord": "text"}, False),
        ("parquet", {}, False),
    ],
)
def test_tables_with_columns_of_unread_records(
    connector: str, options: dict[str, str], marks: bool
) -> None:
    assert marks_malformed(connector, options, ["page"]) == marks
    assert not marks_malformed(connector, options, ["_corrupt_record"])
