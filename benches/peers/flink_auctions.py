"""Nexmark's queries in Flink SQL, over files that Flink reads."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from pyflink.table import StreamTableEnvironment

from benches.auctions import CLOCK, Kind
from benches.peers.command import Run
from benches.stream import T0_MS
from benches.venvs import jars

TABLE = """
CREATE TEMPORARY TABLE {name} (
    {columns}, ms BIGINT, p AS PROCTIME(), ts AS TO_TIMESTAMP_LTZ(ms, 3),
    WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet')
"""
COLUMNS = {
    "persons": "id BIGINT, name STRING",
    "auctions": "id BIGINT, seller BIGINT",
    "bids": "auction BIGINT, bidder BIGINT, price BIGINT",
}

COUNTED = """
SELECT auction, window_start, window_end, COUNT(*) AS bids
FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end
"""
HOT_ITEMS = f"""
SELECT c.auction, c.window_start, c.bids FROM ({COUNTED}) AS c JOIN (
    SELECT window_start, window_end, MAX(bids) AS most FROM ({COUNTED})
    GROUP BY window_start, window_end
) AS m
ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.bids = m.most
"""
HIGHEST_BID = """
SELECT bidder, window_start, price FROM (
    SELECT bidder, price, window_start,
        ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS place
    FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND))
) WHERE place <= 1
"""
NEW_SELLERS = """
SELECT n.id, n.window_start, CAST(CHAR_LENGTH(n.name) AS BIGINT) FROM (
    SELECT id, name, window_start, window_end
    FROM TABLE(TUMBLE(TABLE persons, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY id, name, window_start, window_end
) AS n JOIN (
    SELECT seller, window_start, window_end
    FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY seller, window_start, window_end
) AS s
ON n.id = s.seller AND n.window_start = s.window_start AND n.window_end = s.window_end
"""
BIDS_OF_SESSIONS = """
SELECT bidder, window_start, COUNT(*)
FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end
"""
BIDS_BY_CLOCK = """
SELECT bidder, window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE {bids}, DESCRIPTOR(p), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end
"""
WAITING = """
CREATE TEMPORARY TABLE waiting (bidder BIGINT, p AS PROCTIME()) WITH (
    'connector' = 'datagen', 'rows-per-second' = '1', 'number-of-rows' = '{rows}',
    'fields.bidder.min' = '-2', 'fields.bidder.max' = '-1'
)
"""
QUERIES = {
    "q5": HOT_ITEMS,
    "q7": HIGHEST_BID,
    "q8": NEW_SELLERS,
    "q11": BIDS_OF_SESSIONS,
    "q12": BIDS_BY_CLOCK.format(bids="bids"),
}
"""The queries, which return key, start of the window and value."""


def query(run: Run, tables: StreamTableEnvironment) -> str:
    """Declare the inputs, and return the query."""
    urls = ";".join(path.as_uri() for path in jars("flink"))
    tables.get_config().set("pipeline.jars", urls)
    for side in run.stream.sides:
        tables.execute_sql(format_table(side))
    if run.check and run.case.query == CLOCK:
        # A job that ends leaves wall-clock windows open. Each core sends a row a second.
        tables.execute_sql(WAITING.format(rows=4 * run.case.size))
        tables.execute_sql(
            "CREATE TEMPORARY VIEW everybody AS SELECT bidder, PROCTIME() AS p FROM"
            " (SELECT bidder FROM bids UNION ALL SELECT bidder FROM waiting)"
        )
        return f"SELECT * FROM ({BIDS_BY_CLOCK.format(bids='everybody')}) WHERE bidder >= 0"
    return QUERIES[run.case.query]


def format_table(side: Kind) -> str:
    """Return the statement of a table over two files, which both cores read evenly in time."""
    columns, folder = COLUMNS[side.name], side.halves.as_uri()
    return TABLE.format(name=side.name, columns=columns, folder=folder)


def compute_checksums(query: str, key: int, start: str, value: int) -> tuple[int, int]:
    """Return the additional checksums: the key times the time, and the value again."""
    if query == CLOCK:
        return key * value, 0
    since = datetime.fromisoformat(start).replace(tzinfo=UTC).timestamp() - T0_MS / 1000
    return key * math.floor(since), value
