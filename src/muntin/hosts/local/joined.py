"""Builds joins on the local host."""

from __future__ import annotations

from dataclasses import replace

from muntin.engine import columns
from muntin.hosts.local.definition import LocalJoined
from muntin.hosts.local.join_plan import plan_join
from muntin.hosts.local.plan import LocalInput, LocalUpstream
from muntin.hosts.local.windowed import LocalWindowed, find_rows
from muntin.hosts.sentence import (
    SentenceOptions,
    check_pair_columns,
    join_sides,
    make_side_error,
    windows_as_messages,
)
from muntin.model.bounds import SideName
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES

_FIRING = (columns.EMISSION, columns.REVISION)


def begin_join(left: object, right: object, options: SentenceOptions) -> LocalJoined:
    """Join two sources or frames on the local host, for `muntin.join`."""
    each_change = options["each_change"]
    left_side = _make_side("left", left, each_change=each_change)
    right_side = _make_side(
        "right", right, each_change=each_change, newest=options["newest"] is True
    )
    spec = join_sides(left_side, right_side, options)
    inputs: dict[SideName, LocalInput] = {"left": left_side.input, "right": right_side.input}
    for side in SIDES:
        if not each_change and inputs[side].upstream is not None:
            # Pairs have emission columns of their own.
            inputs[side] = replace(inputs[side], hidden=_FIRING)
        check_pair_columns(side, [*inputs[side].schema], spec.side(side).keys)
    return LocalJoined(plan_join(inputs, spec, options["suffix"], options["shards"]))


def _make_side(
    side: SideName, value: object, *, each_change: bool, newest: bool = False
) -> LocalWindowed:
    """Return a side of the join; results of windows get their end as time."""
    if isinstance(value, LocalWindowed):
        return value
    rows = None
    if not isinstance(value, LocalJoined):
        try:
            # A table may change: each of its rows replaces the one before.
            rows = find_rows(side, value, each_change=each_change or newest)
        except OptionError as error:
            if error.option != side:
                raise
    if not isinstance(rows, LocalUpstream) or rows.plan.is_join:
        raise make_side_error(side, value)
    rows = replace(rows, newest=newest)
    return LocalWindowed(_rows=rows, _time=columns.WINDOW_END, _input_options=windows_as_messages())
