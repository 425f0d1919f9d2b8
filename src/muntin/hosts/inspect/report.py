"""Reports on the contents of a checkpoint, for `muntin inspect`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from muntin.engine import key_state
from muntin.engine.clocks import InputClocks
from muntin.hosts.inspect.joins import OpenJoin
from muntin.hosts.inspect.opening import read_spec, refuse_table
from muntin.hosts.inspect.snapshot import StateSnapshot
from muntin.hosts.inspect.windows import OpenWindows
from muntin.model.axis import format_position, format_time
from muntin.model.joins import SIDES, JoinSpec
from muntin.model.kinds import Uniform
from muntin.model.spec import WindowSpec
from muntin.sinks.plain import list_plain_rows
from muntin.state.manifest import Run

StateReport = dict[str, Any]
"""Plain JSON."""
RunsByTable = dict[str, list[tuple[int, Run]]]
Sizes = Mapping[int, Mapping[int, int]]
_ROWS = 100


def report_state(
    snapshot: StateSnapshot, key: Sequence[str] = (), table: str | None = None
) -> StateReport:
    r"""Report the contents of a checkpoint of windows or of a join; its query may be running.

    Args:
        snapshot: The state after one committed batch.
        key: A key's values as text, in the order of its columns, to include its rows; `\N` is
            NULL.
        table: The name of a table; refused, since windows and joins have none.

    Returns:
        `checkpoint`, `batch`, `kept` (the oldest and newest batch that can be read), `kind`
        (`windows`, `join` or `tables`), `spec` (facts by name), `watermark`, `counts`,
        `tables` (rows, runs, bytes, and the oldest and newest position of each), `shards` (bytes
        and blobs of each shard), and, if a key was given, its rows under `key`.

    Raises:
        OptionError: When the checkpoint or the key isn't valid.
    """
    spec = read_spec(snapshot)
    refuse_table(snapshot, table)
    sizes = snapshot.measure_blobs()
    if isinstance(spec, JoinSpec):
        facts = _describe_join(snapshot, spec, sizes)
        rows = _list_join_rows(snapshot, spec, key) if key else None
    else:
        facts = _describe_windows(snapshot, spec, sizes)
        rows = _list_window_rows(snapshot, spec, key) if key else None
    return assemble_report(snapshot, facts, sizes, rows)


def assemble_report(
    snapshot: StateSnapshot, facts: StateReport, sizes: Sizes, rows: list[StateReport] | None
) -> StateReport:
    """Return a report of the facts of every kind of state, with the kind's own facts and rows."""
    report: StateReport = {
        "checkpoint": snapshot.folder,
        "batch": snapshot.batch,
        "kept": [snapshot.oldest, snapshot.newest],
        "counts": snapshot.counts,
        **facts,
        "shards": [
            {"shard": shard, "bytes": sum(sizes[slot].values()), "blobs": len(sizes[slot])}
            for shard, slot in enumerate(snapshot.number_shards(len(snapshot.manifest_by_shard)))
        ],
    }
    return report if rows is None else report | {"key": rows}


def collect_runs(snapshot: StateSnapshot) -> RunsByTable:
    """Return the runs of each table over all shards, each with the number of its shard."""
    tables: RunsByTable = {}
    for shard, manifest in snapshot.manifest_by_shard.items():
        for part in manifest.each():
            for name, runs in part.tables.items():
                tables.setdefault(name, []).extend((shard, run) for run in runs)
    return tables


def _find_bounds(runs: Sequence[tuple[int, Run]]) -> tuple[int, int] | None:
    """Return the oldest and the newest position in some runs, if there are any."""
    if not runs:
        return None
    return min(run.low for _, run in runs), max(run.high for _, run in runs)


def list_tables(
    tables: RunsByTable, sizes: Sizes, format_bound: Callable[[str, int], str | None]
) -> list[StateReport]:
    """Return the rows, runs, bytes and bounds of each table of the state."""
    report = []
    for name, runs in tables.items():
        blob_sizes = (
            sizes.get(shard, {}).get(blob, 0) for shard, run in runs for blob in run.blobs
        )
        bounds = _find_bounds(runs)
        oldest, newest = (
            [format_bound(name, position) for position in bounds] if bounds else (None, None)
        )
        report.append(
            {
                "table": name,
                "rows": sum(run.rows for _, run in runs),
                "runs": len(runs),
                "bytes": sum(blob_sizes),
                "oldest": oldest,
                "newest": newest,
            }
        )
    return report


def _collect_positions(snapshot: StateSnapshot, spec: WindowSpec) -> RunsByTable:
    """Return the runs of each table, with positions on the axis in place of numbers of windows."""
    tables: RunsByTable = {}
    for shard, manifest in snapshot.manifest_by_shard.items():
        for zone, part in manifest.by_part().items():
            windows = spec.in_zone(zone).uniform_windows
            for name, runs in part.tables.items():
                placed = ((shard, _place_run(run, name, windows)) for run in runs)
                tables.setdefault(name, []).extend(placed)
    return tables


