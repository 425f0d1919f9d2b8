"""An agent of muntin that counts in a table of hopping windows, on Spark or in this process.

``--state spark`` runs it inside Spark's state, ``--state local`` in one process on the same files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin as mt
from benches.peers.command import Outcome, Run, serve, totals
from benches.peers.spark_drive import drive
from muntin.spark.session import WORKERS
from muntin.stores import rocks

BATCH = 20_000


@dataclass(slots=True)
class Click:
    """One event."""

    k: int


def app_of(run: Run) -> tuple[mt.App, Any]:
    """The app that its user would write, and its table."""
    app = mt.App("tables", max_ahead=None)
    case = run.case
    ended: list[Any] = []
    told = app.Table("views", default=int, key_type=int, on_window_close=_noting(run, ended))
    views = told.hopping(case.size, case.slide, expires=case.slide)

    @app.agent(app.topic("clicks", value_type=Click))
    async def count(clicks: Any) -> None:
        async for click in clicks:
            views[click.k] += 1

    app.ended = ended  # type: ignore[attr-defined]
    return app, views


def _noting(run: Run, ended: list[Any]) -> Any:
    """What keeps the windows that have closed, where somebody will look at them."""
    if run.state != "local" or not run.check:
        return None
    last = run.stream.last_ms / 1000

    def note(key: Any, value: int) -> None:
        if key[1].start <= last:
            ended.append(value)

    return note


def results(events: DataFrame, run: Run) -> DataFrame:
    """The table's changes where they are counted; else nothing but the table's state is kept."""
    app, _ = app_of(run)
    on_spark = mt.on_spark(app, {"clicks": mt.source(events.select("k", "ts"), key="k", time="ts")})
    if not run.check:
        return on_spark.rejected
    nothing = F.lit(0).cast("long")
    told = on_spark.table("views").withColumnsRenamed({"key": "k", "value": "count"})
    return told.withColumns({"sum": nothing, "max": nothing})


def locally(run: Run) -> Outcome:
    """The same in one process, tables in RocksDB."""
    app, _ = app_of(run)
    started = time.perf_counter()
    with app.open(store=rocks(run.work / "state", sync=False)) as running:
        clicks = mt.source(_rows(run), key="k", time="ts")
        running.feed({"clicks": clicks}, batch=BATCH)
    seconds = time.perf_counter() - started
    ended = app.ended  # type: ignore[attr-defined]
    return Outcome(seconds, totals(len(ended), sum(ended), 0, 0) if run.check else None)


def _rows(run: Run) -> Iterator[dict[str, Any]]:
    for path in sorted(Path(run.stream.folder).glob("*.parquet")):
        yield from pl.read_parquet(path, columns=["k", "ts"]).iter_rows(named=True)


def main(run: Run) -> Outcome:
    """One of both."""
    if run.state == "local":
        return locally(run)
    return drive(run, results, "append", WORKERS)


if __name__ == "__main__":
    serve("muntin_tables", main)
