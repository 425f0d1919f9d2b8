"""The notation of the transcripts of joins; rows, times and policies as in ``notation``.

A case has a ``name``, a ``spec`` and ``steps``, and ``wrong: true`` if its expectations are false.
The spec has:

- ``on`` (default ``key``): the columns that must be equal; ``id=order`` if the names differ;
- ``how`` (default ``inner``), ``layout``, ``nulls``;
- ``within``: ``10 s`` or ``3 rows`` either way, ``2 minutes before`` or ``5 s before, 2 s after``
  or ``-5 s before, 9 s after``: the position of the right message relative to the left one; without
  it, the windows of the sides bound a pair;
- ``as_of``: ``true``, or the greatest age of a version: ``5 s``; ``shared_time``: ``true``;
- ``each_change``: ``true``; messages then have the columns ``emission`` and ``revision``;
- ``left`` and ``right``, or ``both``: the options of a side: ``columns`` (default ``key:string
  time value:long``), ``windows``, ``lateness``, ``ahead``, ``idle``, ``grace``, ``keep``, ``rows``
  (the number of retained rows), ``early``, ``late``, ``offset``, ``time`` (its column, or
  ``none``).

A step has the ``wall`` clock, messages of the ``left`` and the ``right`` side (``both``: the same
messages on both), ``final`` if the input ends, and the expected output, in any order: ``expect``,
``rejected``, and, optionally, ``watermarks`` (left and right).

- A row of ``expect`` is the cells of the left side, those of the right side without its keys, and
  the emission: ``a 3 5 4 7 early``. ``-`` is a null. Semi and anti joins emit only the left side;
  with ``each_change`` the revision precedes the emission.
- A rejected message is its side, its cells, the reason and the side's watermark:
  ``left a 3 5 late 20``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.join_runners import Columns, JoinBatch
from tests.transcripts.notation import (
    LOADER,
    check_keys,
    read_cell,
    read_columns,
    read_extent,
    read_length,
    read_message,
    read_policy,
    read_time,
    read_windows,
)

from muntin.model.axis import Length, parse_duration
from muntin.model.bounds import Newest, SideName, find_bound
from muntin.model.joins import SIDES, JoinSpec, Side, set_default_policies
from muntin.model.policies import Firing

_DEFAULT_COLUMNS = "key:string time value:long"
_SPEC_KEYS = {
    "on",
    "how",
    "layout",
    "nulls",
    "within",
    "as_of",
    "newest",
    "each_change",
    "shared_time",
    "left",
    "right",
    "both",
}
_SIDE_KEYS = {"columns", "windows", "lateness", "ahead", "idle", "grace", "keep", "rows"}
_SIDE_KEYS |= {"early", "late", "offset", "time"}
_STEP_KEYS = {
    "backlog",
    "wall",
    "left",
    "right",
    "both",
    "final",
    "expect",
    "rejected",
    "watermarks",
}


@dataclass(frozen=True)
class JoinExpected:
    """The expected output of a step; ``...`` stands for unspecified watermarks."""

    rows: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    watermarks: Any


@dataclass(frozen=True)
class JoinCase:
    """One transcript of a join."""

    name: str
    spec: JoinSpec
    types: Columns
    steps: list[JoinBatch]
    expected: list[JoinExpected]
    wrong: bool


def read_joins(folder: Path) -> list[JoinCase]:
    """Read all cases of a folder, file by file."""
    files = sorted(folder.glob("*.yaml"))
    return [_read_case(item) for path in files for item in yaml.load(path.read_text(), LOADER)]


def _read_case(item: dict[str, Any]) -> JoinCase:
    check_keys(item, {"name", "spec", "steps", "wrong"})
    check_keys(item["spec"], _SPEC_KEYS)
    sides = {side: _merge_side(item["spec"], side) for side in SIDES}
    columns = {side: read_columns(sides[side].get("columns", _DEFAULT_COLUMNS)) for side in SIDES}
    spec = _read_spec(item["spec"], sides)
    types = {
        side: {n: "long" if kind == "timestamp" else kind for n, kind in columns[side].items()}
        for side in SIDES
    }
    output_columns = dict(_list_output_columns(spec, columns))
    for step in item["steps"]:
        check_keys(step, _STEP_KEYS)
    return JoinCase(
        item["name"],
        spec,
        types,
        [_read_step(step, columns) for step in item["steps"]],
        [_read_expected(step, columns, output_columns) for step in item["steps"]],
        item.get("wrong") == "true",
    )


def _merge_side(item: dict[str, Any], side: SideName) -> dict[str, str]:
    options = {**item.get("both", {}), **item.get(side, {})}
    check_keys(options, _SIDE_KEYS)
    return options


def _read_spec(item: dict[str, Any], sides: dict[str, dict[str, str]]) -> JoinSpec:
    on = [(*name.split("="), name)[:2] for name in item.get("on", "key").split()]
    windows = [
        read_windows(sides[side]["windows"]) if "windows" in sides[side] else None for side in SIDES
    ]
    left, right = (
        _read_side(sides[side], tuple(pair[number] for pair in on), windows[number])
        for number, side in enumerate(SIDES)
    )
    within = _read_within(item["within"]) if "within" in item else None
    as_of_text = item.get("as_of", "false")
    as_of = as_of_text == "true" if as_of_text in ("true", "false") else read_length(as_of_text)
    each_change = item.get("each_change") == "true"
    newest = item.get("newest") == "true"
    bound = find_bound(  # type: ignore[arg-type]
        within, windows[0], windows[1], as_of=as_of, newest=newest, each_change=each_change
    )
    nulls = item.get("nulls", "reject")
    how, shared_time = item.get("how", "inner"), item.get("shared_time") == "true"
    layout = item.get("layout")
    return JoinSpec(left, right, bound, how, layout, nulls=nulls, shared_time=shared_time)


def _read_within(text: str) -> Length | tuple[Length | int, Length | int]:
    if "before" not in text and "after" not in text:
        return read_length(text)
    lengths: dict[str, Length | int] = {"before": 0, "after": 0}
    for part in text.split(", "):
        length, _, direction = part.rpartition(" ")
        lengths[direction] = read_length(length)
    return lengths["before"], lengths["after"]


def _read_side(options: dict[str, str], keys: tuple[str, ...], windows: Any) -> Side:
    grace = options.get("grace", "0 s")
    firing = Firing(
        early=read_policy(options.get("early", "each")),
        late=read_policy(options.get("late", "each")),
        grace=read_extent("grace", grace),
        retention=read_extent("keep", options.get("keep", grace)),
        rows=int(options["rows"]) if "rows" in options else None,
    )
    offset = options.get("offset", "").split()
    return Side(
        keys,
        None if options.get("time") == "none" else options.get("time", "time"),
        windows,
        firing=set_default_policies(firing),
        lateness=parse_duration("lateness", options.get("lateness", "0 s")),
        max_ahead=parse_duration("ahead", options["ahead"]) if "ahead" in options else None,
        idle=parse_duration("idle", options["idle"]) if "idle" in options else None,
        offset=(offset[0], offset[1]) if offset else None,
    )


def _list_output_columns(
    spec: JoinSpec, columns: dict[str, dict[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield the columns of results, with their types."""
    revision_columns = ("emission", "revision") if isinstance(spec.bound, Newest) else ()
    yield from (
        (name, kind) for name, kind in columns["left"].items() if name not in revision_columns
    )
    if spec.how not in ("semi", "anti"):
        for name, kind in columns["right"].items():
            if name not in (*spec.right.keys, *revision_columns):
                yield (f"{name}_right" if name in columns["left"] else name), kind
    if revision_columns:
        yield "revision", "long"


