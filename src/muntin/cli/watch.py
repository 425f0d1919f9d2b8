"""Watches running queries: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from muntin.cli.console import QueryFailedError, cell, print_text, summarize_error
from muntin.hosts.interrupts import Interruption, stop_queries, watch_signals
from muntin.model.axis import format_time
from muntin.model.counts import format_rejections
from muntin.model.printable import format_count

_REFRESH = 0.5
_LINES_EVERY = 2.0


class LogFormat(StrEnum):
    """Format of the progress lines."""

    TEXT = "text"
    JSON = "json"


def watch(
    queries: Sequence[Any],
    console: Console,
    *,
    until_quiet: bool = False,
    total: int | None = None,
    log: LogFormat | None = None,
) -> None:
    """Show queries while they run; none is left running, whatever happens.

    Ctrl-C and SIGTERM stop them, and end the command with exit code 130 or 143.

    Args:
        queries: Started queries.
        console: Console to print on.
        until_quiet: Stop each query once it has read all input and emitted all results.
        total: Number of messages that each query will see, if known.
        log: Format of progress lines, which are then printed on a terminal too.

    Raises:
        QueryFailedError: When a query failed, with the message of its error.
        Exit: When a signal stopped them.
    """
    begun = time.monotonic()
    if until_quiet:
        for query in queries:
            threading.Thread(target=_stop_when_quiet, args=(query,), daemon=True).start()
    try:
        with watch_signals() as interruption:
            if console.is_terminal and log is None:
                with Live(console=console, refresh_per_second=4) as live:

                    def show() -> None:
                        live.update(make_table(queries, begun, total))

                    _follow(queries, show, _REFRESH, interruption)
            else:
                lines = _Lines(queries, console, log or LogFormat.TEXT)
                _follow(queries, lines.show, _LINES_EVERY, interruption)
            if interruption.signal is not None:
                stop_queries(partial(print_text, console), interruption.cause, queries)
                raise typer.Exit(interruption.exit_code)
    finally:
        for query in queries:
            if query.is_active:
                query.stop()


def _follow(
    queries: Sequence[Any], show: Callable[[], object], every: float, interruption: Interruption
) -> None:
    """Show queries until all have ended, one has failed, or a signal has come."""
    last_shown = 0.0
    while interruption.signal is None:
        running = [q for q in queries if q.is_active]
        if time.monotonic() - last_shown >= every or not running:
            show()
            last_shown = time.monotonic()
        for query in queries:
            if not query.is_active:
                _raise_failure(query)
        if not running:
            return
        time.sleep(0.1)


def _raise_failure(query: Any) -> None:
    """Raise the error of a query that has failed, in few words."""
    try:
        query.await_end(1.0)
    except Exception as error:
        raise QueryFailedError(summarize_error(error)) from error


def _stop_when_quiet(query: Any) -> None:
    with suppress(Exception):  # The failure of a query is reported where the query is followed.
        while query.is_active:
            if query.await_idle(timeout=10.0):
                query.stop()


def make_table(queries: Sequence[Any], begun: float, total: int | None = None) -> Table:
    """Return the progress of queries as a table, a line for each."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("query")
    for title in ("batch", "seen", "rejected", "emitted", "waiting", "watermark", "rows/s"):
        wraps = title in ("rejected", "emitted")
        table.add_column(title, justify="right", no_wrap=not wraps)
    for query in queries:
        name, progress = _find_name(query), query.progress
        if progress.batch < 0:
            table.add_row(cell(name), "starting")
            continue
        seen = f"{_count_seen(query):,}"
        if total:
            seen += f" [dim]{_count_seen(query) * 100 // total}%[/]"
        emitted = ", ".join(f"{n:,} {emission}" for emission, n in progress.fired.items() if n)
        seconds = max(time.monotonic() - begun, 0.001)
        table.add_row(
            cell(name),
            str(progress.batch),
            seen,
            _format_rejected(progress) or "0",
            emitted or "0",
            f"{progress.pending:,}",
            _format_moment(progress.watermark_micros),
            f"{_count_seen(query) / seconds:,.0f}",
        )
        if degradation := progress.degradation:
            table.caption = cell(f"{name}: {degradation}")
    return table


@dataclass
class _Lines:
    """Prints progress without a terminal: a line per query when there is something new."""

    queries: Sequence[Any]
    console: Console
    form: LogFormat = LogFormat.TEXT
    last: dict[int, str] = field(default_factory=dict)

    def show(self) -> None:
        for number, query in enumerate(self.queries):
            line = f"{_find_name(query)}: {self._line(query)}"
            if self.last.get(number) == line:
                continue
            self.last[number] = line
            now = datetime.now().astimezone()
            if self.form is LogFormat.JSON:
                print_text(
                    self.console, json.dumps({"time": now.isoformat(), **_collect_figures(query)})
                )
            else:
                print_text(self.console, f"{now:%H:%M:%S%z}  {line}")

    @staticmethod
    def _line(query: Any) -> str:
        progress = query.progress
        if progress.batch < 0:
            shards = getattr(query, "shards", 0)
            return f"starting in {format_count(shards, 'shard')}" if shards else "starting"
        emitted = sum(progress.fired.values())
        text = f"batch {progress.batch}, {_count_seen(query):,} seen, {emitted:,} emitted, "
        text += f"up to {_format_moment(progress.watermark_micros)}"
        rejected = _format_rejected(progress)
        text = f"{text}, rejected {rejected}" if rejected else text
        # The figures in the sentence would change all the time.
        return f"{text}, degraded" if progress.degradation else text


def _find_name(query: Any) -> str:
    return str(query.name or "query")


def _count_seen(query: Any) -> int:
    return int(query.progress.counts.get("seen", 0))


def _format_rejected(progress: Any) -> str:
    words = format_rejections(progress.counts)
    unwritable = f"{progress.unwritable:,} unwritable" if progress.unwritable else ""
    return ", ".join(filter(None, (words, unwritable)))


def _format_moment(watermark: int | None) -> str:
    if watermark is None:
        return "-"
    return format_time(watermark)


def _collect_figures(query: Any) -> dict[str, Any]:
    """Return the figures of a query for a line of JSON."""
    progress = query.progress
    if progress.batch < 0:
        return {"query": query.name, "state": "starting"}
    return {
        "query": query.name,
        "state": "running" if query.is_active else "ended",
        "batch": progress.batch,
        "watermark": _format_moment(progress.watermark_micros),
        "counts": dict(progress.counts),
        "fired": dict(progress.fired),
        "pending": progress.pending,
        "unwritable": progress.unwritable,
        "degraded": progress.degradation,
        "waiting_for": progress.waiting_for,
        "lag": progress.lag,
        "seconds": progress.seconds,
        "functions": progress.functions,
        "heaviest_keys": progress.heaviest_keys,
    }
