"""Rows of a batch as Polars frames, and the newest of them."""

from __future__ import annotations

import polars as pl

from muntin.engine import columns
from muntin.engine.utf8 import GARBLED, frame_of
from muntin.sinks.batch import Batch
from muntin.sinks.sink import set_aside

_NOT_TEXT = "a text isn't UTF-8"


def polars_rows(batch: Batch, where: str) -> pl.DataFrame:
    """The rows of a batch; those with text that isn't UTF-8 are set aside.

    Args:
        batch: The batch.
        where: What can't store the others.
    """
    table = batch.table()
    rows = frame_of(table)
    if GARBLED not in rows.columns:
        return rows
    garbled = rows[GARBLED].list.len().fill_null(0) > 0
    set_aside(batch, table, dict.fromkeys(garbled.arg_true().to_list(), _NOT_TEXT), where)
    return rows.filter(~garbled).drop(GARBLED)


def newest_revisions(rows: pl.DataFrame, identity: tuple[str, ...]) -> pl.DataFrame:
    """The greatest revision of each window; of equal ones the last."""
    return rows.sort(columns.REVISION, maintain_order=True).unique(
        identity, keep="last", maintain_order=True
    )
