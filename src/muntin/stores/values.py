"""Encodes the values of a store: as JSON, raw bytes, or window metadata.

Rows on a disk outlive the code that wrote them, so nothing is pickled. JSON is the default because
any tool can read it; ``raw`` is for callers that have their own format, for example an Arrow blob,
and saves a second encoding.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muntin.model.errors import OptionError, StateCorruptedError


@dataclass(frozen=True, slots=True)
class WindowMeta:
    """Metadata of one window, stored beside its messages.

    Source: the Samza SQL window operator design, "Window Metadata".

    Attributes:
        start_offset: The source offset of its first message; ``None`` before there is one.
        last_offset: The source offset of its last message so far.
        start: The start, microseconds since the epoch; ``None`` for windows of rows.
        end: The end, for windows whose length isn't fixed.
        aggregate: The aggregate so far (JSON), if that is all a window needs.

    Example:
        >>> meta = WindowMeta(start_offset=3, last_offset=3, start=0).taking(9, aggregate=2)
        >>> meta.last_offset, meta.aggregate
        (9, 2)
        >>> WindowMeta.from_bytes(meta.to_bytes()) == meta
        True
    """

    start_offset: int | None = None
    last_offset: int | None = None
    start: int | None = None
    end: int | None = None
    aggregate: Any = None

    def taking(self, offset: int, *, aggregate: Any) -> WindowMeta:
        """Return the metadata after one more message; offsets may come in any order."""
        first = offset if self.start_offset is None else min(self.start_offset, offset)
        last = offset if self.last_offset is None else max(self.last_offset, offset)
        return WindowMeta(first, last, self.start, self.end, aggregate)

    def to_bytes(self) -> bytes:
        """Write the attributes as a JSON list, in their order."""
        return _to_json([self.start_offset, self.last_offset, self.start, self.end, self.aggregate])

    @classmethod
    def from_bytes(cls, data: bytes) -> WindowMeta:
        """Read the metadata that ``to_bytes`` wrote.

        Raises:
            StateCorruptedError: When the bytes aren't such a list.
        """
        read = _from_json(data)
        if not isinstance(read, list) or len(read) != 5:
            raise StateCorruptedError(f"stored window metadata can't be read: {data!r}")
        return cls(*read)


@dataclass(frozen=True, slots=True)
class Codec:
    """Converts values to bytes and back."""

    name: str
    to_bytes: Callable[[Any], bytes]
    from_bytes: Callable[[bytes], Any]


def find_codec(name: str) -> Codec:
    """Return the codec ``"json"``, ``"raw"`` (bytes as they are) or ``"meta"``.

    JSON changes some types: a tuple comes back as a list, and keys of a dictionary as text.

    Raises:
        OptionError: When there is no such codec.

    Example:
        >>> find_codec("json").from_bytes(find_codec("json").to_bytes({"n": 2}))
        {'n': 2}
    """
    if name not in _CODECS:
        raise OptionError("codec", name, "isn't known", 'give "json", "raw" or "meta"')
    return _CODECS[name]


def _to_json(value: Any) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        hint = 'give text, numbers, lists and dictionaries, or bytes with codec="raw"'
        raise OptionError("value", value, "can't be written as JSON", hint) from error


def _from_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise StateCorruptedError(f"a stored value can't be read: {data!r}") from error


def _check_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise OptionError("value", value, "isn't bytes", 'give bytes, or codec="json"')
    return bytes(value)


def _encode_meta(value: Any) -> bytes:
    if not isinstance(value, WindowMeta):
        raise OptionError("value", value, "isn't window metadata", "give a WindowMeta")
    return value.to_bytes()


_CODECS = {
    "json": Codec("json", _to_json, _from_json),
    "raw": Codec("raw", _check_bytes, bytes),
    "meta": Codec("meta", _encode_meta, WindowMeta.from_bytes),
}
