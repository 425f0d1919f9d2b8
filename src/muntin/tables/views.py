"""Keys, values or items of one window of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from muntin.tables.moments import Seconds, length

if TYPE_CHECKING:
    from muntin.tables.windowed import GridOrSessions, WindowedTable


class View:
    """What is there in one window: only keys that have a value in it.

    In an agent, of the partition at work; outside, of all partitions.

    Args:
        table: The table.
        event: Of which event, or at what time.
        pick: What is shown of a key and its value.
        borrows: Whether values are shown, which the agent may change.
    """

    def __init__(
        self,
        table: WindowedTable,
        event: Any,
        pick: Callable[[Any, Any], Any],
        *,
        borrows: bool = True,
    ) -> None:
        self._table = table
        self._event = event
        self._pick = pick
        self._borrows = borrows

    def __iter__(self) -> Iterator[Any]:
        """In the window at the time that the table goes by."""
        return self._at(self._table.time(self._event))

    def now(self) -> Iterator[Any]:
        """In the window that ``table[key].now()`` reads."""
        for shard in self._table.shards():
            time = self._table.now_time(shard)
            if time is not None:
                yield from self._of(shard, time, oldest=True)

    def current(self, event: Any = None) -> Iterator[Any]:
        """In the newest window that holds the event's own time."""
        return self._at(self._table.event_time(self._meant(event)))

    def delta(self, before: Seconds, event: Any = None) -> Iterator[Any]:
        """In the window that ``table[key].delta(before, event)`` reads."""
        return self._at(self._table.time(self._meant(event)) - length("delta", before))

    def _meant(self, event: Any) -> Any:
        return self._event if event is None else event

    def _at(self, time: int) -> Iterator[Any]:
        for shard in self._table.shards():
            yield from self._of(shard, time)

    def _of(self, shard: GridOrSessions, time: int, *, oldest: bool = False) -> Iterator[Any]:
        visibility = shard.visibility(self._table.relative)
        found = shard.read_all(time, visibility, oldest=oldest, borrows=self._borrows)
        return (self._pick(key, value) for key, value in found.items())
