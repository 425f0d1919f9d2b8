"""Reports on the contents of a checkpoint, for ``muntin inspect``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from pyspark.sql import SparkSession

from muntin.engine import key_state
from muntin.model.axis import MIN_POSITION, located, moment
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import WindowSpec
from muntin.sinks.plain import to_plain_values
from muntin.spark.host.checkpoint import Checkpoint, spec_of
from muntin.spark.inspect.joins import OpenJoin
from muntin.spark.inspect.tables import OpenTable, one_table
from muntin.spark.inspect.windows import OpenWindows
from muntin.state.manifest import Run
from muntin.tables.spec import list_facts

Report = dict[str, Any]
"""Plain JSON."""
Runs = dict[str, list[tuple[int, Run]]]
Sizes = Mapping[int, Mapping[int, int]]
_ROWS = 100


def inspect(
    spark: SparkSession,
    checkpoint: str,
    *,
    batch: int | None = None,
    key: Sequence[str] = (),
    table: str | None = None,
    operator: int = 0,
) -> Report:
    r"""Look at a checkpoint as one committed batch left it; its query may be running.

    Args:
        spark: The session.
        checkpoint: The folder of the query.
        batch: The number of a batch; the newest one where it isn't given.
        key: A key's values as text, in the order of its columns, to see what is kept of it;
            ``\N`` is NULL.
        table: Of which table, where agents keep several.
        operator: Which operator of a chain, counted from the last one.

    Returns:
        ``checkpoint``, ``batch``, ``kept`` (the oldest and newest batch that can be read),
        ``kind`` (``windows``, ``join``, ``tables`` or ``windowing``), ``spec`` (facts by name),
        ``watermark``,
        ``counts``, ``tables`` (of each: rows, runs, bytes and the oldest and newest place),
        ``buckets`` (rows and bytes of each), and where a key was given its rows under ``key``.

    Raises:
        OptionError: When the checkpoint or the key can't be what is asked for.
    """
    return report_of(Checkpoint(spark, checkpoint, batch, operator), key, table)


def report_of(opened: Checkpoint, key: Sequence[str] = (), table: str | None = None) -> Report:
    """Return the report on an open checkpoint; see ``inspect`` for its contents."""
    sizes = opened.sizes()
    report: Report = {
        "checkpoint": opened.given,
        "batch": opened.batch,
        "kept": [opened.oldest, opened.newest],
        "counts": opened.counts,
    }
    if opened.first.kind == "tables":
        report |= _of_tables(opened, sizes)
        rows = _table_rows(opened, table, key) if key else None
    elif opened.first.kind == "windowing":
        report |= _of_windowing(opened, sizes)
        if key:
            hint = "its page and its report show what it holds"
            raise OptionError("--key", ", ".join(key), "names no tuple", hint)
        rows = None
    else:
        spec = spec_of(opened)
        if isinstance(spec, JoinSpec):
            report |= _of_join(opened, spec, sizes)
            rows = _join_rows(opened, spec, key) if key else None
        else:
            report |= _of_windows(opened, spec, sizes)
            rows = _window_rows(opened, spec, key) if key else None
    report["buckets"] = [
        {"slot": slot, "bytes": sum(mine.values()), "blobs": len(mine)}
        for slot, mine in sorted(sizes.items())
    ]
    return report if rows is None else report | {"key": rows}


def _runs(opened: Checkpoint) -> Runs:
    """The runs of each table over all shards, with the slots of these."""
    found: Runs = {}
    for slot, manifest in opened.read.items():
        for one in manifest.each():
            for name, runs in one.tables.items():
                found.setdefault(name, []).extend((slot, run) for run in runs)
    return found


def _places(runs: Sequence[tuple[int, Run]]) -> tuple[int, int] | None:
    """The oldest and the newest place in some runs, if there are any."""
    if not runs:
        return None
    return min(run.low for _, run in runs), max(run.high for _, run in runs)


def _listed(tables: Runs, sizes: Sizes, word: Callable[[str, int], str | None]) -> list[Report]:
    report = []
    for name, runs in tables.items():
        held = (sizes.get(slot, {}).get(blob, 0) for slot, run in runs for blob in run.blobs)
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


def _of_windows(opened: Checkpoint, known: WindowSpec, sizes: Sizes) -> Report:
    tables, windows = _runs(opened), known.windows

    def word(name: str, place: int) -> str:
        # Of sliding windows each place is a pane of its own.
        if not isinstance(windows, Sessions | Sliding) and name == "cells":
            place = windows.pane_start(place)
        elif not isinstance(windows, Sessions) and name != "cells":
            place = windows.start(place)
        return located(place, known.axis)

    marks = [m.watermark for m in opened.read.values() if m.watermark is not None]
    return {
        "kind": "windows",
        "spec": known.words(),
        "watermark": moment(max(marks)) if marks else None,
        "tables": _listed(tables, sizes, word),
        "windows": _ends(known, _places(tables.get("cells", ())), max(marks, default=None)),
    }


def _ends(known: WindowSpec, cells: tuple[int, int] | None, mark: int | None) -> Report | None:
    """The oldest and the newest window that is kept, where windows have numbers."""
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
        name: [located(place, known.axis) for place in (windows.start(n), windows.end(n))]
        for name, n in both.items()
    }


def _of_join(opened: Checkpoint, spec: JoinSpec, sizes: Sizes) -> Report:
    marks = OpenJoin(opened, spec).watermarks
    watermarks = {side: None if mark is None else str(mark) for side, mark in marks.items()}
    tables = _listed(_runs(opened), sizes, lambda _, place: located(place, spec.axis))
    return {"kind": "join", "spec": spec.words(), "watermark": watermarks, "tables": tables}


def _of_tables(opened: Checkpoint, sizes: Sizes) -> Report:
    spec = opened.first.spec
    kept = [manifest.extra["tables"] for manifest in opened.read.values()]
    marks = {name: max(one[name]["watermark"] for one in kept) for name in spec}
    return {
        "kind": "tables",
        "spec": {name: _words(table) for name, table in spec.items()},
        "watermark": {
            n: None if mark == MIN_POSITION else moment(mark) for n, mark in marks.items()
        },
        "tables": _listed(_runs(opened), sizes, lambda *_: None),
    }


def _of_windowing(opened: Checkpoint, sizes: Sizes) -> Report:
    kept = [one.extra for one in opened.read.values()]
    clocks = [one["clock"] for one in kept if one["clock"] is not None]
    return {
        "kind": "windowing",
        "spec": {name: str(value) for name, value in opened.first.spec.items()},
        "watermark": moment(1000 * max(clocks)) if clocks else None,
        "tables": _listed(_runs(opened), sizes, lambda _, place: moment(1000 * place)),
    }


def _words(table: Mapping[str, Any]) -> str:
    return ", ".join(one.words for one in list_facts(table).values())


def _window_rows(opened: Checkpoint, spec: WindowSpec, key: Sequence[str]) -> list[Report]:
    # What is computed doesn't matter here, and may need a function that isn't at hand.
    asked = key_state.key_from_text(spec.keys, spec.types, key)
    if spec.axis == "rows":
        # Partitions have no watermark in common, so that windows have no stage.
        return _plain_rows(OpenWindows(opened, spec).fetch(asked.row(0)).tail(_ROWS))
    found = OpenWindows(opened, replace(spec, aggregates={})).windows(asked.row(0))
    return _plain_rows(found.tail(_ROWS))


def _join_rows(opened: Checkpoint, spec: JoinSpec, key: Sequence[str]) -> list[Report]:
    state, rows = OpenJoin(opened, spec), []
    for side in SIDES:
        known = spec.side(side)
        found = state.fetch(side, key_state.key_from_text(known.keys, known.types, key).row(0))
        rows += [{"side": side, **row} for row in _plain_rows(found.tail(_ROWS))]
    return rows


def _table_rows(opened: Checkpoint, table: str | None, key: Sequence[str]) -> list[Report]:
    held = OpenTable(opened, one_table(opened, key, table), None, None)
    return _plain_rows(held.framed(held.of_text(key)[1]).tail(_ROWS))


def _plain_rows(rows: pl.DataFrame) -> list[Report]:
    """Rows as text and numbers, whatever their times are."""
    plain = (bool, int, float, str, type(None))
    columns = [to_plain_values(column, moment) for column in rows.to_arrow().columns]
    return [
        {
            name: value if isinstance(value, plain) else str(value)
            for name, value in zip(rows.columns, row, strict=True)
        }
        for row in zip(*columns, strict=True)
    ]
