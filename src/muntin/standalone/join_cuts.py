"""Where single messages of a join must be cut: so that steps emit what a step each would.

A message that isn't behind its own side's watermark finds the same partners whichever step it is
in: none of its partners has expired. So such messages are taken together, also those that wait for
the wall clock, which stands still meanwhile; one that is behind, and may be late, is a step of its
own. Where late ones wait, or messages are kept by their own side's clock or up to a number, it
matters what came just before: then each is a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.model.joins import SIDES, JoinSpec, Side, SideName
from muntin.model.policies import Each
from muntin.standalone.cuts import as_judged, countable, offsets_before, watermarks
from muntin.state.offsets import Offsets

Mask = NDArray[np.bool_]


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
    rows, judged = {}, {}
    for number, side in enumerate(SIDES):
        rows[side] = np.flatnonzero(sides == number)
        if side not in messages:
            continue
        given, frame = spec.side(side), messages[side]
        if spec.axis == "rows":
            behind = _behind_offsets(frame, given, taken[side].ends)
        else:
            counts = countable(frame, spec.required(side), given.offset, taken[side])
            behind, judged[side] = _behind_times(frame, given, marks[side], counts)
        alone[rows[side]] = behind
    if not all(_plain(spec.side(side)) for side in SIDES):
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


def _behind_times(
    frame: pl.DataFrame, side: Side, start: int | None, counts: Mask
) -> tuple[Mask, pl.Series]:
    before = watermarks(frame, side.lateness, start, counts)
    times = frame[columns.TIME].fill_null(0).to_numpy()
    return counts & (times < before), as_judged(before)


def _behind_offsets(frame: pl.DataFrame, side: Side, starts: Mapping[Any, int]) -> Mask:
    assert side.offset is not None
    places, there = offsets_before(frame, *side.offset, starts)
    found: Mask = places <= there
    return found
