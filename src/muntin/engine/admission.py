"""Admission of messages: each is accepted, filtered by the user, or rejected for one reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import itemgetter, or_
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.model.axis import MIN_POSITION, is_representable
from muntin.model.inputs import Limits
from muntin.state.rows import add_constants, split_rows

FLAGS = (
    columns.KEEP,
    *columns.TIME_FLAGS,
    columns.CLOCK,
    columns.PARTITION,
    columns.REACH,
    columns.STARTS,
    columns.ENDS,
    columns.SAME,
    columns.ALL,
    columns.COUNTS,
)
# The columns by which a topic's message is found again.
POSITION = ("topic", "partition", "offset", "key", columns.PAYLOAD_DETAIL)
_MOST_CHARACTERS = 100
# The column with the batch's wall clock in microseconds, if messages carry it. A repeated batch has
# the same clock.
NOW = "__muntin_now"


def flag_times(time: pl.Expr, clock: pl.Expr, limits: Limits) -> list[pl.Expr]:
    """Return flags of the times that are too far from the clock; a missing time or clock isn't."""
    excluded = ((limit.reason, limit.excludes(time, clock)) for limit in limits)
    return [is_out.fill_null(False).alias(columns.LIMIT_FLAGS[why]) for why, is_out in excluded]


def admit(
    messages: pl.DataFrame, keys: Sequence[str], edge: int | pl.Expr | None
) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
    """Split messages into accepted ones and rejected ones, with a frame per reason.

    Messages have ``columns.TIME``, and may have the flags ``KEEP`` and ``TIME_FLAGS``.
    Those with NULL in one of ``keys`` are rejected, and those before ``edge`` are late. A flag that
    is NULL rejects its message.
    """
    rejected: list[pl.DataFrame] = []

    def split(frame: pl.DataFrame, bad: pl.Series, reason: str) -> pl.DataFrame:
        bad = bad.fill_null(True) if bad.null_count() else bad
        rest, split_off = split_rejected(frame, bad, reason)
        rejected.extend(split_off)
        return rest

    if not len(messages):
        return messages, rejected
    if columns.KEEP in messages.columns:
        # A message that couldn't be decoded has NULLs: a condition says nothing about it.
        is_malformed = pl.col(columns.MALFORMED) if columns.MALFORMED in messages.columns else False
        messages = messages.filter(pl.col(columns.KEEP).fill_null(is_malformed))
    if columns.MALFORMED in messages.columns:
        messages = split(messages, messages[columns.MALFORMED], "malformed")
    if messages[columns.TIME].null_count():
        messages = split(messages, messages[columns.TIME].is_null(), "null_time")
    nulls = [messages[key].is_null() for key in keys if messages[key].null_count()]
    if nulls:
        messages = split(messages, reduce(or_, nulls), "null_key")
    for reason, flag in columns.LIMIT_FLAGS.items():
        if flag in messages.columns:
            messages = split(messages, messages[flag], reason)
    # Windows around such a time would exceed the axis.
    if not _are_inside(messages[columns.TIME]):
        messages = split(messages, ~is_representable(messages[columns.TIME]), "malformed")
    if isinstance(edge, pl.Expr):
        late = messages.select(pl.col(columns.TIME) < edge).to_series()
        messages = split(messages, late, "late")
    elif edge is not None and len(messages):
        messages = split(messages, messages[columns.TIME] < edge, "late")
    return messages, rejected


def _are_inside(times: pl.Series) -> bool:
    """Return whether all times, none of which is null, are on the axis."""
    least, greatest = times.min(), times.max()
    return all(is_representable(end) for end in (least, greatest) if end is not None)


def split_rejected(
    messages: pl.DataFrame, bad: pl.Series, reason: str
) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
    """Split off the bad messages, if there are any, as a frame with the reason."""
    if not bad.any():
        return messages, []
    rejected, rest = split_rows(messages, bad)
    return rest, [add_constants(rejected, {columns.REASON: reason})]


def flag_missing_offsets(messages: pl.DataFrame, partition: str, offset: str) -> pl.DataFrame:
    """Flag messages without partition or offset, whose repetitions couldn't be detected."""
    lacks = pl.any_horizontal(pl.col(partition, offset).is_null())
    if columns.MALFORMED in messages.columns:
        lacks = lacks | pl.col(columns.MALFORMED)
    return messages.with_columns(lacks.alias(columns.MALFORMED))


def admit_deletions(messages: pl.DataFrame) -> pl.DataFrame:
    """Return messages of which those without a payload, as tombstones are, aren't malformed.

    Sources in Kafka store the bytes that they can't decode, which are empty without a payload.
    """
    if (
        columns.MALFORMED not in messages.columns
        or messages.schema.get(columns.PAYLOAD) != pl.Binary()
    ):
        return messages
    payload = pl.col(columns.PAYLOAD)
    has_payload = payload.is_null() | (payload.bin.size() > 0)
    return messages.with_columns((pl.col(columns.MALFORMED) & has_payload).alias(columns.MALFORMED))


