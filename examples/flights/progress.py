"""Runs the queries of a demo, and shows their progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import muntin as mt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REFRESH = 0.25


def run_to_end(
    console: Console,
    name: str,
    start: Callable[[SparkSession], list[mt.WindowedQuery]],
    total: int,
) -> tuple[float, list[mt.WindowedQuery]]:
    """Run queries in a session of their own until they have read all input.

    Args:
        console: Console to show a bar for each query on.
        name: Name of the session.
        start: Starts the queries.
        total: Number of messages that each query reads.

    Returns:
        The seconds from the start of the queries to their end, and the queries.
    """
    console.print("Starting Spark …", style="dim")
    spark = mt.session(name)
    try:
        began = time.monotonic()
        queries = start(spark)
        _await_idle(console, queries, total)
        seconds = time.monotonic() - began
        for query in queries:
            query.stop()
        return seconds, queries
    finally:
        spark.stop()


def _await_idle(console: Console, queries: list[mt.WindowedQuery], total: int) -> None:
    """Wait until each query has read all input and emitted all results."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} flights"),
        TextColumn("{task.fields[emitted]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bars:
        tasks = [bars.add_task(q.name or "query", total=total, emitted="") for q in queries]
        idle = [False] * len(queries)
        while not all(idle):
            for number, query in enumerate(queries):
                idle[number] = idle[number] or query.await_idle(timeout=_REFRESH)
                progress = query.progress
                emitted = ", ".join(f"{n:,} {kind}" for kind, n in progress.fired.items() if n)
                seen = progress.counts.get("seen", 0)
                bars.update(tasks[number], completed=seen, emitted=emitted)
