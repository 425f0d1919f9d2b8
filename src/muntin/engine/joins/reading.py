"""Reading of a join's state: the messages of either side, and their windows.

Only messages that the join still keeps for later partners are included.

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
from muntin.model.by_number import Moving
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec, Joint, SideName, Together
from muntin.model.kinds import Paned, Uniform

_FIRST_OFFSET, _LAST_OFFSET = "start_offset", "last_offset"
_MESSAGES = "messages"


class AxisRange(NamedTuple):
    """A range of a join's axis, both ends included; ``None`` is open. Rows have offsets."""

    low: int | None
    high: int | None


def messages(
    shard: JoinShard | PartitionedJoinShard,
    side: SideName,
    between: AxisRange,
    only: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Return the messages of a side that the join holds, in order.

    Returns:
        The side's columns, and the position in ``columns.TIME`` (on the rows axis the offset).
    """
    joiner, offset = shard.joiner, shard.spec.side(side).offset
    found = [joiner.no_messages(side)]
    wanted = found[0].columns
    for _, start, opened in shard.opened(side):
        held = opened.strategy.stored(side, *_ends(between, start), only)
        found.append(held.with_columns(pl.col(columns.TIME) + start).select(wanted))
    order = [columns.TIME, *(offset or ())[::-1]]
    return pl.concat(found).sort(order, maintain_order=True)


def windows(
    shard: JoinShard | PartitionedJoinShard,
    side: SideName,
    between: AxisRange,
    only: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Return the windows of a side that overlap a range and hold messages, by start.

    Returns:
        ``window_start``, ``window_end`` and ``messages``. If messages have offsets, the partition
        comes first, and ``start_offset`` and ``last_offset`` come before ``messages``.

    Raises:
        OptionError: When the side's windows aren't on a grid.
    """
    kind, offset = windows_of(shard.spec, side), shard.spec.side(side).offset
    found = []
    for _, start, opened in shard.opened(side):
        held = _held(opened, side, kind, _ends(between, start), only, offset)
        bounds = pl.col(columns.WINDOW_START, columns.WINDOW_END)
        found.append(held.with_columns(bounds + start))
    if not found:
        found = [_grouped(shard.joiner.no_messages(side), kind, offset)]
    order = [columns.WINDOW_START, columns.WINDOW_END, *(offset or ())[:1]]
    return pl.concat(found).sort(order)


def sessions(
    shard: JoinShard, between: AxisRange, only: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return the sessions of both sides that overlap a range and may still grow.

    Returns:
        The left side's keys, ``window_start``, ``window_end``, and the numbers of messages of the
        ``left`` and of the ``right`` side; by start, then keys.
    """
    spec, joiner = shard.spec, shard.joiner
    assert isinstance(spec.bound, Joint)
    keys = list(spec.left.keys)
    parts = []
    for name in SIDES:
        mine = only if name == "left" or only is None else joiner.wanted("left", only)
        held = shard.strategy.stored(name, -MAX_WINDOW, MAX_WINDOW, mine)
        named = zip(spec.side(name).keys, keys, strict=True)
        kinds = joiner.schemas["left"]
        parts.append(
            held.select(
                *(pl.col(own).cast(kinds[key]).alias(key) for own, key in named),
                columns.TIME,
                LAST,
                *(pl.lit(int(name == side), dtype=pl.Int64).alias(f"__{side}") for side in SIDES),
            )
        )
    last = pl.col(LAST).first()
    grouped = pl.concat(parts).group_by(*keys, pl.col(LAST).alias("__last"))
    found = grouped.agg(
        pl.col(columns.TIME).min().alias(columns.WINDOW_START),
        (last + spec.bound.sessions.gap).alias(columns.WINDOW_END),
        *(pl.col(f"__{side}").sum().alias(side) for side in SIDES),
    ).drop("__last")
    low, high = _ends(between)
    # The last event belongs to a session, the gap after it doesn't.
    inside = pl.col(columns.WINDOW_END) > low, pl.col(columns.WINDOW_START) <= high
    return found.filter(*inside).sort(columns.WINDOW_START, *keys)


def windows_of(spec: JoinSpec, side: SideName) -> Paned:
    """Return the windows of a side: its own, or those that partners share."""
    kind = kind_of(spec, side)
    if kind is None or isinstance(kind, Moving):
        text = "has no windows" if kind is None else "has a window for each message"
        raise OptionError("side", side, text, "ask get_messages, or give it .tumbling(…)")
    return kind


def kind_of(spec: JoinSpec, side: SideName) -> Uniform | None:
    """Return the windows of a side, of any kind; ``None`` if it has none."""
    kind = spec.side(side).windows
    return spec.bound.windows[0] if kind is None and isinstance(spec.bound, Together) else kind


def _ends(between: AxisRange, start: int = 0) -> tuple[int, int]:
    """Return the ends of a range as positions, counted from a start."""
    low = -MAX_WINDOW if between.low is None else between.low - start
    return low, MAX_WINDOW if between.high is None else between.high - start


def _held(
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
    found = _grouped(shard.strategy.stored(side, first, last, only), kind, offset)
    return found.filter(pl.col(columns.WINDOW_END) > low, pl.col(columns.WINDOW_START) <= high)


def _grouped(held: pl.DataFrame, kind: Paned, offset: tuple[str, str] | None) -> pl.DataFrame:
    pane = pane_of(pl.col(columns.TIME), kind)
    inside = copy_to_windows(held.with_columns(pane.alias(columns.PANE)), None, None, kind)
    by, ends = [columns.WINDOW], []
    if offset is not None:
        partition, number = offset
        by = [partition, columns.WINDOW]
        ends = [pl.col(number).min().alias(_FIRST_OFFSET), pl.col(number).max().alias(_LAST_OFFSET)]
    found = inside.group_by(by).agg(pl.len().cast(pl.Int64).alias(_MESSAGES), *ends)
    window = found[columns.WINDOW]
    found = found.with_columns(
        window_start(window, kind).alias(columns.WINDOW_START),
        window_end(window, kind).alias(columns.WINDOW_END),
    )
    names = [c.meta.output_name() for c in ends]
    bounds = [columns.WINDOW_START, columns.WINDOW_END]
    return found.select(*by[:-1], *bounds, *names, _MESSAGES)
