"""Tests that each form of statement gives the spec of the same query in Python."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.sql.twins import lower_query, sentence

import muntin as mt
from muntin.model.errors import SqlError
from muntin.model.pipeline import Column, Derived, Expression, TableRelation

BOUNDS = "window_start, window_end"
AT = sentence(key="k", time="ts")


def select(source: str, emit: str = "") -> str:
    return f"SELECT k, count(*) AS n FROM {source} GROUP BY k, {BOUNDS} {emit}"


def group_by_call(call: str) -> str:
    return f"SELECT k, count(*) AS n FROM t GROUP BY k, {call}"


WINDOWS = [
    ("TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE))", AT.tumbling("10 minutes")),
    ("TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), '10 minutes'))", AT.tumbling("10 minutes")),
    ("TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 'PT10M'))", AT.tumbling("10 minutes")),
    ("TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 10 MINUTES))", AT.tumbling("10 minutes")),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL 1 HOUR 30 MINUTES))",
        AT.tumbling("1 hour 30 minutes"),
    ),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1:30' HOUR TO MINUTE))",
        AT.tumbling("1 hour 30 minutes"),
    ),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1 02:03:04.5' DAY TO SECOND))",
        AT.tumbling("1 day 2 hours 3 minutes 4500 ms"),
    ),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '15' MINUTE))",
        AT.tumbling("1 hour", origin=900_000_000),
    ),
    (
        "TABLE(TUMBLE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' HOUR, "
        "ORIGIN => TIMESTAMP '2026-01-01 00:15:00'))",
        AT.tumbling("1 hour", origin="2026-01-01T00:15:00"),
    ),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 WEEK, ZONE => 'America/Los_Angeles', "
        "ORIGIN => '2026-03-02'))",
        AT.tumbling("1 week", zone="America/Los_Angeles", origin="2026-03-02"),
    ),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 12 MONTHS, ZONE => 'Pacific/Honolulu', "
        "ORIGIN => DATE '2025-07-01'))",
        AT.tumbling("1 year", zone="Pacific/Honolulu", origin="2025-07-01"),
    ),
    (
        "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), 6 HOURS, 1 DAY, ZONE => 'Europe/Paris', "
        "ORIGIN => TIMESTAMP '2023-03-25 05:00:00'))",
        AT.cumulating("1 day", "6 hours", zone="Europe/Paris", origin="2023-03-25T05:00:00"),
    ),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY, ZONE => 'Europe/Berlin'))",
        AT.tumbling("1 day", zone="Europe/Berlin"),
    ),
    (
        "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '1' HOUR))",
        AT.hopping("1 hour", "5 minutes"),
    ),
    (
        "TABLE(HOP(TABLE t, DESCRIPTOR(ts), SIZE => 7 DAYS, SLIDE => 1 DAY, ZONE => 'Asia/Tokyo'))",
        AT.hopping("7 days", "1 day", zone="Asia/Tokyo"),
    ),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), `OFFSET` => INTERVAL '1' MINUTE, "
        "`Size` => INTERVAL '10' MINUTES))",
        AT.tumbling("10 minutes", origin=60_000_000),
    ),
    (
        "TABLE(SESSION(`DATA` => TABLE t PARTITION BY k, `TIMECOL` => DESCRIPTOR(ts), "
        "`CLOSED` => 'left', `GAP` => 30 MINUTES))",
        AT.session("30 minutes", closed="left"),
    ),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 DAY, `ZONE` => 'Europe/Berlin'))",
        AT.tumbling("1 day", zone="Europe/Berlin"),
    ),
    (
        "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '6' HOUR, INTERVAL '1' DAY))",
        AT.cumulating("1 day", "6 hours"),
    ),
    (
        "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '30' MINUTE))",
        AT.session("30 minutes"),
    ),
    (
        "TABLE(SESSION(TABLE t PARTITION BY (k), DESCRIPTOR(ts), 30 MINUTES, CLOSED => 'left'))",
        AT.session("30 minutes", closed="left"),
    ),
    (
        "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), 30 MINUTES, LONGEST => 8 HOURS))",
        AT.session("30 minutes", longest="8 hours"),
    ),
    (
        "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), 30 MINUTES, "
        "START => kind = 'login', END => kind IN ('logout', 'expired'), SAME => upper(device)))",
        AT.session(
            "30 minutes",
            start="kind = 'login'",
            end="kind IN ('logout', 'expired')",
            same="upper(device)",
        ),
    ),
    ("HOP(t, DESCRIPTOR(ts), 5 MINUTES, 1 HOUR)", AT.hopping("1 hour", "5 minutes")),
    ("TABLE(TUMBLE(TABLE t, 3 ROWS))", sentence(key="k").tumbling(mt.rows(3))),
    ("TABLE(HOP(TABLE t, 2 ROWS, ROWS 6))", sentence(key="k").hopping(mt.rows(6), mt.rows(2))),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR)) WATERMARK ts DELAY OF INTERVAL 30 MINUTES",
        sentence(key="k", time="ts", lateness="30 minutes").tumbling("1 hour"),
    ),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR)) "
        "WATERMARK ts DELAY OF 1 MINUTE MAX AHEAD 2 HOURS",
        sentence(key="k", time="ts", lateness="1 minute", max_ahead="2 hours").tumbling("1 hour"),
    ),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR)) "
        "WATERMARK ts DELAY OF 1 MINUTE MAX AHEAD ANY AS w",
        sentence(key="k", time="ts", lateness="1 minute", max_ahead=None).tumbling("1 hour"),
    ),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR)) "
        "WATERMARK ts DELAY OF 1 MINUTE IDLE AFTER INTERVAL '2' MINUTES AS w",
        sentence(key="k", time="ts", lateness="1 minute", idle="2 minutes").tumbling("1 hour"),
    ),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR)) "
        "WATERMARK ts DELAY OF 1 MINUTE IDLE AFTER 2 MINUTES BY (site, device) AS w",
        sentence(
            key="k", time="ts", lateness="1 minute", idle="2 minutes", watermark=["site", "device"]
        ).tumbling("1 hour"),
    ),
    (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR)) WATERMARK ts DELAY OF 1 MINUTE BY GREATEST",
        sentence(key="k", time="ts", lateness="1 minute", watermark="greatest").tumbling("1 hour"),
    ),
]


@pytest.mark.parametrize(("source", "twin"), WINDOWS, ids=[source for source, _ in WINDOWS])
def test_table_functions(source, twin):
    assert lower_query(select(source)).spec == twin.spec(n=mt.count())


@pytest.mark.parametrize(
    ("call", "keys"),
    [
        ("SESSION(TABLE t PARTITION BY (k, Page), DESCRIPTOR(ts), 1 HOUR)", "t.page, k"),
        ("SESSION(TABLE t, DESCRIPTOR(ts), 1 HOUR)", "page, k"),
        # The rows of other windows don't depend on the other messages of a key.
        ("TUMBLE(TABLE t PARTITION BY k, DESCRIPTOR(ts), 1 HOUR)", "page, k"),
    ],
)
def test_sessions_are_partitioned_by_all_keys(call, keys):
    text = f"SELECT count(*) AS n FROM TABLE({call}) GROUP BY {keys}, window_start, window_end"
    assert lower_query(text).spec.keys == ("page", "k")


ZONED = sentence(key=("k", "tz"), time="ts")


@pytest.mark.parametrize(
    ("call", "twin"),
    [
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), 1 DAY, ZONE => tz)", ("tumbling", "1 day")),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), 1 MONTH, `ZONE` => `tz`)", ("tumbling", "1 month")),
        (
            "HOP(TABLE t, DESCRIPTOR(ts), 1 DAY, 7 DAYS, ZONE => t.tz)",
            ("hopping", "7 days", "1 day"),
        ),
        (
            "CUMULATE(TABLE t, DESCRIPTOR(ts), 6 HOURS, 1 DAY, ZONE => tz)",
            ("cumulating", "1 day", "6 hours"),
        ),
    ],
)
def test_a_column_with_the_zone_of_each_key(call, twin):
    text = f"SELECT count(*) AS n FROM TABLE({call}) GROUP BY k, tz, {BOUNDS}"
    kind, *lengths = twin
    expected = getattr(ZONED, kind)(*lengths, zone_column="tz")
    assert lower_query(text).spec == expected.spec(n=mt.count())


def test_days_of_each_zone_that_begin_at_six():
    call = "TUMBLE(TABLE t, DESCRIPTOR(ts), 1 DAY, ZONE => tz, ORIGIN => '2026-01-01T06:00:00')"
    text = f"SELECT count(*) AS n FROM TABLE({call}) GROUP BY k, tz, {BOUNDS}"
    twin = ZONED.tumbling("1 day", zone_column="tz", origin="2026-01-01T06:00:00")
    assert lower_query(text).spec == twin.spec(n=mt.count())
    shifted = call.replace("ORIGIN => '2026-01-01T06:00:00'", "`OFFSET` => 6 HOURS")
    assert lower_query(text.replace(call, shifted)).spec.windows.calendar.shift == 6 * 3_600_000_000


def test_the_zone_is_the_key_of_its_name_in_the_output():
    call = "TUMBLE(TABLE t, DESCRIPTOR(ts), 1 DAY, ZONE => tz)"
    spec = lower_query(
        f"SELECT tz AS home, count(*) AS n FROM TABLE({call}) GROUP BY tz, {BOUNDS}"
    ).spec
    assert (spec.keys, spec.zone_column) == (("home",), "home")


def test_a_column_of_zones_has_to_be_a_key():
    call = "TUMBLE(TABLE t, DESCRIPTOR(ts), 1 DAY, ZONE => tz)"
    with pytest.raises(SqlError, match="zone_column isn't a key"):
        lower_query(f"SELECT count(*) AS n FROM TABLE({call}) GROUP BY k, {BOUNDS}")


GROUPED = [
    ("TUMBLE(ts, INTERVAL '10' MINUTE)", AT.tumbling("10 minutes")),
    ("HOP(ts, INTERVAL '5' MINUTE, INTERVAL '1' HOUR)", AT.hopping("1 hour", "5 minutes")),
    ("CUMULATE(ts, 6 HOURS, 1 DAY)", AT.cumulating("1 day", "6 hours")),
    ("SESSION(ts, INTERVAL '30' MINUTE)", AT.session("30 minutes")),
    ("window(ts, '10 minutes')", AT.tumbling("10 minutes")),
    ("window(ts, '10 minutes', '5 minutes')", AT.hopping("10 minutes", "5 minutes")),
    (
        "window(ts, '1 hour', '1 hour', '15 minutes')",
        AT.tumbling("1 hour", origin=900_000_000),
    ),
    ("session_window(ts, '5 minutes')", AT.session("5 minutes")),
    ("session_window(t.ts, '5 minutes')", AT.session("5 minutes")),
]


SESSION = "TABLE(SESSION(TABLE {} PARTITION BY k, DESCRIPTOR(ts), 1 HOUR))"
OFFSETS = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(part, off), 3 ROWS))"


@pytest.mark.parametrize(
    ("query", "where"),
    [
        # This condition doesn't change the sessions of the other keys.
        (f"{SESSION.format('t')} WHERE t.k <> 'a' GROUP BY k, {BOUNDS}", "`k` <> 'a'"),
        (f"{OFFSETS} WHERE v > 1 GROUP BY part, k, {BOUNDS}", "v > 1"),
        (f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR)) WHERE v > 1 GROUP BY {BOUNDS}", "v > 1"),
        # These are formed by GROUP BY, behind WHERE.
        ("t WHERE v > 1 GROUP BY k, SESSION(ts, 1 HOUR)", "v > 1"),
        ("t WHERE v > 1 GROUP BY k, session_window(ts, '1 hour')", "v > 1"),
    ],
)
def test_where_chooses_messages_where_that_leaves_windows_as_they_are(query, where):
    assert lower_query(f"SELECT count(*) AS n FROM {query}").where == where


def test_a_view_chooses_the_messages_of_sessions():
    text = f"WITH v AS (SELECT * FROM t WHERE x > 1) SELECT k FROM {SESSION.format('v')}"
    query = lower_query(f"{text} GROUP BY k, {BOUNDS}")
    assert query.source == Derived(TableRelation("t"), None, "x > 1")
    assert query.where is None


def test_parentheses_around_keys_say_nothing():
    query = lower_query(
        "SELECT productId, (TUMBLE_START(ts, 1 HOUR)) AS s, count(*) AS n FROM t "
        "group by (productId), (TUMBLE(ts, 1 HOUR))"
    )
    assert query.keys == (Column("productId", "`productId`"),)
    assert query.columns is not None
    assert Column("s", "(window_start)") in query.columns


@pytest.mark.parametrize(("call", "twin"), GROUPED, ids=[call for call, _ in GROUPED])
def test_grouping_functions(call, twin):
    assert lower_query(group_by_call(call)).spec == twin.spec(n=mt.count())


HOURS = AT.tumbling("1 hour")
EMITS = [
    ("EMIT ON CLOSE", HOURS),
    ("EMIT ON WINDOW CLOSE", HOURS),
    ("EMIT FINAL", HOURS),
    ("EMIT CHANGES", HOURS.early(each=True)),
    ("EMIT CHANGES GRACE 1 HOUR", HOURS.early(each=True).late(each=True, grace="1 hour")),
    ("EMIT EARLY EVERY 5 SECONDS", HOURS.early(every="5 seconds")),
    ("EMIT EARLY EVERY INTERVAL '5' SECOND", HOURS.early(every="5 seconds")),
    ("EMIT EARLY EVERY 100 ROWS", HOURS.early(rows=100)),
    ("EMIT EARLY EVERY 5 SECONDS OR 100 ROWS", HOURS.early(rows=100, every="5 seconds")),
    ("EMIT EARLY EVERY 100 ROWS OR EVERY 5 SECONDS", HOURS.early(rows=100, every="5 seconds")),
    (
        "EMIT EARLY EVERY 5 SECONDS AT LEAST 100 ROWS",
        HOURS.early(every="5 seconds", at_least=100),
    ),
    (
        "EMIT EARLY EVERY 1 ROWS THEN EVERY 1 MINUTE",
        HOURS.early(rows=1, then={"every": "1 minute"}),
    ),
    (
        "EMIT EARLY WHEN count(*) > 5 THEN EVERY 5 SECONDS AT LEAST 3 ROWS LATE EACH THEN "
        "EVERY 2 ROWS OR 1 MINUTE GRACE 1 HOUR",
        HOURS.early(when="`n` > 5", then={"every": "5 seconds", "at_least": 3}).late(
            each=True, then={"rows": 2, "every": "1 minute"}, grace="1 hour"
        ),
    ),
    (
        "EMIT EARLY EVERY 2 ROWS THEN NEVER LATE EACH THEN NEVER GRACE 1 HOUR",
        HOURS.early(rows=2, then="never").late(each=True, then="never", grace="1 hour"),
    ),
    ("EMIT EARLY AFTER 5 SECONDS", HOURS.early(after="5 seconds")),
    (
        "EMIT EARLY AFTER INTERVAL '5' SECOND SINCE LAST MESSAGE",
        HOURS.early(after="5 seconds", since="last"),
    ),
    (
        "EMIT EARLY AFTER 5 SECONDS SINCE FIRST OR EVERY 100 ROWS LATE EVERY 3 ROWS OR AFTER "
        "1 MINUTE SINCE LAST THEN AFTER 1 HOUR GRACE 1 DAY",
        HOURS.early(after="5 seconds", rows=100).late(
            rows=3, after="1 minute", since="last", then={"after": "1 hour"}, grace="1 day"
        ),
    ),
    ("EMIT CHANGES FULL IF CHANGED", HOURS.early(each=True).full(repeat=False)),
    (
        "EMIT FULL IF CHANGED EARLY EVERY 5 SECONDS",
        HOURS.early(every="5 seconds").full(repeat=False),
    ),
    ("EMIT FILL ZERO UP TO 1 DAY", HOURS.fill("zero", up_to="1 day")),
    (
        "EMIT FILL NULL UP TO INTERVAL '2' HOUR, EARLY EACH",
        HOURS.early(each=True).fill("null", up_to="2 hours"),
    ),
    ("EMIT FILL PREVIOUS UP TO 1 DAY", HOURS.fill("previous", up_to="1 day")),
    ("EMIT FILL LINEAR (n = 0) UP TO 1 DAY", HOURS.fill("linear", n=0, up_to="1 day")),
    ("EMIT FILL (n = -1) UP TO 1 DAY", HOURS.fill(n=-1, up_to="1 day")),
    ("EMIT FILL (n = 'linear') UP TO 1 DAY", HOURS.fill(n="'linear'", up_to="1 day")),
    ("EMIT FILL (n = linear) UP TO 1 DAY", HOURS.fill(n="linear", up_to="1 day")),
    ("EMIT FILL (n = 1.5) UP TO 1 DAY", HOURS.fill(n=1.5, up_to="1 day")),
    (
        "EMIT FILL (n = true) UP TO 1 DAY, EARLY EACH",
        HOURS.early(each=True).fill(n=True, up_to="1 day"),
    ),
    ("EMIT EARLY OVER 1000 WINDOWS", HOURS.early(over=1000)),
    (
        "EMIT EARLY AFTER 5 SECONDS OVER 1000 WINDOWS OR STOP, GRACE 1 HOUR",
        HOURS.early(after="5 seconds", over=1000, stop=True).late(grace="1 hour"),
    ),
    ("EMIT EARLY EACH", HOURS.early(each=True)),
    ("EMIT EARLY EVERY ROW", HOURS.early(each=True)),
    ("EMIT GRACE 6 HOURS", HOURS.late(grace="6 hours")),
    ("EMIT ON CLOSE GRACE 6 HOURS", HOURS.late(grace="6 hours")),
    ("EMIT LATE EACH MESSAGE GRACE 6 HOURS", HOURS.late(each=True, grace="6 hours")),
    ("EMIT LATE EVERY 10 ROWS, GRACE 6 HOURS", HOURS.late(rows=10, grace="6 hours")),
    ("EMIT RETAIN 1 DAY", HOURS.keep("1 day")),
    ("EMIT DELTAS EARLY EACH", HOURS.early(each=True).deltas()),
    (
        "EMIT EARLY EVERY 5 SECONDS LATE EVERY 10 SECONDS GRACE 1 HOUR RETAIN 1 DAY",
        HOURS.early(every="5 seconds").late(every="10 seconds", grace="1 hour").keep("1 day"),
    ),
]


@pytest.mark.parametrize(("emit", "twin"), EMITS, ids=[emit for emit, _ in EMITS])
def test_emit(emit, twin):
    spec = lower_query(select("TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR))", emit)).spec
    assert spec == twin.spec(n=mt.count())


def test_rows_may_be_retained_by_number():
    source = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR))"
    query = lower_query(select(source, "EMIT RETAIN 1 DAY ROWS 5000000"))
    assert query.spec == HOURS.keep("1 day", rows=5_000_000).spec(n=mt.count())


def test_lengths_on_the_rows_axis_are_rows():
    source = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(p, o), 3 ROWS))"
    query = lower_query(select(source, "EMIT GRACE 2 ROWS RETAIN 9 ROWS").replace("k", "p"))
    twin = sentence(key="p", offset=("p", "o")).tumbling(mt.rows(3))
    assert query.spec == twin.late(grace=mt.rows(2)).keep(mt.rows(9)).spec(n=mt.count())


X = "x"
AGGREGATES = [
    ("COUNT(*)", mt.count()),
    ("count(1)", mt.count()),
    ("count(x)", mt.count("x")),
    ("count(*) FILTER (WHERE y > 2)", mt.count_if(Expression("y > 2"))),
    ("count(x) FILTER (WHERE y > 2)", mt.count(Expression("CASE WHEN y > 2 THEN x END"))),
    ("count_if(x > 1)", mt.count_if(Expression("x > 1"))),
    ("sum(x)", mt.sum("x")),
    (
        "last(x) FILTER (WHERE y) IGNORE NULLS",
        mt.last(Expression("CASE WHEN y THEN x END"), nulls="skip"),
    ),
    ("sum(x * 2) FILTER (WHERE y)", mt.sum(Expression("CASE WHEN y THEN x * 2 END"))),
    ("min(t.x)", mt.min("x")),
    ("max(upper(t.x))", mt.max(Expression("upper(`x`)"))),
    ("avg(x)", mt.mean("x")),
    ("var_samp(x)", mt.variance("x")),
    ("stddev(x)", mt.stddev("x")),
    ("first(x)", mt.first("x")),
    ("any_value(x)", mt.first("x")),
    ("last_value(x)", mt.last("x")),
    ("min_by(x, y)", mt.arg_min("x", "y")),
    ("arg_max(x, y + 1)", mt.arg_max("x", Expression("y + 1"))),
    ("bool_and(x)", mt.bool_and("x")),
    ("some(x)", mt.bool_or("x")),
    ("median(x)", mt.median("x")),
    ("collect_list(x)", mt.collect_list("x")),
    ("array_agg(DISTINCT x)", mt.distinct("x")),
    ("collect_set(x)", mt.distinct("x")),
    ("count(DISTINCT x)", mt.count_distinct("x")),
    (
        "count(DISTINCT x) FILTER (WHERE y)",
        mt.count_distinct(Expression("CASE WHEN y THEN x END")),
    ),
    ("sum(DISTINCT x)", mt.sum_distinct("x")),
    ("mode(x)", mt.mode("x")),
    ("approx_count_distinct(x)", mt.approx_distinct("x")),
    ("approx_percentile(x, 0.95)", mt.quantile("x", 0.95)),
    ("quantile(x, 0.5)", mt.quantile("x", 0.5)),
    ("percentile_disc(0.5) WITHIN GROUP (ORDER BY x)", mt.exact_quantile("x", 0.5)),
    ("top_k(x, 3)", mt.top_k("x", 3)),
]


@pytest.mark.parametrize(("text", "twin"), AGGREGATES, ids=[text for text, _ in AGGREGATES])
def test_aggregates(text, twin):
    query = f"SELECT k, {text} AS v FROM t GROUP BY k, TUMBLE(ts, 1 HOUR)"
    assert lower_query(query).spec == HOURS.spec(v=twin)


def test_conditions_and_expressions_are_handed_to_spark_as_they_were_written():
    text = """
        SELECT upper(k) AS key, round(avg(x), 2) AS mean, /* why */ count(*) AS n
        FROM t WHERE t.x > 1 AND ts > current_timestamp() - INTERVAL 1 HOUR 30 MINUTES
        GROUP BY upper(k), TUMBLE(ts, 1 HOUR) HAVING n > 3 AND max(x) < 5
    """
    query = lower_query(text)
    where = "`x` > 1 AND ts > current_timestamp() - INTERVAL 1 HOUR 30 MINUTES"
    assert query.where == where
    assert query.keys == (Column("key", "upper(k)"),)
    aggregates = {"__muntin_a0": mt.mean("x"), "n": mt.count(), "__muntin_a2": mt.max("x")}
    assert query.spec.aggregates == aggregates
    assert query.having == "(`n`) > 3 AND `__muntin_a2` < 5"
    assert query.columns == (
        Column("key", "`key`"),
        Column("window_start", "`window_start`"),
        Column("window_end", "`window_end`"),
        Column("mean", "round(`__muntin_a0`, 2)"),
        Column("n", "`n`"),
        Column("emission", "emission"),
        Column("revision", "revision"),
    )


def test_a_query_that_shows_what_is_shown_anyway_has_no_columns_of_its_own():
    for columns in (
        "k, count(*) AS n",
        f"k, {BOUNDS}, count(*) AS n",
        "window_start, k, count(*) n",
    ):
        query = lower_query(f"SELECT {columns} FROM t GROUP BY k, TUMBLE(ts, 1 HOUR)")
        assert (query.columns is None) == columns.startswith("k")


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        ("TUMBLE_START(ts, 1 HOUR)", "window_start"),
        ("TUMBLE_END(ts, INTERVAL '60' MINUTE)", "window_end"),
        ("window_end", "window_end"),
        ("date_trunc('day', window_start)", "date_trunc('day', window_start)"),
        ("upper(emission)", "upper(emission)"),
    ],
)
def test_bounds_by_any_name(bound, text):
    query = lower_query(f"SELECT {bound} AS b, count(*) AS n FROM t GROUP BY k, TUMBLE(ts, 1 HOUR)")
    assert Column("b", text) in query.columns


def test_spark_windows_are_structs():
    query = "SELECT window.start AS s, window, count(*) n FROM t GROUP BY k, window(ts, '1 hour')"
    texts = {column.name: column.text for column in lower_query(query).columns}
    assert texts["s"] == "window_start"
    assert texts["window"] == "named_struct('start', window_start, 'end', window_end)"
    aliased = "SELECT window(ts, '1 hour') AS w, count(*) n FROM t GROUP BY k, w HAVING w.end > '2'"
    assert lower_query(aliased).having == "window_end > '2'"


def test_windows_of_all_rows_have_no_key():
    query = lower_query(select("TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR))").replace("k, ", ""))
    assert query.spec == sentence(time="ts").tumbling("1 hour").spec(n=mt.count())
    assert query.columns is None


def test_offsets_are_partitioned():
    text = f"""
        SELECT max(value) AS m
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(`partition`, offset), 3 ROWS))
        GROUP BY {BOUNDS} EMIT EARLY EVERY 1 MINUTE
    """
    twin = sentence(offset=("partition", "offset")).tumbling(mt.rows(3)).early(every="1 minute")
    assert lower_query(text).spec == twin.spec(m=mt.max("value"))


def test_ordinals_and_aliases_group_too():
    twin = sentence(key="b", time="ts").tumbling("1 hour").spec(n=mt.count())
    for group in ("1", "b", "lower(`A`)"):
        text = f"SELECT lower(a) AS b, count(*) AS n FROM t GROUP BY {group}, TUMBLE(ts, 1 HOUR)"
        query = lower_query(text)
        assert query.spec == twin


def test_views_choose_and_compute_rows():
    inner = "SELECT *, lower(a) AS k FROM t WHERE a <> ''"
    expected = Derived(TableRelation("t"), (Column("*", "*"), Column("k", "lower(a)")), "a <> ''")
    for text in (
        f"SELECT k, count(*) AS n FROM ({inner}) AS s GROUP BY s.k, TUMBLE(ts, 1 HOUR)",
        f"WITH s AS ({inner}) SELECT k, count(*) AS n FROM s GROUP BY k, TUMBLE(s.ts, 1 HOUR)",
        f"CREATE VIEW s AS {inner}; SELECT k, count(*) n FROM s GROUP BY k, TUMBLE(ts, 1 HOUR)",
    ):
        query = lower_query(text)
        assert query.source == expected
        assert query.spec == HOURS.spec(n=mt.count())


def test_marks_of_tables_are_those_of_their_queries_and_views():
    text = """
        CREATE TABLE clicks (
            k STRING, part INT, off BIGINT, raw STRING, landed TIMESTAMP,
            ts AS to_timestamp(raw),
            WATERMARK FOR ts AS ts - INTERVAL '30' SECOND MAX AHEAD ANY,
            OFFSET FOR (part, off), CLOCK FOR landed
        ) WITH (connector = 'parquet', path = 'x');
        CREATE VIEW some AS SELECT * FROM clicks WHERE k <> 'bot';
        SELECT k, count(*) AS n FROM some GROUP BY k, TUMBLE(ts, 1 HOUR)
    """
    query = lower_query(text)
    twin = sentence(
        key="k", time="ts", lateness="30 seconds", max_ahead=None, offset=("part", "off")
    )
    assert query.spec == twin.tumbling("1 hour").spec(n=mt.count())
    # Nothing of this query goes by the clock of arrivals.
    assert query.clock is None
    assert lower_query(f"{text} EMIT EARLY EVERY 1 MINUTE").clock == "landed"
    silent = text.replace("MAX AHEAD ANY", "MAX AHEAD ANY IDLE AFTER INTERVAL '1' MINUTE")
    assert lower_query(silent).clock == "landed"


def test_placeholders_stand_in_quotes_and_are_escaped():
    text = "SELECT k, count(*) AS n FROM t WHERE a = '${x}' GROUP BY k, TUMBLE(ts, '${size}')"
    query = lower_query(text, x="it's", size="1 hour")
    assert query.where == r"a = 'it\'s'"
    assert query.spec == HOURS.spec(n=mt.count())


ROWS = sentence(key="k")


def test_aggregates_over_rows_before_slide_with_the_messages():
    text = """SELECT k, price, sum(price) OVER (PARTITION BY k ROWS 2 PRECEDING) AS s,
        max(price) OVER w - 1 AS m FROM t
        WINDOW w AS (PARTITION BY k ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"""
    query = lower_query(text)
    twin = ROWS.rolling(mt.rows(3))
    aggregates = {
        "__muntin_a0": mt.last("price"),
        "s": mt.sum("price"),
        "__muntin_a2": mt.max("price"),
    }
    assert query.spec == twin.spec(**aggregates)
    assert [column.text for column in query.columns if column.name == "m"] == ["`__muntin_a2` - 1"]


def test_aggregates_over_a_time_before_slide_too_once_a_key_and_time():
    text = """SELECT DISTINCT k, ts, avg(x) OVER
        (PARTITION BY k ORDER BY ts RANGE INTERVAL '2' MINUTE PRECEDING) AS m FROM t"""
    query = lower_query(text)
    twin = AT.rolling("2 minutes", closed="both")
    assert query.spec == twin.spec(__muntin_at=mt.last("ts"), m=mt.mean("x"))
    assert query.having is None


def test_without_distinct_each_message_is_a_row_with_what_is_computed_of_its_time():
    text = """SELECT k, price, ts, price - avg(price) OVER
        (PARTITION BY k ORDER BY ts RANGE INTERVAL '2' MINUTE PRECEDING) AS off FROM t"""
    query = lower_query(text)
    twin = AT.rolling("2 minutes", closed="both").spec(
        __muntin_at=mt.last("ts"),
        __muntin_a1=mt.mean("price"),
        __muntin_rows=mt.last_values(Expression("named_struct('c0', price)")),
    )
    assert query.spec == twin
    assert query.each
    assert [(column.name, column.text) for column in query.columns or ()] == [
        ("k", "`k`"), ("window_start", "`window_start`"),
        ("window_end", "`window_end`"),
        ("price", "__muntin_row.c0"), ("ts", "`__muntin_at`"),
        ("off", "__muntin_row.c0 - `__muntin_a1`"), ("emission", "emission"),
        ("revision", "revision"), ("row_number", "__muntin_place + 1"),
    ]  # fmt: skip


def test_frames_of_several_lengths_are_of_the_longest():
    over = "OVER (PARTITION BY k ORDER BY ts RANGE INTERVAL '{}' MINUTE PRECEDING)"
    text = f"""SELECT k, ts, sum(v) {over.format(60)} AS h, avg(v) OVER day AS d,
        sum(v) OVER day AS s, count(*) {over.format(60)} - 1 AS before FROM t
        WINDOW day AS (PARTITION BY k ORDER BY ts RANGE BETWEEN 1 DAY PRECEDING AND CURRENT ROW)"""
    query = lower_query(text)
    twin = AT.rolling("1 day", closed="both").spec(
        __muntin_at=mt.last("ts"),
        h=mt.sum("v").over("1 hour"),
        d=mt.mean("v"),
        s=mt.sum("v"),
        __muntin_a4=mt.count().over("1 hour"),
        __muntin_rows=mt.last_values(Expression("named_struct('none', 0)")),
    )
    assert query.spec == twin
    assert lower_query(text.replace("SELECT", "SELECT DISTINCT")).spec == replace(
        twin, aggregates={n: a for n, a in twin.aggregates.items() if n != "__muntin_rows"}
    )


def test_frames_of_rows_of_several_lengths():
    text = """SELECT k, sum(v) OVER (PARTITION BY k ROWS 9 PRECEDING) AS ten,
        sum(v) OVER (PARTITION BY k ROWS 2 PRECEDING) AS three FROM t"""
    twin = ROWS.rolling(mt.rows(10)).spec(ten=mt.sum("v"), three=mt.sum("v").over(mt.rows(3)))
    assert lower_query(text).spec == twin


@pytest.mark.parametrize(
    ("frame", "twin"),
    [
        ("ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING", ROWS.rolling(mt.rows(3), closed="left")),
        ("ROWS 3 PRECEDING EXCLUDE CURRENT ROW", ROWS.rolling(mt.rows(3), closed="left")),
        (
            "ORDER BY ts RANGE BETWEEN 1 HOUR PRECEDING AND CURRENT ROW EXCLUDE GROUP",
            AT.rolling("1 hour", closed="left"),
        ),
    ],
)
def test_frames_without_their_row(frame, twin):
    text = f"SELECT DISTINCT k, sum(v) OVER (PARTITION BY k {frame}) AS s FROM t"
    assert lower_query(text).spec == twin.spec(s=mt.sum("v"))


def test_policies_by_a_condition():
    query = lower_query(
        select(
            "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR))",
            "EMIT EARLY WHEN n >= 3 OR max(v) > 100 LATE WHEN k = 'a' GRACE 1 HOUR",
        )
    )
    twin = AT.tumbling("1 hour").early(when="(`n`) >= 3 OR `__muntin_a1` > 100")
    twin = twin.late(grace="1 hour", when="`k` = 'a'")
    assert query.spec == twin.spec(n=mt.count(), __muntin_a1=mt.max("v"))
    assert [column.name for column in query.columns or ()] == [
        "k", "window_start", "window_end", "n", "emission", "revision",
    ]  # fmt: skip


def test_a_time_may_be_a_field_of_a_struct() -> None:
    call = "SELECT count(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR({}), 1 MINUTE)) {}"
    group_by = "GROUP BY window_start, window_end"
    for column, time in (("e.at", "e.at"), ("`e`.`a t`.x", "e.a t.x"), ("t.ts", "ts")):
        assert lower_query(call.format(column, group_by)).spec.time == time
        spark = f"SELECT count(*) AS n FROM t GROUP BY window({column}, '1 minute')"
        assert lower_query(spark).spec.time == time
    mixed = "SELECT window(t.ts, '1 hour') AS w, count(*) AS n FROM t GROUP BY window(ts, '1 hour')"
    assert lower_query(mixed).spec.time == "ts"


def test_keys_that_are_computed_are_called_by_what_they_are() -> None:
    query = lower_query("SELECT count(*) AS n FROM t GROUP BY u.k, upper(k), window(ts, '1 hour')")
    assert [(key.name, key.text) for key in query.keys] == [("k", "u.k"), ("upper(k)",) * 2]


def test_windows_of_months() -> None:
    call = "SELECT count(*) AS n FROM TABLE({}(TABLE t, DESCRIPTOR(ts), {})) {}"
    group_by = "GROUP BY window_start, window_end"
    for function, lengths, windows in (
        ("TUMBLE", "INTERVAL '1' MONTH", "tumbling 1 month in UTC"),
        ("TUMBLE", "1 YEAR, ZONE => 'Europe/Berlin'", "tumbling 12 months in Europe/Berlin"),
        ("HOP", "INTERVAL 1 MONTH, '1 quarter'", "hopping 3 months by 1 month in UTC"),
    ):
        assert str(lower_query(call.format(function, lengths, group_by)).spec.windows) == windows
    spark = lower_query("SELECT count(*) AS n FROM t GROUP BY window(ts, '1 month')")
    assert str(spark.spec.windows) == "tumbling 1 month in UTC"
