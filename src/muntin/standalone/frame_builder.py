"""Builds frames for the engine from tables, or from rows of Python values.

The columns of the first messages are those of all. A later table that lacks a column or has another
type is refused, because that is a mistake in the program. A single value of another type is bad
data: its message is rejected as malformed.
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
from muntin.engine.admission import flag_times
from muntin.engine.dtypes import instant_type
from muntin.engine.sessions.combine import has_invalid_gap
from muntin.engine.utf8 import GARBLED, frame_from_arrow, from_pandas
from muntin.model.axis import DAY
from muntin.model.errors import OptionError
from muntin.standalone.fields import (
    MAX_TIME,
    MIN_TIME,
    UnreadableCells,
    build_column,
    build_schema,
    infer_time_type,
    infer_type,
    parse_micros,
)
from muntin.standalone.input_fields import InputFields

# Columns that accompany a message through the engine: its unreadable cells, and the watermark that
# judged it if it isn't that of the batch.
UNREAD_COLUMN, WATERMARK_COLUMN = "__muntin_unread", "__muntin_judged"

_UTC = pl.Datetime("us", "UTC")
# Integers in this range count as microseconds, but may be meant as seconds or milliseconds.
_SECONDS_OF_TODAY, _TWO_MONTHS = 10**9, 62 * DAY
_log = logging.getLogger("muntin.standalone")


class FrameBuilder:
    """Builds the frames of one operator."""

    def __init__(
        self, read: InputFields, clock: Callable[[], int], schema: Mapping[str, Any] | None = None
    ) -> None:
        self.fields = read
        self.clock = clock
        self.columns: pl.Schema | None = None
        self._schema = schema
        self._has_warned = False
        self.reset()

    def reset(self) -> None:
        """Forget all columns except those of the given schema."""
        self.columns = None
        if self._schema is not None:
            types = dict(build_schema(self._schema))
            if self.fields.time is not None:
                types.setdefault(self.fields.time, _UTC)
            for name in self.fields.offset or ():
                types.setdefault(name, pl.Int64())
            self.adopt(pl.Schema(types))

    def adopt(self, schema: pl.Schema) -> None:
        """Use these columns from now on.

        Raises:
            OptionError: When a field of the query is missing or has an unsuitable type.
        """
        for option, name in self.fields.needed:
            if name not in schema:
                hint = f"give messages that have it, or one of {', '.join(schema)}"
                raise OptionError(option, name, "isn't a field of the messages", hint)
        time, (partition, offset) = self.fields.time, self.fields.offset or (None, None)
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
        """The column types of the frames for the engine."""
        assert self.columns is not None
        hidden = {
            UNREAD_COLUMN: pl.String(),
            WATERMARK_COLUMN: pl.Int64(),
            columns.TIME: pl.Int64(),
        }
        return pl.Schema({**self.columns, **hidden})

    @property
    def time_type(self) -> pl.DataType:
        """The type of a point in time, derived from the time field."""
        time = self.fields.time
        return instant_type(_UTC if time is None or self.columns is None else self.columns[time])

    def build_from_table(self, table: Any) -> pl.DataFrame | None:
        """Build the frame of any table; ``None`` if it has neither rows nor columns."""
        if isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table):
            return self._build_from_mappings(table) if table else None
        frame, unread = _to_frame(table)
        if self.columns is None:
            self.adopt(frame.schema)
        frame, time = self._select_columns(frame), self.fields.time
        malformed = [] if unread is None else [unread.is_not_null()]
        if time is None:
            return self._add_flags(frame, _zero_positions(len(frame)), unread, malformed)
        positions, unreadable = _read_times(frame[time])
        malformed += [] if unreadable is None else [unreadable]
        out_of_range = self._find_out_of_range(positions)
        if out_of_range is not None:
            text = f"{time}=" + positions.cast(pl.String)
            unread = (
                text.set(~out_of_range, None)
                if unread is None
                else text.zip_with(out_of_range, unread)
            )
            readable = frame.select(pl.when(~out_of_range).then(pl.col(time))).to_series()
            frame, positions = frame.with_columns(readable), positions.set(out_of_range, None)
            malformed.append(out_of_range)
        return self._add_flags(frame, positions, unread, malformed)

    def build_from_cells(
        self,
        cells: Mapping[str, Sequence[Any]],
        length: int,
        sample: pl.DataType | None = None,
        excluded: Mapping[str, Sequence[int]] | None = None,
    ) -> pl.DataFrame:
        """Build the frame of messages given as Python values, by field.

        Args:
            cells: The values of each field; times as ``parse_micros`` returns them.
            length: The number of messages.
            sample: The type of the times, if it isn't known yet.
            excluded: The numbers of messages whose time is beyond a limit, by the reason, if that
                was checked before.
        """
        time = self.fields.time
        if self.columns is None:
            self.adopt(self._infer_schema(cells, sample))
        assert self.columns is not None
        unread: UnreadableCells = {}
        fields = {
            n: build_column(n, cells[n], d, unread) for n, d in self.columns.items() if n != time
        }
        if time is None:
            positions = _zero_positions(length)
        else:
            positions = build_column(time, cells[time], pl.Int64(), unread)
            out_of_range = self._find_out_of_range(positions)
            if out_of_range is not None:
                for row in out_of_range.arg_true():
                    unread.setdefault(row, []).append(f"{time}={positions[row]}")
                positions = positions.set(out_of_range, None)
            fields[time] = self._build_time_field(cells[time], positions, self.columns[time])
        frame = pl.DataFrame([fields[n] for n in self.columns])
        texts, malformed = None, []
        if unread:
            unread_texts = [
                "; ".join(unread[row]) if row in unread else None for row in range(length)
            ]
            texts = pl.Series(unread_texts, dtype=pl.String)
            malformed = [texts.is_not_null()]
        return self._add_flags(frame, positions, texts, malformed, excluded)

    def _build_from_mappings(self, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
        fields: Iterable[str] = self.columns or dict.fromkeys(
            [name for _, name in self.fields.needed] + [name for row in rows for name in row]
        )
        cells: dict[str, list[Any]] = {f: [row.get(f) for row in rows] for f in fields}
        sample = None
        if self.fields.time is not None:
            raw = cells[self.fields.time]
            sample = infer_time_type(next((t for t in raw if t is not None), None))
            cells[self.fields.time] = [parse_micros(time) for time in raw]
        return self.build_from_cells(cells, len(rows), sample)

    def _infer_schema(
        self, cells: Mapping[str, Sequence[Any]], sample: pl.DataType | None
    ) -> pl.Schema:
        types = {}
        for name, values in cells.items():
            known_type = sample if name == self.fields.time else None
            types[name] = known_type or infer_type(name, values)
        return pl.Schema(types)

    def _build_time_field(
        self, raw_times: Sequence[int | str | None], positions: pl.Series, dtype: pl.DataType
    ) -> pl.Series:
        time = positions.name
        if dtype != pl.String:
            return positions.cast(dtype if dtype.is_integer() else pl.Datetime("us")).cast(dtype)
        texts = positions.cast(pl.Datetime("us")).cast(pl.String).to_list()
        shown = [
            raw if isinstance(raw, str) else text
            for raw, text in zip(raw_times, texts, strict=True)
        ]
        return pl.Series(time, shown, dtype=pl.String)

    def _add_flags(
        self,
        frame: pl.DataFrame,
        positions: pl.Series,
        unread: pl.Series | None,
        malformed: list[pl.Series],
        excluded: Mapping[str, Sequence[int]] | None = None,
    ) -> pl.DataFrame:
        """Add the accompanying columns, and the flags of malformed and excluded messages."""
        if self.time_type.is_integer() and not self._has_warned:
            self._warn_of_unit(positions)
        frame = frame.with_columns(
            positions.alias(columns.TIME),
            (pl.lit(None, dtype=pl.String) if unread is None else unread).alias(UNREAD_COLUMN),
            pl.lit(None, dtype=pl.Int64).alias(WATERMARK_COLUMN),
        )
        if self.fields.gap is not None:
            unfit = has_invalid_gap(frame, self.fields.gap).fill_null(True)
            malformed = [*malformed, frame.select(unfit).to_series()]
        if malformed and (bad := reduce(or_, malformed)).any():
            frame = frame.with_columns(bad.alias(columns.MALFORMED))
        flags = self._flag_times(frame, excluded)
        return frame.with_columns(flags) if flags else frame

    def _flag_times(
        self, frame: pl.DataFrame, excluded: Mapping[str, Sequence[int]] | None
    ) -> list[pl.Series]:
        """Return the flags of the limits that exclude some messages, which may be known."""
        if excluded is not None:
            none_excluded = pl.Series([False]).new_from_index(0, len(frame))
            return [
                none_excluded.clone().scatter(rows, True).alias(columns.LIMIT_FLAGS[reason])
                for reason, rows in excluded.items()
            ]
        if not self.fields.limits or self.fields.time is None:
            return []
        times, clock = pl.col(columns.TIME), pl.lit(self.clock(), pl.Int64)
        flags = frame.select(flag_times(times, clock, self.fields.limits)).get_columns()
        return [flag for flag in flags if flag.any()]

    def _warn_of_unit(self, positions: pl.Series) -> None:
        """Warn once if integers look like present times in seconds or milliseconds."""
        least, greatest = positions.min(), positions.max()
        if not isinstance(least, int) or not isinstance(greatest, int):
            return
        if least >= _SECONDS_OF_TODAY and greatest <= _TWO_MONTHS:
            self._has_warned = True
            _log.warning(
                "time=%r: all times lie within two months of 1970. "
                "Give whole microseconds: multiply milliseconds by 1000.",
                self.fields.time,
            )

    def _find_out_of_range(self, positions: pl.Series) -> pl.Series | None:
        """Flag times whose windows would be out of range; ``None`` if there are none."""
        margin = 0 if self.time_type.is_integer() else self.fields.reach
        least, greatest = positions.min(), positions.max()
        if not isinstance(least, int) or not isinstance(greatest, int):
            return None
        if least >= MIN_TIME + margin and greatest <= MAX_TIME - margin:
            return None
        return ((positions < MIN_TIME + margin) | (positions > MAX_TIME - margin)).fill_null(False)

    def _select_columns(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Select the known columns of a table, in their order and types."""
        assert self.columns is not None
        if frame.schema == self.columns:
            return frame
        selected = []
        for name, dtype in self.columns.items():
            if name not in frame.columns:
                hint = "give all batches the same columns"
                raise OptionError("batch", name, "is missing, the first messages had it", hint)
            series = frame[name]
            if series.dtype == dtype:
                selected.append(series)
                continue
            if not _can_widen(series.dtype, dtype):
                problem = f"has type {series.dtype}, the first messages had {dtype}"
                raise OptionError("batch", name, problem, "cast it, or give schema={…}")
            column = series.cast(dtype, strict=False)
            if column.cast(series.dtype, strict=False).ne_missing(series).any():
                problem = f"has values that {dtype} doesn't hold, which the first messages had"
                raise OptionError("batch", name, problem, "give schema={…}")
            selected.append(column)
        return pl.DataFrame(selected)


