"""The notation of the transcripts of joins; rows, times and policies as in ``notation``.

A case has a ``name``, a ``spec`` and ``steps``, and ``wrong: true`` where it states something that
is not so. The spec holds:

- ``on`` (default ``key``): the columns that must be equal; ``id=order`` where the names differ;
- ``how`` (default ``inner``), ``layout``, ``nulls``;
- ``within``: ``10 s`` or ``3 rows`` either way, ``2 minutes before`` or ``5 s before, 2 s after``
  or ``-5 s before, 9 s after``:
  where the right message may lie, seen from the left one; without it the windows of the sides
  bound a pair;
- ``as_of``: ``true``, or how old a version may be: ``5 s``; ``shared_time``: ``true``;
- ``each_change``: ``true``; messages have the columns ``emission`` and ``revision`` then;
- ``left`` and ``right``, or ``both``: what is said of a side: ``columns`` (default ``key:string
  time value:long``), ``windows``, ``lateness``, ``ahead``, ``idle``, ``grace``, ``keep``, ``rows``
  (how many are kept), ``early``, ``late``, ``offset``, ``time`` (its column, or ``none``).

A step has the ``wall`` clock, messages of the ``left`` and the ``right`` side (``both``: the same
messages on both), ``final`` where the input ends, and what must come of it, in any order:
``expect``, ``rejected``, and ``watermarks`` (left and right) where they are said.

- A row of ``expect`` is the cells of the left side, those of the right side but its keys, and the
  emission: ``a 3 5 4 7 early``. ``-`` is a null. Semi and anti
  joins emit the left side only; with ``each_change`` the revision is before the emission.
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
    only_known,
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

_EITHER = "key:string time value:long"
_OF_A_SPEC = {
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
_OF_A_SIDE = {"columns", "windows", "lateness", "ahead", "idle", "grace", "keep", "rows"}
_OF_A_SIDE |= {"early", "late", "offset", "time"}
_OF_A_STEP = {
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
    """What a step must give; the watermarks are ``...`` where the transcript doesn't say."""

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
    """All cases of a folder, file by file."""
    files = sorted(folder.glob("*.yaml"))
    return [_case(item) for path in files for item in yaml.load(path.read_text(), LOADER)]


def _case(item: dict[str, Any]) -> JoinCase:
    only_known(item, {"name", "spec", "steps", "wrong"})
    only_known(item["spec"], _OF_A_SPEC)
    sides = {side: _of_side(item["spec"], side) for side in SIDES}
    columns = {side: read_columns(sides[side].get("columns", _EITHER)) for side in SIDES}
    spec = _spec(item["spec"], sides)
    types = {
        side: {n: "long" if kind == "timestamp" else kind for n, kind in columns[side].items()}
        for side in SIDES
    }
    out = dict(_outputs(spec, columns))
    for step in item["steps"]:
        only_known(step, _OF_A_STEP)
    return JoinCase(
        item["name"],
        spec,
        types,
        [_step(step, columns) for step in item["steps"]],
        [_expected(step, columns, out) for step in item["steps"]],
        item.get("wrong") == "true",
    )


def _of_side(item: dict[str, Any], side: SideName) -> dict[str, str]:
    said = {**item.get("both", {}), **item.get(side, {})}
    only_known(said, _OF_A_SIDE)
    return said


def _spec(item: dict[str, Any], sides: dict[str, dict[str, str]]) -> JoinSpec:
    on = [(*name.split("="), name)[:2] for name in item.get("on", "key").split()]
    windows = [
        read_windows(sides[side]["windows"]) if "windows" in sides[side] else None for side in SIDES
    ]
    left, right = (
        _side(sides[side], tuple(pair[number] for pair in on), windows[number])
        for number, side in enumerate(SIDES)
    )
    within = _within(item["within"]) if "within" in item else None
    said = item.get("as_of", "false")
    as_of = said == "true" if said in ("true", "false") else read_length(said)
    each_change = item.get("each_change") == "true"
    newest = item.get("newest") == "true"
    bound = find_bound(  # type: ignore[arg-type]
        within, windows[0], windows[1], as_of=as_of, newest=newest, each_change=each_change
    )
    nulls = item.get("nulls", "reject")
    how, shared = item.get("how", "inner"), item.get("shared_time") == "true"
    layout = item.get("layout")
    return JoinSpec(left, right, bound, how, layout, nulls=nulls, shared_time=shared)


