"""Before the shuffle: tuples are sent to their buckets, bad ones are put aside and counted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.apps.windowing.ledger import counted
from muntin.apps.windowing.tuples import HIGH, LOW, SCHEMA, TIME, VALUE, parsed
from muntin.state.hashing import hash_rows

# The columns of a table of one's own: a UUID as text, a whole number, a timestamp.
UUID, AT = "uuid", "update_ts"


@dataclass
class Packed:
    """What a task sends.

    Attributes:
        parts: The tuples of each bucket that gets any.
        latest: The greatest time of all of them, milliseconds.
        ledger: How many tuples of each time go to each bucket; ``None`` where they aren't counted.
        rejected: How many were put aside, by reason.
    """

    parts: dict[int, pl.DataFrame] = field(default_factory=dict)
    latest: int | None = None
    ledger: pl.DataFrame | None = None
    rejected: dict[str, int] = field(default_factory=dict)


def pack(tuples: pl.DataFrame, buckets: int, *, ledger: bool) -> Packed:
    """Cut tuples into buckets by their UUID's hash.

    Args:
        tuples: The columns of ``SCHEMA``, no nulls.
        buckets: How many there are.
        ledger: Whether a limit of rows has to be kept, for which every bucket has to know what
            the others get.
    """
    if not len(tuples):
        return Packed()
    parts = cut(tuples, buckets)
    latest = int(tuples[TIME].max())  # type: ignore[arg-type]
    return Packed(parts, latest, counted(parts) if ledger else None)


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
