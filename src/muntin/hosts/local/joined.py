"""The sentence of joins on the local host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from muntin.engine import columns
from muntin.hosts.local.definition import LocalJoined
from muntin.hosts.local.join_plan import build_join
from muntin.hosts.local.plan import Input, Upstream
from muntin.hosts.local.windowed import LocalWindowed, rows_of
from muntin.model.errors import OptionError
from muntin.model.inputs import Marks
from muntin.model.joins import SIDES, How, JoinNulls, On, SideName, StateLayout
from muntin.model.sentence import joined

_FIRING = (columns.EMISSION, columns.REVISION)


def begin_join(
    left: object,
    right: object,
    *,
    on: On,
    within: Any,
    as_of: Any,
    how: How,
    suffix: str,
    layout: StateLayout | None,
    buckets: int | None,
    nulls: JoinNulls,
    shared_time: bool,
    each_change: bool,
) -> LocalJoined:
    """Join two sources or frames on the local host; see `muntin.join`.

    Raises:
        OptionError: Naming what can't work.
    """
    if buckets is not None and buckets < 1:
        raise OptionError("buckets", buckets, "is less than one", "give 1 or more")
    one, other = _side("left", left, each_change), _side("right", right, each_change)
    spec = joined(one, other, on, within, how, layout, nulls, as_of, shared_time, each_change)
    inputs: dict[SideName, Input] = {"left": one.input, "right": other.input}
    for side in SIDES:
        if not each_change and inputs[side].fed is not None:
            # A pair says itself how it came about.
            inputs[side] = replace(inputs[side], hidden=_FIRING)
        _check_columns(side, [*inputs[side].schema], spec.side(side).keys)
    return LocalJoined(build_join(inputs, spec, suffix, buckets))


def _side(side: SideName, given: object, each_change: bool) -> LocalWindowed:
    """A side as it was given; the results of windows have a time and columns by themselves."""
    if isinstance(given, LocalWindowed):
        return given
    rows = None
    if not isinstance(given, LocalJoined):
        try:
            rows = rows_of(side, given, each_change=each_change)
        except OptionError as error:
            if error.option != side:
                raise
    if not isinstance(rows, Upstream) or rows.plan.joins:
        hint = "write join(windowed(frame, time=…), …)"
        raise OptionError(side, type(given).__name__, "isn't windowed", hint)
    # What windows emit was judged by them.
    marks = Marks(columns.WINDOW_END, max_ahead=None)
    return LocalWindowed(_rows=rows, _time=columns.WINDOW_END, _marks=marks)


def _check_columns(side: SideName, names: Sequence[str], keys: Sequence[str]) -> None:
    for key in keys:
        if key not in names:
            hint = f"give some of {', '.join(names)}"
            raise OptionError("on", key, f"isn't a column of the {side} side", hint)
