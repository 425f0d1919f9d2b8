"""Turns rows of a source into an operator's messages, with their times, keys and flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

import polars as pl

from muntin.engine import columns
from muntin.engine.admission import FLAGS, flag_times
from muntin.engine.utf8 import GARBLED
from muntin.hosts.local.expressions import (
    check_by_row,
    find_output_name,
    find_type,
    parse_sql_expression,
    resolve_column,
)
from muntin.model.axis import MAX_TIME_DISTANCE, is_representable
from muntin.model.errors import OptionError
from muntin.model.inputs import Limits
from muntin.sources.text_values import parse_times
from muntin.state.rows import FEW_ROWS

_PARSED = "__muntin_parsed"
_OFFSET_KEYS = (pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64())


@dataclass(frozen=True)
class MessageReader:
    """Turns the rows of a source into an operator's messages.

    Attributes:
        rows: The columns of a row.
        computed: Columns that messages have in addition to those of their row.
        time: The event time as an expression; `None` where there is none.
        time_name: The name of the event time.
        where: The condition that a message must meet; the others are counted as `filtered`.
        where_text: That condition as the user wrote it.
        result_filter: The condition of an upstream operator's results that count; it may name
            columns that messages don't have. The others are filtered, and have no time.
        clock: The arrival time of a message; `None` is the clock of the machine.
        limits: How far from the clock a time may be.
        malformed: The column with the bytes that couldn't be decoded, if the source has one.
        used: The columns that the operator computes with: a message with text in one of them that
            isn't UTF-8 is malformed.
        partitions: Whether each partition of the source has a clock.
    """

    rows: pl.Schema
    computed: Mapping[str, pl.Expr] = field(default_factory=dict)
    time: pl.Expr | None = None
    time_name: str | None = None
    where: pl.Expr | None = None
    where_text: str | None = None
    result_filter: pl.Expr | None = None
    clock: pl.Expr | None = None
    limits: Limits = ()
    malformed: str | None = None
    used: frozenset[str] = frozenset()
    partitions: bool = False

    @cached_property
    def time_type(self) -> pl.DataType | None:
        """The type of the event time in the rows."""
        if self.time is None:
            return None
        return find_type(self.rows, "time", self.time, self.time_name)

    @cached_property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns of messages, without the engine's own."""
        computed = {
            name: find_type(self.rows, name, expression, name)
            for name, expression in self.computed.items()
        }
        return {**self.rows, **computed}

    def with_columns(self, computed: Mapping[str, pl.Expr]) -> MessageReader:
        """Return the reader with more computed columns."""
        return replace(self, computed={**self.computed, **computed})

    @cached_property
    def _clock_type(self) -> pl.DataType | None:
        return None if self.clock is None else find_type(self.rows, "clock", self.clock, "clock")

    @cached_property
    def _names(self) -> frozenset[str]:
        """The columns of messages and those of the engine."""
        names = {*self.schema, *FLAGS, columns.TIME}
        return frozenset(names if self.partitions else names - {columns.PARTITION})

    def read(self, rows: pl.DataFrame, now: int) -> pl.DataFrame:
        """Turn rows into messages.

        Args:
            rows: Rows of the source; they may have `GARBLED` as a further column.
            now: The clock of the machine for this batch, microseconds.
        """
        flags = [expression.alias(name) for name, expression in self.computed.items()]
        malformed: list[pl.Expr] = []
        if self.malformed is not None:
            malformed.append(pl.col(self.malformed).is_not_null())
        if GARBLED in rows.columns:
            garbled = pl.col(GARBLED).list.set_intersection(list(self.used)).list.len() > 0
            malformed.append(garbled.fill_null(False))
        time = pl.lit(0, dtype=pl.Int64)
        if self.time is not None:
            kind = self.time_type
            time = to_microseconds(self.time, kind)
            if kind == pl.String():
                malformed.append(self.time.is_not_null() & time.is_null())
            if self.result_filter is not None:
                time = pl.when(self.result_filter).then(time)
        flags.append(time.alias(columns.TIME))
        if malformed:
            flags.append(pl.any_horizontal(malformed).fill_null(False).alias(columns.MALFORMED))
        conditions = [one for one in (self.where, self.result_filter) if one is not None]
        if conditions:
            flags.append(pl.all_horizontal(conditions).alias(columns.KEEP))
        wall: pl.Expr = pl.lit(self._shift_to_local(now), dtype=pl.Int64)
        if self.clock is not None:
            wall = to_microseconds(self.clock, self._clock_type)
            flags.append(wall.alias(columns.CLOCK))
        if self.time is not None:
            flags += flag_times(time, wall, self.limits)
        add_flags = rows.with_columns_seq if len(rows) <= FEW_ROWS else rows.with_columns
        messages = add_flags(flags)
        if len(messages.columns) == len(self._names):
            return messages
        return messages[[name for name in messages.columns if name in self._names]]

    def _shift_to_local(self, now: int) -> int:
        """Return the clock of the machine on the axis of the times: local if they have no zone."""
        if not has_zone(self.time_type) and is_representable(now):
            try:
                shift = datetime.fromtimestamp(now / 1_000_000).astimezone().utcoffset()
            except (OverflowError, ValueError, OSError):
                return now
            return now + (0 if shift is None else round(shift.total_seconds() * 1_000_000))
        return now


