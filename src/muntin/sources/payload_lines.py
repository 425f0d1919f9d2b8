"""Payloads of JSON as lines, which Polars reads in one call."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from muntin.engine.utf8 import Mask, decode_text
from muntin.sources.byte_values import ByteValues, Integers, binary_column
from muntin.sources.json_syntax import find_half_pairs

# The space that JSON allows around an object.
_SPACE = " \t\r\n"
# The bytes with which such a value begins or ends.
_OPENS, _CLOSES = (np.isin(np.arange(256), [*f"{one}{_SPACE}".encode()]) for one in "{}")


@dataclass(frozen=True)
class PayloadLines:
    """Payloads that begin and end as an object does, and the lines that Polars reads.

    Attributes:
        texts: The payloads as text, without line feeds and half surrogate pairs.
    """

    texts: pl.Series

    @classmethod
    def from_values(cls, values: Sequence[bytes | None]) -> tuple[PayloadLines, Integers]:
        """Return the lines of the values that may be objects, and the positions of these values."""
        rows, is_sure = np.arange(len(values)), np.zeros(len(values), bool)
        if isinstance(values, ByteValues):
            rows, is_sure = _find_enclosed(values)
            values = values.select(rows)
        texts = decode_text(binary_column(values))
        # Half a pair isn't valid text; Polars reads it as a character of its own choice.
        may_be = (~find_half_pairs(texts)).fill_null(False).to_numpy().copy()
        unsure = np.flatnonzero(may_be & ~is_sure)
        if len(unsure):
            inner = texts.gather(unsure).str.strip_chars(_SPACE)
            may_be[unsure] = (inner.str.starts_with("{") & inner.str.ends_with("}")).to_numpy()
        lines, rows = cls(texts.filter(pl.Series(may_be))), rows[may_be]
        if lines.texts.str.contains("\n", literal=True).any():
            # A line ends at a line feed; between values, JSON also allows a carriage return.
            lines = cls(lines.texts.str.replace_all("\n", "\r", literal=True))
        return lines, rows

    def __len__(self) -> int:
        return len(self.texts)

    def select(self, rows: Integers) -> PayloadLines:
        """Return some of the lines, by their positions in order."""
        return self if len(rows) == len(self) else PayloadLines(self.texts.gather(rows))

    @cached_property
    def data(self) -> bytes:
        """The payloads, a line each."""
        data: bytes = self.texts.str.join("\n").item().encode()
        return data

    def read(self, schema: pl.Schema, *, lenient: bool = False) -> pl.DataFrame:
        """Read a row per line; where it is lenient, a value of another type becomes null.

        Raises:
            polars.exceptions.PolarsError: When a line isn't JSON, or has a value of another type.
        """
        if not len(self):
            return pl.DataFrame(schema=schema)
        return pl.read_ndjson(io.BytesIO(self.data), schema=schema, ignore_errors=lenient)


def _find_enclosed(values: ByteValues) -> tuple[Integers, Mask]:
    """Return which values may begin and end as an object does, and whether each of these does."""
    last = values.starts + np.maximum(values.sizes, 1) - 1
    ends = values.data[values.starts], values.data[last]
    may_be = (values.sizes > 0) & _OPENS[ends[0]] & _CLOSES[ends[1]]
    is_sure = (ends[0] == ord("{")) & (ends[1] == ord("}"))
    return np.flatnonzero(may_be), is_sure[may_be]


def may_have_half_pairs(lines: bytes) -> bool:
    r"""Return whether lines escape surrogates at all.

    Example:
        >>> may_have_half_pairs(rb'{"a": "\\ud83d"}'), may_have_half_pairs(rb'{"a": "\\n"}')
        (True, False)
    """
    # Most lines have no escapes at all, and searching for a single byte is much faster.
    if b"\\" not in lines:
        return False
    data = np.frombuffer(lines, np.uint8)
    after = np.flatnonzero(data[:-2] == ord("\\")) + 1
    return bool(((data[after] == ord("u")) & (data[after + 1] | 0x20 == ord("d"))).any())
