"""Grouping sets: a row of each set, of which the keys that aren't in it are NULL.

Messages are lifted once, by all keys; their cells are merged into those of each set. So a set costs
as many rows as there are cells, not messages. Messages that only a shard can judge go to the shards
of all of their sets: one of these copies is counted, and rejected where it is.
"""

from __future__ import annotations

import polars as pl

from muntin.engine import columns
from muntin.model.grouping_sets import absent
from muntin.model.spec import WindowSpec

# Of messages that stand for all sets still.
_ALL = -1


def tagged(messages: pl.DataFrame, spec: WindowSpec) -> pl.DataFrame:
    """Messages with the columns that sets are grouped by, beside their own."""
    if columns.GROUPING in messages.columns:
        return messages
    named = zip(columns.message_keys(spec), spec.key_columns, strict=False)
    return messages.with_columns(
        *(pl.col(own).alias(name) for name, own in named),
        pl.lit(_ALL, dtype=pl.Int64).alias(columns.GROUPING),
        pl.lit(True).alias(columns.COUNTS),
    )


def stand_for_all(messages: pl.DataFrame) -> bool:
    """Whether messages, which are tagged, aren't copied for each set yet."""
    return len(messages) > 0 and messages[columns.GROUPING][0] == _ALL


def copied(messages: pl.DataFrame, spec: WindowSpec) -> pl.DataFrame:
    """A copy of each message for each set; the first of them is counted."""
    sets = spec.sets or ()
    made = by_sets(messages, columns.message_keys(spec), sets)
    return made.with_columns((pl.col(columns.GROUPING) == sets[0]).alias(columns.COUNTS))


def by_sets(rows: pl.DataFrame, keys: list[str], sets: tuple[int, ...]) -> pl.DataFrame:
    """A copy of each row for each set."""
    *own, grouping = keys
    copies = []
    for number in sets:
        none = [
            pl.lit(None, dtype=rows.schema[own[place]]).alias(own[place])
            for place in absent(number, len(own))
        ]
        copies.append(rows.with_columns(*none, pl.lit(number, dtype=pl.Int64).alias(grouping)))
    return pl.concat(copies)


def counted(messages: pl.DataFrame) -> pl.DataFrame:
    """One copy of each message."""
    return messages.filter(columns.COUNTS) if columns.COUNTS in messages.columns else messages
