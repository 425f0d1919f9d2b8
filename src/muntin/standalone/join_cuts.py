"""Where single messages of a join must be cut: so that steps emit what a step each would.

A message that isn't behind its own side's watermark finds the same partners whichever step it is
in: none of its partners has expired. So such messages are taken together, also those that wait for
the wall clock, which stands still meanwhile; one that is behind, and may be late, is a step of its
own. Where late ones wait, or messages are kept by their own side's clock or up to a number, it
matters what came just before: then each is a step. So it is where each change gives a pair again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from muntin.engine.joins.joiner import REACHED
from muntin.engine.joins.strategy import SideFrames
from muntin.model.joins import SIDES, JoinSpec, Newest, Side, SideName
from muntin.model.policies import Each
from muntin.standalone.cuts import Marks, Positions, moving, offsets_before, so_far
from muntin.standalone.input_stream import ALWAYS
from muntin.state.offsets import Offsets


def steps_of_sides(
    messages: SideFrames,
    order: bytes,
    spec: JoinSpec,
    starts: Mapping[SideName, int | None],
    taken: Mapping[str, Offsets],
) -> list[SideFrames]:
    """Cut messages that came one by one.

    Args:
        messages: The frames that they make, by side.
        order: The number of the side of each, in the order of arrival.
        spec: The join.
        starts: The watermark of each side; the rows axis has none.
        taken: The offsets taken so far, by side.
    """
    sides = np.frombuffer(order, dtype=np.uint8)
    alone = np.zeros(len(sides), dtype=np.bool_)
    rows: dict[SideName, Positions] = {
        side: np.flatnonzero(sides == number) for number, side in enumerate(SIDES)
    }
    if spec.axis == "rows":
        for side, frame in messages.items():
            offset = spec.side(side).offset
            assert offset is not None
            places, there = offsets_before(frame, *offset, taken[side].ends)
            alone[rows[side]] = places <= there
    else:
        marks = _marks(messages, rows, spec, starts, taken)
        messages = {side: mark.judging(messages[side]) for side, mark in marks.items()}
        for side, mark in marks.items():
            alone[rows[side]] = mark.behind
    if isinstance(spec.bound, Newest) or not all(_plain(spec.side(side)) for side in SIDES):
        alone[:] = True
    cut = np.flatnonzero(alone)
    edges = np.unique(np.concatenate([[0], cut, cut + 1, [len(sides)]]))
    cuts = {side: np.searchsorted(rows[side], edges).tolist() for side in messages}
    return [
        {side: messages[side][at[i] : at[i + 1]] for side, at in cuts.items() if at[i + 1] > at[i]}
        for i in range(len(edges) - 1)
    ]


def _plain(side: Side) -> bool:
    late = isinstance(side.firing.late, Each)
    return late and side.kept is None and side.firing.rows is None


def _marks(
    messages: SideFrames,
    rows: Mapping[SideName, Positions],
    spec: JoinSpec,
    starts: Mapping[SideName, int | None],
    taken: Mapping[str, Offsets],
) -> dict[SideName, Marks]:
    """The watermarks by which the messages of each side are judged."""
    found = {}
    for side, frame in messages.items():
        given = spec.side(side)
        moves = moving(frame, given.offset, taken[side])
        if isinstance(spec.bound, Newest):
            moves &= frame.select(REACHED).to_series().to_numpy()
        found[side] = Marks.of(frame, given.lateness, starts[side], moves)
    if not spec.shared_time or len(found) < len(SIDES):
        return found
    # What one side has reached when a message of the other comes.
    reached = np.full(sum(map(len, rows.values())), ALWAYS)
    for side, mark in found.items():
        reached[rows[side]] = mark.reached
    shared = so_far(reached)
    return {
        side: replace(mark, before=np.maximum(mark.before, shared[rows[side]]))
        for side, mark in found.items()
    }
