"""Shows running queries on the live page."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from muntin.apps.windowing import Maximum, Monitor, Options, TableProgress
from muntin.cli.console import summarize_error
from muntin.serve import Chart, Feed, Subject, Tile

AddressOption = Annotated[
    str, typer.Option(help="Address to listen on. Other than the loopback it requires --token.")
]
Port = Annotated[int, typer.Option(help="Port to listen on (0 = any free port).")]
_TILES = (
    Tile("Messages", "seen"),
    Tile("Messages a second", "rate"),
    Tile("Watermark", "watermark", "time"),
    Tile("Lag of the watermark", "lag", "s"),
    Tile("Messages behind", "behind"),
    Tile("Rejected", "rejected"),
    Tile("Windows that wait", "pending"),
    Tile("Rows of state", "state"),
)
_CHARTS = (
    Chart("Throughput", "messages a second", ("rate",)),
    Chart("Firings", "windows", ("early", "full", "late", "retract")),
    Chart("Lag of the watermark", "seconds", ("lag",)),
    Chart("State", "rows", ("state", "pending")),
)
TABLE = "windowing"
_BOUNDS = ("window_start", "window_end", "revision")


def add_query(feed: Feed, query: Any) -> None:
    """Show a started query on the page, until it ends."""
    from muntin.dataframe.state import read_checkpoint, report_checkpoint
    from muntin.hosts.inspect.observed import observe

    def inspect_key(key: Sequence[str]) -> dict[str, Any]:
        return report_checkpoint(read_checkpoint(query.checkpoint, spark=query.spark), key)

    name = query.label
    results, *others = query.outputs
    keys = tuple(results.keys or ())
    subject = Subject(
        name,
        "",
        _TILES,
        _CHARTS,
        keys,
        tuple(results.columns.names),
        list_kinds(results.columns, keys),
        list_kinds(others[0].columns, others[0].columns.names) if others else {},
    )
    feed.add(subject, None if query.checkpoint is None else inspect_key)

    def show(batch: Any) -> None:
        figures = dict(vars(batch))
        feed.add_batch(name, figures.pop("batch"), **figures)

    observe(query, show)
    threading.Thread(target=_until_end, args=(feed, name, query), daemon=True).start()


def list_kinds(schema: Any, names: Sequence[str]) -> dict[str, str]:
    """Return the kind of each column that the page formats specially.

    Args:
        schema: Arrow schema of the columns.
        names: Columns whose numbers aren't counts.
    """
    import pyarrow.types as kinds

    shown = {}
    for field in schema:
        number = kinds.is_integer(field.type) or kinds.is_floating(field.type)
        if kinds.is_timestamp(field.type):
            shown[field.name] = "time"
        elif number and field.name not in (*names, *_BOUNDS):
            shown[field.name] = "count"
    return shown


def _until_end(feed: Feed, name: str, query: Any) -> None:
    """Tell the page when a query ends, and with which error."""
    try:
        query.await_end()
    except Exception as error:  # Any error that ended the query is shown.
        feed.mark_ended(name, summarize_error(error))
    else:
        feed.mark_ended(name)


class TablePage:
    """Shows the windowing application."""

    def __init__(self, feed: Feed, options: Options) -> None:
        self.feed = feed
        self._last: int | None = None
        spans = tuple(f"{span:g} s" for span in options.averages)
        mode = "inline" if options.inline else "not inline"
        about = f"Keeps {options.limits}; deletes {mode}, in chunks of {options.deletechunksize:,}."
        tiles = (
            Tile("Rows", "rows"),
            Tile("Inserted a second", "inserted"),
            Tile("Deleted a second", "deleted"),
            Tile("Backlog", "backlog", "rows"),
            Tile("Delete lag", "lag", "ms"),
            Tile("Maximum", "maximum"),
            Tile("Size", "megabytes", "MB"),
            *(Tile(f"Average of {span}", span) for span in spans),
        )
        charts = (
            Chart("Averages", "value", spans),
            Chart("Inserted and deleted", "rows a second", ("inserted", "deleted")),
            Chart("Rows", "rows", ("rows", "backlog")),
            Chart("Maximum", "value", ("maximum",)),
        )
        feed.add(Subject(TABLE, about, tiles, charts))

    def show(
        self,
        monitor: Monitor,
        batch: int,
        progress: list[TableProgress],
        written: int,
        change: Maximum | None,
    ) -> None:
        """Show a batch."""
        seconds = None if self._last is None else max(1, written - self._last) / 1000
        self._last = written
        inserted = sum(shard.inserted for shard in progress)
        deleted = sum(shard.deleted for shard in progress)
        numbers: dict[str, float | None] = {
            "rows": monitor.rows,
            "inserted": None if seconds is None else inserted / seconds,
            "deleted": None if seconds is None else deleted / seconds,
            "backlog": monitor.backlog,
            "lag": monitor.lag,
            "maximum": monitor.maximum,
            "megabytes": sum(shard.bytes for shard in progress) / 1e6,
            **{f"{span} s": mean for span, mean in monitor.averages.items()},
        }
        rejected = monitor.rejected
        notes = [] if change is None else [str(change)]
        self.feed.add_batch(
            TABLE, batch, at=written, numbers=numbers, rejected=rejected, notes=notes
        )
