"""Grouping sets: rows for each set, with NULL in the keys that aren't in the set.

Messages are lifted once, by all keys, and their cells are merged into those of each set. So the
cost of a set depends on the number of cells, not of messages. Messages that only a shard can
classify go to the shards of all of their sets; only one of these copies is counted or rejected.
"""

from __future__ import annotations

import polars as pl

from muntin.engine import columns
from muntin.model.grouping_sets import find_absent
from muntin.model.spec import WindowSpec
from muntin.state.rows import stack_rows

# The set number of messages that aren't copied for each set yet.
_ALL = -1


def tag_messages(messages: pl.DataFrame, spec: WindowSpec) -> pl.DataFrame:
    """Add the internal key columns of grouping sets to messages."""
    if columns.GROUPING in messages.columns:
        return messages
    key_pairs = zip(columns.message_keys(spec), spec.key_columns, strict=False)
    return messages.with_columns(
        *(pl.col(internal).alias(name) for name, internal in key_pairs),
        pl.lit(_ALL, dtype=pl.Int64).alias(columns.GROUPING),
        pl.lit(True).alias(columns.COUNTS),
    )


def are_uncopied(messages: pl.DataFrame) -> bool:
    """Return whether messages of ``tag_messages`` aren't copied for each set yet."""
    return len(messages) > 0 and messages[columns.GROUPING][0] == _ALL


def copy_messages(messages: pl.DataFrame, spec: WindowSpec) -> pl.DataFrame:
    """Copy each message for each set; the copy for the first set is counted."""
    sets = spec.sets or ()
    copies = copy_by_sets(messages, columns.message_keys(spec), sets)
    return copies.with_columns((pl.col(columns.GROUPING) == sets[0]).alias(columns.COUNTS))


def copy_by_sets(rows: pl.DataFrame, keys: list[str], sets: tuple[int, ...]) -> pl.DataFrame:
    """Copy each row for each set."""
    *own, grouping = keys
    copies = []
    for set_number in sets:
        absent_keys = [
            pl.lit(None, dtype=rows.schema[own[index]]).alias(own[index])
            for index in find_absent(set_number, len(own))
        ]
        copies.append(
            rows.with_columns(*absent_keys, pl.lit(set_number, dtype=pl.Int64).alias(grouping))
        )
    return stack_rows(copies)


def select_counted(messages: pl.DataFrame) -> pl.DataFrame:
    """Return one copy of each message."""
    return messages.filter(columns.COUNTS) if columns.COUNTS in messages.columns else messages
