"""Converts a batch to Polars frames, and selects the newest revisions."""

from __future__ import annotations

import polars as pl

from muntin.engine import columns
from muntin.engine.utf8 import GARBLED, frame_from_arrow
from muntin.sinks.batch import Batch
from muntin.sinks.sink import report_refused

_NOT_TEXT = "a text isn't UTF-8"


def read_polars_rows(batch: Batch, where: str) -> pl.DataFrame:
    """Return the rows of a batch, and set aside those with text that isn't UTF-8."""
    table = batch.table()
    rows = frame_from_arrow(table)
    if GARBLED not in rows.columns:
        return rows
    garbled = rows[GARBLED].list.len().fill_null(0) > 0
    report_refused(batch, table, dict.fromkeys(garbled.arg_true().to_list(), _NOT_TEXT), where)
    return rows.filter(~garbled).drop(GARBLED)


def select_newest_revisions(rows: pl.DataFrame, identity: tuple[str, ...]) -> pl.DataFrame:
    """Return the greatest revision of each window; the last of equal ones."""
    return rows.sort(columns.REVISION, maintain_order=True).unique(
        identity, keep="last", maintain_order=True
    )
