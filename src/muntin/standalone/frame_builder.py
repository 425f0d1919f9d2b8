"""Messages on their way in: tables, or rows of Python values, to frames for the engine.

The columns of the first messages are those of all: a table that lacks one or has another type is
refused, which is a mistake of the program; a single value that doesn't fit is data, and its message
is rejected as malformed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import polars as pl
import pyarrow as pa

from muntin.engine import columns
from muntin.engine.dtypes import moment_of
from muntin.engine.sessions.combine import no_gap
from muntin.engine.utf8 import GARBLED, frame_of, from_pandas
from muntin.model.axis import DAY
from muntin.model.errors import OptionError
from muntin.standalone.fields import (
    GREATEST,
    LEAST,
    Unread,
    column,
    micros_of,
    schema_of,
    times,
    type_of,
    type_of_time,
)
from muntin.standalone.input_fields import InputFields

# Columns that travel with a message through the engine: the cells that couldn't be read, and the
# watermark that it was judged by where that isn't its batch's.
UNREAD, JUDGED = "__muntin_unread", "__muntin_judged"

_UTC = pl.Datetime("us", "UTC")
# Whole numbers between these are taken for microseconds, and may be seconds or milliseconds.
_SECONDS_OF_TODAY, _TWO_MONTHS = 10**9, 62 * DAY
_log = logging.getLogger("muntin.standalone")


class FrameBuilder:
    """Makes the frames of one operator."""

    def __init__(
        self, read: InputFields, clock: Callable[[], int], schema: Mapping[str, Any] | None = None
    ) -> None:
        self.input = read
        self.clock = clock
        self.columns: pl.Schema | None = None
        self._given = schema
        self._has_warned = False
        self.forget()

    def forget(self) -> None:
        """Know no columns but those of the schema that was given, if one was."""
        self.columns = None
        if self._given is not None:
            known = dict(schema_of(self._given))
            if self.input.time is not None:
                known.setdefault(self.input.time, _UTC)
            for name in self.input.offset or ():
                known.setdefault(name, pl.Int64())
            self.adopt(pl.Schema(known))

    def adopt(self, schema: pl.Schema) -> None:
        """Let these be the columns from now on."""
        for option, name in self.input.needed:
            if name not in schema:
                hint = f"give messages that have it, or one of {', '.join(schema)}"
                raise OptionError(option, name, "isn't a field of the messages", hint)
        time, (partition, offset) = self.input.time, self.input.offset or (None, None)
        if time is not None and not _is_time(schema[time]):
            hint = "give timestamps, whole microseconds, or ISO 8601 text"
            raise OptionError("time", time, f"has type {schema[time]}", hint)
        if offset is not None and not schema[offset].is_integer():
            raise OptionError("offset", offset, f"has type {schema[offset]}", "give integers")
        if partition is not None and not (
            schema[partition].is_integer() or schema[partition] == pl.String
        ):
            hint = "give integers or text"
            raise OptionError("offset", partition, f"has type {schema[partition]}", hint)
        self.columns = schema

    @property
    def schema(self) -> pl.Schema:
        """The types of what the engine gets."""
        assert self.columns is not None
        hidden = {UNREAD: pl.String(), JUDGED: pl.Int64(), columns.TIME: pl.Int64()}
        return pl.Schema({**self.columns, **hidden})

    @property
    def moment(self) -> pl.DataType:
        """The type of a point in time, as the time field has it."""
        time = self.input.time
        return moment_of(_UTC if time is None or self.columns is None else self.columns[time])

    def batch(self, given: Any) -> pl.DataFrame | None:
        """The frame of a batch, of any table; ``None`` where it has neither rows nor columns."""
        if isinstance(given, Sequence) and all(isinstance(row, Mapping) for row in given):
            return self._of_mappings(given) if given else None
        frame, unread = _table(given)
        if self.columns is None:
            self.adopt(frame.schema)
        frame, time = self._fitting(frame), self.input.time
        malformed = [] if unread is None else [unread.is_not_null()]
        if time is None:
            return self._finished(frame, _nowhere(len(frame)), unread, malformed)
        place, unreadable = _read_times(frame[time])
        malformed += [] if unreadable is None else [unreadable]
        beyond = self._beyond(place)
        if beyond is not None:
            text = f"{time}=" + place.cast(pl.String)
            unread = text.set(~beyond, None) if unread is None else text.zip_with(beyond, unread)
            readable = frame.select(pl.when(~beyond).then(pl.col(time))).to_series()
            frame, place = frame.with_columns(readable), place.set(beyond, None)
            malformed.append(beyond)
        return self._finished(frame, place, unread, malformed)

    def rows(
        self,
        cells: Mapping[str, Sequence[Any]],
        length: int,
        sample: pl.DataType | None = None,
        future: Sequence[int] | None = None,
    ) -> pl.DataFrame:
        """The frame of messages that came as Python values, one per message and field.

        Times are as ``micros_of`` gives them; ``sample`` is their type, should it not be known yet.
        ``future`` are the numbers of messages that are too far ahead, if that was judged before.
        """
        time = self.input.time
        if self.columns is None:
            self.adopt(self._inferred(cells, sample))
        assert self.columns is not None
        unread: Unread = {}
        made = {n: column(n, cells[n], d, unread) for n, d in self.columns.items() if n != time}
        if time is None:
            place = _nowhere(length)
        else:
            place = times(time, cells[time], unread)
            beyond = self._beyond(place)
            if beyond is not None:
                for row in beyond.arg_true():
                    unread.setdefault(row, []).append(f"{time}={place[row]}")
                place = place.set(beyond, None)
            made[time] = self._time_field(cells[time], place, self.columns[time])
        frame = pl.DataFrame([made[n] for n in self.columns])
        texts, malformed = None, []
        if unread:
            found = ["; ".join(unread[row]) if row in unread else None for row in range(length)]
            texts = pl.Series(found, dtype=pl.String)
            malformed = [texts.is_not_null()]
        ahead = None
        if future is not None:
            ahead = pl.Series([False], dtype=pl.Boolean).new_from_index(0, length)
            ahead = ahead.scatter(future, True) if future else ahead
        return self._finished(frame, place, texts, malformed, ahead)

    def _of_mappings(self, given: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
        fields: Iterable[str] = self.columns or dict.fromkeys(
            [name for _, name in self.input.needed] + [name for row in given for name in row]
        )
        cells: dict[str, list[Any]] = {f: [row.get(f) for row in given] for f in fields}
        sample = None
        if self.input.time is not None:
            raw = cells[self.input.time]
            sample = type_of_time(next((t for t in raw if t is not None), None))
            cells[self.input.time] = [micros_of(time) for time in raw]
        return self.rows(cells, len(given), sample)

    def _inferred(
        self, cells: Mapping[str, Sequence[Any]], sample: pl.DataType | None
    ) -> pl.Schema:
        found = {}
        for name, values in cells.items():
            given = sample if name == self.input.time else None
            found[name] = given or type_of(name, values)
        return pl.Schema(found)

    def _time_field(
        self, given: Sequence[int | str | None], place: pl.Series, dtype: pl.DataType
    ) -> pl.Series:
        """The time field itself, out of its microseconds."""
        time = place.name
        if dtype != pl.String:
            return place.cast(dtype if dtype.is_integer() else pl.Datetime("us")).cast(dtype)
        texts = place.cast(pl.Datetime("us")).cast(pl.String).to_list()
        shown = [g if isinstance(g, str) else t for g, t in zip(given, texts, strict=True)]
        return pl.Series(time, shown, dtype=pl.String)

    def _finished(
        self,
        frame: pl.DataFrame,
        place: pl.Series,
        unread: pl.Series | None,
        malformed: list[pl.Series],
        future: pl.Series | None = None,
    ) -> pl.DataFrame:
        """Add what travels with the messages, and the flags that some of them need."""
        if self.moment.is_integer() and not self._has_warned:
            self._warn_of_unit(place)
        frame = frame.with_columns(
            place.alias(columns.TIME),
            (pl.lit(None, dtype=pl.String) if unread is None else unread).alias(UNREAD),
            pl.lit(None, dtype=pl.Int64).alias(JUDGED),
        )
        if self.input.gap is not None:
            unfit = no_gap(frame, self.input.gap).fill_null(True)
            malformed = [*malformed, frame.select(unfit).to_series()]
        if malformed and (bad := reduce(or_, malformed)).any():
            frame = frame.with_columns(bad.alias(columns.MALFORMED))
        if future is None and self.input.max_ahead is not None and self.input.time is not None:
            future = frame[columns.TIME] > self.clock() + self.input.max_ahead
        if future is not None and future.any():
            frame = frame.with_columns(future.fill_null(False).alias(columns.FUTURE))
        return frame

    def _warn_of_unit(self, place: pl.Series) -> None:
        """Warn once where whole numbers look like seconds or milliseconds of today."""
        least, greatest = place.min(), place.max()
        if not isinstance(least, int) or not isinstance(greatest, int):
            return
        if least >= _SECONDS_OF_TODAY and greatest <= _TWO_MONTHS:
            self._has_warned = True
            _log.warning(
                "time=%r: all times lie within two months of 1970. "
                "Give whole microseconds: multiply milliseconds by 1000.",
                self.input.time,
            )

    def _beyond(self, place: pl.Series) -> pl.Series | None:
        """Which times lie so far out that their windows have no place; ``None`` where none do."""
        room = 0 if self.moment.is_integer() else self.input.reach
        least, greatest = place.min(), place.max()
        if not isinstance(least, int) or not isinstance(greatest, int):
            return None
        if least >= LEAST + room and greatest <= GREATEST - room:
            return None
        return ((place < LEAST + room) | (place > GREATEST - room)).fill_null(False)

    def _fitting(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The known columns of a table, in their order and types."""
        assert self.columns is not None
        if frame.schema == self.columns:
            return frame
        fitted = []
        for name, dtype in self.columns.items():
            if name not in frame.columns:
                hint = "give all batches the same columns"
                raise OptionError("batch", name, "is missing, the first messages had it", hint)
            found = frame[name]
            if found.dtype != dtype and not _widens(found.dtype, dtype):
                problem = f"has type {found.dtype}, the first messages had {dtype}"
                raise OptionError("batch", name, problem, "cast it, or give schema={…}")
            try:
                fitted.append(found if found.dtype == dtype else found.cast(dtype))
            except pl.exceptions.PolarsError as error:
                problem = f"has values beyond {dtype}, which the first messages had"
                raise OptionError("batch", name, problem, "give schema={…}") from error
        return pl.DataFrame(fitted)


