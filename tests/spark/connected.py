"""A client of Spark Connect, which has to be a process of its own.

Usage: connected.py SCENARIO[,SCENARIO…] FOLDER [DSN | SERVERS,TOPIC,TOPIC], where SPARK_REMOTE says
where the server is. Each scenario has a folder of its name. The last line that it prints is JSON
with the observations of each scenario.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import muntin as mt
from muntin.spark.query import WindowedQuery

COLUMNS = "k string, at timestamp, v long"


def write_file(folder: Path, name: str, rows: Iterable[tuple[str | None, int, int]]) -> None:
    """Write a file of messages of (key, seconds, value)."""
    (folder / "in").mkdir(exist_ok=True)
    lines = [
        json.dumps({"k": k, "at": f"2026-01-01 00:{s // 60:02d}:{s % 60:02d}", "v": v})
        for k, s, v in rows
    ]
    (folder / "scratch").write_text("\n".join(lines))
    os.rename(folder / "scratch", folder / "in" / f"{name}.json")


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(COLUMNS).json(f"{folder}/in")


def tens(rows: DataFrame) -> Any:
    windows = mt.windowed(rows, key="k", time="at").tumbling("10 seconds")
    return windows.agg(n=mt.count(), total=mt.sum("v"))


def windows(spark: SparkSession, folder: Path, dsn: str) -> dict[str, Any]:
    """Watch, stop and restart a query, and write to all sinks."""
    write_file(folder, "0", [("a", s, 1) for s in range(30)] + [(None, 1, 1)])
    watched_batches: list[Any] = []

    def start(available_now: bool) -> WindowedQuery:
        results: Any = mt.to_duckdb(f"{folder}/new/out.duckdb", "windows", history="history")
        if dsn:
            results = mt.to_postgres(dsn, "windows", history="history")
        return tens(stream(spark, folder)).start(
            checkpoint=f"{folder}/checkpoint",
            results=results,
            rejected=mt.to_parquet(f"{folder}/rejected"),
            name="tens",
            available_now=available_now,
        )

    query = start(False)
    query.watchers.append(
        lambda number, batches: watched_batches.append(
            [number, {b.kind: [b.table().num_rows, b.frame.count()] for b in batches}]
        )
    )
    idle = [query.await_idle(120)]
    write_file(folder, "1", [("a", 60, 1), ("a", 1, 1)])
    idle.append(query.await_idle(120))
    progress_before = query.progress
    query.stop()
    write_file(folder, "2", [("a", 90, 1)])
    again = start(True)
    ended = again.await_end(120)
    settings_left = [
        row[0] for row in spark.sql("SET").collect() if row[0].startswith("muntin.query")
    ]
    return {
        "idle": idle,
        "before": [
            progress_before.counts,
            progress_before.fired,
            progress_before.adds_up(),
            str(progress_before.watermark),
        ],
        "active": query.is_active,
        "shown": watched_batches,
        "ended": ended,
        "after": [again.progress.counts, again.progress.fired],
        "rejected": spark.read.parquet(f"{folder}/rejected").count(),
        "left": settings_left + [table.name for table in spark.catalog.listTables()],
    }


def run_others(spark: SparkSession, folder: Path, _: str) -> dict[str, Any]:
    """Run a join that feeds windows, and agents."""
    write_file(folder, "0", [("a", s, s) for s in range(30)])
    left, right = stream(spark, folder), stream(spark, folder)
    joined = mt.join(
        mt.windowed(left, time="at"),
        mt.windowed(right, time="at"),
        on=["k", "v"],
        within="1 second",
    )
    pairs = mt.windowed(joined, key="k", time="at").tumbling("10 seconds").agg(n=mt.count())
    query = pairs.start(
        checkpoint=f"{folder}/joined", results=mt.to_parquet(f"{folder}/pairs"), available_now=True
    )
    query.await_end(120)
    app = mt.App("clicks")
    views = app.Table("views", default=int)

    @app.agent("clicks")
    async def count(events: Any) -> None:
        async for event in events:
            views[event["k"]] += 1

    run = mt.on_spark(app, {"clicks": mt.source(stream(spark, folder), key="k", time="at")})
    agents = run.start(
        checkpoint=f"{folder}/agents",
        tables={"views": mt.to_parquet(f"{folder}/views")},
        available_now=True,
    )
    agents.await_end(120)
    return {
        "pairs": [row.n for row in spark.read.parquet(f"{folder}/pairs").collect()],
        "join": query.progress.join and query.progress.join.counts,
        "views": [row.value for row in spark.read.parquet(f"{folder}/views").collect()],
        "taken": agents.progress.counts,
    }


def topics(spark: SparkSession, folder: Path, where: str) -> dict[str, Any]:
    """Run a query from one topic to another, without a jar on the server."""
    servers, inlet, outlet = where.split(",")
    messages = mt.kafka(servers, inlet, columns=COLUMNS).stream(spark)
    query = tens(messages).start(
        checkpoint=f"{folder}/topics",
        results=mt.to_kafka(servers, outlet, key="k"),
        rejected=mt.to_parquet(f"{folder}/rejected"),
        available_now=True,
    )
    query.await_end(120)
    rejected = spark.read.parquet(f"{folder}/rejected").collect()
    return {
        "counts": query.progress.counts,
        "rejected": [[bytes(row.malformed).decode(), row.reason] for row in rejected],
    }


class Locked:
    """A sink with a lock, which can't be sent to the server."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def write(self, batch: Any) -> None:
        """Do nothing; it is never called."""


def fail(frame: DataFrame, number: int) -> None:
    raise ValueError(f"no batch {number} today")


def attempt_unsupported(spark: SparkSession, folder: Path, _: str) -> dict[str, Any]:
    """Attempt unsupported queries, and return their errors."""
    write_file(folder, "0", [("a", s, 1) for s in range(30)])
    errors = {}

    def attempt(name: str, work: Callable[[], Any]) -> None:
        begin = time.monotonic()
        try:
            work()
            errors[name] = "nothing"
        except mt.MuntinError as error:
            errors[name] = f"{type(error).__name__}: {error}"
        print(name, time.monotonic() - begin, errors[name], file=sys.stderr)

    counts = tens(stream(spark, folder))
    attempt("locked", lambda: counts.start(checkpoint=f"{folder}/c1", results=Locked()))
    counts.start(checkpoint=f"{folder}/c2", available_now=True).await_end(120)
    failing_query = counts.start(checkpoint=f"{folder}/c4", results=fail)
    attempt("failing", lambda: failing_query.await_idle(120))
    windows = mt.windowed(stream(spark, folder), key="k", time="at").tumbling("10 seconds")
    early_counts = windows.early(every="5 seconds").agg(n=mt.count(), total=mt.sum("v"))
    attempt("ticks", lambda: early_counts.start(checkpoint=f"{folder}/c2"))
    attempt("delta", lambda: counts.start(checkpoint=f"{folder}/c5", results=mt.to_delta("t")))
    return errors


def main() -> None:
    names, folder, arguments = sys.argv[1].split(","), Path(sys.argv[2]), sys.argv[3:]
    spark = mt.session()
    scenarios = {
        "windows": windows,
        "others": run_others,
        "refused": attempt_unsupported,
        "topics": topics,
    }
    observations = {}
    for name in names:
        (folder / name).mkdir()
        observations[name] = scenarios[name](spark, folder / name, *arguments or [""])
    print(json.dumps(observations), flush=True)
    # Closing a session may wait for its connection.
    os._exit(0)


if __name__ == "__main__":
    main()
