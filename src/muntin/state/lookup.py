"""Rows of some keys out of many, without looking at the others: frames sorted by the keys' hash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.state.hashing import hash_rows

HASH = "__hash"


def by_hash(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The rows in the order of their keys' hash, which is added; rows of one key keep theirs."""
    hashes = pl.Series(HASH, hash_rows([frame[k] for k in keys]))
    return frame.with_columns(hashes).sort(HASH, maintain_order=True)


def matched(
    frame: pl.DataFrame,
    other: pl.DataFrame,
    on: Sequence[str],
    how: Literal["inner", "left", "semi", "anti"],
) -> pl.DataFrame:
    """Join rows by columns in which NULL is a value like any other.

    Example:
        >>> some = pl.DataFrame({"k0": [None, "a"], "n": [1, 2]})
        >>> matched(some, some.select("k0").head(1), ["k0"], "semi").rows()
        [(None, 1)]
    """
    # Where the other has no NULL there is nothing to find, and a plain join is faster.
    nulls = any(other[name].null_count() for name in on)
    return frame.join(other, on=list(on), how=how, nulls_equal=nulls)


def of_keys(
    frames: Iterable[pl.DataFrame], keys: Sequence[str], only: pl.DataFrame
) -> list[pl.DataFrame | None]:
    """The rows of each frame that have one of some keys; ``None`` where no hash fits."""
    wanted = np.unique(hash_rows([only[k] for k in keys]))
    only = only.select(keys)
    found: list[pl.DataFrame | None] = []
    for frame in frames:
        rows = _between(frame[HASH].to_numpy(), wanted)
        # Two keys may have one hash. Most runs have none of the keys of a small batch.
        taken = matched(frame[rows].drop(HASH), only, keys, "semi") if len(rows) else None
        found.append(taken)
    return found


def _between(there: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The rows that have a wanted hash, both sorted."""
    begin = np.searchsorted(there, wanted, side="left")
    lengths = np.searchsorted(there, wanted, side="right") - begin
    ahead = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows: NDArray[np.int64] = np.repeat(begin, lengths) + ahead
    return rows
