"""Payloads of JSON as lines, which Polars reads in one call."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl
from polars.exceptions import ComputeError

from muntin.engine.utf8 import decode_text
from muntin.sources.json_syntax import has_half_pairs

# Half a surrogate pair isn't valid text; Polars reads it as a character of its own choice.
SURROGATES = (b"\\ud", b"\\uD")


@dataclass(frozen=True)
class PayloadLines:
    """Payloads, none of which is empty, and the lines that Polars reads.

    Attributes:
        payloads: The payloads as they are.
        joined: A line per payload.
    """

    payloads: list[bytes]
    joined: bytes

    @classmethod
    def join(cls, payloads: list[bytes]) -> PayloadLines:
        """Join payloads into lines."""
        joined = b"\n".join(payloads)
        if joined.count(b"\n") >= len(payloads):
            # A line ends at a line feed; between values, JSON also allows a carriage return.
            joined = b"\n".join(payload.replace(b"\n", b"\r") for payload in payloads)
        return cls(payloads, joined)

    def __len__(self) -> int:
        return len(self.payloads)

    def select(self, rows: Sequence[int]) -> PayloadLines:
        """Return some of the lines, by their positions in order."""
        if len(rows) == len(self):
            return self
        return PayloadLines.join([self.payloads[row] for row in rows])

    @cached_property
    def texts(self) -> pl.Series:
        """The payloads as text; those that aren't UTF-8 are null."""
        return decode_text(pl.Series(self.payloads, dtype=pl.Binary))

    @cached_property
    def has_half_pairs(self) -> bool:
        """True if a line escapes half a surrogate pair."""
        return may_have_half_pairs(self.joined) and has_half_pairs(self.texts)

    def read(self, schema: pl.Schema, *, lenient: bool = False) -> pl.DataFrame:
        """Read a row per line; where it is lenient, a value of another type becomes null.

        Raises:
            polars.exceptions.PolarsError: When a line isn't JSON, or has a value of another type.
        """
        if not self.joined:
            return pl.DataFrame(schema=schema)
        frame = pl.read_ndjson(io.BytesIO(self.joined), schema=schema, ignore_errors=lenient)
        if len(frame) != len(self):
            raise ComputeError("blank lines are skipped")
        return frame


def may_have_half_pairs(lines: bytes) -> bool:
    r"""Return whether lines escape surrogates at all.

    Example:
        >>> may_have_half_pairs(rb'{"a": "\\ud83d"}'), may_have_half_pairs(rb'{"a": "\\n"}')
        (True, False)
    """
    # Most lines have no escapes at all, and searching for a single byte is much faster.
    return b"\\" in lines and any(half in lines for half in SURROGATES)
