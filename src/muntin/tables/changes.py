"""The changes of a table in an app that runs in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from copy import deepcopy
from datetime import datetime
from typing import Any, NamedTuple

from muntin.model.axis import to_datetime
from muntin.tables.cells import GONE, MISSING
from muntin.tables.shard import TableEntry, TableShard


class Change(NamedTuple):
    """A change of a key, or of one of its windows, in a batch.

    Attributes:
        key: The key.
        window_start: The start of the window; ``None`` without windows.
        window_end: The end of the window.
        value: The new value; for ``gone``, the last value.
        change: ``new``, ``changed`` or ``gone`` (deleted, or merged into another session).
        batch: The number of the batch.
    """

    key: Any
    window_start: datetime | None
    window_end: datetime | None
    value: Any
    change: str
    batch: int


class TableChanges:
    """The changes of a table, created by ``Running.changes``.

    Iterating yields the changes committed since the last iteration, and then ends. Changes that
    nobody reads accumulate. A copy of the table's values is held, to compare new values with.

    Args:
        table: The table's name.
        shards: The table's shard of each partition, between two batches.
    """

    def __init__(self, table: str, shards: Iterable[TableShard]) -> None:
        self.table = table
        entries = (entry for shard in shards for entry in shard.snapshot())
        self._values_before = {
            (entry.key, entry.window): deepcopy(entry.value) for entry in entries
        }
        self._unread: deque[Change] = deque()

    def __iter__(self) -> Iterator[Change]:
        while self._unread:
            yield self._unread.popleft()

    def add_batch(self, batch: int, shard: TableShard, emitted: Iterable[TableEntry]) -> None:
        """Add the changes of a batch; a window that only expired isn't a change."""
        for key, window, value, closed in emitted:
            before = self._values_before.pop((key, window), MISSING)
            if closed or (window is not None and shard.is_expired_session(window)):
                continue
            if value is GONE:
                change, shown = "gone", before
            else:
                change, shown = "new" if before is MISSING else "changed", deepcopy(value)
                self._values_before[key, window] = deepcopy(value)
            if shown is not MISSING and (change != "changed" or before != value):
                start, end = [to_datetime(position) for position in window or ()] or (None, None)
                self._unread.append(Change(key, start, end, shown, change, batch))
