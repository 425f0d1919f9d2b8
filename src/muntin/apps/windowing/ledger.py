"""The limit of rows over all buckets, kept exactly though no bucket asks another.

Every bucket learns how many tuples of each millisecond every bucket gets. So each knows, without
a question, which tuples are the newest N of all: tuples are in the order of their time, then of
their bucket, then of their arrival in it. As the newest N only ever get newer, what has left them
never comes back, and a late tuple that isn't among them has left them already.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from muntin.apps.windowing.tuples import TIME

BUCKET, COUNT = "bucket", "n"
SCHEMA = pl.Schema({TIME: pl.Int64, BUCKET: pl.Int32, COUNT: pl.Int64})

# A place in a bucket: everything of an earlier time, and so many tuples of that time.
Place = tuple[int, int]


def counted(parts: dict[int, pl.DataFrame]) -> pl.DataFrame:
    """How many tuples of each time go to each bucket."""
    found = [
        part.group_by(TIME)
        .agg(pl.len().cast(pl.Int64).alias(COUNT))
        .with_columns(pl.lit(bucket, dtype=pl.Int32).alias(BUCKET))
        .select(SCHEMA.names())
        for bucket, part in parts.items()
    ]
    return pl.concat(found) if found else pl.DataFrame(schema=SCHEMA)


def added(ledger: pl.DataFrame, news: list[pl.DataFrame], since: int | None) -> pl.DataFrame:
    """A ledger with what a batch adds, in order, without what is too old to matter."""
    whole = pl.concat([ledger, *news])
    if since is not None:
        whole = whole.filter(pl.col(TIME) >= since)
    return whole.group_by(TIME, BUCKET).agg(pl.col(COUNT).sum()).sort(TIME, BUCKET)


def boundary(ledger: pl.DataFrame, most: int, bucket: int) -> Place | None:
    """Up to where the tuples of a bucket aren't among the newest of all.

    Returns:
        ``None`` where all still are.

    Example:
        >>> rows = {"ts": [1, 2, 2, 3], "bucket": [0, 0, 1, 1], "n": [5, 2, 4, 1]}
        >>> ledger = pl.DataFrame(rows, schema=SCHEMA)
        >>> [boundary(ledger, 3, bucket) for bucket in (0, 1, 2)]
        [(3, 0), (2, 2), (2, 0)]
    """
    counts = ledger[COUNT].to_numpy()
    # How many are newer than the tuples of each line, and those of it.
    held = np.cumsum(counts[::-1])[::-1]
    beyond = np.nonzero(held > most)[0]
    if not len(beyond):
        return None
    line = int(beyond[-1])
    time, only = int(ledger[TIME][line]), int(ledger[BUCKET][line])
    if bucket < only:
        return time + 1, 0
    return (time, int(held[line]) - most) if bucket == only else (time, 0)
