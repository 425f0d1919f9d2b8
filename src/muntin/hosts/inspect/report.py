"""Reports on the contents of a checkpoint, for `muntin inspect`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from muntin.engine import key_state
from muntin.engine.clocks import InputClocks
from muntin.hosts.inspect.joins import OpenJoin
from muntin.hosts.inspect.opening import refuse_table, spec_of
from muntin.hosts.inspect.snapshot import StateSnapshot
from muntin.hosts.inspect.windows import OpenWindows
from muntin.model.axis import format_position, moment
from muntin.model.joins import SIDES, JoinSpec
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import WindowSpec
from muntin.sinks.plain import to_plain_values
from muntin.state.manifest import Run

StateReport = dict[str, Any]
"""Plain JSON."""
RunsByTable = dict[str, list[tuple[int, Run]]]
Sizes = Mapping[int, Mapping[int, int]]
_ROWS = 100


def report_state(
    opened: StateSnapshot, key: Sequence[str] = (), table: str | None = None
) -> StateReport:
    r"""Report the contents of a checkpoint of windows or of a join; its query may be running.

    Args:
        opened: The state after one committed batch.
        key: A key's values as text, in the order of its columns, to include its rows; `\N` is
            NULL.
        table: The name of a table; refused, since windows and joins have none.

    Returns:
        `checkpoint`, `batch`, `kept` (the oldest and newest batch that can be read), `kind`
        (`windows`, `join`, `tables` or `windowing`), `spec` (facts by name), `watermark`, `counts`,
        `tables` (rows, runs, bytes, and the oldest and newest position of each), `shards` (bytes
        and blobs of each shard), and, if a key was given, its rows under `key`.

    Raises:
        OptionError: When the checkpoint or the key isn't valid.
    """
    spec = spec_of(opened)
    refuse_table(opened, table)
    sizes = opened.sizes()
    if isinstance(spec, JoinSpec):
        facts = _of_join(opened, spec, sizes)
        rows = _join_rows(opened, spec, key) if key else None
    else:
        facts = _of_windows(opened, spec, sizes)
        rows = _window_rows(opened, spec, key) if key else None
    return assemble_report(opened, facts, sizes, rows)


def assemble_report(
    opened: StateSnapshot, facts: StateReport, sizes: Sizes, rows: list[StateReport] | None
) -> StateReport:
    """Return a report of the facts of every kind of state, with the kind's own facts and rows."""
    report: StateReport = {
        "checkpoint": opened.given,
        "batch": opened.batch,
        "kept": [opened.oldest, opened.newest],
        "counts": opened.counts,
        **facts,
        "shards": [
            {"shard": shard, "bytes": sum(mine.values()), "blobs": len(mine)}
            for shard, mine in sorted(sizes.items())
        ],
    }
    return report if rows is None else report | {"key": rows}


def runs_by_table(opened: StateSnapshot) -> RunsByTable:
    """Return the runs of each table over all shards, each with the number of its shard."""
    tables: RunsByTable = {}
    for shard, manifest in opened.read.items():
        for one in manifest.each():
            for name, runs in one.tables.items():
                tables.setdefault(name, []).extend((shard, run) for run in runs)
    return tables


def _places(runs: Sequence[tuple[int, Run]]) -> tuple[int, int] | None:
    """Return the oldest and the newest position in some runs, if there are any."""
    if not runs:
        return None
    return min(run.low for _, run in runs), max(run.high for _, run in runs)


def list_tables(
    tables: RunsByTable, sizes: Sizes, word: Callable[[str, int], str | None]
) -> list[StateReport]:
    """Return the rows, runs, bytes and bounds of each table of the state."""
    report = []
    for name, runs in tables.items():
        held = (sizes.get(shard, {}).get(blob, 0) for shard, run in runs for blob in run.blobs)
        places = _places(runs)
        oldest, newest = [word(name, place) for place in places] if places else (None, None)
        report.append(
            {
                "table": name,
                "rows": sum(run.rows for _, run in runs),
                "runs": len(runs),
                "bytes": sum(held),
                "oldest": oldest,
                "newest": newest,
            }
        )
    return report


