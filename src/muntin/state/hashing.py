"""A 64-bit hash of columns that never changes with versions, machines or restarts.

It assigns keys to shards and to registers of HyperLogLog, both of which are stored in checkpoints,
so the hashes of Polars or Python (which may change with any release) won't do. All steps work on
whole columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.state.rows import fill_nulls

Hashes = NDArray[np.uint64]
HashWords = NDArray[np.uint8] | NDArray[np.uint64]

_PRIME = np.uint64(0x100000001B3)
_SALT = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
# Number of bytes hashed at once; each temporarily takes several words of memory.
_PORTION = 1 << 18
_NULL = np.uint64(0x7FB5D329728EA185)


def hash_rows(columns: list[pl.Series]) -> Hashes:
    """Return a hash per row; equal rows have equal ones, whatever a column's integer width."""
    result = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        with np.errstate(over="ignore"):
            result = _mix(result * _PRIME + _hash_column(column))
    return result


def _mix(values: Hashes) -> Hashes:
    """Spread every bit over all others (the finisher of splitmix64)."""
    with np.errstate(over="ignore"):
        values = values + _SALT
        values = (values ^ (values >> np.uint64(30))) * _MIX_1
        values = (values ^ (values >> np.uint64(27))) * _MIX_2
        return values ^ (values >> np.uint64(31))


def _hash_column(column: pl.Series) -> Hashes:
    if column.dtype in (pl.String, pl.Binary):
        hashes = _hash_bytes(column)
    elif isinstance(column.dtype, pl.Struct):
        fields = column.struct.unnest().get_columns()
        hashes = hash_rows(fields) if fields else np.zeros(len(column), dtype=np.uint64)
    elif isinstance(column.dtype, pl.List | pl.Array):
        hashes = _hash_lists(column)
    else:
        hashes = _mix(_to_words(column))
    if column.null_count():
        hashes = np.where(column.is_null().to_numpy(), _NULL, hashes)
    return hashes


def _to_words(column: pl.Series) -> Hashes:
    """Convert each value to a 64-bit word; null becomes 0 and is handled later."""
    if column.dtype.is_float():
        # -0.0 equals 0.0 and so must hash alike, and every NaN equals every other.
        values = fill_nulls(column.cast(pl.Float64), 0.0).to_numpy() + 0.0
        values = np.where(np.isnan(values), np.nan, values)
        return np.ascontiguousarray(values).view(np.uint64)
    if column.dtype == pl.UInt64:
        return fill_nulls(column, 0).to_numpy().astype(np.uint64)
    if column.dtype.is_decimal() or column.dtype in (pl.Int128, pl.UInt128):
        return _hash_bytes(column.cast(pl.String))
    # Taking the physical values of a column is a plan, and integers are theirs.
    words = column if column.dtype.is_integer() else column.to_physical()
    values = fill_nulls(words.cast(pl.Int64), 0).to_numpy()
    return np.ascontiguousarray(values).view(np.uint64)


def _hash_bytes(column: pl.Series) -> Hashes:
    """Compute a polynomial over the bytes of each value."""
    blobs = fill_nulls(column.cast(pl.Binary), b"").rechunk()
    # The oldest level has one buffer of all values, and their offsets of 64 bits.
    array = blobs.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[array.offset :][: len(array) + 1]
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    return _hash_ranges(data, offsets)


def _hash_lists(column: pl.Series) -> Hashes:
    """Compute a polynomial over the hashes of each list's elements."""
    lists = column.arr.to_list() if isinstance(column.dtype, pl.Array) else column
    sizes = lists.list.len().fill_null(0).cast(pl.Int64)
    elements = lists.filter(sizes > 0).explode()
    offsets = np.concatenate([np.zeros(1, np.int64), sizes.to_numpy().cumsum()])
    return _hash_ranges(hash_rows([elements]), offsets)


def _hash_ranges(data: HashWords, offsets: NDArray[np.int64]) -> Hashes:
    """Compute a polynomial over each range of words, many at once."""
    sums = np.zeros(len(offsets) - 1, dtype=np.uint64)
    first = 0
    while first < len(sums):
        # Take as many values as fit into a portion; a longer value is processed alone.
        fitting = int(np.searchsorted(offsets, offsets[first] + _PORTION, side="right")) - 1
        if fitting > first:
            some = offsets[first : fitting + 1]
            sums[first:fitting] = _sum_terms(data[some[0] : some[-1]], np.diff(some))
        else:
            fitting = first + 1
            sums[first] = _sum_long_value(data[offsets[first] : offsets[fitting]])
        first = fitting
    with np.errstate(over="ignore"):
        return _mix(sums + np.diff(offsets).astype(np.uint64))


def _sum_terms(data: HashWords, sizes: NDArray[np.int64]) -> Hashes:
    """Compute the polynomials of consecutive values."""
    starts = np.cumsum(sizes) - sizes
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.full(int(sizes.max(initial=0)) + 1, _PRIME, dtype=np.uint64))
        exponents = np.arange(len(data)) - np.repeat(starts, sizes)
        terms = (data.astype(np.uint64) + np.uint64(1)) * powers[exponents]
        running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
        sums: Hashes = running[starts + sizes] - running[starts]
        return sums


def _sum_long_value(data: HashWords) -> np.uint64:
    """Compute the polynomial of one value, portion by portion."""
    total, shift = np.uint64(0), np.uint64(1)
    with np.errstate(over="ignore"):
        for start in range(0, len(data), _PORTION):
            part = data[start : start + _PORTION]
            total += shift * _sum_terms(part, np.array([len(part)]))[0]
            shift *= np.uint64(pow(int(_PRIME), len(part), 2**64))
    return total


def assign_shards(frame: pl.DataFrame, keys: Sequence[str], shards: int) -> NDArray[np.int64]:
    """Return the shard of each row's key."""
    if shards == 1:
        return np.zeros(len(frame), dtype=np.int64)
    hashes = hash_rows([frame[k] for k in keys])
    return (hashes % np.uint64(shards)).astype(np.int64)


def split_by_shard(
    frame: pl.DataFrame, keys: Sequence[str], shards: int
) -> dict[int, pl.DataFrame]:
    """Split rows by the shard of their key; a shard without rows is absent.

    Example:
        >>> parts = split_by_shard(pl.DataFrame({"k0": [1, 2, 3, 4]}), ["k0"], 2)
        >>> sum(len(part) for part in parts.values())
        4
    """
    if shards == 1 or not len(frame):
        return {0: frame} if len(frame) else {}
    assigned = assign_shards(frame, keys, shards)
    numbers = np.unique(assigned).tolist()
    if len(numbers) == 1:
        return {numbers[0]: frame}
    return {shard: frame.filter(assigned == shard) for shard in numbers}
