"""Generates random tuples: the same number always gives the same tuple."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

# The columns of a tuple: the two halves of its UUID, its value, its time in milliseconds.
HIGH, LOW, VALUE, TIME = "high", "low", "val", "ts"
TUPLE_SCHEMA = pl.Schema({HIGH: pl.UInt64, LOW: pl.UInt64, VALUE: pl.Int64, TIME: pl.Int64})

# Tuples are generated in blocks, each with its own generator.
_BLOCK = 8192
_VERSION = (np.uint64(0xFFFF_FFFF_FFFF_0FFF), np.uint64(0x4000))
_VARIANT = (np.uint64(0x3FFF_FFFF_FFFF_FFFF), np.uint64(0x8000_0000_0000_0000))


@dataclass(frozen=True)
class TupleRange:
    """A range of tuples by number, and the time when the last of the batch is due.

    Attributes:
        first: The number of the first.
        end: The number after the last.
        whole: The number after the last of the whole batch.
        due: When the batch's last tuple was due, microseconds since the epoch.
        rate: Tuples per second.
        clock: The batch's clock, milliseconds.
    """

    first: int
    end: int
    whole: int
    due: int
    rate: int
    clock: int

    def parts(self, count: int) -> list[TupleRange]:
        """Split into ranges of nearly equal size; each has the clock, even if it is empty."""
        size = self.end - self.first
        cuts = [self.first + size * part // count for part in range(count + 1)]
        return [
            TupleRange(low, high, self.whole, self.due, self.rate, self.clock)
            for low, high in pairwise(cuts)
        ]


def generate_tuples(seed: int, tuples: TupleRange) -> pl.DataFrame:
    """Generate tuples: a UUID, a normally distributed value times 1000, and when each was due.

    Returns:
        The columns of ``TUPLE_SCHEMA``, in the order of time.

    Source: the VoltDB windowing example application (``(long)(gaussian * 1000)``).

    Example:
        >>> whole = generate_tuples(
        ...     0, TupleRange(0, 100, 100, due=1_000_000, rate=1000, clock=1000)
        ... )
        >>> some = TupleRange(40, 50, 100, due=1_000_000, rate=1000, clock=1000)
        >>> generate_tuples(0, some).equals(whole[40:50])
        True
        >>> whole["ts"].max()
        1000
    """
    if tuples.end <= tuples.first:
        return pl.DataFrame(schema=TUPLE_SCHEMA)
    first = tuples.first // _BLOCK
    blocks = range(first, (tuples.end - 1) // _BLOCK + 1)
    cut = slice(tuples.first - first * _BLOCK, tuples.end - first * _BLOCK)
    ids, values = [], []
    for block in blocks:
        bits = np.random.Philox(key=[seed, block])
        ids.append(bits.random_raw(2 * _BLOCK))
        values.append(np.random.Generator(bits).standard_normal(_BLOCK))
    halves = np.concatenate(ids).reshape(-1, 2)[cut]
    numbers_until_end = tuples.whole - 1 - np.arange(tuples.first, tuples.end, dtype=np.int64)
    times = (tuples.due - numbers_until_end * 1_000_000 // tuples.rate) // 1000
    columns = {
        HIGH: halves[:, 0] & _VERSION[0] | _VERSION[1],
        LOW: halves[:, 1] & _VARIANT[0] | _VARIANT[1],
        VALUE: (np.concatenate(values)[cut] * 1000).astype(np.int64),
        TIME: times,
    }
    return pl.DataFrame(columns, schema=TUPLE_SCHEMA)


def parse_uuids(uuids: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return the two halves of UUIDs in text form; both are null for invalid ones.

    Example:
        >>> high, low = parse_uuids(pl.Series(["00000000-0000-0001-0000-00000000000a", "x", None]))
        >>> high.to_list(), low.to_list()
        ([1, None, None], [10, None, None])
    """
    hex_digits = uuids.cast(pl.String).str.replace_all("-", "", literal=True)
    is_valid = hex_digits.str.contains("^[0-9a-fA-F]{32}$").fill_null(False)
    text = hex_digits.zip_with(is_valid, pl.Series(["0" * 32]).new_from_index(0, len(hex_digits)))
    raw = b"".join(text.str.decode("hex").to_list())
    halves = np.frombuffer(raw, dtype=">u8").astype(np.uint64).reshape(-1, 2)
    none = pl.Series([None], dtype=pl.UInt64).new_from_index(0, len(hex_digits))
    high, low = (
        pl.Series(name, halves[:, index]).zip_with(is_valid, none)
        for index, name in ((0, HIGH), (1, LOW))
    )
    return high, low
