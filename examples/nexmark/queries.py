"""The windowed queries of Nexmark in Python; ``statements.py`` has them in SQL.

Each takes the DataFrames of persons, auctions and bids, streaming or not, and returns a DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin as mt

Frames = Mapping[str, DataFrame]

TIES = 100
"""The most auctions that may share the first rank of a window."""

_ROOM = 1 << 32
"""A number of bids times this, plus an auction's id, is one number that sorts by both."""


def first_of(best: DataFrame) -> DataFrame:
    """Return a row for each auction that shares the first rank of a window."""
    auctions = best.where("emission = 'full'").withColumn("ranked", F.explode("best"))
    is_first = F.expr(f"ranked div {_ROOM} = best[0] div {_ROOM}")
    columns = [
        F.expr(f"ranked % {_ROOM}").alias("auction"),
        F.expr(f"ranked div {_ROOM}").alias("bids"),
    ]
    return auctions.where(is_first).select("window_start", "window_end", *columns)


def hot_items(frames: Frames) -> DataFrame:
    """Query 5: the auctions with the most bids in the last 10 s, every 2 s."""
    counted = (
        mt.windowed(frames["bids"], key="auction", time="time")
        .hopping("10 seconds", "2 seconds")
        .agg(bids=mt.count())
    )
    # Windows of one start are closed by one watermark; the next windows of 2 s close theirs.
    best = (
        mt.windowed(counted.results, time="window_start")
        .tumbling("2 seconds")
        .agg(best=mt.top_k(F.expr(f"bids * {_ROOM} + auction"), TIES))
    )
    window_end = F.col("window_start") + F.expr("INTERVAL 10 SECONDS")
    return first_of(best.results).withColumn("window_end", window_end)


def highest_bid(frames: Frames) -> DataFrame:
    """Query 7: the highest bid of every 10 s; of equal bids, that of the greatest bidder."""
    windows = mt.windowed(frames["bids"], time="time").tumbling("10 seconds")
    return windows.agg(price=mt.max("price"), bidder=mt.arg_max("bidder", by="price")).results


def new_sellers(frames: Frames) -> DataFrame:
    """Query 8: the persons who opened an auction in the 10 s in which they registered."""
    persons = mt.windowed(frames["persons"], time="time").tumbling("10 seconds")
    auctions = mt.windowed(frames["auctions"], time="time").tumbling("10 seconds")
    joined = mt.join(persons, auctions, on=[("id", "seller")], how="semi")
    start = F.window("time", "10 seconds").start
    return joined.results.select("id", "name", start.alias("window_start"))


def bids_of_sessions(frames: Frames) -> DataFrame:
    """Query 11: the number of bids that a bidder makes without a pause of 10 s."""
    sessions = mt.windowed(frames["bids"], key="bidder", time="time").session("10 seconds")
    return sessions.agg(bids=mt.count()).results


def bids_by_clock(frames: Frames) -> DataFrame:
    """Query 12: the number of bids that a bidder makes in each 10 s of the wall clock."""
    now = frames["bids"].withColumn("now", F.current_timestamp())
    windows = mt.windowed(now, key="bidder", time="now", max_ahead=None).tumbling("10 seconds")
    return windows.agg(bids=mt.count()).results


QUERIES: dict[str, Callable[[Frames], DataFrame]] = {
    "q5": hot_items,
    "q7": highest_bid,
    "q8": new_sellers,
    "q11": bids_of_sessions,
    "q12": bids_by_clock,
}
