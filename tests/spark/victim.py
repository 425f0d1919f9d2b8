"""A driver that tests kill: runs a query over folders of files until there are no more.

Usage: victim.py QUERY FOLDER [SETTINGS FIGURES [SHARDS]], where QUERY is a function of this
module, FOLDER has the sources and gets all outputs (it may be in a bucket), SETTINGS are the
session's as JSON, FIGURES is the file for the counts, and SHARDS is windows' number of shards.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

import muntin as mt

Read = Callable[[str], DataFrame]
"""Streams a folder by its name, one file a batch."""


def windows(read: Read, shards: int | None = None) -> Any:
    return (
        mt.windowed(read("source"), key="key", time="at", lateness="5 seconds", shards=shards)
        .hopping("30 seconds", slide="10 seconds")
        .early(each=True)
        .late(grace="10 minutes", each=True)
        .agg(n=mt.count(), total=mt.sum("value"), most=mt.max("value"))
    )


def join(read: Read) -> Any:
    left, right = (
        mt.windowed(read(side), time="at", lateness="3 minutes") for side in ("left", "right")
    )
    return mt.join(left, right, on="key", within=("5 seconds", "2 seconds"), how="full")


def chain(read: Read) -> Any:
    inner = (
        mt.windowed(read("source"), key="key", time="at", lateness="3 minutes")
        .hopping("30 seconds", slide="10 seconds")
        .agg(n=mt.count(), total=mt.sum("value"))
    )
    return (
        mt.windowed(inner, key="key", time="window_end", lateness="1 minute")
        .tumbling("2 minutes")
        .early(each=True)
        .agg(windows=mt.count(), n=mt.sum("n"), most=mt.max("total"))
    )


def main(
    query: str, folder: str, settings: str = "{}", figures: str = "", shards: str = ""
) -> None:
    spark = mt.session("victim", master="local[2]", **json.loads(settings))
    columns = "id long, key string, at timestamp, value long"
    files = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
    results: Any = mt.to_parquet(f"{folder}/out")
    if query != "join" and "://" not in folder:
        results = mt.to_duckdb(f"{folder}/out.duckdb", "windows", history="history")
    build_query = {"windows": windows, "join": join, "chain": chain}[query]
    options = {"shards": int(shards)} if shards else {}
    running = build_query(lambda name: files.parquet(f"{folder}/{name}"), **options).start(
        checkpoint=f"{folder}/checkpoint",
        results=results,
        rejected=mt.to_parquet(f"{folder}/rejected"),
        available_now=True,
    )
    running.await_end()
    progress = {"counts": running.progress.counts, "adds_up": running.progress.adds_up()}
    if query == "chain":
        progress["inner"] = running.progress.inner.counts
    if query == "windows":
        progress["held"] = len(mt.open_state(f"{folder}/checkpoint").fetch())
    Path(figures or f"{folder}/figures.json").write_text(json.dumps(progress))


if __name__ == "__main__":
    main(*sys.argv[1:])
