"""The latency of a Spark query on the wall clock, from a window's last event to the sink."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benches.peers.command import Outcome, Run

TRIGGER = "1 second"
WARM_UP_SECONDS = 15.0


def latency(
    spark: SparkSession, run: Run, build: Callable[[DataFrame, Run], DataFrame], mode: str
) -> Outcome:
    """Send rows at the speed of the wall clock, and note when windows reach the sink.

    The latency of an output row is the time at which its batch was computed, less the end of its
    window. Windows that end during the warm-up do not count.
    """
    results = build(_read_rate(spark, run), run)
    seen: dict[float, tuple[float, int, int]] = {}

    def sink(batch: DataFrame, number: int) -> None:
        end = F.unix_millis("window_end")
        ends = batch.groupBy(end.alias("end")).agg(F.count("*"), F.sum("count")).collect()
        now = time.time()
        for end_ms, outputs, rows in ends:
            seen[end_ms / 1000] = (now - end_ms / 1000, outputs, rows)

    writer = results.writeStream.outputMode(mode).foreachBatch(sink)
    writer = writer.option("checkpointLocation", str(run.work / "checkpoint"))
    started = time.time()
    query = writer.trigger(processingTime=TRIGGER).start()
    warm = started + WARM_UP_SECONDS
    # One window more than is measured, so that the last one has time to arrive.
    until = warm + run.case.seconds + run.case.size
    while query.isActive and time.time() < until:
        time.sleep(0.2)
    query.stop()
    measured = {end: s for end, s in seen.items() if warm < end <= warm + run.case.seconds}
    return Outcome(time.time() - started, figures=_figures(run, list(measured.values())))


def _read_rate(spark: SparkSession, run: Run) -> DataFrame:
    """Return formula keys and values at some rate, stamped by the wall clock."""
    reader = spark.readStream.format("rate").option("numPartitions", 2)
    rate = reader.option("rowsPerSecond", run.case.per_second).load()
    mixed = F.expr("(value * 1103515245L + 12345L) % 2147483648L")
    return rate.select(
        F.floor(mixed / 256).cast("long").__mod__(run.stream.keys).alias("k"),
        F.expr("value * 48271L % 1000L").alias("v"),
        F.col("timestamp").alias("ts"),
    )


def _figures(run: Run, windows: list[tuple[float, int, int]]) -> dict[str, float]:
    """Return percentiles over output rows, and the number of windows with wrong counts."""
    if not windows:
        raise RuntimeError("no window reached the sink in time")
    wanted = run.case.per_second * run.case.size
    ranked = sorted((delay, outputs) for delay, outputs, _ in windows)
    return {
        "p50": _percentile(ranked, 0.50),
        "p99": _percentile(ranked, 0.99),
        "windows": len(windows),
        "wrong_windows": sum(abs(rows - wanted) > wanted / 1000 for *_, rows in windows),
    }


def _percentile(ranked: list[tuple[float, int]], share: float) -> float:
    """Return the least delay that ``share`` of the output rows don't exceed."""
    left = share * sum(outputs for _, outputs in ranked)
    for delay, outputs in ranked:
        left -= outputs
        if left <= 0:
            return delay
    return ranked[-1][0]
