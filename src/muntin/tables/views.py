"""Views of the keys, values or items of one window of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from muntin.tables.moments import Seconds, parse_duration

if TYPE_CHECKING:
    from muntin.tables.windowed import WindowedTable, WindowedTableShard


class View:
    """A view of one window, with the keys that have a value in it.

    In an agent it shows the current partition; outside of agents, all partitions.

    Args:
        table: The table.
        event: The event, its value, or a time; ``None`` for the event being processed.
        pick: Selects what to show of a key and its value.
        borrows: True if values are shown, which the agent may change in place.
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
        """Iterate over the window at the time of the table's clock."""
        return self._iterate_all(self._table.time(self._event))

    def now(self) -> Iterator[Any]:
        """Iterate over the window that ``table[key].now()`` reads."""
        for shard in self._table.get_shards():
            time = self._table.now_time(shard)
            if time is not None:
                yield from self._iterate_shard(shard, time, oldest=True)

    def current(self, event: Any = None) -> Iterator[Any]:
        """Iterate over the newest window that contains the event's own time."""
        return self._iterate_all(self._table.event_time(self._resolve_event(event)))

    def delta(self, before: Seconds, event: Any = None) -> Iterator[Any]:
        """Iterate over the window that ``table[key].delta(before, event)`` reads."""
        return self._iterate_all(
            self._table.time(self._resolve_event(event)) - parse_duration("delta", before)
        )

    def _resolve_event(self, event: Any) -> Any:
        return self._event if event is None else event

    def _iterate_all(self, time: int) -> Iterator[Any]:
        for shard in self._table.get_shards():
            yield from self._iterate_shard(shard, time)

    def _iterate_shard(
        self, shard: WindowedTableShard, time: int, *, oldest: bool = False
    ) -> Iterator[Any]:
        visibility = shard.find_visibility(self._table.relative)
        values = shard.read_all(time, visibility, oldest=oldest, borrows=self._borrows)
        return (self._pick(key, value) for key, value in values.items())
