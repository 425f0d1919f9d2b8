"""Splits single messages into steps that emit the same as one step per message.

The engine processes a batch in one step: it judges all messages by the watermark before the batch,
and windows emit at its end. That makes no difference to messages which are not behind the
watermark, however far they advance it. So a cut is needed before a message behind the watermark if
the watermark has passed the edge of a window since the last cut, and around each message that
makes a window emit by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.admission import find_watermarks_before, moves_watermark
from muntin.engine.output import Shard
from muntin.engine.windows.combine import Combiner
from muntin.model.axis import MAX_POSITION, MIN_POSITION
from muntin.model.policies import by_message
from muntin.model.spec import WindowSpec
from muntin.standalone.frame_builder import WATERMARK_COLUMN
from muntin.state.offsets import TakenOffsets

PositionArray = NDArray[np.int64]


@dataclass(frozen=True)
class MessageWatermarks:
    """The watermarks of single messages, on the time axis.

    Attributes:
        can_advance: True for messages that may advance the watermark.
        times: The event time of each message.
        own: The watermark that follows from each message alone; ``MIN_POSITION`` if none does.
        before: The watermark before each message; ``MIN_POSITION`` if there is none yet.
    """

    can_advance: NDArray[np.bool_]
    times: PositionArray
    own: PositionArray
    before: PositionArray

    @classmethod
    def from_messages(
        cls,
        messages: pl.DataFrame,
        lateness: int,
        start: int | None,
        can_advance: NDArray[np.bool_],
    ) -> MessageWatermarks:
        """Compute the watermarks of consecutive messages, starting from ``start``."""
        times = messages[columns.TIME].fill_null(0).to_numpy()
        own = np.where(can_advance, times - lateness, MIN_POSITION)
        before = find_watermarks_before(own)
        return cls(can_advance, times, own, before if start is None else np.maximum(before, start))

    @property
    def is_behind(self) -> NDArray[np.bool_]:
        """True for readable messages that are behind the watermark."""
        return self.can_advance & (self.times < self.before)

    def add_watermarks(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Add the watermark that judges each message; null if there is none."""
        none = self.before <= MIN_POSITION // 2
        judged = pl.Series(np.where(none, 0, self.before)).set(pl.Series(none), None)
        return messages.with_columns(judged.alias(WATERMARK_COLUMN))


def emits_early_per_message(spec: WindowSpec, combiner: Combiner) -> bool:
    """Return whether each message may make its window emit, and so needs its own step."""
    return not combiner.slides_by_rows and by_message(spec.firing.early)


def emits_late_per_message(spec: WindowSpec) -> bool:
    """Return whether each late message may make its window emit."""
    return spec.firing.grace > 0 and by_message(spec.firing.late)


def split_steps(
    messages: pl.DataFrame, combiner: Combiner, shard: Shard, *, together: bool
) -> list[tuple[pl.DataFrame, bool]]:
    """Split messages that arrived one by one into steps; the shard isn't changed.

    If ``together``, messages that make only their own windows emit share a step as long as no
    window ends.

    Returns:
        The messages of each step, and whether they emit as if each were a step of its own.
    """
    spec, each = combiner.spec, False
    can_advance = find_advancing(messages, spec.offset, shard.state.offsets)
    if spec.clocks:
        # A message of the slowest clock may move the watermark past many windows.
        messages = messages.with_columns(pl.lit(None, dtype=pl.Int64).alias(WATERMARK_COLUMN))
        starts = [*range(len(messages))]
    elif spec.axis == "rows":
        starts = (
            [0] if spec.offset is None else _split_by_offset(messages, spec, shard, can_advance)
        )
    else:
        watermarks = MessageWatermarks.from_messages(
            messages, spec.lateness, shard.state.watermark, can_advance
        )
        messages = watermarks.add_watermarks(messages)
        starts = _split_by_time(spec, watermarks)
    if emits_early_per_message(spec, combiner):
        starts = list(range(len(messages)))
    if together:
        by_edge = _split_by_edge(spec, watermarks)
        each = len(by_edge) < len(starts)
        starts = by_edge if each else starts
    starts = [start for start in starts if start < len(messages)] or [0]
    ends = [*starts[1:], len(messages)]
    return [(messages[a:b], each and b - a > 1) for a, b in zip(starts, ends, strict=True)]


