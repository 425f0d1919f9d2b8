"""Where single messages must be cut: so that steps over the parts emit what a step each would.

The engine takes a batch in one step: it judges all messages by the watermark that was in force when
the batch began, and lets windows emit at its end. That makes no difference to messages which are
not behind the watermark, however far they move it. So a cut is needed before a message that is
behind the watermark when the watermark has passed the edge of a window since the last cut, and
around each message that makes a window emit by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.admission import moves_watermark
from muntin.engine.output import Shard
from muntin.engine.windows.combine import Combiner
from muntin.model.policies import by_message
from muntin.model.spec import WindowSpec
from muntin.standalone.frame_builder import JUDGED
from muntin.standalone.input_stream import ALWAYS, NEVER
from muntin.state.offsets import Offsets

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Marks:
    """The watermarks of single messages, on the time axis.

    Attributes:
        moves: Which messages may move it.
        times: The event time of each message.
        reached: How far each message moves it; ``ALWAYS`` where it doesn't.
        before: The watermark before each message; ``ALWAYS`` where there is none yet.
    """

    moves: NDArray[np.bool_]
    times: Positions
    reached: Positions
    before: Positions

    @classmethod
    def of(
        cls, messages: pl.DataFrame, lateness: int, start: int | None, moves: NDArray[np.bool_]
    ) -> Marks:
        """Let a watermark go from message to message."""
        times = messages[columns.TIME].fill_null(0).to_numpy()
        reached = np.where(moves, times - lateness, ALWAYS)
        before = so_far(reached)
        return cls(moves, times, reached, before if start is None else np.maximum(before, start))

    @property
    def behind(self) -> NDArray[np.bool_]:
        """Which readable messages are behind the watermark."""
        return self.moves & (self.times < self.before)

    def judging(self, messages: pl.DataFrame) -> pl.DataFrame:
        """The messages with the watermark that each is judged by; null where there is none."""
        none = self.before <= ALWAYS // 2
        judged = pl.Series(np.where(none, 0, self.before)).set(pl.Series(none), None)
        return messages.with_columns(judged.alias(JUDGED))


def so_far(reached: Positions) -> Positions:
    """The greatest of all places before each."""
    return np.concatenate([[ALWAYS], np.maximum.accumulate(reached)[:-1]])


def early_by_message(spec: WindowSpec, combiner: Combiner) -> bool:
    """Whether each message may make its window emit, so that it is a step of its own."""
    return not combiner.slides_by_rows and by_message(spec.firing.early)


def late_by_message(spec: WindowSpec) -> bool:
    """Whether each late message may make its window emit."""
    return spec.firing.grace > 0 and by_message(spec.firing.late)


def steps(
    messages: pl.DataFrame, combiner: Combiner, shard: Shard, *, together: bool
) -> list[tuple[pl.DataFrame, bool]]:
    """Cut messages that came one by one; the shard isn't changed.

    Where messages that let their own windows emit may be one step, they are ``together`` as long as
    nothing ends. Of each step comes whether its messages are to emit as if each were one.
    """
    spec, each = combiner.spec, False
    moves = moving(messages, spec.offset, shard.state.offsets)
    if spec.clocks:
        # A message of the slowest clock may move the watermark past many windows.
        messages = messages.with_columns(pl.lit(None, dtype=pl.Int64).alias(JUDGED))
        starts = [*range(len(messages))]
    elif spec.axis == "rows":
        starts = [0] if spec.offset is None else _by_offset(messages, spec, shard, moves)
    else:
        marks = Marks.of(messages, spec.lateness, shard.state.watermark, moves)
        messages = marks.judging(messages)
        starts = _by_time(spec, marks)
    if early_by_message(spec, combiner):
        starts = list(range(len(messages)))
    if together:
        apart = _by_edge(spec, marks)
        each = len(apart) < len(starts)
        starts = apart if each else starts
    starts = [start for start in starts if start < len(messages)] or [0]
    ends = [*starts[1:], len(messages)]
    return [(messages[a:b], each and b - a > 1) for a, b in zip(starts, ends, strict=True)]


def moving(
    messages: pl.DataFrame, offset: tuple[str, str] | None, taken: Offsets
) -> NDArray[np.bool_]:
    """Which messages move the watermark or their partition's mark.

    They needn't have keys; but an offset that is missing or was taken before moves nothing.
    """
    moves = moves_watermark(messages)
    if offset is not None:
        moves = moves & pl.all_horizontal(pl.col(offset).is_not_null())
    mask: NDArray[np.bool_] = messages.select(moves).to_series().to_numpy()
    return mask if offset is None else mask & ~taken.known(messages, *offset)


def offsets_before(
    messages: pl.DataFrame, partition: str, offset: str, reached: Mapping[Any, int]
) -> tuple[Positions, Positions]:
    """The offset of each message, and the greatest one of its partition before it."""
    at = pl.col(offset).cast(pl.Int64)
    before = messages.select(at.cum_max().shift(1).forward_fill().over(partition)).to_series()
    there: Positions = before.fill_null(ALWAYS).to_numpy()
    for value in messages[partition].drop_nulls().unique():
        if value in reached:
            mine = (messages[partition] == value).fill_null(False).to_numpy()
            there = np.where(mine, np.maximum(there, reached[value] - 1), there)
    return messages.select(at.fill_null(NEVER)).to_series().to_numpy(), there


def _edge(spec: WindowSpec, watermark: int) -> int:
    """The next place at which the watermark lets a window end or close."""
    none = watermark <= ALWAYS // 2
    return ALWAYS + 1 if none else spec.windows.next_edge(watermark, spec.firing.grace)


def _by_time(spec: WindowSpec, marks: Marks) -> list[int]:
    windows, alone = spec.windows, late_by_message(spec)
    starts, edge = [0], _edge(spec, int(marks.before[0]))
    for row in np.flatnonzero(marks.behind).tolist():
        watermark = int(marks.before[row])
        if watermark >= edge:
            starts.append(row)
            edge = _edge(spec, watermark)
        if windows.retracts or (alone and int(marks.times[row]) < windows.last_end(watermark)):
            starts += [row, row + 1]
            edge = _edge(spec, max(watermark, int(marks.reached[row])))
    return sorted(set(starts))


def _by_edge(spec: WindowSpec, marks: Marks) -> list[int]:
    """Each message that lets a window end or close is a step of its own."""
    after = np.maximum(marks.before, marks.reached)
    starts, row = [0], 0
    while row < len(after):
        row = int(np.searchsorted(after, _edge(spec, int(marks.before[row])))) + 1
        starts += [row - 1, row]
    return sorted(set(starts))


def _by_offset(
    messages: pl.DataFrame, spec: WindowSpec, shard: Shard, moves: NDArray[np.bool_]
) -> list[int]:
    """Each message behind its partition begins a step, and mostly has it for itself."""
    assert spec.offset is not None
    places, there = offsets_before(messages, *spec.offset, shard.state.offsets.ends)
    alone = late_by_message(spec) or spec.windows.retracts
    starts = {0}
    for row in np.flatnonzero(moves & (places < there)).tolist():
        starts |= {row, row + 1} if alone else {row}
    return sorted(starts)
