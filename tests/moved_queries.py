"""Queries for both hosts, over folders to which tests add files."""

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
        root: The parent folder.
        files: The number of files in each folder.
    """

    root: Path
    files: int = 0

    def add(self, files: int, messages: int = 40) -> None:
        """Add files whose times overlap those of the files before, with some far too late."""
        for _ in range(files):
            random = Random(self.files)
            for name in ("left", "right"):
                seconds = [9 * self.files + random.randrange(-20, 20) for _ in range(messages)]
                rows = {
                    "id": [self.files * messages + n for n in range(messages)],
                    "key": [f"key {random.randrange(7)}" for _ in range(messages)],
                    "at": [_START + timedelta(seconds=100 + second) for second in seconds],
                    "value": [random.randrange(100) for _ in range(messages)],
                }
                frame = pl.DataFrame(rows).with_columns(pl.col("at").dt.cast_time_unit("us"))
                path = self.root / name / f"{self.files:04d} =é.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                frame.write_parquet(path.with_name(f".{path.name}"))
                modified_at = 1_700_000_000 + self.files
                os.utime(path.with_name(f".{path.name}"), (modified_at, modified_at))
                path.with_name(f".{path.name}").rename(path)
            self.files += 1

    def read(self, name: str) -> Any:
        """Read a folder on the local host."""
        return mt.files(self.root / name / "*.parquet", columns=COLUMNS, files_per_batch=1)


def hopping(read: Read) -> Any:
    windows = mt.windowed(read("left"), key="key", time="at", lateness="5 seconds")
    hops = windows.hopping("20 seconds", slide="6 seconds")
    policies = hops.early(each=True).late(grace="10 seconds", each=True)
    return policies.agg(n=mt.count(), total=mt.sum("value"), middle=mt.median("value"))


def sessions(read: Read) -> Any:
    windows = mt.windowed(read("left"), key="key", time="at", lateness="5 seconds")
    policies = windows.session("4 seconds").early(each=True).late(grace="15 seconds", each=True)
    return policies.agg(n=mt.count(), first=mt.min("value"))


def count_triggers(read: Read) -> Any:
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


def clock_triggers(read: Read) -> Any:
    """Return windows that emit by the wall clock: only their final results are deterministic."""
    windows = mt.windowed(read("left"), key="key", time="at", lateness="5 seconds")
    return windows.tumbling("10 seconds").early(every="1 second").agg(n=mt.count())


QUERIES = {query.__name__: query for query in (hopping, sessions, count_triggers, join, chain)}


def run(query: Any, checkpoint: Path, database: Path) -> Any:
    """Run a query on the messages in its folders until none is left, and return its handle."""
    rejected = mt.to_duckdb(database, "rejected")
    results = mt.to_duckdb(database, "results", history="history")
    handle = query.start(
        checkpoint=str(checkpoint), results=results, rejected=rejected, available_now=True
    )
    assert handle.await_end(240)
    return handle


def read_tables(database: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the sorted rows of all tables in a database that queries wrote."""
    with duckdb.connect(str(database)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        names = [row[0] for row in connection.execute("SHOW TABLES").fetchall()]
        select = "SELECT COLUMNS(*)::VARCHAR FROM {} ORDER BY ALL"
        return {name: connection.execute(select.format(name)).fetchall() for name in sorted(names)}
