"""A table of windows in one partition: every write goes to all windows that hold its time.

Where windows overlap and whole numbers are added, the sum is kept once, by pane, and a window's
value put together when it is asked for. Everything else is kept by window, as Faust does.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muntin.model.windows import Windows
from muntin.tables.cells import GONE, MISSING
from muntin.tables.clocks import Relative, Visibility
from muntin.tables.current import EventCursor
from muntin.tables.entries import Pair
from muntin.tables.moments import BEGINNING, END
from muntin.tables.shard import Emitted, Operation, TableShard, in_order
from muntin.tables.spec import TableSpec

if TYPE_CHECKING:
    from muntin.tables.partition import Partition

# A window without a value though its panes have some: it was deleted.
DELETED = "\u0000absent"


@dataclass(slots=True)
class Slot:
    """The windows that hold the times of one pane.

    Attributes:
        first: The earliest of the windows.
        last: The latest.
        limit: From this watermark on some of them take no more.
        sums: The pane's sums, where the table has any.
        windows: What each window holds; made when it is needed.
    """

    first: int
    last: int
    limit: int
    sums: Pair | None
    windows: list[Pair] | None = None


class WindowTableShard(TableShard):
    """Tumbling or hopping windows."""

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        super().__init__(spec, part)
        assert isinstance(spec.windows, Windows)
        self.windows = spec.windows
        self.whole = self.new_entries("windows", spec.span)
        self.panes = self.new_entries("panes", 1) if spec.summed else None
        self.lay_out(spec.span)
        self._even = not self.windows.remainder
        self._origin, self._slide = self.windows.origin, self.windows.slide
        self._newest = BEGINNING
        self._slots: dict[int, Slot] = {}
        self._mixed = True

    def lay_out(self, span: int) -> None:
        super().lay_out(span)
        self.whole.span = span
        if self.panes is not None:
            self.panes.span = self.windows.first_pane(span)

    def dropped(self) -> dict[str, int | None]:
        return super().dropped() | {"panes": self._closed_pane()}

    def _closed_pane(self) -> int | None:
        """The greatest pane all of whose windows have expired."""
        if self.closed is None:
            return None
        return self.windows.first_pane(self.closed + 1) - 1

    def begin(self, blobs: Any, stored: Any) -> None:
        super().begin(blobs, stored)
        self._slots = {}
        self._mixed = self.panes is None or self.whole.any()
        self._newest = BEGINNING if self.latest is None else self.latest

    def slot(self, time: int) -> Slot:
        """The windows that hold a time."""
        pane = (time - self._origin) // self._slide if self._even else self.windows.pane_of(time)
        found = self._slots.get(pane)
        return found if found is not None else self._enter(pane)

    def _enter(self, pane: int) -> Slot:
        first, last = self.windows.first_window(pane), self.windows.last_window(pane)
        sums = self.panes.pair(pane) if self.panes is not None else None
        slot = self._slots[pane] = Slot(first, last, self._limit(first), sums)
        return slot

    def _limit(self, window: int) -> int:
        """The watermark from which a window takes no more."""
        if self.has_expired(window):
            return BEGINNING
        if self.spec.expires is None:
            return END
        return self.windows.end(window) + self.spec.expires

    def _pairs(self, slot: Slot) -> list[Pair]:
        if slot.windows is None:
            slot.windows = [self.whole.pair(k) for k in range(slot.first, slot.last + 1)]
        return slot.windows

    def apply(
        self, operation: Operation, key: Any, operand: Any, cursor: EventCursor, relative: Relative
    ) -> None:
        """Set ``value = operation(value, operand)`` in all windows that hold the event's time."""
        if relative is None and cursor is self.known:
            time, judged = cursor.time, cursor.judged
        else:
            placed = self.placed(cursor, relative)
            if placed is None:
                return
            time, judged = placed
        if key != cursor.key or type(key) is tuple:
            self.check(key, cursor)
        # The same as self.slot(time), without the call.
        slot = self._slots.get((time - self._origin) // self._slide) if self._even else None
        if slot is None:
            slot = self.slot(time)
        if judged >= slot.limit:
            self._apply_by_window(self._open(slot, cursor, judged), operation, key, operand)
            return
        if slot.last > self._newest:
            self.latest = self._newest = slot.last
        if (
            self._mixed
            or type(operand) is not int
            or not (operation is operator.add or operation is operator.sub)
        ):
            self._apply_each(slot, operation, key, operand)
            return
        # The same as _add, without the call.
        assert slot.sums is not None
        fresh, base = slot.sums
        old = fresh.get(key)
        if old is None:
            old = base.get(key, 0)
        fresh[key] = operation(old, operand)

    def _apply_each(self, slot: Slot, operation: Operation, key: Any, operand: Any) -> None:
        """As ``apply``, in windows that don't all share the sum of a pane."""
        if self.panes is not None or self.paired:
            adds = type(operand) is int and operation in (operator.add, operator.sub)
            windows = range(slot.first, slot.last + 1)
            self._apply_by_window(windows, operation, key, operand, slot.sums if adds else None)
            return
        window = slot.first
        for fresh, base in self._pairs(slot):
            old = fresh.get(key, MISSING)
            if old is MISSING:
                old = base.get(key, MISSING)
            if self._borrowed:
                old = self.take_back(window, key, old)
            if old is MISSING or old is GONE:
                old = self.default(key)
            fresh[key] = operation(old, operand)
            window += 1

    def _apply_by_window(
        self,
        windows: range,
        operation: Operation,
        key: Any,
        operand: Any,
        sums: Pair | None = None,
    ) -> None:
        """As ``apply``, window by window; ``sums`` are of those without a value of their own."""
        shared = None
        for window in windows:
            if sums is not None and self.whole.get(window, key) is MISSING:
                shared = sums
                continue
            old = self.take_back(window, key, self.found(window, key))
            self.put(window, key, operation(self.default(key) if old is MISSING else old, operand))
        if shared is not None:
            _add(shared, operation, key, operand)

    def _open(self, slot: Slot, cursor: EventCursor, judged: int) -> range:
        """The windows that take an event; it is rejected where there are none."""
        first = slot.first
        while first <= slot.last and judged >= self._limit(first):
            first += 1
        if first > slot.last:
            self.reject(cursor, "late", judged=max(judged, self.watermark))
        elif slot.last > self._newest:
            self.latest = self._newest = slot.last
        return range(first, slot.last + 1)

    def write(self, key: Any, value: Any, cursor: EventCursor, relative: Relative) -> None:
        """Set the value of all windows that hold the event's time; ``GONE`` deletes it.

        Raises:
            KeyError: When there is nothing to delete.
        """
        windows: Sequence[int] = self.places(key, cursor, relative)
        if value is GONE and windows:
            windows = [one for one in windows if self.current_value(one, key) is not MISSING]
            if not windows:
                raise KeyError(key)
        for window in windows:
            self.put(window, key, value)

    def places(self, key: Any, cursor: EventCursor, relative: Relative) -> range:
        placed = self.placed(cursor, relative)
        self.check(key, cursor)
        if placed is None:
            return range(0)
        return self._open(self.slot(placed[0]), cursor, placed[1])

    def put(self, place: int, key: Any, value: Any) -> None:
        fresh, _ = self.whole.pair(place)
        if value is GONE and self.panes is not None:
            value = DELETED
        fresh[key] = self.stored_copy(place, key, value)
        self._mixed = True

    def holds(self, key: Any) -> bool:
        return any(self.found(window, key) is not MISSING for window in self.live())

    def found(self, place: int, key: Any) -> Any:
        # Some panes of an expired window may be there still, for windows that follow.
        if self.has_expired(place):
            return MISSING
        found = self.whole.get(place, key) if self._mixed else MISSING
        if self.panes is None:
            return found
        if found is not MISSING:
            return MISSING if found == DELETED else found
        total, there = self.default(key), False
        for pane in self._panes_of(place):
            add = self.panes.get(pane, key)
            if add is not MISSING:
                total, there = total + add, True
        return total if there else MISSING

    def _panes_of(self, window: int) -> range:
        return range(self.windows.first_pane(window), self.windows.last_pane(window) + 1)

    def _at(self, time: int, *, oldest: bool = False) -> int:
        """The newest (or oldest) window that holds a time."""
        pane = self.windows.pane_of(time)
        return (self.windows.first_window if oldest else self.windows.last_window)(pane)

    def _is_expired(self, window: int, visibility: Visibility) -> bool:
        """Whether a window has expired for the agent at work."""
        return visibility.horizon >= self._limit(window)

    @property
    def newest(self) -> int | None:
        """The last time of the newest window that was written; ``None`` where none was."""
        return None if self.latest is None else self.windows.end(self.latest) - 1

    def read(self, key: Any, time: int, visibility: Visibility, *, oldest: bool = False) -> Any:
        """The value of the newest (or oldest) window at a time, or the default; it is borrowed."""
        window = self._at(time, oldest=oldest)
        if self._is_expired(window, visibility):
            return self.borrow_late(window, key)
        return self.borrow(window, key, self.found(window, key), visibility.feed)

    def stored(self, key: Any, time: int, visibility: Visibility) -> Any:
        """The value of the newest window that holds a time; ``MISSING`` where it has none."""
        window = self._at(time)
        return MISSING if self._is_expired(window, visibility) else self.current_value(window, key)

    def read_all(
        self, time: int, visibility: Visibility, *, oldest: bool = False, borrows: bool = True
    ) -> dict[Any, Any]:
        """All keys of such a window and their values: borrowed, or none at all."""
        window = self._at(time, oldest=oldest)
        if self._is_expired(window, visibility):
            return {}
        found = self.values(window)
        if borrows:
            return self.borrow_all(window, found, visibility.feed)
        return dict.fromkeys([*found, *self.new_keys(window, found)])

    def windows_of(self, key: Any, visibility: Visibility) -> dict[tuple[int, int], Any]:
        """The values of a key, borrowed, by start and end of their windows; oldest first."""
        found = {window: self.current_value(window, key) for window in self._seen(visibility)}
        return {
            self.window(window): self.borrow(window, key, value, visibility.feed)
            for window, value in found.items()
            if value is not MISSING
        }

    def keys(self, visibility: Visibility) -> list[Any]:
        """All keys that have a value in some window."""
        found: dict[Any, None] = {}
        for window in self._seen(visibility):
            stored = self.values(window)
            found.update(dict.fromkeys([*stored, *self.new_keys(window, stored)]))
        return list(found)

    def _seen(self, visibility: Visibility) -> list[int]:
        """The windows that the agent at work sees, and that hold something or are borrowed."""
        borrowed = {place for place, _ in self._borrowed}
        return sorted(k for k in {*self.live(), *borrowed} if not self._is_expired(k, visibility))

    def values(self, place: int) -> dict[Any, Any]:
        """All keys and values of one window; none where it has expired."""
        if self.has_expired(place):
            return {}
        found = dict(self.whole.at(place))
        if self.panes is None:
            return found
        totals: dict[Any, int] = {}
        for pane in self._panes_of(place):
            for key, add in self.panes.at(pane).items():
                totals[key] = totals.get(key, 0) + add
        for key, total in totals.items():
            if key not in found:
                found[key] = self.default(key) + total
        return {key: value for key, value in found.items() if value != DELETED}

    def live(self, upto: int = END) -> list[int]:
        """The windows that hold something and haven't expired, up to one, in order."""
        found = {window for window in self.whole.places(upto) if not self.has_expired(window)}
        if self.panes is not None:
            low = BEGINNING if self.closed is None else self.closed + 1
            for pane in self.panes.places(self.windows.last_pane(upto)):
                first, last = self.windows.first_window(pane), self.windows.last_window(pane)
                found.update(range(max(first, low), min(last, upto) + 1))
        return sorted(found)

    def snapshot(self) -> Iterator[Emitted]:
        return self._emitted(self.live(), closed=False)

    def _emitted(self, windows: Iterable[int], *, closed: bool) -> Iterator[Emitted]:
        """What windows hold, by window, then key."""
        for window in windows:
            values = self.values(window)
            for key in in_order(values):
                yield Emitted(key, self.window(window), values[key], closed)

    def window(self, place: int) -> tuple[int, int]:
        return self.windows.start(place), self.windows.end(place)

    def close(self, *, emit: bool, final: bool) -> list[Emitted]:
        if final:
            live = self.live()
            upto = live[-1] if live else None
        elif self.spec.expires is None or self.watermark == BEGINNING:
            upto = None
        else:
            upto = self.windows.ended(self.watermark - self.spec.expires)
        if upto is None or (self.closed is not None and upto <= self.closed):
            return []
        emitted = list(self._emitted(self.live(upto), closed=True)) if emit else []
        self.closed = upto
        self.whole.drop_through(upto)
        pane = self._closed_pane()
        if self.panes is not None and pane is not None:
            self.panes.drop_through(pane)
        self._slots = {}
        return emitted

    def changes(self) -> Iterator[Emitted]:
        touched = {window: set(values) for window, values in self.whole.changed()}
        if self.panes is not None:
            for pane, values in self.panes.changed():
                first, last = self.windows.first_window(pane), self.windows.last_window(pane)
                for window in range(first, last + 1):
                    touched.setdefault(window, set()).update(values)
        for window in sorted(touched):
            yield from self.current_entries(window, touched[window])


def _add(sums: Pair, operation: Operation, key: Any, operand: int) -> None:
    """Add to the sum of a pane, or subtract from it."""
    fresh, base = sums
    fresh[key] = operation(fresh.get(key, base.get(key, 0)), operand)
