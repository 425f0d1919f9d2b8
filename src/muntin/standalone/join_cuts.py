"""Splits the single messages of a join into steps that emit the same as one step per message.

A message that isn't behind its own side's watermark has the same partners in any step, because none
of them has expired. So such messages share a step, also those that wait for the wall clock, which
doesn't advance meanwhile. A message that is behind, and may be late, is a step of its own. If late
messages wait, or messages are retained by their own side's clock or by number, the order matters,
and each message is a step. The same applies if each change emits a pair again. A join by arrival
begins a step with each right row that follows a left message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from muntin.engine.admission import find_watermarks_before
from muntin.engine.joins.joiner import WINDOW_HAS_ENDED
from muntin.engine.joins.strategy import SideFrames
from muntin.model.axis import MIN_POSITION
from muntin.model.bounds import ByArrival, SideName
from muntin.model.joins import SIDES, JoinSpec, Side
from muntin.model.policies import Each
from muntin.standalone.cuts import (
    MessageWatermarks,
    PositionArray,
    find_advancing,
    find_offsets_before,
)
from muntin.state.offsets import TakenOffsets


def split_join_steps(
    messages: SideFrames,
    order: bytes,
    spec: JoinSpec,
    starts: Mapping[SideName, int | None],
    taken: Mapping[str, TakenOffsets],
) -> list[SideFrames]:
    """Split messages that arrived one by one into steps.

    ``order`` has the number of each message's side in the order of arrival, ``starts`` the
    watermark of each side (the rows axis has none), and ``taken`` the offsets taken so far.
    """
    sides = np.frombuffer(order, dtype=np.uint8)
    own_step = np.zeros(len(sides), dtype=np.bool_)
    rows: dict[SideName, PositionArray] = {
        side: np.flatnonzero(sides == number) for number, side in enumerate(SIDES)
    }
    if spec.axis == "rows":
        for side, frame in messages.items():
            offset = spec.side(side).offset
            assert offset is not None
            offsets, greatest_before = find_offsets_before(frame, *offset, taken[side].ends)
            own_step[rows[side]] = offsets <= greatest_before
    else:
        watermarks = _compute_watermarks(messages, rows, spec, starts, taken)
        messages = {
            side: side_watermarks.add_watermarks(messages[side])
            for side, side_watermarks in watermarks.items()
        }
        for side, side_watermarks in watermarks.items():
            own_step[rows[side]] = side_watermarks.is_behind
    if isinstance(spec.bound, ByArrival):
        return _split(messages, rows, _find_arrivals(sides, spec), len(sides))
    if spec.bound.revises or not all(_can_share_steps(spec.side(side)) for side in SIDES):
        own_step[:] = True
    cut = np.flatnonzero(own_step)
    return _split(messages, rows, np.concatenate([cut, cut + 1]), len(sides))


def _split(
    messages: SideFrames, rows: Mapping[SideName, PositionArray], cut: PositionArray, count: int
) -> list[SideFrames]:
    """Split messages before some positions in the order of their arrival."""
    edges = np.unique(np.concatenate([[0], cut, [count]]))
    cuts = {side: np.searchsorted(rows[side], edges).tolist() for side in messages}
    return [
        {
            side: messages[side][bounds[i] : bounds[i + 1]]
            for side, bounds in cuts.items()
            if bounds[i + 1] > bounds[i]
        }
        for i in range(len(edges) - 1)
    ]


def _find_arrivals(sides: NDArray[np.uint8], spec: JoinSpec) -> PositionArray:
    """Return where the steps of a join by arrival begin.

    Rows of the right side enter their step before its left messages, and nothing is late.
    """
    is_right = sides == SIDES.index("right")
    if spec.right.own_retention is not None:
        # The watermark at which a row arrives decides how long it is kept.
        return np.flatnonzero(is_right)
    return np.flatnonzero(is_right[1:] & ~is_right[:-1]) + 1


def _can_share_steps(side: Side) -> bool:
    late = isinstance(side.firing.late, Each)
    return late and side.own_retention is None and side.firing.rows is None


def _compute_watermarks(
    messages: SideFrames,
    rows: Mapping[SideName, PositionArray],
    spec: JoinSpec,
    starts: Mapping[SideName, int | None],
    taken: Mapping[str, TakenOffsets],
) -> dict[SideName, MessageWatermarks]:
    """Compute the watermarks by which the messages of each side are judged."""
    watermarks = {}
    for side, frame in messages.items():
        side_spec = spec.side(side)
        can_advance = find_advancing(frame, side_spec.offset, taken[side])
        if spec.bound.revises:
            can_advance &= frame.select(WINDOW_HAS_ENDED).to_series().to_numpy()
        watermarks[side] = MessageWatermarks.from_messages(
            frame, side_spec.lateness, starts[side], can_advance
        )
    if not spec.shared_time or len(watermarks) < len(SIDES):
        return watermarks
    # The watermark of one side when a message of the other arrives.
    own = np.full(sum(map(len, rows.values())), MIN_POSITION)
    for side, side_watermarks in watermarks.items():
        own[rows[side]] = side_watermarks.own
    shared = find_watermarks_before(own)
    return {
        side: replace(
            side_watermarks, before=np.maximum(side_watermarks.before, shared[rows[side]])
        )
        for side, side_watermarks in watermarks.items()
    }