def has_zone(time: pl.DataType | None) -> bool:
    """Return whether moments in results have a zone, which follows from the event times' type."""
    if isinstance(time, pl.Datetime):
        return time.time_zone is not None
    return not isinstance(time, pl.Date)


def result_time_type(time: pl.DataType | None) -> pl.DataType:
    """Return the type of moments in results, in the zone of the event times."""
    if isinstance(time, pl.Datetime) and time.time_zone is not None:
        return pl.Datetime("us", time.time_zone)
    return pl.Datetime("us", "UTC" if has_zone(time) else None)


def to_microseconds(time: pl.Expr, kind: pl.DataType | None) -> pl.Expr:
    """Return a time as microseconds; NULL where a text isn't a time."""
    if kind == pl.String():
        return parse_times(time)
    if isinstance(kind, pl.Datetime) and kind.time_unit == "ms":
        # A cast of times too large for microseconds would wrap around.
        physical, most = time.to_physical(), MAX_TIME_DISTANCE // 1000
        return (
            pl.when(physical.is_between(-most, most))
            .then(physical * 1000)
            .otherwise(MAX_TIME_DISTANCE)
        )
    if isinstance(kind, pl.Datetime) and kind.time_unit == "us":
        return time.to_physical()
    return time.cast(pl.Datetime("us")).to_physical()


def resolve_named(rows: pl.Schema, option: str, value: object) -> tuple[str, pl.Expr]:
    """Return the name and the expression of a column, a field of structs, or an expression."""
    if isinstance(value, str):
        expression = resolve_column(rows, option, value)
        return value if option in ("time", "clock") else find_output_name(
            option, expression
        ), expression
    if not isinstance(value, pl.Expr):
        raise OptionError(option, value, "isn't a column", "give its name or a Polars expression")
    find_type(rows, option, value, value)
    check_by_row(option, value)
    return find_output_name(option, value), value


def resolve_operand(rows: pl.Schema, option: str, value: object, shown_as: object) -> pl.Expr:
    """Return the expression that an aggregate or a session's gap is computed of."""
    if isinstance(value, str):
        if value in rows or value.replace(".", "").isidentifier():
            return resolve_column(rows, option, value)
        return parse_sql_expression(rows, option, value)
    if not isinstance(value, pl.Expr):
        hint = "give the name of a column, or a Polars expression"
        raise OptionError(option, shown_as, "isn't over a column", hint)
    find_type(rows, option, value, shown_as)
    check_by_row(option, value)
    return value


def check_time(option: str, rows: pl.Schema, shown: pl.Expr) -> None:
    """Refuse an expression of rows that isn't a time."""
    kind = find_type(rows, option, shown, shown)
    if isinstance(kind, pl.Datetime | pl.String) or (option == "time" and kind == pl.Date()):
        return
    name = shown.meta.output_name()
    hint = "cast it to a datetime first"
    if kind.is_numeric():
        hint = f"write time=pl.from_epoch({name!r}, time_unit='s'), or 'ms' or 'us'"
    raise OptionError(option, name, f"has type {kind}, not a timestamp", hint)


def check_offset(rows: pl.Schema, offset: Sequence[str] | None) -> None:
    """Refuse columns of a partition and an offset that are missing, or of other types."""
    for position, name in enumerate(offset or ()):
        if name not in rows:
            raise OptionError("offset", name, "isn't a column", f"give two of {', '.join(rows)}")
        kind = rows[name]
        if kind in _OFFSET_KEYS or (position == 0 and kind == pl.String()):
            continue
        raise OptionError("offset", name, f"has type {kind}", "cast it to Int64")
