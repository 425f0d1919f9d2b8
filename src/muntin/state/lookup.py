"""Looks up the rows of some keys without reading the others, in frames sorted by key hash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.state.hashing import hash_rows

HASH_COLUMN = "__hash"
# Fewer rows are grouped as fast as they are searched for repeated identities.
_MANY_ROWS = 50_000
# Of hashes that are multiples of this number, the share of repeated ones is estimated.
_SAMPLE = 64


def sort_by_hash(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Sort rows by the hash of their keys, which is added as a column; the sort is stable."""
    hashes = pl.Series(HASH_COLUMN, hash_rows([frame[k] for k in keys]))
    return frame.with_columns(hashes).sort(HASH_COLUMN, maintain_order=True)


def join_null_safe(
    frame: pl.DataFrame,
    other: pl.DataFrame,
    on: Sequence[str],
    how: Literal["inner", "left", "semi", "anti"],
) -> pl.DataFrame:
    """Join rows by columns in which NULL equals NULL.

    Example:
        >>> some = pl.DataFrame({"k0": [None, "a"], "n": [1, 2]})
        >>> join_null_safe(some, some.select("k0").head(1), ["k0"], "semi").rows()
        [(None, 1)]
    """
    # A plain join is faster, and equivalent if one side has no NULL.
    nulls = any(other[name].null_count() for name in on)
    return frame.join(other, on=list(on), how=how, nulls_equal=nulls)


def split_repeated(
    rows: pl.DataFrame, identity: Sequence[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split rows into those whose identity occurs once, and the others.

    Grouping a row costs several times as much as looking for another one with its hash. A few rows
    may be among the others although their identity occurs once; if most are, or there are few rows,
    all of them are.

    Example:
        >>> alone, repeated = split_repeated(pl.DataFrame({"k0": [1, 2, 1]}), ["k0"])
        >>> len(alone), len(repeated)
        (0, 3)
    """
    nothing = rows.clear()
    if len(rows) < _MANY_ROWS:
        return nothing, rows
    rows = rows.rechunk()
    hashes = rows.select(identity).hash_rows()
    sample = hashes.filter(hashes % _SAMPLE == 0)
    if sample.n_unique() < len(sample) // 2:
        return nothing, rows
    ordered = hashes.sort()
    repeated_hashes = ordered.filter(ordered == ordered.shift(1))
    if not len(repeated_hashes):
        return rows, nothing
    is_repeated = hashes.is_in(repeated_hashes.unique().implode())
    return rows.filter(~is_repeated), rows.filter(is_repeated)


def select_keys(
    frames: Iterable[pl.DataFrame], keys: Sequence[str], only: pl.DataFrame
) -> list[pl.DataFrame | None]:
    """Return the rows of each frame that have one of some keys; ``None`` if no hash matches."""
    wanted = np.unique(hash_rows([only[k] for k in keys]))
    only = only.select(keys)
    selected: list[pl.DataFrame | None] = []
    for frame in frames:
        rows = _find_rows(frame[HASH_COLUMN].to_numpy(), wanted)
        # Two keys may share a hash. Most runs have none of the keys of a small batch.
        matching_rows = (
            join_null_safe(frame[rows].drop(HASH_COLUMN), only, keys, "semi") if len(rows) else None
        )
        selected.append(matching_rows)
    return selected


def _find_rows(
    row_hashes: NDArray[np.uint64], wanted_hashes: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Return the indices of rows that have a wanted hash; both arrays are sorted."""
    begin = np.searchsorted(row_hashes, wanted_hashes, side="left")
    lengths = np.searchsorted(row_hashes, wanted_hashes, side="right") - begin
    ahead = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows: NDArray[np.int64] = np.repeat(begin, lengths) + ahead
    return rows
