"""The rows of one store in a ``KeyValue``: its key prefix, codec, observed position and counts.

Several stores may share one ``KeyValue``. Then they are flushed together, as the Samza design
requires of messages, window metadata and the offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muntin.model.axis import Duration, parse_duration
from muntin.model.errors import OptionError, SpecChangedError
from muntin.stores import keys
from muntin.stores.kv import KeyValue, Row, Snapshot
from muntin.stores.values import find_codec


class Namespace:
    """The rows of one store.

    Args:
        kv: The rows of all stores.
        name: The store's name in ``kv``.
        identity: The options that the rows depend on; they can't change once there are rows.
        code: The codec of the values.

    Attributes:
        observed: The greatest position on the axis that the store has seen; survives a restart.
        counts: The store's counts, by name; they survive a restart, too.
    """

    def __init__(self, kv: KeyValue, name: str, identity: Mapping[str, str], code: str) -> None:
        self.kv = kv
        self.name = name
        self.prefix = keys.encode_part(name)
        self.codec = find_codec(code)
        self.observed: int | None = None
        self.counts: dict[str, int] = {}
        self._identity = {**identity, "codec": code}
        stored = kv.register(name, self._describe_state)
        if stored is not None:
            self._check_identity(stored["identity"])
            self.observed, self.counts = stored["observed"], dict(stored["counts"])

    def _describe_state(self) -> dict[str, Any]:
        return {"identity": self._identity, "observed": self.observed, "counts": dict(self.counts)}

    def _check_identity(self, stored: dict[str, str]) -> None:
        for option in sorted({*stored, *self._identity}):
            was, now = stored.get(option), self._identity.get(option)
            if was != now:
                raise SpecChangedError(
                    f"the store {self.name!r} was written with {option}={was!r}, not {now!r}: "
                    f"give {option}={was!r}, or another name"
                )

    def observe(self, position: int) -> None:
        """Record a position; the greatest one is kept."""
        if type(position) is not int:
            hint = "give whole microseconds, or an offset"
            raise OptionError("position", position, "isn't a place on the axis", hint)
        if self.observed is None or position > self.observed:
            self.observed = position

    def count(self, name: str, by: int = 1) -> None:
        """Add to the count of a name."""
        self.counts[name] = self.counts.get(name, 0) + by

    def get(self, key: bytes) -> bytes | None:
        """Return the stored value of a key."""
        return self.kv.get(self.prefix + key)

    def put(self, key: bytes, value: bytes) -> None:
        """Add or replace a row."""
        self.kv.put(self.prefix + key, value)

    def delete(self, key: bytes) -> None:
        """Delete a row."""
        self.kv.delete(self.prefix + key)

    def delete_range(self, low: bytes, high: bytes) -> None:
        """Delete the rows from ``low`` to below ``high``."""
        self.kv.delete_range(self.prefix + low, self.prefix + high)

    def rows(self, low: bytes = b"", high: bytes = keys.AFTER) -> NamespaceView:
        """Return a strict snapshot of the rows from ``low`` to below ``high``."""
        return NamespaceView(self.kv.snapshot(), self.prefix, low, high)


class NamespaceView:
    """A snapshot of some rows of one store; iterating reads them in order."""

    def __init__(self, view: Snapshot, prefix: bytes, low: bytes, high: bytes) -> None:
        self._view = view
        self._prefix = prefix
        self.low = low
        self.high = high

    def __iter__(self) -> Iterator[Row]:
        return self.scan(self.low, self.high)

    def __reversed__(self) -> Iterator[Row]:
        return self.scan(self.low, self.high, reverse=True)

    def scan(self, low: bytes, high: bytes, *, reverse: bool = False) -> Iterator[Row]:
        """Iterate over the rows from ``low`` to below ``high``, without the store's prefix."""
        cut = len(self._prefix)
        rows = self._view.scan(self._prefix + low, self._prefix + high, reverse=reverse)
        for key, value in rows:
            yield key[cut:], value


class NamedStore:
    """A store whose rows are a namespace of a ``KeyValue``."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    @property
    def observed(self) -> int | None:
        """The greatest position (time, offset, end of a session) so far, or ``None``."""
        return self._namespace.observed

    @property
    def expired(self) -> int:
        """Number of writes that were rejected because their retention had passed."""
        return self._namespace.counts.get("expired", 0)

    def flush(self, marks: Mapping[str, Any] | None = None) -> None:
        """Make everything since the last flush durable at once, with marks such as the offset."""
        self._namespace.kv.flush(marks)


def parse_axis_length(option: str, value: Duration | int) -> int:
    """Parse a length on the axis: a duration in microseconds, or a plain number.

    Raises:
        OptionError: When the length isn't positive.

    Example:
        >>> parse_axis_length("retention", "1 second"), parse_axis_length("retention", 3)
        (1000000, 3)
    """
    if isinstance(value, int):
        if value < 1:
            raise OptionError(option, value, "isn't greater than zero", "give at least 1")
        return value
    return parse_duration(option, value, zero=False)


def encode_required_key(option: str, key: Any) -> bytes:
    """Encode a key that must not be null.

    Raises:
        OptionError: When the key is null.
    """
    if key is None:
        hint = "give a key; where keys bound a range, None leaves it open"
        raise OptionError(option, key, "is no key", hint)
    return keys.encode_part(key)
