"""Queries that are written for both hosts, over folders of files that tests add to."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import polars as pl

import muntin as mt

COLUMNS = "id long, key string, at timestamp, value long"
_START = datetime(2026, 1, 1, tzinfo=UTC)
Read = Callable[[str], Any]
"""Reads a folder by its name, one file a batch."""


@dataclass
class Folders:
    """Folders of Parquet files, with the same number of messages in each.

    Attributes:
        root: The folder of the folders.
        files: The number of files in each of them.
    """

    root: Path
    files: int = 0

    def add(self, files: int, messages: int = 40) -> None:
        """Add files whose times overlap those of the files before, with some far too late."""
        for _ in range(files):
            chance = Random(self.files)
            for name in ("left", "right"):
                seconds = [9 * self.files + chance.randrange(-20, 20) for _ in range(messages)]
                rows = {
                    "id": [self.files * messages + n for n in range(messages)],
                    "key": [f"key {chance.randrange(7)}" for _ in range(messages)],
                    "at": [_START + timedelta(seconds=100 + second) for second in seconds],
                    "value": [chance.randrange(100) for _ in range(messages)],
                }
                frame = pl.DataFrame(rows).with_columns(pl.col("at").dt.cast_time_unit("us"))
                path = self.root / name / f"{self.files:04d} =é.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                frame.write_parquet(path.with_name(f".{path.name}"))
                stamp = 1_700_000_000 + self.files
                os.utime(path.with_name(f".{path.name}"), (stamp, stamp))
                path.with_name(f".{path.name}").rename(path)
            self.files += 1

    def read(self, name: str) -> Any:
        """Read a folder on the local host."""
        return mt.files(self.root / name / "*.parquet", columns=COLUMNS, files_per_batch=1)


def hopping(read: Read) -> Any:
    windows = mt.windowed(read("left"), key="key", time="at", lateness="5 seconds")
    hops = windows.hopping("20 seconds", slide="6 seconds")
    shown = hops.early(each=True).late(grace="10 seconds", each=True)
    return shown.agg(n=mt.count(), total=mt.sum("value"), middle=mt.median("value"))


def sessions(read: Read) -> Any:
    windows = mt.windowed(read("left"), key="key", time="at", lateness="5 seconds")
    shown = windows.session("4 seconds").early(each=True).late(grace="15 seconds", each=True)
    return shown.agg(n=mt.count(), first=mt.min("value"))


def counted(read: Read) -> Any:
    windows = mt.windowed(read("left"), key="key", lateness="5 seconds", time="at")
    return windows.tumbling("10 seconds").early(rows=3).deltas().agg(n=mt.count())


def join(read: Read) -> Any:
    sides = (
        mt.windowed(read(side), time="at", lateness="8 seconds").late(grace="5 seconds", each=True)
        for side in ("left", "right")
    )
    return mt.join(*sides, on="key", within="3 seconds", how="full")


def chain(read: Read) -> Any:
    windows = mt.windowed(read("left"), key="key", time="at", lateness="5 seconds")
    inner = windows.hopping("20 seconds", slide="10 seconds").agg(n=mt.count())
    outer = mt.windowed(inner, key="key", time="window_end", lateness="1 second")
    return outer.tumbling("40 seconds").early(each=True).agg(windows=mt.count(), n=mt.sum("n"))


def clocked(read: Read) -> Any:
    """Return windows whose policy goes by the clock: only their final results are certain."""
    windows = mt.windowed(read("left"), key="key", time="at", lateness="5 seconds")
    return windows.tumbling("10 seconds").early(every="1 second").agg(n=mt.count())


QUERIES = {one.__name__: one for one in (hopping, sessions, counted, join, chain)}


def run(query: Any, checkpoint: Path, out: Path) -> Any:
    """Run a query over what there is, and return its handle."""
    rejected = mt.to_duckdb(out, "rejected")
    results = mt.to_duckdb(out, "results", history="history")
    started = query.start(
        checkpoint=str(checkpoint), results=results, rejected=rejected, available_now=True
    )
    assert started.await_end(240)
    return started


def read_tables(out: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of all tables that queries have written, in one order."""
    with duckdb.connect(str(out)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        names = [row[0] for row in connection.execute("SHOW TABLES").fetchall()]
        select = "SELECT COLUMNS(*)::VARCHAR FROM {} ORDER BY ALL"
        return {name: connection.execute(select.format(name)).fetchall() for name in sorted(names)}
