"""Figures and sample rows of a batch, as plain values for the live page."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from muntin.engine import columns
from muntin.engine.operator import REJECTED, RESULTS
from muntin.model.counts import rejections
from muntin.sinks.batch import Batch
from muntin.sinks.plain import to_plain_values
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.inspect.checkpoints import report_of
from muntin.spark.query import WindowedQuery
from muntin.spark.sinks.batch import EmittedRows

# Of a batch no more rows are fetched than somebody could read.
_WINDOWS, _SAMPLES = 500, 10
# Nor more of a text.
_TEXT = 1000
# Whole numbers up to here are doubles too.
_EXACT = 2**53
_PHASES = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")


@dataclass(frozen=True)
class Seen:
    """A batch as a page shows it.

    Attributes:
        batch: Its number.
        at: When it was written, milliseconds since the epoch.
        numbers: Figures by name.
        phases: How many milliseconds each part of the batch before took.
        rejected: How many messages were rejected so far, by reason.
        windows: Some of the windows that emitted, the newest last.
        samples: Some of the messages that were rejected.
    """

    batch: int
    at: int
    numbers: dict[str, float | None]
    phases: dict[str, float] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    windows: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)


def observe(query: WindowedQuery, show: Callable[[Seen], None]) -> None:
    """Show each batch of a query from now on, in a thread of its own; the newest if it is slow."""
    before: list[tuple[int, int]] = []

    def watch(number: int, batches: list[Batch]) -> None:
        now = time.time_ns() // 1_000_000
        taken = query.progress.counts.get("seen", 0)
        rate = None
        if before:
            then, known = before.pop()
            rate = (taken - known) * 1000 / max(1, now - then)
        before.append((now, taken))
        rows = {batch.kind: batch for batch in batches}
        show(
            Seen(
                number,
                now,
                _numbers(query, now, rate),
                _phases(query),
                rejections(query.progress.counts),
                newest(rows[RESULTS], _WINDOWS) if RESULTS in rows else [],
                newest(rows[REJECTED], _SAMPLES) if REJECTED in rows else [],
            )
        )

    query.watchers.append(watch)


def looking(query: WindowedQuery) -> Callable[[Sequence[str]], dict[str, Any]]:
    """Return a function that reads the state of a running query; each call is a Spark job.

    Returns:
        A function from a key's values as text, or none, to what ``inspect`` shows.
    """
    return lambda key: report_of(Checkpoint(query.spark, query.checkpoint), key)


def _numbers(query: WindowedQuery, now: int, rate: float | None) -> dict[str, float | None]:
    progress = query.progress
    watermark = None if progress.watermark_micros is None else progress.watermark_micros // 1000
    aside = sum(rejections(progress.counts).values())
    return {
        "seen": progress.counts.get("seen", 0),
        "rate": rate,
        "rejected": aside,
        "watermark": watermark,
        "lag": None if watermark is None else (now - watermark) / 1000,
        "behind": progress.messages_behind if progress.lag else None,
        "pending": progress.pending,
        "state": progress.state_rows,
        **{name: progress.fired.get(name, 0) for name in ("early", "full", "late", "retract")},
    }


def _phases(query: WindowedQuery) -> dict[str, float]:
    last = query.query.lastProgress
    took = {} if last is None else dict(last["durationMs"])
    return {name: float(took[name]) for name in _PHASES if name in took}


def newest(batch: Batch, most: int) -> list[dict[str, Any]]:
    """The newest rows of a batch, of all shards, as values that JSON can hold.

    Args:
        batch: The batch.
        most: How many at most; each shard's rows are cut to as many before they are fetched.

    Returns:
        The rows, the newest last; times are milliseconds.
    """
    assert isinstance(batch.rows, EmittedRows)
    blobs = batch.rows.blobs
    if blobs is None:
        mine = batch.rows.emitted.where(F.col("kind") == batch.kind).select("blob")
        fetched = mine.mapInArrow(partial(_shortened, most=most), "blob binary").collect()
        blobs = tuple(row[0] for row in fetched)
    if not blobs:
        return []
    rows = pa.concat_tables([_last(pa.ipc.open_stream(blob).read_all(), most) for blob in blobs])
    if columns.WINDOW_START in rows.column_names:
        rows = rows.take(pc.sort_indices(rows[columns.WINDOW_START]))
    last = _last(rows, most)
    shown = [
        [plain(one) for one in to_plain_values(column, lambda at: at // 1000)]
        for column in last.columns
    ]
    return [dict(zip(last.column_names, row, strict=True)) for row in zip(*shown, strict=True)]


def _last(rows: pa.Table, most: int) -> pa.Table:
    return rows.slice(max(0, rows.num_rows - most))


def _shortened(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """The blobs of shards with their last rows only, on the executors."""
    for batch in batches:
        blobs = []
        for blob in batch.column(0):
            last = _last(pa.ipc.open_stream(blob.as_py()).read_all(), most)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, last.schema) as writer:
                writer.write_table(last)
            blobs.append(sink.getvalue().to_pybytes())
        yield pa.RecordBatch.from_arrays([pa.array(blobs, pa.binary())], ["blob"])


def plain(value: Any) -> Any:
    """A value as JSON can hold it, and a browser read it.

    Times are milliseconds, what has parts is JSON text, and whole numbers beyond 2^53, which a
    browser would round, are text too.
    """
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=UTC)
        return int(zoned.timestamp() * 1000)
    if isinstance(value, int):
        return value if abs(value) <= _EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        value = value[:_TEXT].hex()
    elif isinstance(value, list | tuple | dict):
        value = json.dumps(_part(value), ensure_ascii=False)
    text = str(value)
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"


def _part(value: Any) -> Any:
    """A part of a value: as ``plain``, with times as text."""
    if isinstance(value, dict):
        return {str(name): _part(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_part(one) for one in value[:_TEXT]]
    return value.isoformat() if isinstance(value, datetime) else plain(value)
