"""Tests that Nexmark's queries, as Flink prints them, give DuckDB's results over all events."""

from __future__ import annotations

import duckdb
import polars as pl
import pytest
from examples.nexmark.generator import Nexmark
from examples.nexmark.printed import PRINTED

import muntin as mt

EVENTS = Nexmark(per_second=300, seed=7)
KINDS = ("persons", "auctions", "bids")
FRAMES = {kind: pl.from_arrow(getattr(EVENTS, kind)(0, 12_000)) for kind in KINDS}


@pytest.mark.parametrize("name", PRINTED)
def test_a_query_as_flink_prints_it(name: str) -> None:
    statement, columns, duckdb_statement = PRINTED[name]
    with duckdb.connect() as connection:
        for kind, frame in FRAMES.items():
            connection.register(kind, frame)
        expected = connection.execute(duckdb_statement).fetchall()
    query = mt.sql(statement, **FRAMES)
    rows = query.results.select(columns).rows()
    assert len(expected) > (0 if name.startswith("q15") else 2)
    assert sorted(rows) == sorted(expected)
    assert len(query.rejected) == 0


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        (
            "SELECT A.id, B.price FROM auctions A, bids B WHERE A.id = B.auction "
            "AND B.time BETWEEN A.time AND A.expires",
            r"the join has no bound .* AND a.ts BETWEEN b.ts - INTERVAL '4' HOUR AND b.ts",
        ),
        (
            "CREATE VIEW B AS SELECT *, PROCTIME() AS p_time FROM bids; SELECT bidder, count(*) AS "
            "n FROM TABLE(TUMBLE(TABLE B, DESCRIPTOR(p_time), INTERVAL '10' SECOND)) "
            "GROUP BY bidder, window_start, window_end",
            "depend on when they run; window by the column timestamp of a Kafka table",
        ),
        (
            "SELECT DATE_FORMAT(time, 'yyyy-MM-dd') AS `day`, count(*) AS n FROM bids "
            "GROUP BY DATE_FORMAT(time, 'yyyy-MM-dd')",
            r"group by TUMBLE\(time, INTERVAL '1' DAY\), and show date_format\(window_start, 'yyyy",
        ),
        (
            "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) "
            "AS r FROM bids) WHERE r <= 10",
            "these rows aren't in windows of time; number the rows of windows",
        ),
    ],
    ids=["q9", "q12", "q15", "q19"],
)
def test_a_query_that_never_ends_is_refused_with_what_to_write(statement: str, hint: str) -> None:
    with pytest.raises(mt.SqlError, match=hint):
        mt.sql(statement, **FRAMES)
