"""What has changed in a table of an app in this process, batch by batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from copy import deepcopy
from datetime import datetime
from typing import Any, NamedTuple

from muntin.model.axis import as_datetime
from muntin.tables.cells import GONE, MISSING
from muntin.tables.shard import Emitted, TableShard


class Change(NamedTuple):
    """A key, or one of its windows, that a batch has changed.

    Attributes:
        key: The key.
        window_start: Where the window begins; ``None`` without windows.
        window_end: Where it ends.
        value: The value now; of what is gone, as it was.
        change: ``new``, ``changed`` or ``gone`` (deleted, or a session that grew into another).
        batch: The number of the batch.
    """

    key: Any
    window_start: datetime | None
    window_end: datetime | None
    value: Any
    change: str
    batch: int


class TableChanges:
    """The changes of a table; made by ``Running.changes``.

    Iterating gives what has been committed since it was last read, and ends there. What nobody
    reads is kept. The table's values are held once more, to know what a change was.

    Args:
        table: The table's name.
        shards: The table in each partition, between two batches.
    """

    def __init__(self, table: str, shards: Iterable[TableShard]) -> None:
        self.table = table
        entries = (one for shard in shards for one in shard.snapshot())
        self._known = {(one.key, one.window): deepcopy(one.value) for one in entries}
        self._unread: deque[Change] = deque()

    def __iter__(self) -> Iterator[Change]:
        while self._unread:
            yield self._unread.popleft()

    def take(self, batch: int, shard: TableShard, emitted: Iterable[Emitted]) -> None:
        """Add what a batch has changed; a window that only expired is no change."""
        for key, window, value, closed in emitted:
            before = self._known.pop((key, window), MISSING)
            if closed or (window is not None and shard.expired(window)):
                continue
            if value is GONE:
                change, shown = "gone", before
            else:
                change, shown = "new" if before is MISSING else "changed", deepcopy(value)
                self._known[key, window] = deepcopy(value)
            if shown is not MISSING and (change != "changed" or before != value):
                start, end = [as_datetime(at) for at in window or ()] or (None, None)
                self._unread.append(Change(key, start, end, shown, change, batch))
