"""The messages of the windows within retention, kept unchanged.

Source: the Samza SQL window operator design, "Message Store": all retained messages by range (R.1),
those of a window at once (R.2), expired ones dropped by whole segments (R.3), each once (R.4, which
the operator sees to: a replayed message never gets here).
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
from muntin.state.manifest import Manifest, Run, load
from muntin.state.runs import FrameCache, Runs, segment_length

Edges = Callable[[Any], tuple[int, int] | None]
"""By partition, the first position that some window within retention depends on, and the first that
some window does which still takes messages; ``None`` before there is any."""

_PARTS = "partitions"


@dataclass
class _Table:
    """The messages of a partition: their runs, how many lie where, and the first that is kept."""

    runs: Runs
    kept: RetentionCounter
    first: int | None


class RetainedMessages:
    """Messages by position: their event time, or on the rows axis the offset in their partition."""

    def __init__(self, spec: WindowSpec, blobs: Blobs, cache: FrameCache, horizon: int) -> None:
        self.spec = spec
        self.blobs = blobs
        self.cache = cache
        self.span = segment_length(horizon)
        self.partition = spec.offset[0] if spec.axis == "rows" and spec.offset else None
        self._tables: dict[Any, _Table] = {}
        stored = load(blobs, "messages") or Manifest("messages")
        for number, (value, counts, first) in enumerate(stored.extra.get(_PARTS, ())):
            self._tables[value] = self._table(stored.tables[str(number)], counts, first)

    def add(self, messages: pl.DataFrame) -> None:
        """Keep messages, with their position in ``columns.TIME``."""
        if self.partition is None:
            parts = {(None,): messages} if len(messages) else {}
        else:
            parts = messages.partition_by(self.partition, as_dict=True)
        for (value,), part in parts.items():
            table = self._tables.setdefault(value, self._table([], None, None))
            table.kept.learn(table.runs.read, table.first)
            table.runs.append(part)
            table.kept.add(part)

    def expire(self, edges: Edges, reached: Callable[[Any], int | None] | None = None) -> None:
        """Drop what neither the retention in time nor the one in rows keeps, by segments.

        The edges may be costly to find. Where it is known by partition up to which position the
        retention may drop, nothing is looked for where no segment lies wholly before it.
        """
        for value, table in self._tables.items():
            if reached is not None and not self._may_expire(table, reached(value)):
                continue
            found = edges(value)
            if found is not None:
                table.first = table.kept.first(found[1], found[0])
                table.runs.drop_before(table.first)

    def _may_expire(self, table: _Table, reached: int | None) -> bool:
        low = table.runs.low
        if reached is None or low is None:
            return False
        return table.kept.most is not None or (low // self.span + 1) * self.span <= reached

    def clear(self) -> None:
        """Drop everything."""
        for table in self._tables.values():
            table.runs.drop_before(None)
        self._tables.clear()

    def save(self) -> None:
        """Write down what there is; the store isn't flushed yet."""
        tables = list(self._tables.items())
        parts = [[value, table.kept.entries(), table.first] for value, table in tables]
        runs = {str(number): table.runs.entries() for number, (_, table) in enumerate(tables)}
        self.blobs.save(Manifest("messages", tables=runs, extra={_PARTS: parts}).dumps())

    def between(self, start: int | None, end: int | None, nothing: pl.DataFrame) -> pl.DataFrame:
        """The messages from a position to another, both included, in no order."""
        found = [nothing]
        at = pl.col(columns.TIME)
        for table in self._tables.values():
            low = max((p for p in (start, table.first) if p is not None), default=None)
            for frame in table.runs.read(low, end):
                within = [at >= low] if low is not None else []
                within += [at <= end] if end is not None else []
                found.append(frame.filter(*within) if within else frame)
        return pl.concat(found)

    def _table(
        self, entries: Sequence[Run], counts: dict[str, Any] | None, first: int | None
    ) -> _Table:
        runs = Runs(columns.TIME, self.span, self.blobs, self.cache, pl.concat, entries)
        most = self.spec.firing.rows
        return _Table(runs, RetentionCounter(columns.TIME, self.span, most, counts, None), first)
