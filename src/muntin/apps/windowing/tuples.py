"""Random tuples: the same number always gives the same tuple."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

# The columns of a tuple: the two halves of its UUID, its value, its time in milliseconds.
HIGH, LOW, VALUE, TIME = "high", "low", "val", "ts"
SCHEMA = pl.Schema({HIGH: pl.UInt64, LOW: pl.UInt64, VALUE: pl.Int64, TIME: pl.Int64})

# Tuples are drawn in blocks, each from a generator of its own.
_BLOCK = 8192
_VERSION = (np.uint64(0xFFFF_FFFF_FFFF_0FFF), np.uint64(0x4000))
_VARIANT = (np.uint64(0x3FFF_FFFF_FFFF_FFFF), np.uint64(0x8000_0000_0000_0000))


@dataclass(frozen=True)
class TupleRange:
    """Some tuples, by their numbers, and the moment that the last of the batch is due.

    Attributes:
        first: The number of the first.
        end: The number behind the last.
        whole: The number behind the last of the batch that these are a part of.
        due: When that one was due, microseconds since the epoch.
        rate: How many are due a second.
        clock: The batch's clock, milliseconds.
    """

    first: int
    end: int
    whole: int
    due: int
    rate: int
    clock: int

    def parts(self, count: int) -> list[TupleRange]:
        """Cut into parts of nearly equal size; each has the clock, also where it is empty."""
        size = self.end - self.first
        cuts = [self.first + size * part // count for part in range(count + 1)]
        return [
            TupleRange(low, high, self.whole, self.due, self.rate, self.clock)
            for low, high in pairwise(cuts)
        ]


def made(seed: int, tuples: TupleRange) -> pl.DataFrame:
    """Random tuples: a UUID, a normally distributed value times 1000, and when each was due.

    Returns:
        The columns of ``SCHEMA``, in the order of time.

    Source: the VoltDB windowing example application (``(long)(gaussian * 1000)``).

    Example:
        >>> whole = made(0, TupleRange(0, 100, 100, due=1_000_000, rate=1000, clock=1000))
        >>> part = made(0, TupleRange(40, 50, 100, due=1_000_000, rate=1000, clock=1000))
        >>> part.equals(whole[40:50])
        True
        >>> whole["ts"].max()
        1000
    """
    if tuples.end <= tuples.first:
        return pl.DataFrame(schema=SCHEMA)
    first = tuples.first // _BLOCK
    blocks = range(first, (tuples.end - 1) // _BLOCK + 1)
    cut = slice(tuples.first - first * _BLOCK, tuples.end - first * _BLOCK)
    ids, values = [], []
    for block in blocks:
        bits = np.random.Philox(key=[seed, block])
        ids.append(bits.random_raw(2 * _BLOCK))
        values.append(np.random.Generator(bits).standard_normal(_BLOCK))
    halves = np.concatenate(ids).reshape(-1, 2)[cut]
    behind = tuples.whole - 1 - np.arange(tuples.first, tuples.end, dtype=np.int64)
    times = (tuples.due - behind * 1_000_000 // tuples.rate) // 1000
    columns = {
        HIGH: halves[:, 0] & _VERSION[0] | _VERSION[1],
        LOW: halves[:, 1] & _VARIANT[0] | _VARIANT[1],
        VALUE: (np.concatenate(values)[cut] * 1000).astype(np.int64),
        TIME: times,
    }
    return pl.DataFrame(columns, schema=SCHEMA)


def parsed(uuids: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The two halves of UUIDs that are text; both null where it isn't one.

    Example:
        >>> high, low = parsed(pl.Series(["00000000-0000-0001-0000-00000000000a", "x", None]))
        >>> high.to_list(), low.to_list()
        ([1, None, None], [10, None, None])
    """
    bare = uuids.cast(pl.String).str.replace_all("-", "", literal=True)
    known = bare.str.contains("^[0-9a-fA-F]{32}$").fill_null(False)
    text = bare.zip_with(known, pl.Series(["0" * 32]).new_from_index(0, len(bare)))
    raw = b"".join(text.str.decode("hex").to_list())
    halves = np.frombuffer(raw, dtype=">u8").astype(np.uint64).reshape(-1, 2)
    none = pl.Series([None], dtype=pl.UInt64).new_from_index(0, len(bare))
    high, low = (
        pl.Series(name, halves[:, place]).zip_with(known, none)
        for place, name in ((0, HIGH), (1, LOW))
    )
    return high, low
