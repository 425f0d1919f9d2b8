"""Where single messages must be cut: so that steps over the parts emit what a step each would.

The engine takes a batch in one step: it judges all messages by the watermark that was in force when
the batch began, and lets windows emit at its end. That makes no difference to messages which are
not behind the watermark, however far they move it. So a cut is needed before a message that is
behind the watermark when the watermark has passed the edge of a window since the last cut, and
around each message that makes a window emit by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.output import Shard
from muntin.engine.windows.combine import Combiner
from muntin.model.policies import by_message
from muntin.model.spec import WindowSpec
from muntin.standalone.message_buffer import ALWAYS, NEVER
from muntin.state.offsets import Offsets

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Cuts:
    """How messages are taken in.

    Attributes:
        starts: Where the steps begin; the first is 0.
        judged: The watermark before each message, on the time axis; null before the first.
        each: Whether the messages of a step emit as if each were a step of its own.
    """

    starts: list[int]
    judged: pl.Series | None = None
    each: bool = False


def early_by_message(spec: WindowSpec, combiner: Combiner) -> bool:
    """Whether each message may make its window emit, so that it is a step of its own."""
    return not combiner.slides_by_rows and by_message(spec.firing.early)


def late_by_message(spec: WindowSpec) -> bool:
    """Whether each late message may make its window emit."""
    return spec.firing.grace > 0 and by_message(spec.firing.late)


def cuts(
    messages: pl.DataFrame, combiner: Combiner, shard: Shard, *, together: bool = False
) -> Cuts:
    """Cut messages that came one by one.

    Args:
        messages: The frame that they make.
        combiner: The query.
        shard: Where the windows are; it isn't changed.
        together: Whether messages that let their own windows emit may be one step, as long as
            nothing ends.
    """
    spec, each = combiner.spec, False
    counts = countable(messages, spec.required, spec.offset, shard.state.offsets)
    judged: pl.Series | None = None
    if spec.axis == "rows":
        starts = [0] if spec.offset is None else _by_offset(messages, spec, shard, counts)
    else:
        before = watermarks(messages, spec.lateness, shard.state.watermark, counts)
        judged = as_judged(before)
        starts = _by_time(messages, spec, before, counts)
    if early_by_message(spec, combiner):
        starts = list(range(len(messages)))
    if together:
        apart = _by_edge(messages, spec, before, counts)
        each = len(apart) < len(starts)
        starts = apart if each else starts
    return Cuts([start for start in starts if start < len(messages)] or [0], judged, each)


def countable(
    messages: pl.DataFrame, required: Sequence[str], offset: tuple[str, str] | None, taken: Offsets
) -> NDArray[np.bool_]:
    """Which messages may count, and so move the watermark.

    Their fields are there and are sound, and their offsets haven't been taken.
    """
    bad = [pl.col(c) for c in (columns.MALFORMED, columns.FUTURE) if c in messages.columns]
    bad += [pl.col(c).is_null() for c in (columns.TIME, *required, *(offset or ()))]
    counts: NDArray[np.bool_] = messages.select(~pl.any_horizontal(bad)).to_series().to_numpy()
    return counts if offset is None else counts & ~taken.known(messages, *offset)


def watermarks(
    messages: pl.DataFrame, lateness: int, start: int | None, counts: NDArray[np.bool_]
) -> Positions:
    """The watermark before each message; ``ALWAYS`` where there is none yet."""
    times = messages[columns.TIME].fill_null(0).to_numpy() - lateness
    moved = np.maximum.accumulate(np.where(counts, times, ALWAYS))
    before = np.concatenate([[ALWAYS], moved[:-1]])
    return before if start is None else np.maximum(before, start)


def as_judged(before: Positions) -> pl.Series:
    """What ``watermarks`` gave, with null where there is none yet."""
    none = before <= ALWAYS // 2
    return pl.Series(np.where(none, 0, before)).set(pl.Series(none), None)


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


def _by_time(
    messages: pl.DataFrame, spec: WindowSpec, before: Positions, counts: NDArray[np.bool_]
) -> list[int]:
    times = messages[columns.TIME].fill_null(0).to_numpy()
    windows, grace = spec.windows, spec.firing.grace
    after = _after(messages, spec, before, counts)
    alone = late_by_message(spec)

    def edge_at(watermark: int) -> int:
        return ALWAYS if watermark <= ALWAYS // 2 else windows.next_edge(watermark, grace)

    starts, edge = [0], edge_at(int(before[0]))
    for row in np.flatnonzero(counts & (times < before)).tolist():
        watermark, time = int(before[row]), int(times[row])
        if watermark >= edge:
            starts.append(row)
            edge = edge_at(watermark)
        if windows.retracts or (alone and time < windows.last_end(watermark)):
            starts += [row, row + 1]
            edge = edge_at(int(after[row]))
    return sorted(set(starts))


def _by_edge(
    messages: pl.DataFrame, spec: WindowSpec, before: Positions, counts: NDArray[np.bool_]
) -> list[int]:
    """Each message that lets a window end or close is a step of its own."""
    after = _after(messages, spec, before, counts)
    starts, row = [0], 0
    while row < len(after):
        mark = int(before[row])
        none = mark <= ALWAYS // 2
        edge = ALWAYS + 1 if none else spec.windows.next_edge(mark, spec.firing.grace)
        row = int(np.searchsorted(after, edge)) + 1
        starts += [row - 1, row]
    return sorted(set(starts))


def _after(
    messages: pl.DataFrame, spec: WindowSpec, before: Positions, counts: NDArray[np.bool_]
) -> Positions:
    """The watermark behind each message."""
    times = messages[columns.TIME].fill_null(0).to_numpy()
    return np.maximum(before, np.where(counts, times - spec.lateness, ALWAYS))


def _by_offset(
    messages: pl.DataFrame, spec: WindowSpec, shard: Shard, counts: NDArray[np.bool_]
) -> list[int]:
    """Each message behind its partition begins a step, and mostly has it for itself."""
    assert spec.offset is not None
    places, there = offsets_before(messages, *spec.offset, shard.state.offsets.ends)
    alone = late_by_message(spec) or spec.windows.retracts
    starts = {0}
    for row in np.flatnonzero(counts & (places < there)).tolist():
        starts |= {row, row + 1} if alone else {row}
    return sorted(starts)
