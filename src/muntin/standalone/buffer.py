"""Single messages that wait in Python lists until the engine takes them together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from muntin.model.errors import OptionError
from muntin.model.spec import WindowSpec
from muntin.standalone.fields import micros_of, type_of_time

_NOTHING: dict[str, Any] = {}


class Buffer:
    """Single messages of one operator.

    Args:
        spec: The query.

    Attributes:
        sample: The type of times, out of the first one.
    """

    def __init__(self, spec: WindowSpec) -> None:
        self.spec = spec
        self.sample: pl.DataType | None = None
        placed = spec.offset or ()
        self._keys = [key for key in spec.keys if key not in placed]
        self._rows: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        """Forget all messages."""
        self._rows = []

    def micros(self, time: Any) -> int | str | None:
        """A message's time in microseconds, or the text of what isn't one.

        Raises:
            OptionError: When there is a time and the query has none.
        """
        if self.sample is None and time is not None:
            if self.spec.time is None:
                cure = 'leave it away, or write windowed(…, time="…")'
                raise OptionError("time", time, "isn't part of the query", cure)
            self.sample = type_of_time(time)
        return micros_of(time)

    def add(
        self, key: Any, value: Any, time: int | str | None, at: tuple[Any, Any], future: bool
    ) -> int:
        """Let a message wait.

        Args:
            key: The value of the key, or a tuple of several.
            value: Its other fields.
            time: As ``micros`` gives it.
            at: Its partition and offset.
            future: Whether it is too far ahead of the clock.

        Returns:
            How many wait now.

        Raises:
            OptionError: When the message doesn't fit the query.
        """
        if len(self._keys) != 1:
            key = self._several(key)
        if value.__class__ is dict:
            fields = value.copy()
        elif value is None:
            fields = _NOTHING
        elif isinstance(value, Mapping):
            fields = dict(value)
        else:
            cure = 'name its fields, for example value={"price": 5}'
            raise OptionError("value", value, "isn't a dictionary", cure)
        if at[1] is not None and self.spec.offset is None:
            cure = 'write windowed(…, offset=("partition", "offset")), or leave it away'
            raise OptionError("offset", at[1], "isn't part of the query", cure)
        self._rows.append((key, fields, time, at, future))
        return len(self._rows)

    def cells(self, known: pl.Schema | None) -> dict[str, list[Any]]:
        """The values of all messages, by field.

        Args:
            known: The fields, where they are known already.
        """
        rows, spec = self._rows, self.spec
        names: dict[str, None] = dict.fromkeys(known or [])
        if known is None:
            needed = [spec.time, *(spec.offset or ())]
            needed += [str(f) for a in spec.aggregates.values() for f in a.columns]
            names = dict.fromkeys([*spec.keys, *(n for n in needed if n is not None)])
            names |= dict.fromkeys(name for row in rows for name in row[1])
        found = {name: [row[1].get(name) for row in rows] for name in names if name is not None}
        if len(self._keys) == 1:
            found[self._keys[0]] = [row[0] for row in rows]
        else:
            for place, key in enumerate(self._keys):
                found[key] = [row[0][place] for row in rows]
        if spec.time is not None:
            found[spec.time] = [row[2] for row in rows]
        for place, name in enumerate(spec.offset or ()):
            found[name] = [row[3][place] for row in rows]
        return found

    def future(self) -> list[bool]:
        """Which messages are too far ahead."""
        return [row[4] for row in self._rows]

    def _several(self, key: Any) -> tuple[Any, ...]:
        """The values of several key fields, or of none."""
        wanted = ", ".join(self._keys)
        if not self._keys:
            if key is None:
                return ()
            cure = "leave it away: the partition is the whole key"
            raise OptionError("key", key, "isn't part of the query", cure)
        if isinstance(key, Mapping) and key.keys() == set(self._keys):
            return tuple(key[name] for name in self._keys)
        if isinstance(key, tuple | list) and len(key) == len(self._keys):
            return tuple(key)
        raise OptionError("key", key, f"isn't ({wanted})", f"give a tuple: {wanted}")
