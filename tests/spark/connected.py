"""A client of Spark Connect, which has to be a process of its own.

Usage: connected.py SCENARIO[,SCENARIO…] FOLDER [DSN | SERVERS,TOPIC,TOPIC], where SPARK_REMOTE says
where the server is. Each scenario has a folder of its name. The last line that it prints is JSON:
by the scenario, what it saw.
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


def put(folder: Path, name: str, rows: Iterable[tuple[str | None, int, int]]) -> None:
    """Have a file of messages, of which the second part is seconds."""
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
    """A query that is watched, stopped, and started again, into all sinks."""
    put(folder, "0", [("a", s, 1) for s in range(30)] + [(None, 1, 1)])
    shown: list[Any] = []

    def started(available_now: bool) -> WindowedQuery:
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

    query = started(False)
    query.watchers.append(
        lambda number, batches: shown.append(
            [number, {b.kind: [b.table().num_rows, b.frame.count()] for b in batches}]
        )
    )
    idle = [query.await_idle(120)]
    put(folder, "1", [("a", 60, 1), ("a", 1, 1)])
    idle.append(query.await_idle(120))
    before = query.progress
    query.stop()
    put(folder, "2", [("a", 90, 1)])
    again = started(True)
    ended = again.await_end(120)
    left = [row[0] for row in spark.sql("SET").collect() if row[0].startswith("muntin.query")]
    return {
        "idle": idle,
        "before": [before.counts, before.fired, before.adds_up(), str(before.watermark)],
        "active": query.is_active,
        "shown": shown,
        "ended": ended,
        "after": [again.progress.counts, again.progress.fired],
        "rejected": spark.read.parquet(f"{folder}/rejected").count(),
        "left": left + [table.name for table in spark.catalog.listTables()],
    }


def others(spark: SparkSession, folder: Path, _: str) -> dict[str, Any]:
    """A join that feeds windows, and agents."""
    put(folder, "0", [("a", s, s) for s in range(30)])
    one, two = stream(spark, folder), stream(spark, folder)
    joined = mt.join(
        mt.windowed(one, time="at"), mt.windowed(two, time="at"), on=["k", "v"], within="1 second"
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
    """From one topic to another, both without a jar on the server."""
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
    """A sink that holds what can't be sent."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def write(self, batch: Any) -> None:
        """Never called."""


def failing(frame: DataFrame, number: int) -> None:
    raise ValueError(f"no batch {number} today")


def refused(spark: SparkSession, folder: Path, _: str) -> dict[str, Any]:
    """What can't be, and in which words."""
    put(folder, "0", [("a", s, 1) for s in range(30)])
    said = {}

    def attempt(name: str, work: Callable[[], Any]) -> None:
        begun = time.monotonic()
        try:
            work()
            said[name] = "nothing"
        except mt.MuntinError as error:
            said[name] = f"{type(error).__name__}: {error}"
        print(name, time.monotonic() - begun, said[name], file=sys.stderr)

    made = tens(stream(spark, folder))
    attempt("locked", lambda: made.start(checkpoint=f"{folder}/c1", results=Locked()))
    made.start(checkpoint=f"{folder}/c2", available_now=True).await_end(120)
    broken = made.start(checkpoint=f"{folder}/c4", results=failing)
    attempt("failing", lambda: broken.await_idle(120))
    early = mt.windowed(stream(spark, folder), key="k", time="at").tumbling("10 seconds")
    ticking = early.early(every="5 seconds").agg(n=mt.count(), total=mt.sum("v"))
    attempt("ticks", lambda: ticking.start(checkpoint=f"{folder}/c2"))
    attempt("delta", lambda: made.start(checkpoint=f"{folder}/c5", results=mt.to_delta("t")))
    return said


def main() -> None:
    names, folder, more = sys.argv[1].split(","), Path(sys.argv[2]), sys.argv[3:]
    spark = mt.session()
    scenarios = {"windows": windows, "others": others, "refused": refused, "topics": topics}
    seen = {}
    for name in names:
        (folder / name).mkdir()
        seen[name] = scenarios[name](spark, folder / name, *more or [""])
    print(json.dumps(seen), flush=True)
    # Closing a session may wait for its connection.
    os._exit(0)


if __name__ == "__main__":
    main()