def _read_step(step: dict[str, Any], columns: dict[str, dict[str, str]]) -> JoinBatch:
    messages = {
        side: [
            read_message(row, columns[side]) for row in [*step.get(side, []), *step.get("both", [])]
        ]
        for side in SIDES
    }
    final = step.get("final") == "true"
    # A side with a plus has more messages than the step reads; without a plus, it has none.
    backlog = {name.rstrip("+"): name.endswith("+") for name in step.get("backlog", "").split()}
    wall = read_time(step["wall"])
    return JoinBatch(messages["left"], messages["right"], wall, final, backlog)


def _read_expected(
    step: dict[str, Any], columns: dict[str, dict[str, str]], output_columns: dict[str, str]
) -> JoinExpected:
    watermarks: Any = ...
    if "watermarks" in step:
        watermarks = dict(zip(SIDES, map(read_time, step["watermarks"].split()), strict=True))
    return JoinExpected(
        [_read_row(row, output_columns) for row in step.get("expect", [])],
        [_read_rejected(row, columns) for row in step.get("rejected", [])],
        watermarks,
    )


def _read_row(row: str, output_columns: dict[str, str]) -> dict[str, Any]:
    *cells, emission = row.split()
    cells_with_columns = zip(cells, output_columns.items(), strict=True)
    values = {
        n: None if cell == "-" else read_cell(cell, kind) for cell, (n, kind) in cells_with_columns
    }
    return {**values, "emission": emission}


def _read_rejected(row: str, columns: dict[str, dict[str, str]]) -> dict[str, Any]:
    side, *cells, reason, watermark = row.split()
    message = read_message(" ".join(cells), columns[side])
    return {"side": side, **message, "reason": reason, "watermark": read_time(watermark)}
