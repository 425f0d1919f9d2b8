"""Keys, values or items of one window of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from muntin.tables.moments import Seconds, length
from muntin.tables.session_shard import SessionShard
from muntin.tables.shard import Shard

if TYPE_CHECKING:
    from muntin.tables.windowed import WindowedTable


class View:
    """What is there in one window: only keys that have a value in it.

    In an agent, of the partition at work; outside, of all partitions.

    Args:
        table: The table.
        pick: What to show of a key and its value.
        lends: Whether values are given out; they are lent then, and ``None`` otherwise.
    """

    def __init__(
        self, table: WindowedTable, pick: Callable[[Any, Any], Any], *, lends: bool = True
    ) -> None:
        self._table = table
        self._pick = pick
        self._lends = lends

    def __iter__(self) -> Iterator[Any]:
        """In the window at the time that the table goes by."""
        return self._at(self._table.time())

    def now(self) -> Iterator[Any]:
        """In the window that ``table[key].now()`` reads."""
        for shard in self._table.shards(Shard):
            time = self._table.now_time(shard)  # type: ignore[arg-type]
            if time is not None:
                yield from self._of(shard, time, oldest=True)

    def current(self, event: Any = None) -> Iterator[Any]:
        """In the newest window that holds the event's own time."""
        return self._at(self._table.event_time(event))

    def delta(self, before: Seconds, event: Any = None) -> Iterator[Any]:
        """In the window that ``table[key].delta(before, event)`` reads."""
        return self._at(self._table.time(event) - length("delta", before))

    def _at(self, time: int) -> Iterator[Any]:
        for shard in self._table.shards(Shard):
            yield from self._of(shard, time)

    def _of(self, shard: Any, time: int, *, oldest: bool = False) -> Iterator[Any]:
        look = shard.look(self._table.relative)
        if isinstance(shard, SessionShard):
            found = shard.lent_values(time, look) if self._lends else shard.values(time, look)
            return iter([self._pick(key, value) for key, value in found.items()])
        pane = shard.windows.pane_of(time)
        window = (shard.windows.first_window if oldest else shard.windows.last_window)(pane)
        if shard.over(window, look):
            return iter(())
        found = shard.values(window)
        if self._lends:
            found = shard.lend_all(window, found, look.feed)
        else:
            found = dict.fromkeys([*found, *shard.begun(window, found)])
        return iter([self._pick(key, value) for key, value in found.items()])
