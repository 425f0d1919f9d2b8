"""Turns the Arrow batches that Spark sends to a task into frames of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import polars as pl
import pyarrow as pa

from muntin.engine import columns
from muntin.engine.admission import NOW
from muntin.engine.utf8 import GARBLED, frame_from_arrow
from muntin.state.rows import drop_columns

ROWS_AT_ONCE = 500_000
# Columns of the rejected messages and figures of upstream operators (``muntin.spark.host.chain``).
KIND, BLOB, PROGRESS = "__muntin_kind", "__muntin_blob", "__muntin_progress"
PASSED = (KIND, BLOB, PROGRESS)

BatchReader = Callable[[Iterator[pa.RecordBatch]], Iterator[pl.DataFrame]]


def read_frames(batches: Iterator[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """Yield the messages that Spark sends, in frames of bounded size."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_AT_ONCE:
            yield _frame(waiting)
            waiting, rows = [], 0
    if rows:
        yield _frame(waiting)


def _frame(batches: list[pa.RecordBatch]) -> pl.DataFrame:
    table = pa.Table.from_batches(batches)
    # Spark labels moments with the session's zone; the engine uses UTC.
    schema = _to_utc_schema(table.schema)
    return frame_from_arrow(table if schema == table.schema else table.cast(schema))


@lru_cache(64)
def _to_utc_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([_in_utc(field) for field in schema])


def _in_utc(field: pa.Field) -> pa.Field:
    """Return a field with its moments in UTC, at any depth.

    All nested fields become nullable, since a null struct whose fields are never null can't be
    cast.
    """
    kind = field.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        kind = pa.timestamp(kind.unit, "UTC")
    elif pa.types.is_struct(kind):
        kind = pa.struct([_in_utc(inner) for inner in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_in_utc(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(_in_utc(kind.key_field).with_nullable(False), _in_utc(kind.item_field))
    return pa.field(field.name, kind)


def add_times(messages: pl.DataFrame, time_column: str | None, used: Iterable[str]) -> pl.DataFrame:
    """Return messages with ``columns.TIME`` (and the clock) in microseconds.

    Without a time column, the time is the batch's clock if messages carry it, else 0. A message is
    malformed where the text in one of the ``used`` columns isn't UTF-8.
    """
    if GARBLED in messages.columns:
        bad = pl.col(GARBLED).list.set_intersection(list(used)).list.len() > 0
        if columns.MALFORMED in messages.columns:
            bad = bad | pl.col(columns.MALFORMED).fill_null(True)
        messages = messages.with_columns(bad.alias(columns.MALFORMED)).drop(GARBLED)
    if time_column is None and NOW in messages.columns:
        time_column = NOW
    if time_column is None:
        times = pl.Series([0]).new_from_index(0, len(messages))
    else:
        times = messages[time_column].cast(pl.Int64)
    added = [times.alias(columns.TIME)]
    if columns.CLOCK in messages.columns:
        added.append(messages[columns.CLOCK].cast(pl.Int64))
    return drop_columns(messages, *(one.name for one in added)).hstack(added)
