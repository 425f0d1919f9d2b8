"""The messages of the windows within retention, kept as they came.

Source: the Samza SQL window operator design, "Message Store": all retained messages by range (R.1),
those of a window at once (R.2), expired ones dropped by whole segments (R.3), each once (R.4, which
the operator sees to: a replayed message never gets here).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.runs import Blobs, FrameCache, Runs

Edge = Callable[[Any], int | None]
"""By partition, the first position that is still kept; ``None`` where all are."""

_SEGMENTS = 8


class KeptMessages:
    """Messages by position: their event time, or on the rows axis the offset in their partition.

    Args:
        blobs: Where they are kept.
        cache: Decoded blobs of this process.
        horizon: About how long a message is kept, on the axis.
        partition: The column of partitions on the rows axis; ``None`` on the time axis.
    """

    def __init__(
        self, blobs: Blobs, cache: FrameCache, horizon: int, partition: str | None = None
    ) -> None:
        self.blobs = blobs
        self.cache = cache
        self.span = max(1, horizon // _SEGMENTS)
        self.partition = partition
        self._tables: dict[Any, Runs] = {}
        for value, entries in json.loads(blobs.load() or "[]"):
            self._tables[value] = self._table(entries)

    def add(self, messages: pl.DataFrame) -> None:
        """Keep messages, with their position in ``columns.TIME``."""
        if self.partition is None:
            parts = {(None,): messages} if len(messages) else {}
        else:
            parts = messages.partition_by(self.partition, as_dict=True)
        for (value,), part in parts.items():
            self._tables.setdefault(value, self._table({})).append(part)

    def drop_before(self, edge: Edge) -> None:
        """Drop the segments that lie wholly before the first position that is kept."""
        for value, table in self._tables.items():
            kept = edge(value)
            if kept is not None:
                table.drop_before(kept)

    def save(self) -> None:
        """Write down what there is; the store isn't flushed yet."""
        listed = [[value, table.entries()] for value, table in self._tables.items()]
        self.blobs.save(json.dumps(listed))

    def between(
        self, start: int | None, end: int | None, edge: Edge, nothing: pl.DataFrame
    ) -> pl.DataFrame:
        """The messages from a position to another, both included, in no order.

        Args:
            start: Where the stretch begins; ``None`` is open.
            end: Where it ends, included; ``None`` is open.
            edge: What is still kept.
            nothing: An empty frame of messages.
        """
        found = [nothing]
        at = pl.col(columns.TIME)
        for value, table in self._tables.items():
            kept = edge(value)
            low = max((p for p in (start, kept) if p is not None), default=None)
            for frame, _, _ in table.read(low, end):
                within = [at >= low] if low is not None else []
                within += [at <= end] if end is not None else []
                found.append(frame.filter(*within) if within else frame)
        return pl.concat(found)

    def _table(self, entries: dict[str, list[list[int]]]) -> Runs:
        return Runs(columns.TIME, self.span, self.blobs, self.cache, _stacked, entries)


def _stacked(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames)
