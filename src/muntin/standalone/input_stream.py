"""One stream of messages: single ones wait, and the types of its fields are remembered."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from muntin.model.errors import OptionError
from muntin.standalone.fields import GREATEST, LEAST, fits, micros_of, type_of_time
from muntin.standalone.frame_builder import FrameBuilder
from muntin.standalone.input_fields import InputFields
from muntin.state.frames import decode, encode
from muntin.stores import KeyValue, KeyValueBlobs

# Before and beyond every position.
NEVER, ALWAYS = 2**62, -(2**62)

_NOTHING: dict[str, Any] = {}


class InputStream:
    """One stream of messages on its way into an operator.

    Single messages wait in a Python list per field, until the engine takes them together.

    Attributes:
        future: Which messages that wait are too far ahead of the clock, by number.
    """

    def __init__(
        self,
        read: InputFields,
        clock: Callable[[], int],
        schema: Mapping[str, Any] | None,
        store: KeyValue,
        name: str,
    ) -> None:
        self.input = read
        self.builder = FrameBuilder(read, clock, schema)
        self.future: list[int] = []
        self._clock = clock
        self._ahead = NEVER if read.max_ahead is None else ALWAYS
        self._time_type: pl.DataType | None = None
        placed = read.offset or ()
        self._own = [key for key in read.keys if key not in placed]
        self._keys: list[list[Any]] = [[] for _ in self._own]
        self._places: list[list[Any]] = [[] for _ in placed]
        self._times: list[int | str | None] = []
        self._taken = {*self._own, *placed, read.time}
        self._fields: dict[str, list[Any]] = {}
        self._settled = False
        self._typed: list[tuple[list[Any], pl.DataType, bool]] = []
        for _, field in read.needed:
            self._found(field)
        self._columns = KeyValueBlobs(store, name=f"{name}.columns")
        stored = self._columns.load()
        if stored is not None:
            self.builder.adopt(decode(base64.b64decode(stored)).schema)

    def __len__(self) -> int:
        return len(self._times)

    @property
    def known(self) -> bool:
        """Whether the types of all fields are known."""
        return self.builder.columns is not None

    def settle(self) -> None:
        """Take these fields and no others from now on, and remember their types."""
        schema = self.builder.columns
        assert schema is not None
        self._columns.save(base64.b64encode(encode(pl.DataFrame(schema=schema))).decode())
        self._settled = True
        kept = {name: self._fields.get(name) for name in schema if name not in self._taken}
        self._fields = {n: [None] * len(self) if c is None else c for n, c in kept.items()}
        placed = zip(self.input.offset or (), self._places, strict=True)
        own = dict(zip(self._own, self._keys, strict=True))
        required = self.input.required
        self._typed = [(column, schema[name], name not in required) for name, column in own.items()]
        self._typed += [(column, schema[name], False) for name, column in placed]
        self._typed += [(column, schema[name], True) for name, column in self._fields.items()]

    def readable(self) -> bool:
        """Whether the last message has what it must have, and all its values fit their types."""
        return self._settled and all(
            (optional if column[-1] is None else fits(column[-1], dtype))
            for column, dtype, optional in self._typed
        )

    def last_of(self, field: str) -> Any:
        """The last message's value of a field; ``None`` where it has none."""
        column = self._fields.get(field)
        return column[-1] if column else None

    def clear(self) -> None:
        """Forget all messages that wait."""
        for column in (*self._keys, *self._places, self._times, *self._fields.values()):
            column.clear()
        self.future.clear()

    def add(self, key: Any, value: Any, time: Any, partition: Any, offset: Any) -> int | str | None:
        """Let a message wait; its time comes back in microseconds, or as text if it isn't one."""
        micros = time
        if time.__class__ is not int or self._time_type is None or not LEAST <= time <= GREATEST:
            micros = self._micros(time)
        if value.__class__ is not dict:
            value = self._mapping(value)
        keys = self._keys
        several = None if len(keys) == 1 else self._several(key)
        if self._places:
            self._places[0].append(partition)
            self._places[1].append(offset)
        elif offset is not None:
            hint = 'write windowed(…, offset=("partition", "offset")), or leave it out'
            raise OptionError("offset", offset, "isn't part of the query", hint)
        if several is None:
            keys[0].append(key)
        else:
            for column, part in zip(keys, several, strict=True):
                column.append(part)
        if not self._settled:
            for name in value:
                self._found(name)
        for name, column in self._fields.items():
            column.append(value.get(name))
        self._times.append(micros)
        if micros.__class__ is int and micros > self._ahead and self._is_future(micros):
            self.future.append(len(self._times) - 1)
        return micros  # type: ignore[no-any-return]

    def waiting(self) -> pl.DataFrame:
        """The messages that wait; they go on waiting until ``clear()``."""
        cells = dict(zip(self._own, self._keys, strict=True))
        if self.input.time is not None:
            cells[self.input.time] = self._times
        cells |= dict(zip(self.input.offset or (), self._places, strict=True)) | self._fields
        return self.builder.rows(cells, len(self), self._time_type, self.future)

    def none(self) -> pl.DataFrame:
        """No messages, with the columns of all others."""
        return pl.DataFrame(schema=self.builder.schema)

    def _micros(self, time: Any) -> int | str | None:
        """A message's time in microseconds, or the text of what isn't one."""
        if self._time_type is None and time is not None:
            if self.input.time is None:
                hint = 'leave it out, or write windowed(…, time="…")'
                raise OptionError("time", time, "isn't part of the query", hint)
            self._time_type = type_of_time(time)
        return micros_of(time)

    def _is_future(self, time: int) -> bool:
        assert self.input.max_ahead is not None
        # The clock goes forward: what was not too far ahead of an older reading isn't now.
        self._ahead = self._clock() + self.input.max_ahead
        return time > self._ahead

    def _found(self, name: str) -> None:
        if name not in self._fields and name not in self._taken:
            self._fields[name] = [None] * len(self)

    @staticmethod
    def _mapping(value: Any) -> Mapping[str, Any]:
        if value is None:
            return _NOTHING
        if not isinstance(value, Mapping):
            hint = 'name its fields, for example value={"price": 5}'
            raise OptionError("value", value, "isn't a dictionary", hint)
        return value

    def _several(self, key: Any) -> tuple[Any, ...]:
        """The values of several key fields, or of none."""
        wanted = ", ".join(self._own)
        if not self._own:
            if key is None:
                return ()
            hint = "leave it out: the query has no key, or the partition is the whole of it"
            raise OptionError("key", key, "isn't part of the query", hint)
        if isinstance(key, Mapping) and key.keys() == set(self._own):
            return tuple(key[name] for name in self._own)
        if isinstance(key, tuple | list) and len(key) == len(self._own):
            return tuple(key)
        raise OptionError("key", key, f"isn't ({wanted})", f"give a tuple: {wanted}")