def _within(text: str) -> Length | tuple[Length | int, Length | int]:
    if "before" not in text and "after" not in text:
        return read_length(text)
    found: dict[str, Length | int] = {"before": 0, "after": 0}
    for part in text.split(", "):
        length, _, way = part.rpartition(" ")
        found[way] = read_length(length)
    return found["before"], found["after"]


def _side(said: dict[str, str], keys: tuple[str, ...], windows: Any) -> Side:
    grace = said.get("grace", "0 s")
    firing = Firing(
        early=read_policy(said.get("early", "each")),
        late=read_policy(said.get("late", "each")),
        grace=read_extent("grace", grace),
        retention=read_extent("keep", said.get("keep", grace)),
        rows=int(said["rows"]) if "rows" in said else None,
    )
    offset = said.get("offset", "").split()
    return Side(
        keys,
        None if said.get("time") == "none" else said.get("time", "time"),
        windows,
        firing=set_default_policies(firing),
        lateness=parse_duration("lateness", said.get("lateness", "0 s")),
        max_ahead=parse_duration("ahead", said["ahead"]) if "ahead" in said else None,
        idle=parse_duration("idle", said["idle"]) if "idle" in said else None,
        offset=(offset[0], offset[1]) if offset else None,
    )


def _outputs(spec: JoinSpec, columns: dict[str, dict[str, str]]) -> Iterator[tuple[str, str]]:
    """The columns of results, with the kind of their cells."""
    own = ("emission", "revision") if isinstance(spec.bound, Newest) else ()
    yield from ((name, kind) for name, kind in columns["left"].items() if name not in own)
    if spec.how not in ("semi", "anti"):
        for name, kind in columns["right"].items():
            if name not in (*spec.right.keys, *own):
                yield (f"{name}_right" if name in columns["left"] else name), kind
    if own:
        yield "revision", "long"


def _step(step: dict[str, Any], columns: dict[str, dict[str, str]]) -> JoinBatch:
    messages = {
        side: [
            read_message(row, columns[side]) for row in [*step.get(side, []), *step.get("both", [])]
        ]
        for side in SIDES
    }
    final = step.get("final") == "true"
    # A side with a plus has more messages than the step reads; one without is read to its end.
    backlog = {s.rstrip("+"): s.endswith("+") for s in step.get("backlog", "").split()}
    wall = read_time(step["wall"])
    return JoinBatch(messages["left"], messages["right"], wall, final, backlog)


def _expected(
    step: dict[str, Any], columns: dict[str, dict[str, str]], out: dict[str, str]
) -> JoinExpected:
    marks: Any = ...
    if "watermarks" in step:
        marks = dict(zip(SIDES, map(read_time, step["watermarks"].split()), strict=True))
    return JoinExpected(
        [_row(row, out) for row in step.get("expect", [])],
        [_rejected(row, columns) for row in step.get("rejected", [])],
        marks,
    )


def _row(row: str, out: dict[str, str]) -> dict[str, Any]:
    *cells, emission = row.split()
    named = zip(cells, out.items(), strict=True)
    emitted = {n: None if cell == "-" else read_cell(cell, kind) for cell, (n, kind) in named}
    return {**emitted, "emission": emission}


def _rejected(row: str, columns: dict[str, dict[str, str]]) -> dict[str, Any]:
    side, *cells, reason, watermark = row.split()
    message = read_message(" ".join(cells), columns[side])
    return {"side": side, **message, "reason": reason, "watermark": read_time(watermark)}
