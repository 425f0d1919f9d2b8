"""The windows that emit at the end of a step, and their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from muntin.model.aggregates import Aggregate
from muntin.model.conditions import read_condition
from muntin.model.errors import WaitingWindowsError
from muntin.model.policies import (
    After,
    Each,
    Every,
    EveryRows,
    Never,
    OnePolicy,
    RowsOrEvery,
    When,
    turn,
)
from muntin.model.spec import WindowSpec
from muntin.testing.oracle.filling import fill_values, find_corrected, is_decided
from muntin.testing.oracle.marks import Watermarks
from muntin.testing.oracle.values import exceeds_type, value
from muntin.testing.oracle.window import Key, OracleWindow, Placed

RETRACT = "retract"
EmittedWindow = tuple[OracleWindow, str]
"""A window that emits, and its emission."""


@dataclass(frozen=True)
class Ending:
    """The end of a step, when windows emit.

    Attributes:
        before: The marks in force during the step.
        after: The marks at its end.
        wall: The wall clock of the step.
        wall_before: The wall clock of the step before, if there was one.
    """

    before: Watermarks
    after: Watermarks
    wall: int
    wall_before: int | None


def firings(
    spec: WindowSpec, windows: Iterable[OracleWindow], ending: Ending
) -> list[EmittedWindow]:
    """Return the windows that emit and their emissions, in order."""
    emitted = []
    fill, windows = spec.firing.fill, list(windows)
    for window in windows:
        if fill is not None and fill.waits and not window.messages:
            is_next = window.waits and is_decided(spec, window, ending.after)
            emission = "full" if is_next else None
        else:
            emission = _emission(spec, window, ending)
        if emission is not None:
            emitted += [(window, emission), *((old, RETRACT) for old in window.replaced)]
    emitted += [(window, "early") for window in _find_crowded(spec, windows, emitted, ending)]
    if fill is not None and fill.follows and not fill.waits:
        emitted += [(window, "late") for window in find_corrected(emitted, windows)]
    return sort_firings(emitted)


def sort_firings(firings: Iterable[EmittedWindow]) -> list[EmittedWindow]:
    """Sort firings: retractions first, then windows by start, then by key, then by end."""
    return sorted(firings, key=_in_order)


def _find_crowded(
    spec: WindowSpec,
    windows: Sequence[OracleWindow],
    emitted: Sequence[EmittedWindow],
    ending: Ending,
) -> Sequence[OracleWindow]:
    """Return the oldest windows that emit since more wait than the limit allows."""
    over = spec.firing.over
    if over is None:
        return ()
    emitting = {id(window) for window, _ in emitted}
    waiting = [
        window
        for window in windows
        if window.unemitted
        and window.over > ending.after.of(window.key)
        and id(window) not in emitting
    ]
    share = ceil(over.windows / (spec.shards or 1))
    if over.stop and len(waiting) > share:
        raise WaitingWindowsError(f"over={over.windows}: {len(waiting)} windows wait")
    waiting.sort(key=lambda window: (window.end, nulls_first(window.key)))
    return waiting[: max(0, len(waiting) - share)]


def _in_order(firing: EmittedWindow) -> tuple[bool, int, Key, int]:
    window, emission = firing
    return emission != RETRACT, window.start, nulls_first(window.key), window.end


def nulls_first(key: Key) -> Key:
    """Return a key that sorts before others where it has NULL, as in Spark SQL.

    Example:
        >>> sorted([("b", 1), ("a", None), (None, 2), ("a", 1)], key=nulls_first)
        [(None, 2), ('a', None), ('a', 1), ('b', 1)]
    """
    return tuple((value is not None, value) for value in key)


def _emission(spec: WindowSpec, window: OracleWindow, ending: Ending) -> str | None:
    before, after = ending.before.of(window.key), ending.after.of(window.key)
    firing = spec.firing
    if ending.after.final and not window.messages and window.start > ending.after.latest:
        return None
    if before < window.over <= after:
        same = window.revision > 0 and not window.unemitted
        return "full" if firing.repeat or not same else None
    if not window.unemitted:
        return "late" if window.over <= before and not window.revision else None
    if window.over <= before:
        closes = window.over + firing.grace <= after
        late = turn(firing.late, "late" in window.emissions)
        return "late" if closes or _is_due(spec, late, window, ending) else None
    if firing.early is None:
        return None
    early = turn(firing.early, bool(window.emissions))
    return "early" if _is_due(spec, early, window, ending) else None


def _is_due(spec: WindowSpec, policy: OnePolicy, window: OracleWindow, ending: Ending) -> bool:
    match policy:
        case Each():
            return True
        case EveryRows(rows):
            return len(window.unemitted) >= rows
        case Every(period, least):
            last = ending.wall_before
            passed = last is not None and ending.wall // period > last // period
            return passed and len(window.unemitted) >= least
        case RowsOrEvery(rows, period):
            either = (EveryRows(rows), Every(period))
            return any(_is_due(spec, one, window, ending) for one in either)
        case After(wait, since, rows):
            if rows is not None and len(window.unemitted) >= rows:
                return True
            clocks = [one.wall for one in window.unemitted]
            age = ending.wall - (min(clocks) if since == "first" else max(clocks))
            return age >= wait and _is_due(spec, Every(policy.period), window, ending)
        case Never():
            return False
        case When(condition):
            held = _values(spec, window, window.messages)
            held |= dict.fromkeys(_overflown(spec, held))
            return read_condition(condition).holds(
                held | dict(zip(spec.keys, window.key, strict=True))
            )


def row(spec: WindowSpec, window: OracleWindow, emission: str) -> tuple[dict[str, Any], bool]:
    """Return the emitted row of a window, and whether a sum in it exceeds 64 bits."""
    overflown: list[str] = []
    values: dict[str, Any] = dict.fromkeys(spec.aggregates)
    if spec.firing.fill is not None and not window.messages:
        values = fill_values(spec, window, lambda other: _fitting(spec, other)[0])
    elif emission != RETRACT:
        values, overflown = _fitting(spec, window, all_of_it=spec.firing.accumulate)
    key = dict(zip(spec.keys, window.key, strict=True))
    bounds = {"window_start": window.start, "window_end": window.end}
    emitted = {"emission": emission, "revision": window.revision}
    return key | bounds | values | emitted, bool(overflown)


def _fitting(
    spec: WindowSpec, window: OracleWindow, *, all_of_it: bool = True
) -> tuple[dict[str, Any], list[str]]:
    """Return the aggregates of a window, and those that exceed 64 bits, which are null."""
    values = _values(spec, window, window.messages if all_of_it else window.unemitted)
    overflown = list(_overflown(spec, values))
    return values | dict.fromkeys(overflown), overflown


def _values(spec: WindowSpec, window: OracleWindow, messages: Sequence[Placed]) -> dict[str, Any]:
    """Return the aggregates of a window; one with a frame takes only the last messages."""
    values = {}
    for name, agg in spec.aggregates.items():
        values[name] = value(
            agg, [message for message in messages if _reads(spec, agg, window, message)]
        )
    return values


def _reads(spec: WindowSpec, agg: Aggregate, window: OracleWindow, one: Placed) -> bool:
    """Return whether an aggregate includes a message of a window."""
    kind: Any = spec.windows
    if not (kind.moves and kind.is_numbered):
        return True
    if agg.frame == 0:
        return one.position == window.over - 1
    back = kind.size if agg.frame is None else agg.frame
    before = window.over - 1 - one.position
    match kind.closed or ("both" if kind.axis == "time" else "right"):
        case "both":
            return before <= back
        case "right":
            return before < back
        case "left":
            return 0 < before <= back
    return 0 < before < back


def _overflown(spec: WindowSpec, values: dict[str, Any]) -> Iterator[str]:
    for name, agg in spec.aggregates.items():
        if agg.entry.overflows and exceeds_type(values[name]):
            yield name
