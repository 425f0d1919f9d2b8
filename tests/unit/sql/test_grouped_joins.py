"""Tests of GROUP BY with JOIN, which groups the pairs as if the join were a view."""

from __future__ import annotations

from datetime import datetime, timedelta

import duckdb
import polars as pl
import pytest
from tests.unit.sql.twins import get_refusal, lower_query

import muntin as mt
from muntin import testing

START = datetime(2026, 1, 1, 9)
ORDERS = pl.DataFrame(
    {
        "id": [i % 7 for i in range(60)],
        "shop": ["abc"[i % 3] for i in range(60)],
        "price": [i % 11 for i in range(60)],
        "at": [START + timedelta(seconds=29 * i) for i in range(60)],
    }
)
SHIPMENTS = pl.DataFrame(
    {
        "id": [i % 5 for i in range(40)],
        "price": [i % 4 for i in range(40)],
        "at": [START + timedelta(seconds=41 * i) for i in range(40)],
    }
)
TABLES = {"orders": ORDERS, "shipments": SHIPMENTS}
NEAR = "o.id = s.id AND s.at BETWEEN o.at AND o.at + INTERVAL '2' MINUTE"
PAIRS = f"orders o JOIN shipments s ON {NEAR}"
FIVE = "time_bucket(INTERVAL '5' MINUTE, o.at)"


def compute(statement: str, *columns: str) -> list[tuple[object, ...]]:
    return sorted(mt.sql(statement, **TABLES).results.select(*columns).rows())


