"""The queries of ``queries.py`` in SQL; query 8, a semi join by windows, is in Python alone."""

from __future__ import annotations

from collections.abc import Callable

from examples.nexmark.queries import Frames, first_of
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin as mt

COUNTED = """
    SELECT auction, count(*) AS bids
    FROM TABLE(HOP(TABLE bids, DESCRIPTOR(time), INTERVAL '2' SECONDS, INTERVAL '10' SECONDS))
    GROUP BY auction, window_start, window_end
"""
MOST = """
    SELECT window_start, window_end, top_k(bids * 4294967296 + auction, 100) AS best
    FROM TABLE(TUMBLE(TABLE counted, DESCRIPTOR(window_start), INTERVAL '2' SECONDS))
    GROUP BY window_start, window_end
"""
HIGHEST = """
    SELECT window_start, window_end, max(price) AS price, max_by(bidder, price) AS bidder
    FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(time), INTERVAL '10' SECONDS))
    GROUP BY window_start, window_end
"""
SESSIONS = """
    SELECT bidder, window_start, window_end, count(*) AS bids
    FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(time), INTERVAL '10' SECONDS))
    GROUP BY bidder, window_start, window_end
"""
CLOCK = """
    SELECT bidder, window_start, window_end, count(*) AS bids
    FROM TABLE(TUMBLE(TABLE clocked, DESCRIPTOR(now), INTERVAL '10' SECONDS))
    GROUP BY bidder, window_start, window_end
"""


def hot_items(frames: Frames) -> DataFrame:
    """Query 5: one statement counts the bids, a second one ranks the counts."""
    bids = frames["bids"]
    counted = mt.sql(bids.sparkSession, COUNTED, bids=bids).results
    best = mt.sql(bids.sparkSession, MOST, counted=counted).results
    window_end = F.col("window_start") + F.expr("INTERVAL 10 SECONDS")
    return first_of(best).withColumn("window_end", window_end)


def highest_bid(frames: Frames) -> DataFrame:
    """Query 7: the highest bid of every 10 s."""
    return mt.sql(frames["bids"].sparkSession, HIGHEST, bids=frames["bids"]).results


def bids_of_sessions(frames: Frames) -> DataFrame:
    """Query 11: the number of bids that a bidder makes without a pause of 10 s."""
    return mt.sql(frames["bids"].sparkSession, SESSIONS, bids=frames["bids"]).results


def bids_by_clock(frames: Frames) -> DataFrame:
    """Query 12: the number of bids that a bidder makes in each 10 s of the wall clock."""
    clocked = frames["bids"].withColumn("now", F.current_timestamp())
    return mt.sql(clocked.sparkSession, CLOCK, clocked=clocked).results


STATEMENTS: dict[str, Callable[[Frames], DataFrame]] = {
    "q5": hot_items,
    "q7": highest_bid,
    "q11": bids_of_sessions,
    "q12": bids_by_clock,
}
