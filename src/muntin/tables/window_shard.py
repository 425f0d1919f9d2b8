"""A table of windows in one partition: a write goes to all windows that contain its time.

If windows overlap and integers are added, sums are stored once, by pane, and combined when a window
is read. All other values are stored by window, as Faust does.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muntin.model.axis import MAX_POSITION, MIN_POSITION
from muntin.model.windows import Windows
from muntin.tables.cells import GONE, MISSING, sort_keys
from muntin.tables.clocks import Relative, Visibility
from muntin.tables.current import EventCursor
from muntin.tables.entries import ValuePair
from muntin.tables.shard import Operation, TableEntry, TableShard
from muntin.tables.spec import TableSpec

if TYPE_CHECKING:
    from muntin.tables.partition import Partition

# The value of a deleted window whose panes still have sums.
DELETED = "\u0000absent"


@dataclass(slots=True)
class PaneWindows:
    """The windows that contain the times of one pane.

    Attributes:
        limit: The watermark from which some of the windows are closed.
        sums: The pane's sums, if the table has any.
        windows: The values of each window; loaded on demand.
    """

    first: int
    last: int
    limit: int
    sums: ValuePair | None
    windows: list[ValuePair] | None = None


class WindowTableShard(TableShard):
    """Tumbling or hopping windows."""

    def __init__(self, spec: TableSpec, part: Partition, windows: Windows) -> None:
        super().__init__(spec, part)
        self.windows = windows
        self.stored = self.create_entries("windows", spec.span)
        self.by_pane = self.create_entries("panes", 1) if spec.shares_pane_sums else None
        self.set_span(spec.span)
        self._has_one_pane_per_slide = not self.windows.remainder
        self._origin, self._slide = self.windows.origin, self.windows.slide
        self._newest = MIN_POSITION
        self._pane_windows: dict[int, PaneWindows] = {}
        self._has_window_values = True

    def set_span(self, span: int) -> None:
        super().set_span(span)
        self.stored.span = span
        if self.by_pane is not None:
            self.by_pane.span = self.windows.first_pane(span)

    def last_dropped(self) -> dict[str, int | None]:
        return super().last_dropped() | {"panes": self._find_closed_pane()}

    def _find_closed_pane(self) -> int | None:
        """Return the last pane all of whose windows have expired."""
        if self.closed is None:
            return None
        return self.windows.first_pane(self.closed + 1) - 1

    def begin(self, blobs: Any, stored: Any) -> None:
        super().begin(blobs, stored)
        self._pane_windows = {}
        self._has_window_values = self.by_pane is None or self.stored.has_any()
        self._newest = MIN_POSITION if self.latest is None else self.latest

    def find_windows(self, time: int) -> PaneWindows:
        """Return the windows that contain a time."""
        pane = (
            (time - self._origin) // self._slide
            if self._has_one_pane_per_slide
            else self.windows.pane_of(time)
        )
        windows = self._pane_windows.get(pane)
        return windows if windows is not None else self._add_windows(pane)

    def _add_windows(self, pane: int) -> PaneWindows:
        first, last = self.windows.first_window(pane), self.windows.last_window(pane)
        sums = self.by_pane.pair(pane) if self.by_pane is not None else None
        slot = self._pane_windows[pane] = PaneWindows(first, last, self._find_limit(first), sums)
        return slot

    def _find_limit(self, window: int) -> int:
        """Return the watermark from which a window is closed."""
        if self.has_expired(window):
            return MIN_POSITION
        if self.spec.expires is None:
            return MAX_POSITION
        return self.windows.end(window) + self.spec.expires

    def _load_pairs(self, slot: PaneWindows) -> list[ValuePair]:
        if slot.windows is None:
            slot.windows = [self.stored.pair(k) for k in range(slot.first, slot.last + 1)]
        return slot.windows

    def apply(
        self, operation: Operation, key: Any, operand: Any, cursor: EventCursor, relative: Relative
    ) -> None:
        """Set ``value = operation(value, operand)`` in all windows of the event's time."""
        if relative is None and cursor is self.last_writer:
            time, watermark = cursor.time, cursor.watermark
        else:
            time_and_watermark = self.resolve_time(cursor, relative)
            if time_and_watermark is None:
                return
            time, watermark = time_and_watermark
        if key != cursor.key or type(key) is tuple:
            self.check_key(key, cursor)
        # Inlined find_windows(time), because this runs for every write.
        slot = (
            self._pane_windows.get((time - self._origin) // self._slide)
            if self._has_one_pane_per_slide
            else None
        )
        if slot is None:
            slot = self.find_windows(time)
        if watermark >= slot.limit:
            self._apply_by_window(
                self._select_open(slot, cursor, watermark), operation, key, operand
            )
            return
        if slot.last > self._newest:
            self.latest = self._newest = slot.last
        if (
            self._has_window_values
            or type(operand) is not int
            or not (operation is operator.add or operation is operator.sub)
        ):
            self._apply_each(slot, operation, key, operand)
            return
        # Inlined _add_to_sum.
        assert slot.sums is not None
        fresh, base = slot.sums
        old = fresh.get(key)
        if old is None:
            old = base.get(key, 0)
        fresh[key] = operation(old, operand)

    def _apply_each(self, slot: PaneWindows, operation: Operation, key: Any, operand: Any) -> None:
        """Apply an operation in windows that can't all share the sum of a pane."""
        if self.by_pane is not None or self.paired:
            adds = type(operand) is int and operation in (operator.add, operator.sub)
            windows = range(slot.first, slot.last + 1)
            self._apply_by_window(windows, operation, key, operand, slot.sums if adds else None)
            return
        window = slot.first
        for fresh, base in self._load_pairs(slot):
            old = fresh.get(key, MISSING)
            if old is MISSING:
                old = base.get(key, MISSING)
            if self._borrowed:
                old = self.take_back(window, key, old)
            if old is MISSING or old is GONE:
                old = self.create_default(key)
            fresh[key] = operation(old, operand)
            window += 1

    def _apply_by_window(
        self,
        windows: range,
        operation: Operation,
        key: Any,
        operand: Any,
        sums: ValuePair | None = None,
    ) -> None:
        """Apply an operation window by window; windows without an own value share ``sums``."""
        shared = None
        for window in windows:
            if sums is not None and self.stored.get(window, key) is MISSING:
                shared = sums
                continue
            old = self.take_back(window, key, self.get_stored(window, key))
            self.put(
                window, key, operation(self.create_default(key) if old is MISSING else old, operand)
            )
        if shared is not None:
            _add_to_sum(shared, operation, key, operand)

    def _select_open(self, slot: PaneWindows, cursor: EventCursor, watermark: int) -> range:
        """Return the open windows of an event, and reject it if there are none."""
        first = slot.first
        while first <= slot.last and watermark >= self._find_limit(first):
            first += 1
        if first > slot.last:
            self.reject(cursor, "late", watermark=max(watermark, self.watermark))
        elif slot.last > self._newest:
            self.latest = self._newest = slot.last
        return range(first, slot.last + 1)

    def write(self, key: Any, value: Any, cursor: EventCursor, relative: Relative) -> None:
        """Set the value of all windows that contain the event's time; ``GONE`` deletes it.

        Raises:
            KeyError: When there is no value to delete.
        """
        windows: Sequence[int] = self.list_positions(key, cursor, relative)
        if value is GONE and windows:
            windows = [window for window in windows if self.get_current(window, key) is not MISSING]
            if not windows:
                raise KeyError(key)
        for window in windows:
            self.put(window, key, value)

    def list_positions(self, key: Any, cursor: EventCursor, relative: Relative) -> range:
        time_and_watermark = self.resolve_time(cursor, relative)
        self.check_key(key, cursor)
        if time_and_watermark is None:
            return range(0)
        return self._select_open(
            self.find_windows(time_and_watermark[0]), cursor, time_and_watermark[1]
        )

    def put(self, position: int, key: Any, value: Any) -> None:
        if value is GONE and self.by_pane is not None:
            value = DELETED
        self.stored.put(position, key, self.copy_to_store(position, key, value))
        self._has_window_values = True

    def has_key(self, key: Any) -> bool:
        return any(
            self.get_stored(window, key) is not MISSING for window in self.list_open_windows()
        )

    def get_stored(self, position: int, key: Any) -> Any:
        # Panes of an expired window may still be stored for later windows.
        if self.has_expired(position):
            return MISSING
        own_value = self.stored.get(position, key) if self._has_window_values else MISSING
        if self.by_pane is None:
            return own_value
        if own_value is not MISSING:
            return MISSING if own_value == DELETED else own_value
        total, has_sum = self.create_default(key), False
        for pane in self._list_panes(position):
            add = self.by_pane.get(pane, key)
            if add is not MISSING:
                total, has_sum = total + add, True
        return total if has_sum else MISSING

    def _list_panes(self, window: int) -> range:
        return range(self.windows.first_pane(window), self.windows.last_pane(window) + 1)

    def _find_window(self, time: int, *, oldest: bool = False) -> int:
        """Return the newest (or oldest) window that contains a time."""
        pane = self.windows.pane_of(time)
        return (self.windows.first_window if oldest else self.windows.last_window)(pane)

    def _is_expired(self, window: int, visibility: Visibility) -> bool:
        """Return whether a window has expired for the current agent."""
        return visibility.watermark >= self._find_limit(window)

    @property
    def newest(self) -> int | None:
        """The last time of the newest window that was written; ``None`` if none was."""
        return None if self.latest is None else self.windows.end(self.latest) - 1

    def read(self, key: Any, time: int, visibility: Visibility, *, oldest: bool = False) -> Any:
        """Lend the value of the newest (or oldest) window at a time, or the default."""
        window = self._find_window(time, oldest=oldest)
        if self._is_expired(window, visibility):
            return self.borrow_late(window, key)
        return self.borrow(window, key, self.get_stored(window, key), visibility.feed)

    def get_stored_at(self, key: Any, time: int, visibility: Visibility) -> Any:
        """Return the value of the newest window that contains a time, or ``MISSING``."""
        window = self._find_window(time)
        return MISSING if self._is_expired(window, visibility) else self.get_current(window, key)

    def read_all(
        self, time: int, visibility: Visibility, *, oldest: bool = False, borrows: bool = True
    ) -> dict[Any, Any]:
        """Return the keys of the window at a time, with their lent values or with ``None``."""
        window = self._find_window(time, oldest=oldest)
        if self._is_expired(window, visibility):
            return {}
        values = self.get_values(window)
        if borrows:
            return self.borrow_all(window, values, visibility.feed)
        return dict.fromkeys([*values, *self.list_new_keys(window, values)])

    def get_windows(self, key: Any, visibility: Visibility) -> dict[tuple[int, int], Any]:
        """Return the lent values of a key by start and end of their windows, oldest first."""
        values = {
            window: self.get_current(window, key) for window in self._list_visible(visibility)
        }
        return {
            self.window_bounds(window): self.borrow(window, key, value, visibility.feed)
            for window, value in values.items()
            if value is not MISSING
        }

    def list_keys(self, visibility: Visibility) -> list[Any]:
        """Return all keys that have a value in some window."""
        keys: dict[Any, None] = {}
        for window in self._list_visible(visibility):
            stored = self.get_values(window)
            keys.update(dict.fromkeys([*stored, *self.list_new_keys(window, stored)]))
        return list(keys)

    def _list_visible(self, visibility: Visibility) -> list[int]:
        """Return the windows that are visible to the agent and have values or loans."""
        borrowed = {position for position, _ in self._borrowed}
        return sorted(
            k for k in {*self.list_open_windows(), *borrowed} if not self._is_expired(k, visibility)
        )

    def get_values(self, position: int) -> dict[Any, Any]:
        """Return all keys and values of one window; none if it has expired."""
        if self.has_expired(position):
            return {}
        values = dict(self.stored.values_at(position))
        if self.by_pane is None:
            return values
        totals: dict[Any, int] = {}
        for pane in self._list_panes(position):
            for key, add in self.by_pane.values_at(pane).items():
                totals[key] = totals.get(key, 0) + add
        for key, total in totals.items():
            if key not in values:
                values[key] = self.create_default(key) + total
        return {key: value for key, value in values.items() if value != DELETED}

    def list_open_windows(self, upto: int = MAX_POSITION) -> list[int]:
        """Return the open windows with values, up to and including ``upto``, in order."""
        windows = {
            window for window in self.stored.list_positions(upto) if not self.has_expired(window)
        }
        if self.by_pane is not None:
            low = MIN_POSITION if self.closed is None else self.closed + 1
            for pane in self.by_pane.list_positions(self.windows.last_pane(upto)):
                first, last = self.windows.first_window(pane), self.windows.last_window(pane)
                windows.update(range(max(first, low), min(last, upto) + 1))
        return sorted(windows)

    def snapshot(self) -> Iterator[TableEntry]:
        return self._list_entries(self.list_open_windows(), closed=False)

    def _list_entries(self, windows: Iterable[int], *, closed: bool) -> Iterator[TableEntry]:
        """Iterate over the values of windows, by window, then key."""
        for window in windows:
            values = self.get_values(window)
            for key in sort_keys(values):
                yield TableEntry(key, self.window_bounds(window), values[key], closed)

    def window_bounds(self, position: int) -> tuple[int, int]:
        return self.windows.start(position), self.windows.end(position)

    def close(self, *, emit: bool, final: bool) -> list[TableEntry]:
        if final:
            live = self.list_open_windows()
            upto = live[-1] if live else None
        elif self.spec.expires is None or self.watermark == MIN_POSITION:
            upto = None
        else:
            upto = self.windows.last_ended(self.watermark - self.spec.expires)
        if upto is None or (self.closed is not None and upto <= self.closed):
            return []
        emitted = (
            list(self._list_entries(self.list_open_windows(upto), closed=True)) if emit else []
        )
        self.closed = upto
        self.stored.drop_through(upto)
        pane = self._find_closed_pane()
        if self.by_pane is not None and pane is not None:
            self.by_pane.drop_through(pane)
        self._pane_windows = {}
        return emitted

    def changes(self) -> Iterator[TableEntry]:
        touched = {window: set(values) for window, values in self.stored.iterate_changes()}
        if self.by_pane is not None:
            for pane, values in self.by_pane.iterate_changes():
                first, last = self.windows.first_window(pane), self.windows.last_window(pane)
                for window in range(first, last + 1):
                    touched.setdefault(window, set()).update(values)
        for window in sorted(touched):
            yield from self.list_entries(window, touched[window])


def _add_to_sum(sums: ValuePair, operation: Operation, key: Any, operand: int) -> None:
    """Add to the sum of a pane, or subtract from it."""
    fresh, base = sums
    fresh[key] = operation(fresh.get(key, base.get(key, 0)), operand)