def _of_windows(opened: StateSnapshot, known: WindowSpec, sizes: Sizes) -> StateReport:
    tables, windows = runs_by_table(opened), known.windows

    def word(name: str, place: int) -> str:
        # For sliding windows, each position is a pane of its own.
        if not isinstance(windows, Sessions | Sliding) and name == "cells":
            place = windows.pane_start(place)
        elif not isinstance(windows, Sessions) and name != "cells":
            place = windows.start(place)
        return format_position(place, known.axis)

    mark = opened.watermark
    clocks = InputClocks(opened.first.extra.get("clocks", {}).get("", {}))
    return {
        "kind": "windows",
        "spec": known.words(),
        "watermark": None if mark is None else moment(mark),
        "clocks": {name: moment(time) for name, time in clocks.slowest().items()},
        "held by": clocks.holder(known.idle, opened.first.wall or 0),
        "tables": list_tables(tables, sizes, word),
        "windows": _ends(known, _places(tables.get("cells", ())), mark),
    }


def _ends(known: WindowSpec, cells: tuple[int, int] | None, mark: int | None) -> StateReport | None:
    """Return the oldest and the newest window in the state, where windows have numbers."""
    windows = known.windows
    if isinstance(windows, Sessions) or cells is None:
        return None
    if known.axis == "rows" and known.offset is None:
        return None
    low, high = windows.first_window(cells[0]), windows.last_window(cells[1])
    if mark is not None and known.axis == "time":
        low = max(low, windows.ended(mark - known.firing.retention) + 1)
    if low > high:
        return None
    both = {"oldest": low, "newest": high}
    return {
        name: [format_position(place, known.axis) for place in (windows.start(n), windows.end(n))]
        for name, n in both.items()
    }


def _of_join(opened: StateSnapshot, spec: JoinSpec, sizes: Sizes) -> StateReport:
    marks = OpenJoin(opened, spec).watermarks
    watermarks = {side: None if mark is None else str(mark) for side, mark in marks.items()}
    tables = list_tables(
        runs_by_table(opened), sizes, lambda _, place: format_position(place, spec.axis)
    )
    return {"kind": "join", "spec": spec.words(), "watermark": watermarks, "tables": tables}


def _window_rows(opened: StateSnapshot, spec: WindowSpec, key: Sequence[str]) -> list[StateReport]:
    # Leave out aggregates, which aren't reported and may need functions of the user.
    asked = key_state.parse_key(spec.keys, spec.types, key)
    if spec.axis == "rows":
        # Partitions have no common watermark, so windows have no stage.
        return plain_rows(OpenWindows(opened, spec).fetch(asked.row(0)))
    return plain_rows(OpenWindows(opened, replace(spec, aggregates={})).windows(asked.row(0)))


def _join_rows(opened: StateSnapshot, spec: JoinSpec, key: Sequence[str]) -> list[StateReport]:
    state, rows = OpenJoin(opened, spec), []
    for side in SIDES:
        own = spec.side(side)
        messages = state.fetch(side, key_state.parse_key(own.keys, own.types, key).row(0))
        rows += [{"side": side, **row} for row in plain_rows(messages)]
    return rows


def plain_rows(rows: pl.DataFrame) -> list[StateReport]:
    """Return the last rows as text and numbers, including times beyond Python's range."""
    plain = (bool, int, float, str, type(None))
    rows = rows.tail(_ROWS)
    columns = [to_plain_values(column, moment) for column in rows.to_arrow().columns]
    return [
        {
            name: value if isinstance(value, plain) else str(value)
            for name, value in zip(rows.columns, row, strict=True)
        }
        for row in zip(*columns, strict=True)
    ]