def _zero_positions(length: int) -> pl.Series:
    """Return the positions of messages without a time."""
    return pl.Series([0], dtype=pl.Int64).new_from_index(0, length)


def _is_time(dtype: pl.DataType) -> bool:
    return dtype.is_integer() or isinstance(dtype, pl.Datetime | pl.Date | pl.String)


def _can_widen(dtype: pl.DataType, target: pl.DataType) -> bool:
    """Return whether a column can be cast, unless its values are too long or too fine."""
    if dtype == pl.Null:
        return True
    if dtype.is_integer():
        return target.is_integer() or target.is_float()
    if dtype.is_float():
        return target.is_float()
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return target == pl.String
    return isinstance(dtype, pl.Datetime) and isinstance(target, pl.Datetime)


def _to_frame(table: Any) -> tuple[pl.DataFrame, pl.Series | None]:
    """Convert a table to a frame; also return the columns of each row that aren't UTF-8."""
    try:
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        if isinstance(table, pa.Table):
            table = frame_from_arrow(table)
        if type(table).__module__.partition(".")[0] == "pandas":
            table = from_pandas(table)
        frame = table if isinstance(table, pl.DataFrame) else pl.DataFrame(table)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        hint = "give a Polars, pandas or Arrow table, or a list of dictionaries"
        raise OptionError("batch", type(table).__name__, "isn't a table", hint) from error
    if GARBLED not in frame.columns:
        return frame, None
    names = pl.when(pl.col(GARBLED).list.len() > 0).then(pl.col(GARBLED).list.join(", "))
    return frame.drop(GARBLED), frame.select(names + " isn't UTF-8").to_series()


def _read_times(times: pl.Series) -> tuple[pl.Series, pl.Series | None]:
    """Convert times to microseconds; also flag those that can't be read, if any."""
    dtype = times.dtype
    if dtype == pl.String:
        read = [parse_micros(text) for text in times]
        malformed = pl.Series([isinstance(time, str) for time in read], dtype=pl.Boolean)
        readable = [None if isinstance(time, str) else time for time in read]
        return pl.Series(readable, dtype=pl.Int64), malformed
    if dtype.is_integer() or dtype == pl.Datetime("us"):
        positions = times.cast(pl.Int64)
    elif isinstance(dtype, pl.Datetime) and dtype.time_unit == "us":
        positions = times.to_physical()
    elif isinstance(dtype, pl.Datetime) and dtype.time_unit == "ms":
        # A cast would wrap around.
        positions, limit = times.to_physical(), MAX_TIME // 1000
        malformed = ((positions > limit) | (positions < -limit)).fill_null(False)
        return positions.set(malformed, None) * 1000, malformed
    else:
        positions = times.cast(pl.Datetime("us")).to_physical()
    return positions, None
