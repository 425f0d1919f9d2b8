"""Before the shuffle: tuples are sent to their buckets, bad ones are put aside and counted."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.apps.windowing.ledger import counted
from muntin.apps.windowing.tuples import HIGH, LOW, SCHEMA, TIME, VALUE, parsed
from muntin.engine.operator import Part
from muntin.state.hashing import hash_rows

# The columns of a table of one's own: a UUID as text, a whole number, a timestamp.
UUID, AT = "uuid", "update_ts"


# What a bucket gets of a task: its tuples, and what every bucket has to know of all of them.
ROWS, LEDGER = "rows", "ledger"
_NONE: Mapping[str, int] = MappingProxyType({})


def pack(
    tuples: pl.DataFrame,
    buckets: int,
    *,
    ledger: bool,
    wall: int | None = None,
    rejected: Mapping[str, int] = _NONE,
) -> list[Part]:
    """Cut tuples into buckets by their UUID's hash.

    Args:
        tuples: The columns of ``SCHEMA``, no nulls.
        buckets: How many there are.
        ledger: Whether a limit of rows has to be kept, for which every bucket has to know what
            the others get.
        wall: The batch's clock, milliseconds, if it came along.
        rejected: How many rows were put aside, by reason.

    Returns:
        What each bucket is sent, also one that gets no tuples: so each batch runs everywhere.
    """
    parts = cut(tuples, buckets)
    header = {"latest": tuples[TIME].max(), "wall": wall}
    whole = {LEDGER: counted(parts)} if ledger else {}
    return [
        Part(
            bucket,
            # What was rejected is counted once, by the first bucket.
            {**header, "rejected": {} if bucket else dict(rejected)},
            {ROWS: parts[bucket], **whole} if bucket in parts else whole,
        )
        for bucket in range(buckets)
    ]


def owners(tuples: pl.DataFrame, buckets: int) -> NDArray[np.int32]:
    """The bucket of each tuple."""
    return (hash_rows([tuples[HIGH], tuples[LOW]]) % np.uint64(buckets)).astype(np.int32)


def cut(tuples: pl.DataFrame, buckets: int) -> dict[int, pl.DataFrame]:
    """The tuples of each bucket that gets any."""
    which = owners(tuples, buckets)
    parts = {bucket: tuples.filter(pl.Series(which == bucket)) for bucket in range(buckets)}
    return {bucket: part for bucket, part in parts.items() if len(part)}


def taken(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """Rows of a source of one's own as tuples.

    Args:
        rows: Columns ``uuid`` (text), ``val`` (whole number) and ``update_ts`` (microseconds).

    Returns:
        The good ones as columns of ``SCHEMA``, times cut to milliseconds; and how many were
        rejected, by reason.
    """
    high, low = parsed(rows[UUID])
    reason = (
        pl.when(pl.col(UUID).is_null())
        .then(pl.lit("null_key"))
        .when(pl.col(AT).is_null())
        .then(pl.lit("null_time"))
        .when(pl.col(HIGH).is_null() | pl.col(VALUE).is_null())
        .then(pl.lit("malformed"))
    )
    read = rows.with_columns(high.alias(HIGH), low.alias(LOW)).with_columns(reason.alias("reason"))
    bad = read["reason"].drop_nulls().value_counts()
    time = pl.col(AT).cast(pl.Int64).floordiv(1000).alias(TIME)
    good = read.filter(pl.col("reason").is_null()).with_columns(time).select(SCHEMA.names())
    return good.cast(SCHEMA), dict(bad.iter_rows())
