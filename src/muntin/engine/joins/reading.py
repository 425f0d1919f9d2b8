"""Reads a join's state: the stored messages of either side, and their windows.

Expired messages are left out, except those that a waiting partner still needs.

Source: the Samza SQL window operator design (``getWindows``, ``getMessages``).
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from muntin.engine import columns
from muntin.engine.firing import MAX_WINDOW
from muntin.engine.joins.partitioned import PartitionedJoinShard
from muntin.engine.joins.sessions import LAST
from muntin.engine.joins.shard import JoinShard
from muntin.engine.windows.overlap import copy_to_windows
from muntin.engine.windows.panes import pane_of, window_end, window_start
from muntin.model.bounds import SessionBound, SideName, Together
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec
from muntin.model.kinds import Paned, Uniform, is_paned
from muntin.state.rows import stack_rows

_FIRST_OFFSET, _LAST_OFFSET = "start_offset", "last_offset"
_MESSAGES = "messages"


class AxisRange(NamedTuple):
    """A range of positions on a join's axis, both ends included; ``None`` for an open end."""

    low: int | None
    high: int | None


def read_join_messages(
    shard: JoinShard | PartitionedJoinShard,
    side: SideName,
    between: AxisRange,
    only: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Return a side's stored messages in a range, by position; on the rows axis, by offset."""
    joiner, offset = shard.joiner, shard.spec.side(side).offset
    frames = [joiner.no_messages[side]]
    names = frames[0].columns
    for _, start, partition in shard.iterate_partitions(side):
        stored = partition.strategy.read_messages(side, *_resolve_range(between, start), only)
        frames.append(stored.with_columns(pl.col(columns.TIME) + start).select(names))
    order = [columns.TIME, *(offset or ())[::-1]]
    return stack_rows(frames).sort(order, maintain_order=True)


def read_join_windows(
    shard: JoinShard | PartitionedJoinShard,
    side: SideName,
    between: AxisRange,
    only: pl.DataFrame | None,
) -> pl.DataFrame:
    """Return the windows of a side that overlap a range and contain stored messages, by start.

    Returns:
        ``window_start``, ``window_end`` and ``messages``. If messages have offsets, the partition
        comes first, and ``start_offset`` and ``last_offset`` come before ``messages``.

    Raises:
        OptionError: When the side's windows aren't on a grid.
    """
    kind, offset = get_grid_windows(shard.spec, side), shard.spec.side(side).offset
    frames = []
    for _, start, partition in shard.iterate_partitions(side):
        stored = _read_windows(partition, side, kind, _resolve_range(between, start), only, offset)
        bounds = pl.col(columns.WINDOW_START, columns.WINDOW_END)
        frames.append(stored.with_columns(bounds + start))
    if not frames:
        frames = [_count_by_window(shard.joiner.no_messages[side], kind, offset)]
    order = [columns.WINDOW_START, columns.WINDOW_END, *(offset or ())[:1]]
    return stack_rows(frames).sort(order)


def read_join_sessions(
    shard: JoinShard, between: AxisRange, only: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return the sessions of both sides that overlap a range and may still grow.

    Returns:
        The left side's keys, ``window_start``, ``window_end``, and the numbers of messages of the
        ``left`` and of the ``right`` side; by start, then keys.
    """
    spec, joiner = shard.spec, shard.joiner
    assert isinstance(spec.bound, SessionBound)
    keys = list(spec.left.keys)
    parts = []
    for name in SIDES:
        keys_of_side = only if name == "left" or only is None else joiner.convert_keys("left", only)
        stored = shard.strategy.read_messages(name, -MAX_WINDOW, MAX_WINDOW, keys_of_side)
        renamed_keys = zip(spec.side(name).keys, keys, strict=True)
        kinds = joiner.schemas["left"]
        parts.append(
            stored.select(
                *(pl.col(own).cast(kinds[key]).alias(key) for own, key in renamed_keys),
                columns.TIME,
                LAST,
                *(pl.lit(int(name == side), dtype=pl.Int64).alias(f"__{side}") for side in SIDES),
            )
        )
    last = pl.col(LAST).first()
    grouped = stack_rows(parts).group_by(*keys, pl.col(LAST).alias("__last"))
    sessions = grouped.agg(
        pl.col(columns.TIME).min().alias(columns.WINDOW_START),
        (last + spec.bound.sessions.gap).alias(columns.WINDOW_END),
        *(pl.col(f"__{side}").sum().alias(side) for side in SIDES),
    ).drop("__last")
    low, high = _resolve_range(between)
    # A session includes its last position, but not the end of the gap after it.
    inside = pl.col(columns.WINDOW_END) > low, pl.col(columns.WINDOW_START) <= high
    return sessions.filter(*inside).sort(columns.WINDOW_START, *keys)


def get_grid_windows(spec: JoinSpec, side: SideName) -> Paned:
    """Return the windows of a side, which must have fixed bounds: its own, or those of the join.

    Raises ``OptionError`` when the side has no windows, or a window for each message.
    """
    kind = get_side_windows(spec, side)
    if not is_paned(kind):
        text = "has no windows" if kind is None else "has a window for each message"
        raise OptionError("side", side, text, "call get_messages, or give the side .tumbling(…)")
    return kind


def get_side_windows(spec: JoinSpec, side: SideName) -> Uniform | None:
    """Return the windows of a side, its own or those of the join; ``None`` if it has none."""
    kind = spec.side(side).windows
    return spec.bound.windows[0] if kind is None and isinstance(spec.bound, Together) else kind


def _resolve_range(between: AxisRange, start: int = 0) -> tuple[int, int]:
    """Return the ends of a range as positions, counted from a start."""
    low = -MAX_WINDOW if between.low is None else between.low - start
    return low, MAX_WINDOW if between.high is None else between.high - start


def _read_windows(
    shard: JoinShard,
    side: SideName,
    kind: Paned,
    ends: tuple[int, int],
    only: pl.DataFrame | None,
    offset: tuple[str, str] | None,
) -> pl.DataFrame:
    """Return the windows that overlap a range of positions, with all of their messages."""
    low, high = ends
    first, last = low, high
    if low != -MAX_WINDOW:
        first = kind.start(kind.first_window(kind.pane_of(low)))
    if high != MAX_WINDOW:
        last = kind.end(kind.last_window(kind.pane_of(high))) - 1
    windows = _count_by_window(shard.strategy.read_messages(side, first, last, only), kind, offset)
    return windows.filter(pl.col(columns.WINDOW_END) > low, pl.col(columns.WINDOW_START) <= high)


def _count_by_window(
    messages: pl.DataFrame, kind: Paned, offset: tuple[str, str] | None
) -> pl.DataFrame:
    pane = pane_of(pl.col(columns.TIME), kind)
    inside = copy_to_windows(messages.with_columns(pane.alias(columns.PANE)), None, None, kind)
    by, ends = [columns.WINDOW], []
    if offset is not None:
        partition, number = offset
        by = [partition, columns.WINDOW]
        ends = [pl.col(number).min().alias(_FIRST_OFFSET), pl.col(number).max().alias(_LAST_OFFSET)]
    counts = inside.group_by(by).agg(pl.len().cast(pl.Int64).alias(_MESSAGES), *ends)
    window = counts[columns.WINDOW]
    counts = counts.with_columns(
        window_start(window, kind).alias(columns.WINDOW_START),
        window_end(window, kind).alias(columns.WINDOW_END),
    )
    names = [c.meta.output_name() for c in ends]
    bounds = [columns.WINDOW_START, columns.WINDOW_END]
    return counts.select(*by[:-1], *bounds, *names, _MESSAGES)
