"""Messages as frames, out of what Spark sends to a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import polars as pl
import pyarrow as pa

from muntin.engine import columns
from muntin.engine.utf8 import GARBLED, frame_of
from muntin.sources.flags import NOW

ROWS_AT_ONCE = 500_000
# What an operator before this one emitted beside its results; see ``muntin.spark.host.chain``.
KIND, BLOB, PROGRESS = "__muntin_kind", "__muntin_blob", "__muntin_progress"
PASSED = (KIND, BLOB, PROGRESS)

Reader = Callable[[Iterator[pa.RecordBatch]], Iterator[pl.DataFrame]]


def as_sent(batches: Iterator[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """The messages that Spark sends, in frames of a bounded number of rows."""
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
    # Spark labels moments with the session's zone; the engine's are UTC's.
    return frame_of(table.cast(pa.schema([_in_utc(field) for field in table.schema])))


def _in_utc(field: pa.Field) -> pa.Field:
    """A field with its moments in UTC, however deep they are nested.

    With room for a null at every depth: a null struct whose fields are never null can't be cast.
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


def timed(messages: pl.DataFrame, time_column: str | None, used: Iterable[str]) -> pl.DataFrame:
    """Messages with ``columns.TIME`` (and the clock) in microseconds.

    Args:
        messages: What was read.
        time_column: The column of event times; ``None`` where there is none: then it is the
            batch's clock, where that came along.
        used: The columns that something is computed with: a message is malformed where the text of
            one isn't UTF-8.
    """
    if GARBLED in messages.columns:
        bad = pl.col(GARBLED).list.set_intersection(list(used)).list.len() > 0
        if columns.MALFORMED in messages.columns:
            bad = bad | pl.col(columns.MALFORMED).fill_null(True)
        messages = messages.with_columns(bad.alias(columns.MALFORMED)).drop(GARBLED)
    time = pl.lit(0) if time_column is None else pl.col(time_column)
    if time_column is None and NOW in messages.columns:
        time = pl.col(NOW)
    times = [time.cast(pl.Int64).alias(columns.TIME)]
    if columns.CLOCK in messages.columns:
        times.append(pl.col(columns.CLOCK).cast(pl.Int64))
    return messages.with_columns(times)
