"""Watching running queries: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from muntin.cli.failure import QueryFailedError, words
from muntin.model.axis import moment
from muntin.model.counts import rejections_in_words

_REFRESH = 0.5
_LINES_EVERY = 2.0


def watch(
    queries: Sequence[Any], console: Console, *, until_quiet: bool = False, total: int | None = None
) -> bool:
    """Show queries while they run; whatever happens, none runs afterwards.

    Args:
        queries: Started queries.
        console: Where to.
        until_quiet: Stop each when it has read all there is and told all it has to tell.
        total: How many messages each will see, if that is known.

    Returns:
        Whether they ended by themselves; ``False`` after Ctrl-C.

    Raises:
        QueryFailedError: When one failed, in its error's own words.
    """
    begun = time.monotonic()
    if until_quiet:
        for query in queries:
            threading.Thread(target=_stop_when_quiet, args=(query,), daemon=True).start()
    try:
        if console.is_terminal:
            with Live(console=console, refresh_per_second=4) as live:
                _follow(queries, lambda: live.update(table(queries, begun, total)), _REFRESH)
        else:
            _follow(queries, lambda: _print_lines(queries, begun, console), _LINES_EVERY)
    except KeyboardInterrupt:
        console.print("Stopping …", style="dim")
        return False
    finally:
        for query in queries:
            query.stop()
    return True


def _follow(queries: Sequence[Any], show: Any, every: float) -> None:
    """Show until all have ended, or one has failed."""
    shown = 0.0
    while True:
        running = [q for q in queries if q.is_active]
        if time.monotonic() - shown >= every or not running:
            show()
            shown = time.monotonic()
        for query in queries:
            failure = None if query.is_active else query.query.exception()
            if failure is not None:
                raise QueryFailedError(words(failure)) from failure
        if not running:
            return
        time.sleep(0.1)


def _stop_when_quiet(query: Any) -> None:
    while query.is_active:
        if query.await_quiet(timeout=10.0):
            query.stop()


def table(queries: Sequence[Any], begun: float, total: int | None = None) -> Table:
    """The figures of queries as a table.

    Args:
        queries: Started queries.
        begun: When they started, by the monotonic clock.
        total: How many messages each will see, if that is known.
    """
    shown = Table(header_style="bold", border_style="dim")
    shown.add_column("query")
    titles = ["batch", "seen", "counted", "rejected", "watermark", "waiting"]
    for title in [*titles, "early", "full", "late", "rows/s"]:
        shown.add_column(title, justify="right", no_wrap=title != "rejected")
    for query in queries:
        cells = _cells(query, begun)
        if total:
            cells["seen"] += f" [dim]{_seen(query) * 100 // total}%[/]"
        shown.add_row(query.query.name or "query", *cells.values())
    return shown


def _print_lines(queries: Sequence[Any], begun: float, console: Console) -> None:
    for query in queries:
        told = ", ".join(f"{name} {value}" for name, value in _cells(query, begun).items())
        name = query.query.name or "query"
        line = f"{time.monotonic() - begun:6.1f} s  {name}: {told}"
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _seen(query: Any) -> int:
    return int(query.figures.counts.get("seen", 0))


def _cells(query: Any, begun: float) -> dict[str, str]:
    figures = query.figures
    seconds = max(time.monotonic() - begun, 0.001)
    fired = {name: f"{figures.fired.get(name, 0):,}" for name in ("early", "full", "late")}
    return {
        "batch": "-" if figures.batch < 0 else str(figures.batch),
        "seen": f"{_seen(query):,}",
        "counted": f"{figures.counts.get('counted', 0):,}",
        "rejected": _rejected(figures),
        "watermark": _moment(figures.watermark),
        "waiting": f"{figures.pending:,}",
        **fired,
        "rows/s": f"{_seen(query) / seconds:,.0f}",
    }


def _rejected(figures: Any) -> str:
    words = rejections_in_words(figures.counts)
    unstorable = f"{figures.unstorable:,} unstorable" if figures.unstorable else ""
    return ", ".join(filter(None, (words, unstorable))) or "0"


def _moment(watermark: int | None) -> str:
    if watermark is None:
        return "-"
    return moment(watermark).rpartition(":")[0]
