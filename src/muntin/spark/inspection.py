"""What a checkpoint holds, for people: ``muntin inspect``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from muntin.engine import witness
from muntin.engine.state import manifests
from muntin.model.axis import moment
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import WindowSpec
from muntin.spark.checkpoint import Checkpoint, spec_of
from muntin.spark.opened import OpenWindows
from muntin.spark.opened_join import OpenJoin
from muntin.spark.opened_table import OpenTable
from muntin.tables.moments import BEGINNING
from muntin.tables.spec import facts

Report = dict[str, Any]
"""Plain JSON."""
_ROWS = 100


def inspect(
    spark: SparkSession,
    checkpoint: str,
    *,
    batch: int | None = None,
    key: Sequence[str] = (),
    table: str | None = None,
) -> Report:
    """Look at a checkpoint as one committed batch left it; its query may be running.

    Args:
        spark: The session.
        checkpoint: The folder of the query.
        batch: The number of a batch; the newest one where it isn't given.
        key: A key's values as text, in the order of its columns, to see what is kept of it.
        table: Of which table, where agents keep several.

    Returns:
        ``checkpoint``, ``batch``, ``kept`` (the oldest and newest batch that can be read),
        ``kind`` (``windows``, ``join`` or ``tables``), ``spec`` (facts by name), ``watermark``,
        ``counts``, ``tables`` (of each: rows, runs, bytes and the oldest and newest place),
        ``buckets`` (rows and bytes of each), and where a key was given its rows under ``key``.

    Raises:
        OptionError: When the checkpoint or the key can't be what is asked for.
    """
    opened = Checkpoint(spark, checkpoint, batch)
    sizes = _sizes(opened)
    report: Report = {
        "checkpoint": checkpoint,
        "batch": opened.batch,
        "kept": [opened.oldest, opened.newest],
    }
    if "marks" in next(iter(opened.read.values())):
        report |= _of_tables(opened, sizes)
        rows = _table_rows(opened, table, key) if key else None
    else:
        spec = spec_of(opened)
        if isinstance(spec, JoinSpec):
            report |= _of_join(opened, spec, sizes)
            rows = _join_rows(opened, spec, key) if key else None
        else:
            report |= _of_windows(opened, spec, sizes)
            rows = _window_rows(opened, spec, key) if key else None
    report["counts"] = opened.counts
    report["buckets"] = [
        {"slot": slot, "bytes": sum(mine.values()), "blobs": len(mine)}
        for slot, mine in sorted(sizes.items())
    ]
    return report if rows is None else report | {"key": rows}


def _sizes(opened: Checkpoint) -> dict[int, dict[int, int]]:
    """How many bytes each blob has, by slot and number."""
    found: dict[int, dict[int, int]] = {}
    size = F.length("blob").alias("size")
    for row in opened.state().select("slot", "number", size).collect():
        found.setdefault(row["slot"], {})[row["number"]] = row["size"]
    return found


class _Tally:
    """The runs of one table over all shards."""

    def __init__(self) -> None:
        self.rows = self.runs = self.bytes = 0
        self.low: int | None = None
        self.high: int | None = None

    def add(self, runs: Any, sizes: Mapping[int, int]) -> None:
        """Add a table's part of a manifest: runs, or runs by segment."""
        segments = runs.values() if isinstance(runs, dict) else [runs]
        for number, rows, *place in (run for segment in segments for run in segment):
            self.rows += rows
            self.runs += 1
            self.bytes += sizes.get(number, 0)
            if len(place) == 2:
                low, high = place
                self.low = low if self.low is None else min(low, self.low)
                self.high = high if self.high is None else max(high, self.high)


def _tallied(parts: Iterator[tuple[str, Any, Mapping[int, int]]]) -> dict[str, _Tally]:
    found: dict[str, _Tally] = {}
    for name, runs, sizes in parts:
        found.setdefault(name, _Tally()).add(runs or [], sizes)
    return found


def _listed(tallies: Mapping[str, _Tally], word: Any) -> list[Report]:
    return [
        {
            "table": name,
            "rows": tally.rows,
            "runs": tally.runs,
            "bytes": tally.bytes,
            "oldest": None if tally.low is None else word(name, tally.low),
            "newest": None if tally.high is None else word(name, tally.high),
        }
        for name, tally in tallies.items()
    ]


def _of_windows(
    opened: Checkpoint, known: WindowSpec, sizes: Mapping[int, Mapping[int, int]]
) -> Report:
    def parts() -> Iterator[tuple[str, Any, Mapping[int, int]]]:
        for slot, manifest in opened.read.items():
            for one in manifests(manifest):
                for name, runs in one["tables"].items():
                    yield name, runs, sizes.get(slot, {})

    tallies = _tallied(parts())

    def word(name: str, place: int) -> str:
        if isinstance(known.windows, Sessions):
            return _place(known, place)
        windows = known.windows
        if name != "cells" or isinstance(windows, Sliding):
            # Of sliding windows each place is a pane of its own.
            return _place(known, place if name == "cells" else windows.start(place))
        return _place(known, windows.pane_start(place))

    marks = [m["watermark"] for m in opened.read.values() if m["watermark"] is not None]
    return {
        "kind": "windows",
        "spec": known.words(),
        "watermark": moment(max(marks)) if marks else None,
        "tables": _listed(tallies, word),
        "windows": _ends(known, tallies.get("cells"), max(marks, default=None)),
    }


