"""The messages of the windows within retention, kept unchanged.

Source: the Samza SQL window operator design, "Message Store": all retained messages by range (R.1),
those of a window at once (R.2), expired ones dropped by whole segments (R.3), each once (R.4, which
the operator ensures: a replayed message never gets here).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.retention import RetentionCounter
from muntin.model.spec import WindowSpec
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.manifest import Manifest, Run, load_manifest
from muntin.state.runs import Runs, segment_length

FindEdges = Callable[[Any], tuple[int, int] | None]
"""By partition, the first positions that windows within retention, and windows that still accept
messages, depend on; ``None`` before there are any."""

_PARTS = "partitions"


@dataclass
class _PartitionMessages:
    """The messages of a partition.

    Attributes:
        counter: Counts messages by position, for a retention by rows.
        first: The first retained position; ``None`` if nothing was dropped.
    """

    runs: Runs
    counter: RetentionCounter
    first: int | None


class RetainedMessages:
    """Messages by position: their event time, or on the rows axis the offset in their partition."""

    def __init__(self, spec: WindowSpec, blobs: Blobs, cache: FrameCache, horizon: int) -> None:
        self.spec = spec
        self.blobs = blobs
        self.cache = cache
        self.span = segment_length(horizon)
        self.partition = spec.offset[0] if spec.axis == "rows" and spec.offset else None
        self._tables: dict[Any, _PartitionMessages] = {}
        stored = load_manifest(blobs, "messages") or Manifest("messages")
        for number, (value, counts, first) in enumerate(stored.extra.get(_PARTS, ())):
            self._tables[value] = self._create_table(stored.tables[str(number)], counts, first)

    def add(self, messages: pl.DataFrame) -> None:
        """Store messages, with their position in ``columns.TIME``."""
        if self.partition is None:
            parts = {(None,): messages} if len(messages) else {}
        else:
            parts = messages.partition_by(self.partition, as_dict=True)
        for (value,), part in parts.items():
            table = self._tables.setdefault(value, self._create_table([], None, None))
            table.counter.count_stored(table.runs.read, table.first)
            table.runs.append(part)
            table.counter.add(part)

    def expire(self, edges: FindEdges, reached: Callable[[Any], int | None] | None = None) -> None:
        """Drop the messages that are beyond the retention by time and by rows, by whole segments.

        Edges may be costly to compute. If ``reached`` returns the position up to which a
        partition's retention may drop, they are computed only if a whole segment is before it.
        """
        for value, table in self._tables.items():
            if reached is not None and not self._may_expire(table, reached(value)):
                continue
            partition_edges = edges(value)
            if partition_edges is not None:
                table.first = table.counter.apply_limit(partition_edges[1], partition_edges[0])
                table.runs.drop_before(table.first)

    def _may_expire(self, table: _PartitionMessages, reached: int | None) -> bool:
        low = table.runs.low
        if reached is None or low is None:
            return False
        return table.counter.most is not None or (low // self.span + 1) * self.span <= reached

    def clear(self) -> None:
        """Drop all messages."""
        for table in self._tables.values():
            table.runs.drop_before(None)
        self._tables.clear()

    def save(self) -> None:
        """Write the manifest; the store isn't flushed yet."""
        tables = list(self._tables.items())
        parts = [[value, table.counter.entries(), table.first] for value, table in tables]
        runs = {str(number): table.runs.entries() for number, (_, table) in enumerate(tables)}
        self.blobs.save(Manifest("messages", tables=runs, extra={_PARTS: parts}).dumps())

    def select_between(
        self, start: int | None, end: int | None, nothing: pl.DataFrame
    ) -> pl.DataFrame:
        """Return the messages between two positions, both included, unordered."""
        frames = [nothing]
        at = pl.col(columns.TIME)
        for table in self._tables.values():
            low = max((p for p in (start, table.first) if p is not None), default=None)
            for frame in table.runs.read(low, end):
                conditions = [at >= low] if low is not None else []
                conditions += [at <= end] if end is not None else []
                frames.append(frame.filter(*conditions) if conditions else frame)
        return pl.concat(frames)

    def _create_table(
        self, entries: Sequence[Run], counts: dict[str, Any] | None, first: int | None
    ) -> _PartitionMessages:
        runs = Runs(columns.TIME, self.span, self.blobs, self.cache, pl.concat, entries)
        most = self.spec.firing.rows
        return _PartitionMessages(
            runs, RetentionCounter(columns.TIME, self.span, most, counts, None), first
        )