def find_advancing(
    messages: pl.DataFrame, offset: tuple[str, str] | None, taken: TakenOffsets
) -> NDArray[np.bool_]:
    """Return which messages advance the watermark, or the progress of their partition.

    They need no keys, but their offset must be present and new.
    """
    can_advance = moves_watermark(messages)
    if offset is not None:
        can_advance = can_advance & pl.all_horizontal(pl.col(offset).is_not_null())
    mask: NDArray[np.bool_] = messages.select(can_advance).to_series().to_numpy()
    return mask if offset is None else mask & ~taken.find_repeated(messages, *offset)


def find_offsets_before(
    messages: pl.DataFrame, partition: str, offset: str, reached: Mapping[Any, int]
) -> tuple[PositionArray, PositionArray]:
    """Return the offset of each message, and the greatest of its partition before it."""
    offset_number = pl.col(offset).cast(pl.Int64)
    before = messages.select(
        offset_number.cum_max().shift(1).forward_fill().over(partition)
    ).to_series()
    greatest_before: PositionArray = before.fill_null(MIN_POSITION).to_numpy()
    for value in messages[partition].drop_nulls().unique():
        if value in reached:
            in_partition = (messages[partition] == value).fill_null(False).to_numpy()
            greatest_before = np.where(
                in_partition, np.maximum(greatest_before, reached[value] - 1), greatest_before
            )
    return messages.select(
        offset_number.fill_null(MAX_POSITION)
    ).to_series().to_numpy(), greatest_before


def _next_edge(spec: WindowSpec, watermark: int) -> int:
    """Return the next position at which the watermark makes a window end or close."""
    is_unset = watermark <= MIN_POSITION // 2
    if is_unset:
        return MIN_POSITION + 1
    return spec.uniform_windows.next_edge(watermark, spec.firing.grace)


def _split_by_time(spec: WindowSpec, watermarks: MessageWatermarks) -> list[int]:
    windows, own_step = spec.uniform_windows, emits_late_per_message(spec)
    starts, edge = [0], _next_edge(spec, int(watermarks.before[0]))
    for row in np.flatnonzero(watermarks.is_behind).tolist():
        watermark = int(watermarks.before[row])
        if watermark >= edge:
            starts.append(row)
            edge = _next_edge(spec, watermark)
        if windows.retracts or (
            own_step and int(watermarks.times[row]) < windows.last_end(watermark)
        ):
            starts += [row, row + 1]
            edge = _next_edge(spec, max(watermark, int(watermarks.own[row])))
    return sorted(set(starts))


def _split_by_edge(spec: WindowSpec, watermarks: MessageWatermarks) -> list[int]:
    """Split so that each message that makes a window end or close has its own step."""
    after = np.maximum(watermarks.before, watermarks.own)
    starts, row = [0], 0
    while row < len(after):
        row = int(np.searchsorted(after, _next_edge(spec, int(watermarks.before[row])))) + 1
        starts += [row - 1, row]
    return sorted(set(starts))


def _split_by_offset(
    messages: pl.DataFrame, spec: WindowSpec, shard: Shard, can_advance: NDArray[np.bool_]
) -> list[int]:
    """Start a step at each message behind its partition, alone if it may emit by itself."""
    assert spec.offset is not None
    offsets, greatest_before = find_offsets_before(messages, *spec.offset, shard.state.offsets.ends)
    own_step = emits_late_per_message(spec) or spec.windows.retracts
    starts = {0}
    for row in np.flatnonzero(can_advance & (offsets < greatest_before)).tolist():
        starts |= {row, row + 1} if own_step else {row}
    return sorted(starts)
