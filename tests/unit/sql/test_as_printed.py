"""Tests of the forms of Calcite and ksqlDB, as their documentation writes them."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import get_refusal, lower_join, lower_query, sentence

import muntin as mt
from muntin.model.axis import DAY, HOUR, MINUTE
from muntin.model.bounds import Within
from muntin.model.errors import SqlError
from muntin.model.pipeline import Column

ORDERS = sentence(key="product", time="rowtime")
HOURLY = ORDERS.tumbling("1 hour")
SOURCE = "orders WATERMARK ts DELAY OF INTERVAL '1' MINUTE"
KSQL = sentence(key="product", time="ts", lateness="1 minute")
LAST = "(window_end - INTERVAL '0.000001' SECOND)"
LAST_OF_FLINK = "(window_end - INTERVAL '0.001' SECOND)"


def read_columns(text: str) -> dict[str, str]:
    columns = lower_query(text).columns
    assert columns is not None
    return {column.name: column.text for column in columns}


@pytest.mark.parametrize(
    ("text", "twin"),
    [
        ("FLOOR(rowtime TO HOUR)", HOURLY),
        ("floor(rowtime to minute)", ORDERS.tumbling("1 minute")),
        ("TUMBLE(rowtime, INTERVAL '1' HOUR, TIME '0:12')", ORDERS.tumbling(
            "1 hour", origin=12 * MINUTE)),
        (
            "HOP(rowtime, INTERVAL '10' MINUTE, INTERVAL '1' HOUR, TIME '0:02:30')",
            ORDERS.hopping("1 hour", "10 minutes", origin=150_000_000),
        ),
        # CEIL puts a time into the window that ends with it: (9:00, 10:00].
        ("CEIL(rowtime TO HOUR)", ORDERS.tumbling("1 hour", origin=1)),
    ],
)  # fmt: skip
def test_calcite_windows(text, twin):
    query = lower_query(f"SELECT STREAM {text} AS at, product, count(*) AS n FROM orders "
                    f"GROUP BY {text}, product")  # fmt: skip
    assert query.spec == twin.spec(n=mt.count())


def test_what_a_rounded_time_is():
    down = read_columns("SELECT FLOOR(rowtime TO HOUR) AS at, COUNT(*) AS c FROM orders "
                 "GROUP BY FLOOR(rowtime TO HOUR)")  # fmt: skip
    assert down["at"] == "window_start"
    up = read_columns("SELECT STREAM CEIL(rowtime TO HOUR) AS rowtime, product, COUNT(*) AS c "
               "FROM orders GROUP BY CEIL(rowtime TO HOUR), product")  # fmt: skip
    assert up["rowtime"] == LAST


def test_floor_of_a_number_is_sparks():
    query = lower_query("SELECT k, floor(avg(x)) AS f, floor(max(x), 1) AS g FROM t "
                    "GROUP BY k, TUMBLE(ts, 1 HOUR)")  # fmt: skip
    assert query.columns is not None
    assert Column("f", "floor(`__muntin_a0`)") in query.columns
    assert Column("g", "floor(`__muntin_a1`, 1)") in query.columns


def test_stream_is_also_a_column():
    query = lower_query("SELECT stream, count(*) AS n FROM t GROUP BY stream, TUMBLE(ts, 1 HOUR)")
    assert query.spec.keys == ("stream",)


@pytest.mark.parametrize(
    ("call", "source", "group", "text"),
    [
        ("TUMBLE_ROWTIME(ts, 1 HOUR)", "t", "TUMBLE(ts, 1 HOUR)", LAST_OF_FLINK),
        ("HOP_ROWTIME(ts, 1 HOUR, 2 HOURS)", "t", "HOP(ts, 1 HOUR, 2 HOURS)", LAST_OF_FLINK),
        ("SESSION_ROWTIME(ts, 1 HOUR)", "t", "SESSION(ts, 1 HOUR)", LAST_OF_FLINK),
        ("window_time(window)", "t", "window(ts, '1 hour')", LAST),
        ("window_time(window(ts, '1 hour'))", "t", "window(ts, '1 hour')", LAST),
        (
            "window_time",
            "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR))",
            "window_start, window_end, window_time",
            LAST_OF_FLINK,
        ),
    ],
)
def test_the_last_moment_of_a_window(call, source, group, text):
    query = f"SELECT k, {call}, count(*) AS n FROM {source} GROUP BY k, {group}"
    assert read_columns(query)["window_time"] == text
    aliased = query.replace(f"{call}, count", f"{call} AS at, count")
    assert read_columns(aliased)["at"] == text


WINDOWS = [
    ("TUMBLING (SIZE 1 HOUR)", "", KSQL.tumbling("1 hour")),
    ("HOPPING (SIZE 30 SECONDS, ADVANCE BY 10 SECONDS)", "",
     KSQL.hopping("30 seconds", "10 seconds")),
    ("SESSION (60 SECONDS)", "", KSQL.session("60 seconds")),
    ("TUMBLING (SIZE 1 HOUR)", "EMIT CHANGES", KSQL.tumbling("1 hour").early(each=True)),
    (
        "TUMBLING (SIZE 1 HOUR, GRACE PERIOD 10 MINUTES)", "EMIT CHANGES",
        KSQL.tumbling("1 hour").early(each=True).late(each=True, grace="10 minutes"),
    ),
    (
        "TUMBLING (SIZE 1 HOUR, RETENTION 7 DAYS, GRACE PERIOD 10 MINUTES)", "EMIT CHANGES",
        KSQL.tumbling("1 hour").early(each=True).late(each=True, grace="10 minutes")
        .keep("6 days 23 hours"),
    ),
    (
        # A final result comes when nothing can be late any more.
        "TUMBLING (SIZE 1 HOUR, GRACE PERIOD 10 MINUTES)", "EMIT FINAL",
        sentence(key="product", time="ts", lateness="11 minutes").tumbling("1 hour"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("window", "emit", "twin"), WINDOWS)
def test_ksqldb_windows(window, emit, twin):
    text = f"SELECT product, count(*) AS n FROM {SOURCE} WINDOW {window} GROUP BY product {emit}"
    assert lower_query(text).spec == twin.spec(n=mt.count())


def test_a_retention_below_size_and_grace_is_refused():
    window = "TUMBLING (SIZE 1 HOUR, RETENTION 65 MINUTES, GRACE PERIOD 10 MINUTES)"
    text = f"SELECT product, count(*) AS n FROM {SOURCE} WINDOW {window} GROUP BY product"
    with pytest.raises(SqlError, match="RETENTION is below the size and the grace") as caught:
        lower_query(text)
    assert "write RETENTION 1 HOUR 10 MINUTES or more" in str(caught.value)


def test_ksqldb_bounds_and_conditions():
    text = f"""
        SELECT product, WINDOWSTART, WINDOWEND AS ends, sum(units) AS total
        FROM {SOURCE} WINDOW TUMBLING (SIZE 1 HOUR)
        WHERE units > 0 GROUP BY product HAVING sum(units) > 5 EMIT CHANGES
    """
    query = lower_query(text)
    assert (query.where, query.having) == ("units > 0", "`total` > 5")
    assert list(read_columns(text)) == [
        "product", "window_start", "window_end", "ends", "total", "emission", "revision",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("within", "bound", "grace"),
    [
        ("WITHIN 7 DAYS", Within(7 * DAY, 7 * DAY), 0),
        ("WITHIN (1 HOUR, 2 HOURS)", Within(HOUR, 2 * HOUR), 0),
        ("WITHIN 1 HOUR GRACE PERIOD 15 MINUTES", Within(HOUR, HOUR), 15 * MINUTE),
    ],
)
@pytest.mark.parametrize("how", ["INNER JOIN", "LEFT JOIN", "FULL OUTER JOIN"])
def test_ksqldb_joins(how, within, bound, grace):
    watermark = "WATERMARK ts DELAY OF 1 MINUTE"
    text = (
        f"SELECT o.id, s.cost FROM orders {watermark} o {how} shipments {watermark} s {within} "
        "ON o.id = s.id"
    )
    join = lower_join(text)
    assert join.spec.bound == bound
    assert {join.spec.left.firing.grace, join.spec.right.firing.grace} == {grace}


def test_window_names_of_ours_and_theirs_stand_apart():
    text = """
        SELECT DISTINCT k, sum(x) OVER w AS s FROM t
        WINDOW w AS (PARTITION BY k ORDER BY ts RANGE INTERVAL '1' HOUR PRECEDING)
    """
    assert str(lower_query(text).spec.windows) == "rolling 1 hour, closed both"


@pytest.mark.parametrize(
    ("call", "aggregate"),
    [
        ("last(v) IGNORE NULLS", mt.last("v", nulls="skip")),
        ("last(v IGNORE NULLS)", mt.last("v", nulls="skip")),
        ("first(v) RESPECT NULLS", mt.first("v")),
        ("max_by(v, w) IGNORE NULLS", mt.arg_max("v", "w", nulls="skip")),
        ("last(v, true)", mt.last("v", nulls="skip")),
        ("first_value(v, false)", mt.first("v")),
        ("LATEST_BY_OFFSET(v)", mt.last("v", nulls="skip")),
        ("LATEST_BY_OFFSET(v, false)", mt.last("v")),
        ("EARLIEST_BY_OFFSET(v)", mt.first("v", nulls="skip")),
    ],
)
def test_the_newest_value_that_is_there(call, aggregate):
    query = lower_query(f"SELECT k, {call} AS v1 FROM t GROUP BY k, TUMBLE(ts, 1 HOUR)")
    assert query.spec.aggregates == {"v1": aggregate}


def test_a_field_of_a_struct_is_called_as_it_is():
    """Nexmark's views name ``bid.auction``, a field of the column ``bid``."""
    query = lower_query(
        "WITH bids AS (SELECT bid.auction, bid.`at` FROM events WHERE bid IS NOT NULL) "
        "SELECT auction, count(*) AS n FROM bids GROUP BY auction, TUMBLE(at, 1 HOUR)"
    )
    assert [column.name for column in query.source.columns] == ["auction", "at"]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("SELECT count(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(PROCTIME()), 1 HOUR)) "
         "GROUP BY window_start, window_end", "PROCTIME"),
        ("SELECT count(*) AS n FROM t GROUP BY TUMBLE(PROCTIME(), 1 HOUR)", "PROCTIME()"),
        ("CREATE TABLE t (p AS PROCTIME()) WITH (connector = 'rate'); SELECT 1", "p AS PROCTIME()"),
    ],
)  # fmt: skip
def test_processing_time_is_refused_in_the_words_of_the_docs(text, at):
    message, marked = get_refusal(text)
    assert "current_timestamp()" in message
    assert "depend" in message
    assert marked == at


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("ARRAY<VARCHAR(9)>", "write b ARRAY<STRING>"),
        ("INT(11)", "write b INT"),
        ("STRUCT<x: CHAR(3)>", "has a length"),
        ("ROW<x INT>", "isn't a type; write b STRUCT<a: INT, b: STRING>"),
        ("BYTES", "isn't a type; write b BINARY"),
    ],
)
def test_a_type_of_other_engines_says_what_to_write(kind, hint):
    message, _ = get_refusal(
        f"CREATE TABLE t (a BIGINT, b {kind}) WITH (connector = 'json'); SELECT 1"
    )
    assert hint in message