def _place_run(run: Run, table: str, windows: Uniform) -> Run:
    """Return a run with positions as its bounds."""
    if not windows.is_numbered:
        return run
    start = windows.pane_start if table == "cells" else windows.start
    return run._replace(low=start(run.low), high=start(run.high))


def _describe_windows(snapshot: StateSnapshot, spec: WindowSpec, sizes: Sizes) -> StateReport:
    tables = _collect_positions(snapshot, spec)

    def format_bound(_: str, position: int) -> str:
        return format_position(position, spec.axis)

    watermark = snapshot.watermark
    clocks = InputClocks(snapshot.any_manifest.extra.get("clocks", {}).get("", {}))
    return {
        "kind": "windows",
        "spec": spec.words(),
        "watermark": None if watermark is None else format_time(watermark),
        "clocks": {name: format_time(time) for name, time in clocks.slowest().items()},
        "held by": clocks.holder(spec.idle, snapshot.any_manifest.wall or 0),
        "tables": list_tables(tables, sizes, format_bound),
        "windows": _describe_bounds(snapshot, spec, watermark),
    }


def _describe_bounds(
    snapshot: StateSnapshot, spec: WindowSpec, watermark: int | None
) -> StateReport | None:
    """Return the oldest and the newest window in the state, where windows have numbers."""
    if not spec.windows.is_numbered or spec.by_arrival:
        return None
    by_zone: dict[Any, list[tuple[int, Run]]] = {}
    for shard, manifest in snapshot.manifest_by_shard.items():
        for part, tables in manifest.by_part().items():
            zone = part if spec.zone_column is not None else None
            runs = tables.tables.get("cells", ())
            by_zone.setdefault(zone, []).extend((shard, run) for run in runs)
    bounds = [
        one
        for zone, runs in by_zone.items()
        if (one := _find_window_bounds(spec.in_zone(zone), _find_bounds(runs), watermark))
    ]
    if not bounds:
        return None
    both = {"oldest": min(bounds)[0], "newest": max(newest for _, newest in bounds)}
    return {
        name: [format_position(position, spec.axis) for position in window]
        for name, window in both.items()
    }


def _find_window_bounds(
    spec: WindowSpec, cells: tuple[int, int] | None, watermark: int | None
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return start and end of the oldest and of the newest window of some panes."""
    windows = spec.uniform_windows
    if cells is None or not windows.is_numbered:
        return None
    low, high = windows.first_window(cells[0]), windows.last_window(cells[1])
    if watermark is not None and spec.axis == "time":
        low = max(low, windows.last_ended(watermark - spec.firing.retention) + 1)
    if low > high:
        return None
    return (windows.start(low), windows.end(low)), (windows.start(high), windows.end(high))


def _describe_join(snapshot: StateSnapshot, spec: JoinSpec, sizes: Sizes) -> StateReport:
    sides = OpenJoin(snapshot, spec).watermarks
    watermarks = {
        side: None if watermark is None else str(watermark) for side, watermark in sides.items()
    }
    tables = list_tables(
        collect_runs(snapshot), sizes, lambda _, position: format_position(position, spec.axis)
    )
    return {"kind": "join", "spec": spec.words(), "watermark": watermarks, "tables": tables}


def _list_window_rows(
    snapshot: StateSnapshot, spec: WindowSpec, key: Sequence[str]
) -> list[StateReport]:
    # Leave out aggregates, which aren't reported and may need functions of the user.
    key_row = key_state.parse_key(spec.state_keys, spec.types, key)
    if spec.axis == "rows":
        # Partitions have no common watermark, so windows have no stage.
        return to_plain_rows(OpenWindows(snapshot, spec).fetch(key_row.row(0)))
    return to_plain_rows(
        OpenWindows(snapshot, replace(spec, aggregates={})).windows(key_row.row(0))
    )


def _list_join_rows(
    snapshot: StateSnapshot, spec: JoinSpec, key: Sequence[str]
) -> list[StateReport]:
    state, rows = OpenJoin(snapshot, spec), []
    for side in SIDES:
        side_spec = spec.side(side)
        messages = state.fetch(
            side, key_state.parse_key(side_spec.keys, side_spec.types, key).row(0)
        )
        rows += [{"side": side, **row} for row in to_plain_rows(messages)]
    return rows


def to_plain_rows(rows: pl.DataFrame) -> list[StateReport]:
    """Return the last rows as text and numbers, including times beyond Python's range."""
    plain = (bool, int, float, str, type(None))
    return list_plain_rows(
        rows.tail(_ROWS).to_arrow(),
        convert=lambda value: value if isinstance(value, plain) else str(value),
    )
