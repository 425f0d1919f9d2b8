"""Spark native: ``groupBy(window(...), k)``, ``session_window``, or a join by key and window."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benches.peers import spark_auctions as auctions
from benches.peers.command import Outcome, Run, serve
from benches.peers.spark_drive import drive


def results(events: DataFrame, run: Run) -> DataFrame:
    """Return the query of the Spark guide."""
    case = run.case
    window = F.window("ts", f"{case.size} seconds", f"{case.slide} seconds")
    if case.gap:
        window = F.session_window("ts", f"{case.gap} seconds")
    elif case.size == case.slide:
        window = F.window("ts", f"{case.size} seconds")
    return (
        events.withWatermark("ts", f"{case.lateness} seconds")
        .groupBy(window.alias("w"), "k")
        .agg(F.count("*").alias("count"), F.sum("v").alias("sum"), F.max("v").alias("max"))
        .selectExpr(
            "k", "w.start AS window_start", "w.end AS window_end", "`count`", "`sum`", "`max`"
        )
    )


def pairs(left: DataFrame, right: DataFrame, run: Run) -> DataFrame:
    """Return Spark's stream-stream join; the window in the condition bounds its state."""

    def side(events: DataFrame, v: str) -> DataFrame:
        marked = events.withWatermark("ts", f"{run.case.lateness} seconds")
        window = F.window("ts", f"{run.case.size} seconds").alias("w")
        # Spark refuses a join that returns two columns of event time.
        return marked.select("k", window, F.col("v").alias(v))

    joined = side(left, "lv").join(side(right, "rv"), ["k", "w"])
    return joined.select("k", F.col("w.start").alias("ts"), "lv", "rv")


def main(run: Run) -> Outcome:
    """Run in append mode for final results only, and in update mode for early ones."""
    early = run.case.early != "never" or run.case.measure == "batch"
    build = auctions.results if run.case.query else pairs if run.case.pair else results
    return drive(run, build, "update" if early else "append")


if __name__ == "__main__":
    serve("spark_native", main)
