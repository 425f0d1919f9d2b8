"""Shows running queries on the live page."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from muntin.cli.console import print_text, summarize_error
from muntin.model.pipeline import EMISSION_COLUMNS, WINDOW_BOUNDS
from muntin.serve import Chart, Feed, Subject, Tile

if TYPE_CHECKING:
    from muntin.serve.app import Server

AddressOption = Annotated[
    str, typer.Option(help="Address to listen on. Any but the loopback requires a token.")
]
Port = Annotated[int, typer.Option(help="Port to listen on (0 = any free port).")]
PageOption = Annotated[
    str | None,
    typer.Option(
        metavar="[ADDRESS:]PORT",
        help="Show the queries on a live page. Any address but the loopback requires --token-file.",
    ),
]
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
# How often the page learns whether a query is degraded, seconds.
_LOOKS = 1.0


@contextmanager
def open_page(
    console: Console, address: Mapping[str, Any] | None
) -> Iterator[tuple[Feed, Server] | None]:
    """Serve a live page within the context, and print where; nothing without an address."""
    if address is None:
        yield None
        return
    from muntin.serve.app import Server

    feed = Feed()
    with Server(feed, address["address"], address["port"], address["token"]) as server:
        # Logs are read by more people than the file of a token.
        is_own = address["token"] in (None, "new")
        print_text(console, f"page     {server.address if is_own else server.url('/?token=…')}")
        yield feed, server


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
        elif number and field.name not in (*names, *WINDOW_BOUNDS, *EMISSION_COLUMNS):
            shown[field.name] = "count"
    return shown


def _until_end(feed: Feed, name: str, query: Any) -> None:
    """Tell the page when a query is degraded, and when it ends, and with which error."""
    try:
        while not query.await_end(_LOOKS):
            feed.mark_degraded(name, query.progress.degradation or "")
    except Exception as error:  # Any error that ended the query is shown.
        feed.mark_ended(name, summarize_error(error))
    else:
        feed.mark_ended(name)
