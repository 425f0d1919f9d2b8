"""Collects figures and sample rows of each batch, as plain values for the live page."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc

from muntin.engine import columns
from muntin.engine.operator import REJECTED, RESULTS
from muntin.model.counts import select_rejections
from muntin.query import Query
from muntin.sinks.batch import Batch
from muntin.sinks.plain import list_plain_rows

# Largest number of windows and of rejected messages that are fetched of a batch, and of shards.
_WINDOWS, _SAMPLES, _SHARDS = 500, 10, 8
# Largest number of characters of a text, and of elements of a list.
_TEXT = 1000
# Largest integer up to which doubles hold all integers exactly.
_EXACT = 2**53


@dataclass(frozen=True)
class ObservedBatch:
    """A batch on the live page.

    Attributes:
        at: The time at which it was written, milliseconds since the epoch.
        phases: The time of each part of the last batch, milliseconds.
        rejected: The number of messages rejected so far, by reason.
        windows: Some of the windows that emitted, the newest last.
        samples: Some of the rejected messages.
        load: The messages of the heaviest keys (``keys``) and of the busiest shards (``shards``),
            and the milliseconds of the slowest of the user's functions (``functions``).
    """

    batch: int
    at: int
    numbers: dict[str, float | None]
    phases: dict[str, float] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    windows: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    load: dict[str, dict[str, int]] = field(default_factory=dict)


def observe(query: Query, show: Callable[[ObservedBatch], None]) -> None:
    """Call a function with each batch of a query, in a thread; a slow function skips batches."""
    before: list[tuple[int, int]] = []

    def watch(number: int, batches: list[Batch]) -> None:
        now = time.time_ns() // 1_000_000
        messages = query.progress.counts.get("seen", 0)
        rate = None
        if before:
            earlier, earlier_messages = before.pop()
            rate = (messages - earlier_messages) * 1000 / max(1, now - earlier)
        before.append((now, messages))
        rows = {batch.kind: batch for batch in batches}
        show(
            ObservedBatch(
                number,
                now,
                _collect_numbers(query, now, rate),
                query.time_phases(),
                select_rejections(query.progress.counts),
                list_newest(rows[RESULTS], _WINDOWS) if RESULTS in rows else [],
                list_newest(rows[REJECTED], _SAMPLES) if REJECTED in rows else [],
                {
                    "keys": query.progress.heaviest_keys,
                    "shards": _find_greatest(query.progress.shards, "messages"),
                    "state": _find_greatest(query.progress.shards, "state_bytes"),
                    "functions": _find_slowest(query.progress.functions),
                },
            )
        )

    query.watchers.append(watch)


def _find_greatest(shards: Mapping[int, Mapping[str, int]], figure: str) -> dict[str, int]:
    """Return a figure of the shards for which it is greatest, by the shard's number."""
    figures = Counter({str(shard): one.get(figure, 0) for shard, one in shards.items()})
    return dict(figures.most_common(_SHARDS))


def _find_slowest(functions: Mapping[str, float]) -> dict[str, int]:
    """Return the milliseconds of the slowest functions in the last batch, by their names."""
    return {name: round(1000 * time) for name, time in Counter(functions).most_common(_SHARDS)}


def _collect_numbers(query: Query, now: int, rate: float | None) -> dict[str, float | None]:
    progress = query.progress
    watermark = None if progress.watermark_micros is None else progress.watermark_micros // 1000
    rejected = sum(select_rejections(progress.counts).values())
    return {
        "seen": progress.counts.get("seen", 0),
        "rate": rate,
        "rejected": rejected,
        "watermark": watermark,
        "lag": None if watermark is None else (now - watermark) / 1000,
        "behind": progress.messages_behind if progress.lag else None,
        "pending": progress.pending,
        "state": progress.state_rows,
        **{name: progress.fired.get(name, 0) for name in ("early", "full", "late", "retract")},
    }


def list_newest(batch: Batch, most: int) -> list[dict[str, Any]]:
    """Return the ``most`` newest rows of a batch, the newest last, as values that JSON can hold.

    Times are milliseconds.
    """
    rows = batch.rows.take_last(most)
    if not len(rows):
        return []
    if columns.WINDOW_START in rows.column_names:
        rows = rows.take(pc.sort_indices(rows[columns.WINDOW_START]))
    last = rows.slice(max(0, rows.num_rows - most))
    return list_plain_rows(last, lambda at: at // 1000, to_json_value)


def to_json_value(value: Any) -> Any:
    """Return a value that JSON can hold and a browser can read.

    Times become milliseconds, and nested values JSON text. Integers beyond 2^53 become text, since
    a browser would round them.
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
        value = json.dumps(_to_json_part(value), ensure_ascii=False)
    text = str(value)
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"


def _to_json_part(value: Any) -> Any:
    """Return a part of a nested value like ``plain``, but with times as text."""
    if isinstance(value, dict):
        return {str(name): _to_json_part(element) for name, element in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_part(element) for element in value[:_TEXT]]
    return value.isoformat() if isinstance(value, datetime) else to_json_value(value)
