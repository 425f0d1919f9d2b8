"""One stream of messages: buffers single messages, and remembers the types of their fields."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from muntin.model.axis import MAX_POSITION, MIN_POSITION
from muntin.model.errors import OptionError
from muntin.model.inputs import find_exceeded, find_safe_time
from muntin.standalone.fields import MAX_TIME, MIN_TIME, fits_type, infer_time_type, parse_micros
from muntin.standalone.frame_builder import FrameBuilder
from muntin.standalone.input_fields import InputFields
from muntin.state.frames import decode_frame, encode_frame
from muntin.stores import KeyValue, KeyValueBlobs

# The most single messages to buffer: enough to make the cost of a step per message small.
MAX_BUFFERED = 32_768

_NOTHING: dict[str, Any] = {}


class InputStream:
    """One stream of messages on its way into an operator.

    Single messages are buffered in a Python list per field, until the engine processes them
    together.

    Attributes:
        excluded: The numbers of buffered messages whose time is beyond a limit, by the reason.
    """

    def __init__(
        self,
        read: InputFields,
        clock: Callable[[], int],
        schema: Mapping[str, Any] | None,
        store: KeyValue,
        name: str,
    ) -> None:
        self.fields = read
        self.builder = FrameBuilder(read, clock, schema)
        self.excluded: dict[str, list[int]] = {}
        self._clock = clock
        self._safe_time = MIN_POSITION if read.limits else MAX_POSITION
        self._time_type: pl.DataType | None = None
        placed = read.offset or ()
        self._key_fields = [key for key in read.keys if key not in placed]
        self._keys: list[list[Any]] = [[] for _ in self._key_fields]
        self._offset_columns: list[list[Any]] = [[] for _ in placed]
        self._times: list[int | str | None] = []
        self._taken = {*self._key_fields, *placed, read.time}
        self._columns_by_field: dict[str, list[Any]] = {}
        self._has_fixed_types = False
        self._typed_columns: list[tuple[list[Any], pl.DataType, bool]] = []
        # The columns of the fields that have had no value yet, until types are fixed.
        self._columns_without_values = self._get_cells()
        for _, field in read.needed:
            self._add_field(field)
        self._columns = KeyValueBlobs(store, name=f"{name}.columns")
        stored = self._columns.load()
        if stored is not None:
            self.builder.adopt(decode_frame(base64.b64decode(stored)).schema)

    def __len__(self) -> int:
        return len(self._times)

    @property
    def has_types(self) -> bool:
        """True once the types of all fields are known."""
        return self.builder.columns is not None

    @property
    def shows_types(self) -> bool:
        """True if the buffered messages show the types of all fields, or shall wait no longer."""
        if self.has_types or len(self) >= MAX_BUFFERED:
            return True
        return not self._columns_without_values

    def fix_types(self) -> None:
        """Fix the set of fields, and store their types."""
        schema = self.builder.columns
        assert schema is not None
        self._columns.save(base64.b64encode(encode_frame(pl.DataFrame(schema=schema))).decode())
        self._has_fixed_types, self._columns_without_values = True, {}
        columns = {
            name: self._columns_by_field.get(name) for name in schema if name not in self._taken
        }
        self._columns_by_field = {
            n: [None] * len(self) if c is None else c for n, c in columns.items()
        }
        placed = zip(self.fields.offset or (), self._offset_columns, strict=True)
        own = dict(zip(self._key_fields, self._keys, strict=True))
        required = self.fields.required
        self._typed_columns = [
            (column, schema[name], name not in required) for name, column in own.items()
        ]
        self._typed_columns += [(column, schema[name], False) for name, column in placed]
        self._typed_columns += [
            (column, schema[name], True) for name, column in self._columns_by_field.items()
        ]

    def is_readable(self) -> bool:
        """Return whether the last message has all required fields, of the right types."""
        return self._has_fixed_types and all(
            (optional if column[-1] is None else fits_type(column[-1], dtype))
            for column, dtype, optional in self._typed_columns
        )

    def get_last(self, field: str) -> Any:
        """Return the last message's value of a field, or ``None``."""
        column = self._columns_by_field.get(field)
        return column[-1] if column else None

    def clear(self) -> None:
        """Discard all buffered messages."""
        for column in (
            *self._keys,
            *self._offset_columns,
            self._times,
            *self._columns_by_field.values(),
        ):
            column.clear()
        self.excluded.clear()

    def add(self, key: Any, value: Any, time: Any, partition: Any, offset: Any) -> int | str | None:
        """Buffer a message; return its time in microseconds, or as text if it can't be read."""
        micros = time
        if time.__class__ is not int or self._time_type is None or not MIN_TIME <= time <= MAX_TIME:
            micros = self._parse_time(time)
        if value.__class__ is not dict:
            value = self._check_value(value)
        keys = self._keys
        several = None if len(keys) == 1 else self._split_key(key)
        if self._offset_columns:
            self._offset_columns[0].append(partition)
            self._offset_columns[1].append(offset)
        elif offset is not None:
            hint = 'write windowed(…, offset=("partition", "offset")), or leave it out'
            raise OptionError("offset", offset, "isn't part of the query", hint)
        if several is None:
            keys[0].append(key)
        else:
            for column, part in zip(keys, several, strict=True):
                column.append(part)
        if not self._has_fixed_types:
            for name in value:
                self._add_field(name)
        for name, column in self._columns_by_field.items():
            column.append(value.get(name))
        self._times.append(micros)
        if self._columns_without_values:
            columns = self._columns_without_values.items()
            self._columns_without_values = {name: c for name, c in columns if c[-1] is None}
        if micros.__class__ is int and micros > self._safe_time:
            self._judge_time(micros)
        return micros  # type: ignore[no-any-return]

    def to_frame(self) -> pl.DataFrame:
        """Return the buffered messages as a frame; they stay buffered until ``clear()``."""
        cells = self._get_cells()
        return self.builder.build_from_cells(cells, len(self), self._time_type, self.excluded)

    def empty_frame(self) -> pl.DataFrame:
        """Return an empty frame with the columns of all messages."""
        return pl.DataFrame(schema=self.builder.schema)

    def _get_cells(self) -> dict[str, list[Any]]:
        """Return the buffered values by field."""
        cells = dict(zip(self._key_fields, self._keys, strict=True))
        if self.fields.time is not None:
            cells[self.fields.time] = self._times
        cells |= zip(self.fields.offset or (), self._offset_columns, strict=True)
        return cells | self._columns_by_field

    def _parse_time(self, time: Any) -> int | str | None:
        """Convert a message's time to microseconds, or to text if it can't be read."""
        if self._time_type is None and time is not None:
            if self.fields.time is None:
                hint = 'leave it out, or write windowed(…, time="…")'
                raise OptionError("time", time, "isn't part of the query", hint)
            self._time_type = infer_time_type(time)
        return parse_micros(time)

    def _judge_time(self, time: int) -> None:
        """Note the last message if a limit excludes its time."""
        clock, limits = self._clock(), self.fields.limits
        self._safe_time = find_safe_time(limits, clock)
        reason = find_exceeded(limits, time, clock)
        if reason is not None:
            self.excluded.setdefault(reason, []).append(len(self) - 1)

    def _add_field(self, name: str) -> None:
        if name not in self._columns_by_field and name not in self._taken:
            column: list[Any] = [None] * len(self)
            self._columns_by_field[name] = self._columns_without_values[name] = column

    @staticmethod
    def _check_value(value: Any) -> Mapping[str, Any]:
        if value is None:
            return _NOTHING
        if not isinstance(value, Mapping):
            hint = 'name its fields, for example value={"price": 5}'
            raise OptionError("value", value, "isn't a dictionary", hint)
        return value

    def _split_key(self, key: Any) -> tuple[Any, ...]:
        """Return the values of several key fields, or of none."""
        wanted = ", ".join(self._key_fields)
        if not self._key_fields:
            if key is None:
                return ()
            hint = "leave it out: the query has no key, or the partition is the whole of it"
            raise OptionError("key", key, "isn't part of the query", hint)
        if isinstance(key, Mapping) and key.keys() == set(self._key_fields):
            return tuple(key[name] for name in self._key_fields)
        if isinstance(key, tuple | list) and len(key) == len(self._key_fields):
            return tuple(key)
        raise OptionError("key", key, f"isn't ({wanted})", f"give a tuple: {wanted}")
