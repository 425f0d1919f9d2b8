"""Where single messages of a join must be cut: so that steps emit what a step each would.

A message that isn't behind its own side's watermark finds the same partners whichever step it is
in: none of its partners has expired. So such messages are taken together, also those that wait for
the wall clock, which stands still meanwhile; one that is behind, and may be late, is a step of its
own. Where late ones wait, or messages are kept by their own side's clock or up to a number, it
matters what came just before: then each is a step. So it is where each change gives a pair again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.joins.joiner import REACHED
from muntin.model.joins import SIDES, JoinSpec, Newest, Side, SideName
from muntin.model.policies import Each
from muntin.standalone.cuts import as_judged, countable, offsets_before, watermarks
from muntin.standalone.message_buffer import ALWAYS
from muntin.state.offsets import Offsets

Mask = NDArray[np.bool_]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class JoinCuts:
    """How single messages are taken in.

    Attributes:
        parts: For each step the rows of each side, from and up to.
        judged: On the time axis, the watermark before each message of a side.
    """

    parts: list[dict[SideName, tuple[int, int]]]
    judged: dict[SideName, pl.Series] = field(default_factory=dict)


def one_by_one(
    messages: Mapping[SideName, pl.DataFrame],
    order: bytes,
    spec: JoinSpec,
    marks: Mapping[SideName, int | None],
    taken: Mapping[str, Offsets],
) -> JoinCuts:
    """Cut messages that came one by one.

    Args:
        messages: The frames that they make, by side.
        order: The number of the side of each, in the order of arrival.
        spec: The join.
        marks: The watermark of each side; the rows axis has none.
        taken: The offsets taken so far, by side.
    """
    sides = np.frombuffer(order, dtype=np.uint8)
    alone = np.zeros(len(sides), dtype=np.bool_)
    rows: dict[SideName, Places] = {
        side: np.flatnonzero(sides == number) for number, side in enumerate(SIDES)
    }
    counted: dict[SideName, Mask] = {}
    for side, frame in messages.items():
        given = spec.side(side)
        if spec.axis == "rows":
            alone[rows[side]] = _behind_offsets(frame, given, taken[side].ends)
        else:
            counted[side] = countable(frame, spec.required(side), given.offset, taken[side])
            if isinstance(spec.bound, Newest):
                counted[side] &= frame.select(REACHED).to_series().to_numpy()
    before = _marks_before(messages, rows, spec, marks, counted)
    for side, counts in counted.items():
        times = messages[side][columns.TIME].fill_null(0).to_numpy()
        alone[rows[side]] = counts & (times < before[side])
    judged = {side: as_judged(mark) for side, mark in before.items()}
    if isinstance(spec.bound, Newest) or not all(_plain(spec.side(side)) for side in SIDES):
        alone[:] = True
    cut = np.flatnonzero(alone)
    edges = np.unique(np.concatenate([[0], cut, cut + 1, [len(sides)]]))
    places = {side: np.searchsorted(rows[side], edges).tolist() for side in messages}
    parts = [
        {side: (found[i], found[i + 1]) for side, found in places.items()}
        for i in range(len(edges) - 1)
    ]
    return JoinCuts(parts, judged)


def _plain(side: Side) -> bool:
    late = isinstance(side.firing.late, Each)
    return late and side.kept is None and side.firing.rows is None


def _marks_before(
    messages: Mapping[SideName, pl.DataFrame],
    rows: Mapping[SideName, Places],
    spec: JoinSpec,
    marks: Mapping[SideName, int | None],
    counted: Mapping[SideName, Mask],
) -> dict[SideName, Places]:
    """The watermark before each message of a side, as far as its messages are judged by one."""
    found = {
        side: watermarks(messages[side], spec.side(side).lateness, marks[side], counts)
        for side, counts in counted.items()
    }
    if not spec.shared_time or len(found) < len(SIDES):
        return found
    # What one side has reached when a message of the other comes.
    reached = np.full(sum(map(len, rows.values())), ALWAYS)
    for side, counts in counted.items():
        times = messages[side][columns.TIME].fill_null(0).to_numpy()
        reached[rows[side]] = np.where(counts, times - spec.side(side).lateness, ALWAYS)
    shared = np.concatenate([[ALWAYS], np.maximum.accumulate(reached)[:-1]])
    return {side: np.maximum(mark, shared[rows[side]]) for side, mark in found.items()}


def _behind_offsets(frame: pl.DataFrame, side: Side, starts: Mapping[Any, int]) -> Mask:
    assert side.offset is not None
    places, there = offsets_before(frame, *side.offset, starts)
    found: Mask = places <= there
    return found
