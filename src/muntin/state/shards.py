"""Assigns keys to shards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.state.hashing import hash_rows


def owners(frame: pl.DataFrame, keys: Sequence[str], buckets: int) -> NDArray[np.int64]:
    """The bucket of each row's key."""
    if buckets == 1:
        return np.zeros(len(frame), dtype=np.int64)
    hashes = hash_rows([frame[k] for k in keys])
    return (hashes % np.uint64(buckets)).astype(np.int64)


def split(frame: pl.DataFrame, keys: Sequence[str], buckets: int) -> dict[int, pl.DataFrame]:
    """Part rows by the bucket of their key; a bucket without rows is absent.

    Example:
        >>> parts = split(pl.DataFrame({"k0": [1, 2, 3, 4]}), ["k0"], 2)
        >>> sum(len(part) for part in parts.values())
        4
    """
    if not len(frame):
        return {}
    owner = owners(frame, keys, buckets)
    return {bucket: frame.filter(owner == bucket) for bucket in np.unique(owner).tolist()}
