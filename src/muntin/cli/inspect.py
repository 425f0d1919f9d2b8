"""``muntin inspect``: shows the contents of a checkpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from muntin.cli.checkpoints import CheckpointArgument, open_checkpoint
from muntin.cli.console import cell
from muntin.cli.pipelines import Conf
from muntin.model.printable import format_count

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def inspect(
    checkpoint: CheckpointArgument,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUE",
            help=r"Only show the state of this key. Repeat for each key column; \N is NULL.",
        ),
    ] = None,
    table: Annotated[str | None, typer.Option(help="Only show this agent table.")] = None,
    batch: Annotated[int | None, typer.Option(help="Show the state as of this batch.")] = None,
    operator: Annotated[
        int, typer.Option(help="Operator of a chain to show, counted from the last one.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    conf: Conf = None,
) -> None:
    """Show the contents of a checkpoint: query, watermark, sizes, panes and windows.

    Reads the state as of the last committed batch; the query may be running.
    """
    console = Console(stderr=True)
    with open_checkpoint("inspect", checkpoint, console, batch, operator, conf) as opened:
        from muntin.dataframe.state import report_checkpoint

        report = report_checkpoint(opened, key or (), table)
    if as_json:
        print(escape_json(json.dumps(report, indent=1, ensure_ascii=False)))
    else:
        show(report, Console())


def escape_json(text: str) -> str:
    """Escape DEL and C1 in JSON, which ``json`` doesn't, so that a terminal may show it."""
    return re.sub("[\x7f-\x9f]", lambda match: f"\\u{ord(match.group()):04x}", text)


def show(report: Mapping[str, Any], console: Console) -> None:
    """Print a report of `report_checkpoint` as tables."""
    oldest, newest = report["kept"]
    head = {
        "checkpoint": report["checkpoint"],
        "batch": f"{report['batch']} (batches {oldest} to {newest} can be read)",
        "watermark": _format_watermark(report["watermark"]),
        "messages": ", ".join(f"{n:,} {name}" for name, n in report["counts"].items()) or "none",
        "state": _format_state(report),
    }
    if report.get("waits"):
        head["waits"] = report["waits"]
    if report.get("held by"):
        head["held by"] = report["held by"]
    for name, time in (report.get("clocks") or {}).items():
        head[f"clock of {name}"] = time
    for name, ends in (report.get("windows") or {}).items():
        head[f"{name} window"] = f"{ends[0]} to {ends[1]}"
    console.print(_make_grid(head))
    console.print(_make_grid(report["spec"], title=report["kind"]))
    console.print(_make_table(report["tables"], "tables"))
    if "key" in report:
        rows = report["key"]
        console.print(_make_table(rows, "rows of the key") if rows else "The key has no rows.")


def _format_watermark(watermark: Any) -> str:
    if isinstance(watermark, dict):
        return ", ".join(f"{name} {mark or 'none yet'}" for name, mark in watermark.items())
    return watermark or "none: no message has moved it yet"


def _format_state(report: Mapping[str, Any]) -> str:
    blobs = sum(shard["blobs"] for shard in report["shards"])
    size = sum(shard["bytes"] for shard in report["shards"])
    shards = len(report["shards"])
    return f"{format_size(size)} in {format_count(blobs, 'blob')}, {format_count(shards, 'shard')}"


def format_size(count: int) -> str:
    """Return a number of bytes in a readable unit.

    Example:
        >>> format_size(1536)
        '1.5 KiB'
    """
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def _make_grid(lines: Mapping[str, Any], title: str | None = None) -> Table:
    grid = Table(show_header=False, title=title, title_justify="left")
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in lines.items():
        grid.add_row(cell(name), cell(value))
    return grid


def _make_table(rows: list[Mapping[str, Any]], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in rows[0] if rows else ():
        table.add_column(cell(name), overflow="fold")
    for row in rows:
        cells = (format_size(v) if name == "bytes" else _format_cell(v) for name, v in row.items())
        table.add_row(*map(cell, cells))
    return table


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