def _ends(known: WindowSpec, cells: _Tally | None, mark: int | None) -> Report | None:
    """The oldest and the newest window that is kept, where windows have numbers."""
    windows = known.windows
    if isinstance(windows, Sessions) or cells is None or cells.low is None or cells.high is None:
        return None
    if known.axis == "rows" and known.offset is None:
        return None
    low, high = windows.first_window(cells.low), windows.last_window(cells.high)
    if mark is not None and known.axis == "time":
        low = max(low, windows.ended(mark - known.firing.retention) + 1)
    if low > high:
        return None
    both = {"oldest": low, "newest": high}
    return {
        name: [_place(known, windows.start(number)), _place(known, windows.end(number))]
        for name, number in both.items()
    }


def _place(known: WindowSpec, place: int) -> str:
    return moment(place) if known.axis == "time" else f"row {place}"


def _of_join(opened: Checkpoint, spec: JoinSpec, sizes: Mapping[int, Mapping[int, int]]) -> Report:
    def parts() -> Iterator[tuple[str, Any, Mapping[int, int]]]:
        for slot, manifest in opened.read.items():
            for one in manifests(manifest):
                for side, tables in one["tables"].items():
                    for name in ("messages", "matched", "waiting", "held", "ends"):
                        if name in tables:
                            yield f"{side} {name}", tables[name], sizes.get(slot, {})

    marks = OpenJoin(opened, spec).watermarks
    said = {side: None if mark is None else str(mark) for side, mark in marks.items()}
    tallies = _tallied(parts())
    rows = spec.axis == "rows"
    told = _listed(tallies, lambda _, place: f"row {place}" if rows else moment(place))
    return {"kind": "join", "spec": spec.words(), "watermark": said, "tables": told}


def _of_tables(opened: Checkpoint, sizes: Mapping[int, Mapping[int, int]]) -> Report:
    def parts() -> Iterator[tuple[str, Any, Mapping[int, int]]]:
        for slot, manifest in opened.read.items():
            for name, stored in manifest["tables"].items():
                for journal, segments in stored["runs"].items():
                    runs = [run[:2] for listed in segments.values() for run in listed]
                    yield f"{name} {journal}", runs, sizes.get(slot, {})

    first = next(iter(opened.read.values()))["tables"]
    marks = {
        name: max(m["tables"][name]["watermark"] for m in opened.read.values()) for name in first
    }
    return {
        "kind": "tables",
        "spec": {name: _words(stored["spec"]) for name, stored in first.items()},
        "watermark": {n: None if mark == BEGINNING else moment(mark) for n, mark in marks.items()},
        "tables": _listed(_tallied(parts()), None),
    }


def _words(table: Mapping[str, Any]) -> str:
    return ", ".join(one.words for one in facts(table).values())


def _window_rows(opened: Checkpoint, spec: WindowSpec, key: Sequence[str]) -> list[Report]:
    # What is computed doesn't matter here, and may need a function that isn't at hand.
    asked = witness.key_of(spec, key)
    found = OpenWindows(opened, replace(spec, aggregates={})).windows(asked.row(0))
    return _said(found.tail(_ROWS).to_dicts())


def _join_rows(opened: Checkpoint, spec: JoinSpec, key: Sequence[str]) -> list[Report]:
    state, rows = OpenJoin(opened, spec), []
    for side in SIDES:
        known = spec.side(side)
        found = state.fetch(side, witness.key_from_text(known.keys, known.types, key).row(0))
        rows += [{"side": side, **row} for row in found.tail(_ROWS).to_dicts()]
    return _said(rows)


def _table_rows(opened: Checkpoint, table: str | None, key: Sequence[str]) -> list[Report]:
    known = list(next(iter(opened.read.values()))["tables"])
    if table is None and len(known) > 1:
        cure = f"say which: --table {known[0]} (or {', '.join(known[1:])})"
        raise OptionError("--key", ", ".join(key), "may be in several tables", cure)
    held = OpenTable(opened, table or known[0], None, None)
    (text,) = key if len(key) == 1 else (tuple(key),)
    forms: list[Any] = [text]
    if isinstance(text, str) and text.lstrip("-").isdigit():
        forms.append(int(text))
    for form in forms:
        rows = held.fetch(form).tail(_ROWS).to_dicts()
        if rows:
            return _said(rows)
    return []


def _said(rows: Sequence[Mapping[str, Any]]) -> list[Report]:
    plain = (bool, int, float, str, type(None))
    return [
        {name: value if isinstance(value, plain) else str(value) for name, value in row.items()}
        for row in rows
    ]
