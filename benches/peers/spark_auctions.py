"""Nexmark's queries as Spark has them: chained aggregations, a semi join, ``session_window``."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benches.auctions import CLOCK, SHAPES
from benches.peers.command import Run
from benches.stream import T0_MS


def results(*sides_and_run: DataFrame | Run) -> DataFrame:
    """Return the results of a case's query, in the columns of all cases."""
    *sides, run = sides_and_run
    return select_columns(QUERIES[run.case.query](*sides), run.case.query)


def select_columns(emitted: DataFrame, query: str) -> DataFrame:
    """Return the key, the start of the window, and the values for the checksum."""
    key, value = SHAPES[query]
    start = f"(unix_millis(window_start) - {T0_MS}) div 1000"
    summed, top = (value, "0L") if query == CLOCK else (start, value)
    columns = [f"{key} AS k", "window_start", f"CAST({value} AS LONG) AS `count`"]
    columns += [f"{key} * ({summed}) AS `sum`", f"{top} AS `max`"]
    return emitted.selectExpr(*columns)


def hot_items(bids: DataFrame) -> DataFrame:
    """Query 5: all auctions that share a window's first place, with their counts."""
    counted = (
        bids.withWatermark("time", "0 seconds")
        .groupBy(F.window("time", "10 seconds", "2 seconds"), "auction")
        .agg(F.count("*").alias("bids"))
    )
    auctions = F.collect_list(F.struct("bids", "auction")).alias("each")
    best = counted.groupBy("window").agg(F.max("bids").alias("most"), auctions)
    first = best.select("window", "most", F.inline("each")).where("bids = most")
    return first.select(F.col("window.start").alias("window_start"), "auction", "bids")


def highest_bid(bids: DataFrame) -> DataFrame:
    """Query 7: the highest bid of each window, with its bidder."""
    best = F.max(F.struct("price", "bidder")).alias("best")
    windows = bids.withWatermark("time", "0 seconds").groupBy(F.window("time", "10 seconds"))
    return windows.agg(best).selectExpr("window.start AS window_start", "best.*")


def new_sellers(persons: DataFrame, auctions: DataFrame) -> DataFrame:
    """Query 8; the window in the condition bounds the state."""
    window = F.window("time", "10 seconds")
    received = persons.withWatermark("time", "0 seconds").select("id", "name", window.alias("w"))
    opened = auctions.withWatermark("time", "0 seconds")
    opened = opened.select("seller", window.alias("opened"))
    joined = received.join(opened, F.expr("id = seller AND w = opened"), "leftsemi")
    return joined.selectExpr("w.start AS window_start", "id", "name")


def bids_of_sessions(bids: DataFrame) -> DataFrame:
    """Query 11: the number of bids in each session of a bidder."""
    sessions = F.session_window("time", "10 seconds").alias("w")
    counted = bids.withWatermark("time", "0 seconds").groupBy(sessions, "bidder")
    return counted.agg(F.count("*").alias("bids")).withColumn("window_start", F.col("w.start"))


def bids_by_clock(bids: DataFrame) -> DataFrame:
    """Query 12: the number of bids of each bidder, in windows of the wall clock."""
    now = bids.withColumn("now", F.current_timestamp()).withWatermark("now", "0 seconds")
    counted = now.groupBy(F.window("now", "10 seconds").alias("w"), "bidder")
    return counted.agg(F.count("*").alias("bids")).withColumn("window_start", F.col("w.start"))


QUERIES = {
    "q5": hot_items,
    "q7": highest_bid,
    "q8": new_sellers,
    "q11": bids_of_sessions,
    "q12": bids_by_clock,
}