def _nowhere(length: int) -> pl.Series:
    """The places of messages that have no time."""
    return pl.Series([0], dtype=pl.Int64).new_from_index(0, length)


def _is_time(dtype: pl.DataType) -> bool:
    return dtype.is_integer() or isinstance(dtype, pl.Datetime | pl.Date | pl.String)


def _widens(found: pl.DataType, wanted: pl.DataType) -> bool:
    """Whether a column can be cast without loss."""
    if found == pl.Null:
        return True
    if found.is_integer():
        return wanted.is_integer() or wanted.is_float()
    if found.is_float():
        return wanted.is_float()
    if isinstance(found, pl.Categorical | pl.Enum):
        return wanted == pl.String
    return isinstance(found, pl.Datetime) and isinstance(wanted, pl.Datetime)


def _table(given: Any) -> tuple[pl.DataFrame, pl.Series | None]:
    """A table as a frame, and which columns of a message aren't text, where some aren't."""
    try:
        if isinstance(given, pa.RecordBatch):
            given = pa.Table.from_batches([given])
        if isinstance(given, pa.Table):
            given = frame_of(given)
        if type(given).__module__.partition(".")[0] == "pandas":
            given = from_pandas(given)
        frame = given if isinstance(given, pl.DataFrame) else pl.DataFrame(given)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        hint = "give a Polars, pandas or Arrow table, or a list of dictionaries"
        raise OptionError("batch", type(given).__name__, "isn't a table", hint) from error
    if GARBLED not in frame.columns:
        return frame, None
    names = pl.when(pl.col(GARBLED).list.len() > 0).then(pl.col(GARBLED).list.join(", "))
    return frame.drop(GARBLED), frame.select(names + " isn't UTF-8").to_series()


def _read_times(times: pl.Series) -> tuple[pl.Series, pl.Series | None]:
    """A column's times in microseconds, and which of them can't be read, if any can't."""
    dtype = times.dtype
    if dtype == pl.String:
        read = [micros_of(text) for text in times]
        malformed = pl.Series([isinstance(time, str) for time in read], dtype=pl.Boolean)
        known = [None if isinstance(time, str) else time for time in read]
        return pl.Series(known, dtype=pl.Int64), malformed
    if dtype.is_integer() or dtype == pl.Datetime("us"):
        place = times.cast(pl.Int64)
    elif isinstance(dtype, pl.Datetime) and dtype.time_unit == "us":
        place = times.to_physical()
    elif isinstance(dtype, pl.Datetime) and dtype.time_unit == "ms":
        # A cast would wrap around.
        place, most = times.to_physical(), GREATEST // 1000
        malformed = ((place > most) | (place < -most)).fill_null(False)
        return place.set(malformed, None) * 1000, malformed
    else:
        place = times.cast(pl.Datetime("us")).to_physical()
    return place, None
