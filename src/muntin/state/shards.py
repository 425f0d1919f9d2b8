"""Assigns keys to shards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.state.hashing import hash_rows


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
    return {shard: frame.filter(assigned == shard) for shard in np.unique(assigned).tolist()}