def test_a_length_of_a_column_is_refused_at_the_column():
    text = "CREATE TABLE t (a BIGINT, b VARCHAR(100)) WITH (connector = 'json'); SELECT 1"
    message, at = get_refusal(text)
    assert message.startswith(
        "line 1: VARCHAR(100) has a length, which isn't checked; write b STRING"
    )
    assert at == "b VARCHAR(100)"


@pytest.mark.parametrize("cast", ["CAST(k AS VARCHAR(9))", "k::CHAR(9)", "TRY_CAST(k AS NCHAR(9))"])
@pytest.mark.parametrize("view", [True, False])
def test_a_length_of_a_cast_is_refused_at_the_cast(cast, view):
    rows = f"(SELECT *, {cast} AS c FROM t)" if view else "t"
    column = "c" if view else cast
    message, at = get_refusal(
        f"SELECT {column} AS c, count(*) AS n FROM {rows} GROUP BY {column}, TUMBLE(ts, 1 HOUR)"
    )
    assert (
        "CHAR(9) has a length, which nothing is cut to; write STRING, or left(text, n)" in message
    )
    assert at == cast


def test_more_rows_than_a_source_counts_are_refused_for_that():
    message, at = get_refusal(f"SELECT count(*) AS n FROM t GROUP BY TUMBLE(ts, {10**20} ROWS)")
    assert "a number of rows is more than a source counts; give less" in message
    assert at == str(10**20)


