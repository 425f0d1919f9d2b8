"""A limit of rows over all shards, kept exactly although shards don't communicate.

Every shard gets the number of tuples of each millisecond in every shard. So each one knows
which tuples are the newest N of all: tuples are in the order of their time, then of
their shard, then of their arrival in it. The newest N only get newer, so tuples that have left
them never come back, and a late tuple that isn't among them has left them already.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from muntin.apps.windowing.tuples import TIME

# The names of columns in stored ledgers.
SHARD, COUNT = "bucket", "n"
LEDGER_SCHEMA = pl.Schema({TIME: pl.Int64, SHARD: pl.Int32, COUNT: pl.Int64})

# A position in a shard: everything of an earlier time, and this many tuples of that time.
RowPosition = tuple[int, int]


def count_tuples(parts: dict[int, pl.DataFrame]) -> pl.DataFrame:
    """Count the tuples of each time in each shard."""
    frames = [
        part.group_by(TIME)
        .agg(pl.len().cast(pl.Int64).alias(COUNT))
        .with_columns(pl.lit(shard, dtype=pl.Int32).alias(SHARD))
        .select(LEDGER_SCHEMA.names())
        for shard, part in parts.items()
    ]
    return pl.concat(frames) if frames else pl.DataFrame(schema=LEDGER_SCHEMA)


def merge_counts(ledger: pl.DataFrame, news: list[pl.DataFrame], since: int | None) -> pl.DataFrame:
    """Add the counts of a batch to a ledger, in order, without entries that are too old."""
    whole = pl.concat([ledger, *news])
    if since is not None:
        whole = whole.filter(pl.col(TIME) >= since)
    return whole.group_by(TIME, SHARD).agg(pl.col(COUNT).sum()).sort(TIME, SHARD)


def find_boundary(ledger: pl.DataFrame, most: int, shard: int) -> RowPosition | None:
    """Return the position up to which the tuples of a shard aren't among the newest of all.

    Returns:
        ``None`` if all of them are.

    Example:
        >>> rows = {"ts": [1, 2, 2, 3], "bucket": [0, 0, 1, 1], "n": [5, 2, 4, 1]}
        >>> ledger = pl.DataFrame(rows, schema=LEDGER_SCHEMA)
        >>> [find_boundary(ledger, 3, shard) for shard in (0, 1, 2)]
        [(3, 0), (2, 2), (2, 0)]
    """
    counts = ledger[COUNT].to_numpy()
    # For each line: the number of its tuples and of newer ones.
    newer_counts = np.cumsum(counts[::-1])[::-1]
    surplus_lines = np.nonzero(newer_counts > most)[0]
    if not len(surplus_lines):
        return None
    line = int(surplus_lines[-1])
    time, only = int(ledger[TIME][line]), int(ledger[SHARD][line])
    if shard < only:
        return time + 1, 0
    return (time, int(newer_counts[line]) - most) if shard == only else (time, 0)
