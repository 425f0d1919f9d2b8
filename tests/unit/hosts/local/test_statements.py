"""Tests of SQL statements in this process: refused ones, results, and tables of Kafka."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any

import polars as pl
import pytest
from tests.services.kafka import Kafka

import muntin as mt

CLICKS = pl.DataFrame({"page": ["home", "cart"], "v": [1, 2], "at": [datetime(2026, 1, 1)] * 2})
WINDOW = "GROUP BY page, TUMBLE(at, INTERVAL 1 MINUTE)"


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (f"SELECT page, sum(soundex(page)) AS n FROM clicks {WINDOW}", r"soundex\(\), which needs"),
        (f"SELECT page, hash(count(*)) AS n FROM clicks {WINDOW}", r"hash\(\), which needs Spark"),
        (f"SELECT page, count(*) AS n FROM clicks WHERE rand() > 0 {WINDOW}", r"rand\(\), which"),
        (
            f"SELECT page, count(*) AS n FROM clicks WHERE at < current_timestamp {WINDOW}",
            "current_timestamp, which needs Spark",
        ),
        (
            f"SELECT page, count(*) AS n FROM clicks WHERE date_format(at, 'ww') > '06' {WINDOW}",
            "the field 'ww' of a time pattern, which needs Spark",
        ),
        (
            "SELECT w.page, name FROM (SELECT page, count(*) AS n FROM clicks "
            f"{WINDOW}) w JOIN (VALUES ('home', 'Home')) AS t(page, name) ON w.page = t.page",
            "'a table looked up for windows' needs Spark",
        ),
    ],
)
def test_expressions_that_need_spark_are_named(statement: str, problem: str) -> None:
    with pytest.raises(mt.SqlError, match=problem):
        mt.sql(statement, clicks=CLICKS)


def test_quotients_and_days_of_windows() -> None:
    statement = f"""
        SELECT page, sum(v) / nullif(count(*), 0) AS mean, CAST(window_start AS DATE) AS day
        FROM clicks {WINDOW}
    """
    rows = mt.sql(statement, clicks=CLICKS).results.select("page", "mean", "day")
    day = date(2026, 1, 1)
    assert sorted(rows.rows()) == [("cart", 2.0, day), ("home", 1.0, day)]
    mean_statement = f"SELECT page, sum(v) / count(*) AS mean FROM clicks {WINDOW}"
    assert sorted(mt.sql(mean_statement, clicks=CLICKS).results["mean"]) == [1.0, 2.0]
    with pytest.raises(mt.SqlError, match=r"'sum\(v\) / sum\(v\)' has / .* x / nullif\(y, 0\)"):
        mt.sql(f"SELECT page, sum(v) / sum(v) AS m FROM clicks {WINDOW}", clicks=CLICKS)
    nullable_divisor = "sum(v) / coalesce(nullif(count(*), 0), 0)"
    with pytest.raises(mt.SqlError, match="what may be 0"):
        mt.sql(f"SELECT page, {nullable_divisor} AS m FROM clicks {WINDOW}", clicks=CLICKS)


@pytest.mark.parametrize(
    "join",
    [
        "LEFT JOIN clicks d ON c.page = d.page AND d.v > 1 AND",
        "FULL JOIN clicks d ON c.page = d.page AND c.v > 1 AND",
        "JOIN clicks d ON",
    ],
)
def test_rejected_messages_of_a_join_have_no_column_but_their_own(join: str) -> None:
    condition = "d.at BETWEEN c.at AND c.at + INTERVAL 1 HOUR"
    statement = f"SELECT c.page, d.v AS w FROM clicks c {join} {condition}"
    rejected: Any = mt.sql(statement, clicks=CLICKS.with_columns(at=pl.lit(None, pl.Datetime)))
    expected_columns = ["side", *CLICKS.columns, "reason", "watermark"]
    assert rejected.rejected.columns == expected_columns
    assert set(rejected.rejected["reason"]) == {"null_time"}


@pytest.mark.parametrize(
    ("option", "marked_text"),
    [
        ("'scan.parallelism' = '3'", "'3'"),
        ("'scan.nothing' = '4'", "'4'"),
        ("'key.format' = 'raw'", "'raw'"),
        ("schema = 'x'", "'x'"),
        ("format = 'avro'", "'kafka'"),
    ],
)
def test_an_option_of_a_table_is_marked_in_the_statement(option: str, marked_text: str) -> None:
    table = (
        "CREATE TABLE clicks (page STRING, at TIMESTAMP, WATERMARK FOR at AS at) WITH "
        f"(connector = 'kafka', topic = 't', servers = 'localhost:1', {option});\n"
    )
    with pytest.raises(mt.SqlError) as refusal:
        mt.sql(f"{table} SELECT page, count(*) AS n FROM clicks {WINDOW}")
    assert refusal.value.text[slice(*refusal.value.span)] == marked_text


def test_an_unknown_column_is_named_without_a_hint_to_spark() -> None:
    with pytest.raises(mt.SqlError, match=r"has pge, which isn't a column; give one of page, v"):
        mt.sql(f"SELECT page, count(*) AS n FROM clicks WHERE pge = 'a' {WINDOW}", clicks=CLICKS)


def test_having_filters_windows() -> None:
    frame = CLICKS.with_columns(pl.lit(0).alias("offset"))
    statement = f"SELECT page, sum(v) AS n FROM clicks {WINDOW} HAVING sum(v) > 1"
    assert mt.sql(statement, clicks=frame).results["page"].to_list() == ["cart"]


def test_a_version_that_fulfils_no_condition_of_a_left_join_is_null() -> None:
    times = [datetime(2026, 1, 1, 0, 0, second) for second in (10, 20, 30)]
    orders = pl.DataFrame({"id": ["x", "x", "y"], "at": times})
    since = [datetime(2026, 1, 1, 0, 0, second) for second in (1, 15, 2)]
    rates = pl.DataFrame({"id": ["x", "x", "y"], "price": [5, 60, 50], "at": since})
    results = mt.sql(
        "SELECT o.id, r.price FROM orders o WATERMARK at DELAY OF 0 SECONDS LEFT JOIN rates "
        "FOR SYSTEM_TIME AS OF o.at AS r WATERMARK at DELAY OF 0 SECONDS "
        "ON o.id = r.id AND r.price > 10 AND o.id <> 'y'",
        orders=orders,
        rates=rates,
    ).results
    assert results.select("id", "price").rows() == [("x", None), ("x", 60), ("y", None)]


@pytest.mark.parametrize(
    ("order", "offset", "value"),
    [
        ("at DESC", " OFFSET FOR (partition, offset)", 2),
        ("at ASC", " OFFSET FOR (partition, offset)", 3),
        ("v ASC", " OFFSET FOR (partition, offset)", 1),
        ("at DESC", "", 1),
    ],
)
def test_rows_of_equal_times_are_numbered_by_arrival(order: str, offset: str, value: int) -> None:
    frame = pl.DataFrame({"v": [3, 1, 2], "partition": [0] * 3, "offset": [0, 1, 2]})
    results = mt.sql(
        f"WITH o AS (SELECT * FROM t{offset}) SELECT v FROM (SELECT *, ROW_NUMBER() OVER "
        f"(PARTITION BY window_start, window_end ORDER BY {order}) AS n FROM "
        "TABLE(TUMBLE(TABLE o, DESCRIPTOR(at), INTERVAL '10' SECOND))) WHERE n = 1",
        t=frame.with_columns(at=pl.lit(datetime(2026, 1, 1))),
    ).results
    assert results["v"].to_list() == [value]


def test_a_session_of_ksqldb_ends_at_its_last_message() -> None:
    results = mt.sql(
        "SELECT page, WINDOWSTART AS starts, WINDOWEND AS ends FROM clicks "
        "WATERMARK at DELAY OF 0 SECONDS WINDOW SESSION (2 DAYS) GROUP BY page",
        clicks=CLICKS,
    ).results
    assert set(results.select("starts", "ends").rows()) == {(datetime(2026, 1, 1),) * 2}


def test_a_declared_topic_is_read_in_this_process(broker: Kafka) -> None:
    topic = broker.topic()
    click = json.dumps({"page": "home", "ms": 1767258000000}).encode()
    broker.send(topic, [(0, None, click), (0, None, click), (1, None, b"broken")])
    views = mt.sql(
        f"""
        CREATE TABLE clicks (
            page STRING, ms BIGINT, at AS timestamp_millis(ms),
            WATERMARK FOR at AS at MAX AHEAD ANY, OFFSET FOR (partition, offset)
        ) WITH (connector = 'kafka', topic = '{topic}', 'bootstrap.servers' = '{broker.servers}');
        SELECT page, count(*) AS n FROM clicks {WINDOW} EMIT EARLY EACH
        """
    )
    query = views.start(checkpoint=None, available_now=True)
    assert query.await_end(60)
    assert query.frame().select("page", "n").rows() == [("home", 2)]
    assert query.progress.counts["malformed"] == 1


def test_aggregates_per_row_are_those_of_the_last_rows() -> None:
    statement = "SELECT page, v, sum(v) OVER (PARTITION BY page ROWS 1 PRECEDING) AS n FROM clicks"
    clicks = pl.concat([CLICKS, CLICKS.with_columns(v=pl.col("v") * 10)])
    rows = mt.sql(statement, clicks=clicks).results.select("page", "v", "n").rows()
    assert sorted(rows) == [("cart", 2, 2), ("cart", 20, 22), ("home", 1, 1), ("home", 10, 11)]


VISITS = pl.DataFrame(
    {
        "page": ["home", "cart", "home", "cart", "home"],
        "v": [3, 1, 3, None, 5],
        "at": [datetime(2026, 1, 1, 0, 0, second) for second in (1, 2, 3, 40, 59)],
    }
)


def _select(statement: str, *columns: str) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = mt.sql(statement, clicks=VISITS).results.select(columns).rows()
    return rows


def test_rows_of_several_tables_are_united() -> None:
    parts = "SELECT page AS p, v, at FROM clicks", "SELECT upper(page), v * 10, at FROM clicks"
    union = " UNION ALL ".join(parts)
    text = f"SELECT p, sum(v) AS n FROM ({union}) GROUP BY p, TUMBLE(at, INTERVAL 1 MINUTE)"
    expected = [("CART", 10), ("HOME", 110), ("cart", 1), ("home", 11)]
    assert _select(f"{text} ORDER BY p", "p", "n") == expected
    first_two = _select(f"{text} ORDER BY n DESC, p LIMIT 2", "p", "n")
    assert first_two == [("HOME", 110), ("home", 11)]


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        (
            "SELECT page, at FROM clicks UNION ALL SELECT page, v, at FROM clicks",
            "2 columns with",
        ),
        (
            "SELECT page, at FROM clicks UNION ALL SELECT at AS page, at FROM clicks",
            "has the types String",
        ),
    ],
)
def test_tables_that_dont_fit_together_are_refused(parts: str, problem: str) -> None:
    with pytest.raises(mt.SqlError, match=problem):
        mt.sql(f"SELECT count(*) AS n FROM ({parts}) {WINDOW}", clicks=VISITS)


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("JOIN t ON clicks.page = t.id", [("Home", 3)]),
        ("LEFT JOIN t ON clicks.page = t.id", [(None, 2), ("Home", 3)]),
        ("LEFT JOIN t ON clicks.page = t.id AND clicks.v > t.least", [(None, 4), ("Home", 1)]),
        ("JOIN t ON clicks.v = t.least", [("Home", 2), ("None", 1)]),
    ],
)
def test_messages_look_up_rows_of_a_table(join: str, expected: list[tuple[object, ...]]) -> None:
    text = (
        "WITH t AS (SELECT * FROM (VALUES ('home', 'Home', 3), (NULL, 'None', 5)) "
        f"AS rows(id, name, least)) SELECT name, count(*) AS n FROM clicks {join} "
        "GROUP BY name, TUMBLE(at, INTERVAL 1 MINUTE) ORDER BY name"
    )
    assert _select(text, "name", "n") == expected


@pytest.mark.parametrize(
    ("operator", "expected"), [("IN", [("home", 3)]), ("NOT IN", [("cart", 2)])]
)
def test_messages_are_filtered_by_their_being_in_a_table(
    operator: str, expected: list[tuple[object, ...]]
) -> None:
    text = (
        f"SELECT page, count(*) AS n FROM clicks WHERE page {operator} "
        f"(SELECT id FROM (VALUES 'home') AS t(id)) {WINDOW}"
    )
    if operator == "NOT IN":
        with pytest.raises(mt.SqlError, match="has no equal columns, and needs Spark"):
            mt.sql(text, clicks=VISITS)
        text = text.replace("NOT IN (SELECT id FROM (VALUES 'home') AS t(id))", "<> 'home'")
    assert _select(text, "page", "n") == expected


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("(1, 2), (1)", "has rows of different lengths"),
        ("(1, 2), ('a', 2)", "has integer, string in a"),
        ("(1, rand())", r"has rand\(\)"),
    ],
)
def test_values_that_arent_rows_are_refused(rows: str, problem: str) -> None:
    with pytest.raises(mt.SqlError, match=problem):
        mt.sql(
            f"SELECT page, count(*) AS n FROM clicks JOIN (VALUES {rows}) AS t(a, b) "
            f"ON clicks.v = t.a {WINDOW}",
            clicks=VISITS,
        )


def test_aggregates_over_a_range_are_those_of_each_row() -> None:
    text = (
        "SELECT page, v, sum(v) OVER (PARTITION BY page ORDER BY at RANGE INTERVAL '30' SECOND "
        "PRECEDING) + 1 AS n FROM clicks"
    )
    expected = [
        ("cart", 1, 2),
        ("cart", None, None),
        ("home", 3, 4),
        ("home", 3, 7),
        ("home", 5, 6),
    ]
    assert sorted(_select(text, "page", "v", "n"), key=str) == sorted(expected, key=str)


def test_rows_of_windows_are_numbered_and_ranked() -> None:
    over = "OVER (PARTITION BY window_start, window_end ORDER BY v DESC)"
    rows = "FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE))"
    ranked = f"SELECT page, v, at, {{}}() {over} AS n {rows}"
    numbered_rows = _select(f"SELECT * FROM ({ranked.format('ROW_NUMBER')}) WHERE n <= 3", "v", "n")
    assert numbered_rows == [(5, 1), (3, 2), (3, 3)]
    ranked_rows = _select(f"SELECT * FROM ({ranked.format('RANK')}) WHERE n <= 4", "v", "n")
    assert ranked_rows == [(5, 1), (3, 2), (3, 2), (1, 4)]
    dense = f"SELECT upper(page) AS p, n FROM ({ranked.format('DENSE_RANK')}) WHERE n = 4"
    assert _select(dense, "p", "n", "row_number") == [("CART", 4, 5)]


def test_equal_rows_are_numbered_by_all_of_their_columns() -> None:
    text = (
        "SELECT * FROM (SELECT page, v, at, ROW_NUMBER() OVER (PARTITION BY window_start, "
        "window_end ORDER BY page) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), "
        "INTERVAL '1' MINUTE))) WHERE n <= 5"
    )
    forward = mt.sql(text, clicks=VISITS).results
    backward = mt.sql(text, clicks=VISITS.reverse()).results
    assert forward["v"].to_list() == [None, 1, 3, 3, 5]
    assert forward.equals(backward)


def test_every_row_of_a_window_is_shown() -> None:
    text = "SELECT page, v FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '20' SECOND))"
    rows = _select(text, "page", "v", "row_number")
    first, second = [("home", 3, 1), ("cart", 1, 2), ("home", 3, 3)], [("cart", None, 1)]
    assert rows == [*first, *second, ("home", 5, 2)]


@pytest.mark.parametrize(
    ("connector", "hint"),
    [("datagen", "write 'rate', which makes rows of timestamp"), ("jsn", "write 'json'")],
)
def test_an_unknown_connector_is_not_said_to_need_spark(connector: str, hint: str) -> None:
    statement = f"""
        CREATE TABLE g (page STRING, at TIMESTAMP, WATERMARK FOR at AS at)
        WITH (connector = '{connector}', path = 'in');
        SELECT page, count(*) AS n FROM g {WINDOW}
    """
    with pytest.raises(mt.SqlError, match=f"'{connector}' isn't a connector; {hint}"):
        mt.sql(statement, host="local")


@pytest.mark.parametrize(
    ("statement", "tables", "problem"),
    [
        ("", {"T": CLICKS, "t": CLICKS}, "tables='t' and T are one table: names have no case"),
        (
            "CREATE TABLE t (page STRING) WITH (connector = 'json', path = 'x');",
            {"t": CLICKS},
            "tables='t' is declared by the statement, too; leave one of them out",
        ),
    ],
)
def test_two_tables_of_one_name_are_refused(
    statement: str, tables: dict[str, pl.DataFrame], problem: str
) -> None:
    with pytest.raises(mt.OptionError, match=problem):
        mt.sql(f"{statement} SELECT count(*) AS n FROM t {WINDOW}", **tables)


def test_tables_as_an_option_are_refused_with_what_to_write() -> None:
    with pytest.raises(mt.OptionError, match=r"give tables by name, mt.sql\(\{'clicks': clicks\}"):
        mt.sql(f"SELECT count(*) AS n FROM clicks {WINDOW}", tables={"clicks": CLICKS})


@pytest.mark.parametrize(
    ("option", "marked_text"),
    [
        ("'kafka.auto.offset.reset' = 'earliest'", "'earliest'"),
        ("'properties.ssl.truststore.certificates' = 'x'", "'x'"),
        ("reader = 'spark'", "'spark'"),
    ],
)
def test_an_option_of_a_table_that_needs_spark_is_marked(option: str, marked_text: str) -> None:
    statement = (
        "CREATE TABLE clicks (page STRING, at TIMESTAMP) WITH (connector = 'kafka', "
        f"topic = 't', 'bootstrap.servers' = '127.0.0.1:9', {option}); "
        f"SELECT count(*) AS n FROM clicks {WINDOW}"
    )
    with pytest.raises(mt.SqlError) as refusal:
        mt.sql(statement)
    assert refusal.value.text[slice(*refusal.value.span)] == marked_text
    assert "None" not in str(refusal.value)


def test_a_quotient_that_may_divide_by_zero_is_refused_with_what_to_write() -> None:
    for share in ("sum(v) / sum(v)", "sum(v) / count(v)"):
        with pytest.raises(mt.SqlError, match=r"x / nullif\(y, 0\)"):
            mt.sql(f"SELECT page, {share} AS share FROM clicks {WINDOW}", clicks=CLICKS)
