"""Grouping sets: rows for each set, with NULL in the keys that aren't in the set.

Messages are lifted once, by all keys, and their cells are merged into those of each set. So the
cost of a set depends on the number of cells, not of messages. Messages that only a shard can
classify go to the shards of all of their sets; only one of these copies is counted or rejected.
"""

from __future__ import annotations

import polars as pl

from muntin.engine import columns
from muntin.model.grouping_sets import absent
from muntin.model.spec import WindowSpec

# The set number of messages that aren't copied for each set yet.
_ALL = -1


def tagged(messages: pl.DataFrame, spec: WindowSpec) -> pl.DataFrame:
    """Add the internal key columns of grouping sets to messages."""
    if columns.GROUPING in messages.columns:
        return messages
    named = zip(columns.message_keys(spec), spec.key_columns, strict=False)
    return messages.with_columns(
        *(pl.col(own).alias(name) for name, own in named),
        pl.lit(_ALL, dtype=pl.Int64).alias(columns.GROUPING),
        pl.lit(True).alias(columns.COUNTS),
    )


def stand_for_all(messages: pl.DataFrame) -> bool:
    """Return whether messages of ``tagged`` aren't copied for each set yet."""
    return len(messages) > 0 and messages[columns.GROUPING][0] == _ALL


def copied(messages: pl.DataFrame, spec: WindowSpec) -> pl.DataFrame:
    """Copy each message for each set; the copy for the first set is counted."""
    sets = spec.sets or ()
    made = by_sets(messages, columns.message_keys(spec), sets)
    return made.with_columns((pl.col(columns.GROUPING) == sets[0]).alias(columns.COUNTS))


def by_sets(rows: pl.DataFrame, keys: list[str], sets: tuple[int, ...]) -> pl.DataFrame:
    """Copy each row for each set."""
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
    """Return one copy of each message."""
    return messages.filter(columns.COUNTS) if columns.COUNTS in messages.columns else messages
