"""A table of windows in one partition: every write goes to all windows that hold its time.

Where windows overlap and whole numbers are added, the sum is kept once, by pane, and a window's
value put together when it is asked for. Everything else is kept by window, as Faust does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from muntin.model.windows import Windows
from muntin.tables.cells import GONE, MISSING
from muntin.tables.clocks import Relative, Visibility
from muntin.tables.current import EventCursor
from muntin.tables.entries import Entries, Pair
from muntin.tables.moments import BEGINNING, END
from muntin.tables.shard import Emitted, TableShard, in_order
from muntin.tables.spec import TableSpec

if TYPE_CHECKING:
    from muntin.tables.partition import Partition

Operation = Callable[[Any, Any], Any]

# A window without a value though its panes have some: it was deleted.
DELETED = "\u0000absent"


class Slot:
    """The windows that hold the times of one pane.

    Attributes:
        pane: The pane.
        first: The earliest of the windows.
        last: The latest.
        limit: From this watermark on some of them take no more.
        sums: The pane's sums, where the table has any.
        windows: What each window holds; made when it is needed.
    """

    __slots__ = ("first", "last", "limit", "pane", "sums", "windows")

    def __init__(self, pane: int, first: int, last: int, limit: int, sums: Pair | None) -> None:
        self.pane = pane
        self.first = first
        self.last = last
        self.limit = limit
        self.sums = sums
        self.windows: list[Pair] | None = None


class WindowTableShard(TableShard):
    """Tumbling or hopping windows."""

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        super().__init__(spec, part)
        assert isinstance(spec.windows, Windows)
        self.windows = spec.windows
        self.whole = self.new_entries(spec.span)
        self.panes = self.new_entries(1) if spec.summed else None
        self.lay_out(spec.span)
        self._even = not self.windows.remainder
        self._origin, self._slide = self.windows.origin, self.windows.slide
        self._newest = BEGINNING
        self._slots: dict[int, Slot] = {}
        self._mixed = True

    def entries(self) -> dict[str, Entries]:
        return {"windows": self.whole, **({"panes": self.panes} if self.panes else {})}

    def lay_out(self, span: int) -> None:
        super().lay_out(span)
        self.whole.span = span
        if self.panes is not None:
            self.panes.span = self.windows.first_pane(span)

    def dropped(self) -> dict[str, int | None]:
        return {"windows": self.closed, "panes": self._closed_pane()}

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
        slot = self._slots[pane] = Slot(pane, first, last, self._limit(first), sums)
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
            self._apply_late(slot, operation, key, operand, cursor, judged)
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
        assert slot.sums is not None
        fresh, base = slot.sums
        old = fresh.get(key)
        if old is None:
            old = base.get(key, 0)
        fresh[key] = operation(old, operand)

    def _apply_each(self, slot: Slot, operation: Operation, key: Any, operand: Any) -> None:
        if self.panes is not None:
            self._apply_mixed(slot, operation, key, operand)
            return
        window = slot.first
        for fresh, base in self._pairs(slot):
            old = fresh.get(key, MISSING)
            if old is MISSING:
                old = base.get(key, MISSING)
            if self._borrowed:
                old = self._borrowed.pop((window, key), old)
            if old is MISSING or old is GONE:
                old = self.default(key)
            fresh[key] = operation(old, operand)
            window += 1

    def _apply_mixed(self, slot: Slot, operation: Operation, key: Any, operand: Any) -> None:
        """As ``apply``, where some windows have a value of their own and others are summed."""
        adds = type(operand) is int and operation in _SUMS
        summed = False
        for window, (fresh, _) in zip(
            range(slot.first, slot.last + 1), self._pairs(slot), strict=True
        ):
            old = self.whole.get(window, key)
            if old is MISSING and adds:
                summed = True
                continue
            value = self._borrowed.pop((window, key), self.value(window, key))
            fresh[key] = operation(self.default(key) if value is MISSING else value, operand)
            self._mixed = True
        if summed:
            assert slot.sums is not None
            fresh, base = slot.sums
            fresh[key] = operation(fresh.get(key, base.get(key, 0)), operand)

    def _apply_late(
        self,
        slot: Slot,
        operation: Operation,
        key: Any,
        operand: Any,
        cursor: EventCursor,
        judged: int,
    ) -> None:
        """As ``apply``, in those windows that still take something."""
        for window in self._open(slot, cursor, judged):
            value = self._borrowed.pop((window, key), self.value(window, key))
            old = self.default(key) if value is MISSING else value
            self.put(window, key, operation(old, operand))

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
        """Set the value of all windows that hold the event's time; ``GONE`` deletes it."""
        windows: Sequence[int] = self.places(key, cursor, relative)
        if value is GONE and windows:
            windows = [
                window for window in windows if self.current_value(window, key) is not MISSING
            ]
            if not windows:
                raise KeyError(key)
        for window in windows:
            self.put(window, key, value)

    def places(self, key: Any, cursor: EventCursor, relative: Relative) -> range:
        """The windows that a write at the event's time may change."""
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

    def found(self, place: int, key: Any) -> Any:
        return self.value(place, key)

    def holds(self, key: Any) -> bool:
        return any(self.value(window, key) is not MISSING for window in self.live())

    def value(self, window: int, key: Any) -> Any:
        """The value of one window; ``MISSING`` where it has none, or has expired."""
        # Some panes of an expired window may be there still, for windows that follow.
        if self.has_expired(window):
            return MISSING
        found = self.whole.get(window, key) if self._mixed else MISSING
        if self.panes is None:
            return found
        if found is not MISSING:
            return MISSING if found == DELETED else found
        total, there = self.default(key), False
        first = self.windows.first_pane(window)
        for pane in range(first, self.windows.last_pane(window) + 1):
            add = self.panes.get(pane, key)
            if add is not MISSING:
                total, there = total + add, True
        return total if there else MISSING

    def is_expired(self, window: int, visibility: Visibility) -> bool:
        """Whether a window has expired for the agent at work."""
        return visibility.horizon >= self._limit(window)

    def read(self, window: int, key: Any, visibility: Visibility) -> Any:
        """The value of one window, or the default."""
        if self.is_expired(window, visibility):
            return self.borrow_late(window, key)
        return self.borrow(window, key, self.value(window, key), visibility.feed)

    def values(self, window: int) -> dict[Any, Any]:
        """All keys and values of one window; none where it has expired."""
        if self.has_expired(window):
            return {}
        found = dict(self.whole.at(window))
        if self.panes is None:
            return found
        totals: dict[Any, int] = {}
        first = self.windows.first_pane(window)
        for pane in range(first, self.windows.last_pane(window) + 1):
            for key, add in self.panes.at(pane).items():
                totals[key] = totals.get(key, 0) + add
        for key, total in totals.items():
            if key not in found:
                found[key] = self.default(key) + total
        return {key: value for key, value in found.items() if value != DELETED}

    def live(self, upto: int | None = None) -> list[int]:
        """The windows that hold something and haven't expired, in order; all, or up to one."""
        found = {window for window in self.whole.places(None, upto) if not self.has_expired(window)}
        if self.panes is not None:
            low = BEGINNING if self.closed is None else self.closed + 1
            high, last = (END, None) if upto is None else (upto, self.windows.last_pane(upto))
            for pane in self.panes.places(None, last):
                first, after = self.windows.first_window(pane), self.windows.last_window(pane) + 1
                found.update(range(max(first, low), min(after, high + 1)))
        return sorted(found)

    def held(self, visibility: Visibility) -> list[int]:
        """The same for the agent at work, with windows whose values were only changed in place."""
        borrowed = {place for place, _ in self._borrowed}
        return sorted(k for k in {*self.live(), *borrowed} if not self.is_expired(k, visibility))

    def of(self, key: Any, visibility: Visibility) -> dict[int, Any]:
        """The values of a key, borrowed, by window; oldest first."""
        found = {window: self.current_value(window, key) for window in self.held(visibility)}
        return {
            window: self.borrow(window, key, value, visibility.feed)
            for window, value in found.items()
            if value is not MISSING
        }

    def snapshot(self) -> Iterator[Emitted]:
        return self._emitted(self.live(), closed=False)

    def _emitted(self, windows: Iterable[int], *, closed: bool) -> Iterator[Emitted]:
        """What windows hold, by window, then key."""
        for window in windows:
            values = self.values(window)
            for key in in_order(values):
                yield Emitted(key, self.window(window), values[key], closed)

    def expired(self, window: tuple[int, int]) -> bool:
        return self.closed is not None and window[0] <= self.windows.start(self.closed)

    def window(self, number: int) -> tuple[int, int]:
        """Start and end of a window, microseconds."""
        return self.windows.start(number), self.windows.end(number)

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
            if self.has_expired(window):
                continue
            for key in in_order(touched[window]):
                value = self.value(window, key)
                yield Emitted(key, self.window(window), GONE if value is MISSING else value, False)


_SUMS = (operator.add, operator.sub)
