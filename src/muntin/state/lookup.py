"""Looks up the rows of some keys without reading the others, in frames sorted by key hash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.state.hashing import Hashes, hash_rows
from muntin.state.rows import drop_columns, stack_rows

HASH_COLUMN, _OWNER = "__hash", "__owner"
# Large tables are divided by the leading bits of the hash, shards by its remainder.
_RANGE_BITS = 4
# Values of so few rows are compared faster than Polars plans a join of them.
_FEW_ROWS = 256
# So few rows of all frames are searched at once, and each of larger frames by its order.
_SCANNED_ROWS = 4096
# Fewer rows are grouped as fast as they are searched for repeated identities.
_MANY_ROWS = 50_000
# Of hashes that are multiples of this number, the share of repeated ones is estimated.
_SAMPLE = 64


def sort_by_hash(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Sort rows by the hash of their keys, which is added as a column; the sort is stable."""
    hashes = hash_rows([frame[k] for k in keys])
    frame = drop_columns(frame, HASH_COLUMN).hstack([pl.Series(HASH_COLUMN, hashes)])
    is_sorted = (hashes[1:] >= hashes[:-1]).all()
    return frame if is_sorted else frame.sort(HASH_COLUMN, maintain_order=True)


def divide_by_hash(
    frame: pl.DataFrame, keys: Sequence[str], *, sort: bool
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Divide rows by ranges of their keys' hashes; yield each range that has rows, in order.

    With ``sort``, the rows of each range are sorted by hash, as by ``sort_by_hash``.
    """
    if sort:
        frame = sort_by_hash(frame, keys)
        ranges = _find_ranges(frame[HASH_COLUMN].to_numpy())
    else:
        ranges = _find_ranges(hash_rows([frame[k] for k in keys]))
        order = np.argsort(ranges, kind="stable")
        frame, ranges = frame[order], ranges[order]
    numbers = np.arange(1 << _RANGE_BITS)
    starts = np.searchsorted(ranges, numbers, side="left").tolist()
    for number, start, end in zip(numbers.tolist(), starts, [*starts[1:], len(frame)], strict=True):
        if start < end:
            yield number, frame[start:end]


def hash_keys(only: pl.DataFrame, keys: Sequence[str]) -> Hashes:
    """Return the distinct hashes of some keys, in order; ``add_hashes`` may have added them."""
    if HASH_COLUMN in only.columns:
        return np.unique(only[HASH_COLUMN].to_numpy())
    return np.unique(hash_rows([only[k] for k in keys]))


def add_hashes(only: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return keys with their hashes, for several look-ups of the same keys."""
    return only.hstack([pl.Series(HASH_COLUMN, hash_rows([only[k] for k in keys]))])


def list_hash_ranges(hashes: Hashes) -> set[int]:
    """Return the ranges of some hashes, numbered as by ``divide_by_hash``."""
    return set(_find_ranges(hashes).tolist())


def _find_ranges(hashes: Hashes) -> NDArray[np.uint8]:
    return (hashes >> np.uint64(64 - _RANGE_BITS)).astype(np.uint8)


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
    if how in ("semi", "anti"):
        if not (len(frame) and len(other)):
            return frame if how == "anti" or not len(frame) else frame.clear()
        if len(frame) + len(other) <= _FEW_ROWS and _are_plain(frame, on):
            return _filter_few(frame, other, on, is_listed=how == "semi")
    # A plain join is faster, and equivalent if one side has no NULL.
    nulls = any(other[name].null_count() for name in on)
    return frame.join(other, on=list(on), how=how, nulls_equal=nulls)


def _are_plain(frame: pl.DataFrame, names: Sequence[str]) -> bool:
    """Return whether Python's values of some columns are equal exactly where Polars' are."""
    kinds = (frame.schema[name] for name in names)
    return all(kind.is_integer() or kind in (pl.String, pl.Boolean, pl.Binary) for kind in kinds)


def _filter_few(
    frame: pl.DataFrame, other: pl.DataFrame, on: Sequence[str], *, is_listed: bool
) -> pl.DataFrame:
    """Return the rows whose values in some columns are, or aren't, in another frame."""
    names = list(on)
    listed = set(other[names].rows())
    is_selected = [(row in listed) == is_listed for row in frame[names].rows()]
    if all(is_selected):
        return frame
    return frame.filter(is_selected) if any(is_selected) else frame.clear()


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
    frames: Sequence[pl.DataFrame], only: pl.DataFrame, keys: Sequence[str], hashes: Hashes
) -> list[pl.DataFrame]:
    """Return the rows of each frame that have one of some keys, in order, without their hashes.

    Args:
        frames: Frames of ``sort_by_hash`` with the same columns, of which there is at least one.
        only: The keys.
        keys: The key columns.
        hashes: The result of ``hash_keys`` for the keys.
    """
    selected, owners = _select_hashes(frames, hashes)
    # Two keys may share a hash.
    marked = join_null_safe(selected.hstack([pl.Series(_OWNER, owners)]), only, keys, "semi")
    ends = np.searchsorted(marked[_OWNER].to_numpy(), np.arange(len(frames) + 1)).tolist()
    selected = drop_columns(marked, HASH_COLUMN, _OWNER)
    return [selected.slice(start, end - start) for start, end in pairwise(ends)]


def _select_hashes(
    frames: Sequence[pl.DataFrame], hashes: Hashes
) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """Return the rows of frames that have one of some hashes, each with the index of its frame."""
    sizes, indices = [len(frame) for frame in frames], np.arange(len(frames))
    if sum(sizes) > _SCANNED_ROWS:
        rows = [_find_rows(frame[HASH_COLUMN].to_numpy(), hashes) for frame in frames]
        # Most frames have none of the keys of a small batch.
        parts = [frame[own] for frame, own in zip(frames, rows, strict=True) if len(own)]
        owners = np.repeat(indices, [len(own) for own in rows])
        return stack_rows(parts or [frames[0].clear()]), owners
    stacked = stack_rows(frames)
    row_hashes = stacked[HASH_COLUMN].to_numpy()
    nearest = np.minimum(np.searchsorted(hashes, row_hashes), len(hashes) - 1)
    rows_of_all = np.flatnonzero(hashes[nearest] == row_hashes)
    selected = stacked if len(rows_of_all) == len(stacked) else stacked[rows_of_all]
    return selected, np.repeat(indices, sizes)[rows_of_all]


def _find_rows(
    row_hashes: NDArray[np.uint64], wanted_hashes: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Return the indices of rows that have a wanted hash; both arrays are sorted."""
    if len(row_hashes):  # they may be of a small range
        first, last = np.searchsorted(wanted_hashes, row_hashes[[0, -1]])
        wanted_hashes = wanted_hashes[first : last + 1]
    begin = np.searchsorted(row_hashes, wanted_hashes, side="left")
    lengths = np.searchsorted(row_hashes, wanted_hashes, side="right") - begin
    ahead = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows: NDArray[np.int64] = np.repeat(begin, lengths) + ahead
    return rows