def count_messages(
    messages: pl.DataFrame, accepted: pl.DataFrame, rejected: Sequence[pl.DataFrame]
) -> dict[str, int]:
    """Count the messages that were ``seen``, ``counted``, ``filtered`` and rejected, by reason."""
    numbers = {"seen": len(messages), "counted": len(accepted)}
    for frame in rejected:
        reason = frame[columns.REASON][0]
        numbers[reason] = numbers.get(reason, 0) + len(frame)
    if columns.KEEP in messages.columns:
        numbers["filtered"] = 2 * numbers["seen"] - sum(numbers.values())
    return numbers


def moves_watermark(messages: pl.DataFrame) -> pl.Expr:
    """Return an expression for whether a message may move the watermark.

    A message may if its time is valid and isn't in the future. That includes messages that the
    query filters, and those that it rejects as late or for NULL in a key.
    """
    moves: pl.Expr = is_representable(pl.col(columns.TIME))
    for flag in columns.TIME_FLAGS:
        if flag in messages.columns:
            moves = moves & ~pl.col(flag)
    return moves.fill_null(False)


def find_latest_time(messages: pl.DataFrame) -> int | None:
    """Return the greatest event time that may move the watermark."""
    times = messages[columns.TIME]
    flags = [messages[flag] for flag in columns.TIME_FLAGS if flag in messages]
    if any(flag.any(ignore_nulls=False) is not False for flag in flags) or not _are_inside(times):
        times = messages.filter(moves_watermark(messages))[columns.TIME]
    time = times.max()
    return time if isinstance(time, int) else None


def find_latest_arrival(messages: pl.DataFrame) -> int | None:
    """Return the greatest arrival time, or ``None`` if messages have none."""
    if columns.CLOCK not in messages.columns:
        return None
    latest_arrival = messages[columns.CLOCK].max()
    return latest_arrival if isinstance(latest_arrival, int) else None


def find_examples(rejected: pl.DataFrame, names: Iterable[str]) -> dict[str, str]:
    """Return a rejected message for each reason, by its position and its key.

    Args:
        rejected: The rejected messages, with their reason.
        names: Names of the key columns, and of those of the position in the source.

    Example:
        >>> late = pl.DataFrame(
        ...     {"page": ["home"], "offset": [7], "ip": ["::1"], "reason": ["late"]}
        ... )
        >>> find_examples(late, ["page"])
        {'late': "offset=7, page='home'"}
    """
    if rejected.is_empty():
        return {}
    wanted = dict.fromkeys((*POSITION, *names))
    shown = [name for name in wanted if name in rejected.columns]
    firsts = rejected[[*shown, columns.REASON]].unique(columns.REASON, keep="first")
    rows = sorted(firsts.iter_rows(named=True), key=itemgetter(columns.REASON))
    return {row.pop(columns.REASON): format_message(row) for row in rows}


def format_message(row: dict[str, Any]) -> str:
    """Return the values of a message in one line, each shortened."""
    values = ((name, value) for name, value in row.items() if value is not None)
    return ", ".join(f"{name}={_format_value(value)}" for name, value in values)


def _format_value(value: Any) -> str:
    text = repr(value if isinstance(value, int | float | str | bytes) else str(value))
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def find_watermarks_before(watermarks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the watermark before each message, from the watermark that follows from each alone.

    Example:
        >>> find_watermarks_before(np.array([30, 10, 40]))[1:].tolist()
        [30, 30]
    """
    before = np.concatenate([[MIN_POSITION], watermarks[:-1]])[: len(watermarks)]
    latest: NDArray[np.int64] = np.maximum.accumulate(before)
    return latest


@dataclass(frozen=True)
class Flags:
    """Adds the columns by which messages are judged.

    Attributes:
        clock: Arrival-time column, if messages carry their own clock.
        limits: How far from the clock a time may be.
        stamped: Whether messages carry the batch's wall clock.
    """

    time: str | None
    clock: str | None
    limits: Limits = ()
    stamped: bool = False

    def add(self, messages: pl.DataFrame, now: int) -> pl.DataFrame:
        """Return messages with their flags."""
        clock = pl.lit(now, dtype=pl.Int64)
        if self.stamped:
            messages = messages.with_columns(clock.alias(NOW))
        if self.clock is not None:
            clock = pl.col(self.clock).cast(pl.Int64)
            messages = messages.with_columns(pl.col(self.clock).alias(columns.CLOCK))
        if self.time is None:
            return messages
        time = pl.col(self.time).cast(pl.Int64)
        return messages.with_columns(flag_times(time, clock, self.limits))