def ask_duckdb(statement: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        for name, frame in TABLES.items():
            connection.register(name, frame.to_arrow())
        return sorted(connection.execute(statement).fetchall())


@pytest.mark.parametrize(
    ("statement", "columns", "expected"),
    [
        (
            f"SELECT o.shop, sum(s.price) AS total, count(*) AS n FROM {PAIRS} "
            "GROUP BY o.shop, TUMBLE(o.at, INTERVAL '5' MINUTE)",
            ("shop", "window_start", "total", "n"),
            f"SELECT o.shop, {FIVE}, sum(s.price), count(*) FROM {PAIRS} GROUP BY ALL",
        ),
        (
            f"SELECT window.start AS since, max(o.price + s.price) AS most FROM {PAIRS} "
            "WHERE o.price > 2 GROUP BY window(o.at, '5 minutes') HAVING max(o.price) > 8",
            ("since", "most"),
            f"SELECT {FIVE}, max(o.price + s.price) FROM {PAIRS} WHERE o.price > 2 "
            "GROUP BY ALL HAVING max(o.price) > 8",
        ),
        (
            f"SELECT upper(o.shop) AS name, count(s.price) AS n FROM orders o "
            f"LEFT JOIN shipments s ON {NEAR} "
            "GROUP BY upper(o.shop), TUMBLE(o.at, INTERVAL '5' MINUTE)",
            ("name", "window_start", "n"),
            f"SELECT upper(o.shop), {FIVE}, count(s.price) FROM orders o "
            f"LEFT JOIN shipments s ON {NEAR} GROUP BY ALL",
        ),
        (
            "SELECT o.shop, window_start, sum(s.price) AS total "
            "FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '5' MINUTES)) o "
            f"JOIN shipments s ON {NEAR} GROUP BY o.shop, window_start, window_end",
            ("shop", "window_start", "total"),
            f"SELECT o.shop, {FIVE}, sum(s.price) FROM {PAIRS} GROUP BY ALL",
        ),
        (
            f"SELECT s.id, o.id AS ordered, count(DISTINCT o.price) AS n FROM {PAIRS} "
            "GROUP BY s.id, o.id, TUMBLE(s.at, INTERVAL '5' MINUTE)",
            ("id", "ordered", "window_start", "n"),
            "SELECT s.id, o.id, time_bucket(INTERVAL '5' MINUTE, s.at), count(DISTINCT o.price) "
            f"FROM {PAIRS} GROUP BY ALL",
        ),
    ],
)
def test_pairs_are_grouped_as_in_duckdb(
    statement: str, columns: tuple[str, ...], expected: str
) -> None:
    rows = compute(statement, *columns)
    assert rows == ask_duckdb(expected)
    assert len(rows) > 3


SIDES = (
    "(SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '5' MINUTES))) o JOIN "
    "(SELECT * FROM TABLE(TUMBLE(TABLE shipments, DESCRIPTOR(at), INTERVAL '5' MINUTES))) s "
    "ON o.id = s.id AND o.window_start = s.window_start AND o.window_end = s.window_end"
)
WINDOWS_OF_PAIRS = (
    f"SELECT o.window_start, o.window_end, count(*) AS n, sum(o.price) AS total FROM {SIDES} "
    "GROUP BY o.window_start, o.window_end"
)


def test_joined_windows_are_grouped_by_their_bounds() -> None:
    rows = compute(WINDOWS_OF_PAIRS, "window_start", "n", "total")
    five_of_shipments = FIVE.replace("o.at", "s.at")
    expected = (
        f"SELECT {FIVE} AS since, count(*), sum(o.price)::BIGINT FROM orders o JOIN shipments s "
        f"ON o.id = s.id AND {FIVE} = {five_of_shipments} GROUP BY since"
    )
    assert rows == ask_duckdb(expected)


def test_joined_windows_are_grouped_the_same_however_they_arrive() -> None:
    expected = compute(WINDOWS_OF_PAIRS, "window_start", "n", "total")
    cuts = (
        [ORDERS[10 * i : 10 * i + 10] for i in range(6)],
        [SHIPMENTS[7 * i : 7 * i + 7] for i in range(6)],
    )
    outcome = testing.run(mt.sql(WINDOWS_OF_PAIRS, **TABLES), cuts)
    assert sorted(outcome.emissions.select("window_start", "n", "total").rows()) == expected
    assert outcome.rejected.is_empty()
    assert outcome.emissions["batch"].n_unique() > 2


@pytest.mark.parametrize(
    ("key", "item", "expected"),
    [
        ("window(ts, '1 hour') AS w", "w.start AS since", "window_start"),
        (
            "window(ts, '1 hour') AS w",
            "w",
            "named_struct('start', window_start, 'end', window_end)",
        ),
        ("upper(k) AS k2, TUMBLE(ts, 1 HOUR)", "k2", "`k2`"),
    ],
)
def test_group_by_names_an_expression(key: str, item: str, expected: str) -> None:
    columns = lower_query(f"SELECT {item}, count(*) AS n FROM t GROUP BY {key}").columns or ()
    texts = [column.text for column in columns] or ["`k2`"]
    assert expected in texts


@pytest.mark.parametrize(
    ("text", "problem", "at"),
    [
        (
            f"SELECT o.shop, count(*) AS n FROM {PAIRS} GROUP BY o.shop",
            "a stream doesn't end, so this needs windows",
            "count(*)",
        ),
        (f"SELECT count(*) AS n FROM {PAIRS}", "so this needs windows", "count(*)"),
        (
            "SELECT count(*) AS n FROM TABLE(SESSION(TABLE orders, DESCRIPTOR(at), 1 HOUR)) o "
            f"JOIN shipments s ON {NEAR} GROUP BY window_start, window_end",
            "formed before JOIN",
            "TABLE(SESSION(TABLE orders, DESCRIPTOR(at), 1 HOUR)) o",
        ),
        (
            "SELECT a.k FROM a WATERMARK x DELAY OF 1 HOUR JOIN b WATERMARK y DELAY OF 1 HOUR "
            "ON a.id = b.id AND a.at = b.t",
            "if at and t are event times, write a WATERMARK at DELAY OF INTERVAL '1' MINUTE and b",
            None,
        ),
    ],
)
def test_what_is_no_group_of_pairs(text: str, problem: str, at: str | None) -> None:
    message, marked = get_refusal(text)
    assert problem in message
    assert at in (None, marked)