@pytest.mark.parametrize("name", ["RANK", "DENSE_RANK"])
def test_ranks_are_bounded_like_row_numbers(name):
    ranked = (
        f"SELECT k, {name}() OVER (PARTITION BY window_start, window_end ORDER BY x DESC) AS r "
        "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR))"
    )
    query = lower_query(f"SELECT * FROM ({ranked}) WHERE r <= 3")
    assert query.ranking is not None
    assert (query.ranking.function, query.ranking.number, query.ranking.most) == (name, "r", 3)
    (rows,) = query.spec.aggregates.values()
    assert rows.options == (("k", 3), ("fields", "desc"), ("ties", name))
    message, _ = get_refusal(f"SELECT k FROM ({ranked})")
    assert "the number of rows has no limit; write WHERE r <= 3 around it" in message


@pytest.mark.parametrize(
    ("call", "windows"),
    [
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), 1 DAY, 18 HOURS, ZONE => 'Europe/Paris')",
         "tumbling 1 day in Europe/Paris, from 18:00"),
        ("CUMULATE(TABLE t, DESCRIPTOR(ts), 6 HOURS, 1 DAY, ZONE => 'Europe/Paris')",
         "cumulating 1 day by 6 hours in Europe/Paris"),
    ],
)  # fmt: skip
def test_windows_of_local_days(call, windows):
    query = lower_query(
        f"SELECT count(*) AS n FROM TABLE({call}) GROUP BY window_start, window_end"
    )
    assert str(query.spec.windows) == windows
