"""Before the shuffle: assigns tuples to shards, and counts rejected ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.apps.windowing.ledger import count_tuples
from muntin.apps.windowing.tuples import HIGH, LOW, TIME, TUPLE_SCHEMA, VALUE, parse_uuids
from muntin.engine.operator import Part
from muntin.state.hashing import hash_rows

# The columns of a custom source: a UUID as text, an integer, a timestamp.
UUID, AT = "uuid", "update_ts"


# The frames that a task sends to a shard: its tuples, and the counts of all tuples.
ROWS, LEDGER = "rows", "ledger"
_NONE: Mapping[str, int] = MappingProxyType({})


def pack(
    tuples: pl.DataFrame,
    shards: int,
    *,
    ledger: bool,
    wall: int | None = None,
    rejected: Mapping[str, int] = _NONE,
) -> list[Part]:
    """Split tuples into a part for each shard, by their UUID's hash.

    Args:
        tuples: The columns of ``TUPLE_SCHEMA``, without nulls.
        shards: The number of shards.
        ledger: Whether there is a limit of rows, for which every shard needs the counts of
            the others.
        wall: The batch's clock, milliseconds, if the tuples have it.
        rejected: The number of rejected rows by reason.

    Returns:
        The part of each shard, even without tuples, so that each batch runs everywhere.
    """
    parts = split_tuples(tuples, shards)
    header = {"latest": tuples[TIME].max(), "wall": wall}
    whole = {LEDGER: count_tuples(parts)} if ledger else {}
    return [
        Part(
            shard,
            # Rejected rows are counted once, by the first shard.
            {**header, "rejected": {} if shard else dict(rejected)},
            {ROWS: parts[shard], **whole} if shard in parts else whole,
        )
        for shard in range(shards)
    ]


def assign_to_shards(tuples: pl.DataFrame, shards: int) -> NDArray[np.int32]:
    """Return the shard of each tuple."""
    return (hash_rows([tuples[HIGH], tuples[LOW]]) % np.uint64(shards)).astype(np.int32)


def split_tuples(tuples: pl.DataFrame, shards: int) -> dict[int, pl.DataFrame]:
    """Return the tuples of each shard that has any."""
    assigned = assign_to_shards(tuples, shards)
    parts = {shard: tuples.filter(pl.Series(assigned == shard)) for shard in range(shards)}
    return {shard: part for shard, part in parts.items() if len(part)}


def convert_rows(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """Convert rows of a custom source to tuples.

    Args:
        rows: Columns ``uuid`` (text), ``val`` (integer) and ``update_ts`` (microseconds).

    Returns:
        The valid ones as columns of ``TUPLE_SCHEMA``, with times truncated to milliseconds; and the
        number of rejected ones, by reason.
    """
    high, low = parse_uuids(rows[UUID])
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
    good = read.filter(pl.col("reason").is_null()).with_columns(time).select(TUPLE_SCHEMA.names())
    return good.cast(TUPLE_SCHEMA), dict(bad.iter_rows())
