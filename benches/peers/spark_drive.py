"""Drive one streaming query in Spark: throughput, small batches, or latency.

Spark native, the pandas processor and muntin differ only in the query; source, sink, trigger,
session and clock are those of this module.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from benches.auctions import CLOCK
from benches.peers.command import Outcome, Run, totals
from benches.peers.spark_latency import latency
from benches.peers.spark_session import session

Build = Callable[..., DataFrame]
"""From events (k, v, ts) to results (k, window_start, window_end, count, sum, max, ...).

Of a pair of streams: from the events of both sides to pairs (k, ts, lv, rv, ...).
"""

CLOSING_SECONDS = 15.0
POLL_SECONDS = 0.05


def drive(run: Run, build: Build, mode: str, settings: Mapping[str, str] | None = None) -> Outcome:
    """Start Spark, run the query as its case asks, and stop Spark.

    Args:
        run: Options of the run.
        build: Returns the query.
        mode: Output mode; in ``update`` mode a row replaces earlier ones of its window.
        settings: Additional settings of this peer's own session.
    """
    spark = session(run.state or "rocksdb", settings)
    try:
        if run.case.measure == "latency":
            return latency(spark, run, build, mode)
        if run.check and run.case.query == CLOCK:
            return _check_clock(spark, run, build, mode)
        results = build(*_files(spark, run), run)
        if run.check:
            return _check(spark, run, results, mode)
        writer = results.writeStream.format("noop").outputMode(mode)
        seconds, progress = _finish(run, writer)
        figures = _batches(run, progress) if run.case.measure == "batch" else None
        return Outcome(seconds, figures=figures)
    finally:
        spark.stop()


def _files(spark: SparkSession, run: Run) -> list[DataFrame]:
    """Return the files of each side, one for each micro-batch."""
    reader = spark.readStream.option("maxFilesPerTrigger", 1)
    return [
        reader.schema(side.schema).parquet(side.everything if run.check else side.parts)
        for side in run.stream.sides
    ]


def _finish(run: Run, writer: Any) -> tuple[float, list[dict[str, Any]]]:
    """Run a query until all its rows are read and the last windows are closed.

    Returns:
        Seconds from start to end, and the progress of each batch.
    """
    writer = writer.option("checkpointLocation", str(run.work / "checkpoint"))
    started = time.perf_counter()
    if run.case.early == "second":
        query = writer.start()
        _await_closing(query, len(list(run.stream.files())))
        seconds = time.perf_counter() - started
        progress = _progress(query)
        query.stop()
        return seconds, progress
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return time.perf_counter() - started, _progress(query)


def _progress(query: StreamingQuery) -> list[dict[str, Any]]:
    """Return the progress of all batches as plain dictionaries."""
    return [json.loads(progress.json) for progress in query.recentProgress]


def _read_file(progress: dict[str, Any]) -> bool:
    """Return whether a batch read a file; the heartbeat source doesn't count."""
    sources = [s for s in progress["sources"] if "FileStreamSource" in s["description"]]
    return any(source["startOffset"] != source["endOffset"] for source in sources)


def _await_closing(query: StreamingQuery, files: int) -> None:
    """Wait for the batch after the one that read the sentinel.

    A query with a wall-clock policy never ends by itself, so that it is watched and stopped.
    """
    read_at = 0.0
    while query.isActive:
        time.sleep(POLL_SECONDS)
        seen = [(p["batchId"], _read_file(p)) for p in _progress(query)]
        if sum(read for _, read in seen) < files:
            continue
        read_at = read_at or time.perf_counter()
        last = max(batch for batch, read in seen if read)
        if any(batch > last for batch, _ in seen):
            return
        if time.perf_counter() - read_at > CLOSING_SECONDS:
            raise RuntimeError("no batch followed the sentinel")
    raise RuntimeError(f"the query ended early: {query.exception()}")


def _batches(run: Run, progress: list[dict[str, Any]]) -> dict[str, float]:
    """Return the durations of the small batches that follow the load."""
    wanted = run.case.rows // run.case.batch
    took = [p["durationMs"]["triggerExecution"] / 1000 for p in progress if _read_file(p)]
    small = took[-wanted:]
    if len(small) < wanted:
        raise RuntimeError(f"only {len(small)} of {wanted} batches were measured")
    return {
        "batch_median": statistics.median(small),
        "batch_worst": max(small),
        "batches": len(small),
    }


def _check(spark: SparkSession, run: Run, results: DataFrame, mode: str) -> Outcome:
    """Count and sum the final result of every window but the sentinel's."""
    answers = str(run.work / "answers")
    if run.case.pair:
        return _check_pairs(spark, run, results, answers)
    columns = ["k", "window_start", "count", "sum", "max"]
    columns += [name for name in ("emission",) if name in results.columns]
    last = F.timestamp_millis(F.lit(run.stream.last_ms))
    final_results = results.where(F.col("window_start") <= last).select(columns)

    seconds = _write_files(run, final_results, mode, answers)
    answer = spark.read.parquet(answers)
    figures = None
    if "emission" in columns:
        figures = {"early": answer.where("emission = 'early'").count()}
        answer = answer.where("emission = 'full'")
    if mode == "update":
        # Values are never negative, so the greatest of each is the last one.
        latest = [F.max(name).alias(name) for name in ("count", "sum", "max")]
        answer = answer.groupBy("k", "window_start").agg(*latest)
    sums = answer.agg(F.count("*"), F.sum("count"), F.sum("sum"), F.sum("max")).collect()[0]
    return Outcome(seconds, totals(*sums), figures)


def _check_pairs(spark: SparkSession, run: Run, results: DataFrame, answers: str) -> Outcome:
    """Count and sum all pairs except the sentinels'."""
    last = F.timestamp_millis(F.lit(run.stream.last_ms))
    pairs = results.where(F.col("ts") <= last).select("k", "lv", "rv")
    seconds = _write_files(run, pairs, "append", answers)
    both, most = F.col("lv") + F.col("rv"), F.greatest("lv", "rv")
    sums = spark.read.parquet(answers).agg(F.count("*"), F.sum("k"), F.sum(both), F.sum(most))
    return Outcome(seconds, totals(*sums.collect()[0]))


def _check_clock(spark: SparkSession, run: Run, build: Build, mode: str) -> Outcome:
    """Count and sum wall-clock windows: a last row comes when all others have ended."""
    (side,) = run.stream.sides
    arriving, answers = str(run.work / "arriving"), str(run.work / "answers")
    shutil.copytree(side.folder, arriving)
    reader = spark.readStream.option("maxFilesPerTrigger", 1).schema(side.schema)
    # The last rows are excluded later: otherwise Spark wouldn't read them at all.
    counts = build(reader.parquet(arriving), run).select("k", "count", "sum")
    seconds = _write_files(run, counts, mode, answers)
    time.sleep(run.case.size)
    last = spark.read.parquet(side.parts).where("bidder < 0")
    last.coalesce(1).write.mode("append").parquet(arriving)
    seconds += _write_files(run, counts, mode, answers)
    emitted = spark.read.parquet(answers).where("k >= 0")
    sums = emitted.agg(F.sum("count"), F.sum("sum")).collect()[0]
    return Outcome(seconds, totals(0, *sums, 0))


def _write_files(run: Run, rows: DataFrame, mode: str, answers: str) -> float:
    """Write all results to files; return the seconds from start to end."""

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("append").parquet(answers)

    return _finish(run, rows.writeStream.outputMode(mode).foreachBatch(write))[0]
