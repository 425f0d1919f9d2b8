"""Assigns messages to windows with fixed bounds, and to windows that slide with the messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from muntin.model.cumulating import Cumulating
from muntin.model.days import Days, Hours
from muntin.model.kinds import Kind, Paned
from muntin.model.months import Months
from muntin.model.sliding import Sliding
from muntin.model.windows import Windows
from muntin.model.zones import ZonedWindows
from muntin.testing.oracle.marks import Watermarks
from muntin.testing.oracle.window import Key, OracleWindow, Placed

WindowKey = tuple[int, int, Key]
WindowsByKey = dict[WindowKey, OracleWindow]


@dataclass
class Outcome:
    """The late messages of a step.

    Attributes:
        late: Indexes of the messages that no window takes.
        partly_late: Number of other messages that some of their windows no longer take.
    """

    late: set[int] = field(default_factory=set)
    partly_late: int = 0


K = TypeVar("K", bound=Kind)


class Placing(ABC, Generic[K]):
    """Assigns messages to one kind of windows."""

    def __init__(self, kind: K, grace: int) -> None:
        self._kind, self._grace = kind, grace
        self.windows: WindowsByKey = {}

    @abstractmethod
    def take(self, messages: Sequence[Placed], marks: Watermarks) -> Outcome:
        """Put the messages of a step into the windows that are open by the marks in force."""

    def settle(self, marks: Watermarks) -> tuple[list[Placed], int]:
        """Decide which undecided messages are in no window, by the marks at the end of a step.

        Returns:
            These messages, and the number of the others.
        """
        return [], 0

    def forget_closed(self, marks: Watermarks) -> None:
        """Drop the windows that take no more messages by the marks at the end of a step.

        Empty windows that haven't emitted yet still wait for others.
        """
        self.windows = {
            bounds: window
            for bounds, window in self.windows.items()
            if window.over + self._grace > marks.of(window.key) or window.waits
        }


class FixedPlacing(Placing[Paned]):
    """Tumbling, hopping and cumulating windows, and days, which depend only on the position."""

    def _of_key(self, key: Key) -> Paned:
        return self._kind

    def take(self, messages: Sequence[Placed], marks: Watermarks) -> Outcome:
        """Assign messages; one is late when all windows that contain it are closed."""
        outcome = Outcome()
        for number, placed in enumerate(messages):
            holding = list(bounds(self._of_key(placed.key), placed.position))
            mark = marks.of(placed.key)
            taking = [(start, end) for start, end in holding if end + self._grace > mark]
            for start, end in taking:
                fresh = OracleWindow(placed.key, start, end, over=end)
                window = self.windows.setdefault((start, end, placed.key), fresh)
                window.take([placed])
            if not taking:
                outcome.late.add(number)
            elif len(taking) < len(holding):
                outcome.partly_late += 1
        return outcome


class ZonedPlacing(FixedPlacing):
    """Calendar windows in the zone that a part of the key names."""

    def __init__(self, kind: ZonedWindows, grace: int, index: int) -> None:
        super().__init__(kind.calendar, grace)
        self._zoned, self._index = kind, index

    def _of_key(self, key: Key) -> Paned:
        return self._zoned.in_zone(key[self._index])


def bounds(kind: Paned, position: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each window that contains a position."""
    yield from BOUNDS[type(kind)](kind, position)


def _hops(kind: Windows, position: int) -> Iterator[tuple[int, int]]:
    start = position - (position - kind.origin) % kind.slide
    while start + kind.size > position:
        yield start, start + kind.size
        start -= kind.slide


def _steps(kind: Cumulating, position: int) -> Iterator[tuple[int, int]]:
    start = position - (position - kind.origin) % kind.size
    for end in range(start + kind.step, start + kind.size + 1, kind.step):
        if end > position:
            yield start, end


def _of_days(kind: Days, position: int) -> Iterator[tuple[int, int]]:
    for first, last in BOUNDS[type(kind.grid)](kind.grid, kind.day_of(position)):
        yield kind.midnight(first), kind.midnight(last)


# The bounds of each kind are computed again here, without code of the engine.
BOUNDS: dict[type, Callable[[Any, int], Iterator[tuple[int, int]]]] = {
    Windows: _hops,
    Cumulating: _steps,
    Days: _of_days,
    Hours: _of_days,
    Months: _of_days,
}


class SlidingPlacing(Placing[Sliding]):
    """Sliding windows, which depend on the messages that count.

    All messages that count are kept for good. A window is created, with all messages in it, as soon
    as one of them needs it, if it is still open then. So a message may count though its own window
    is closed: an open window may follow from a neighbour.
    """

    def __init__(self, kind: Sliding, grace: int) -> None:
        super().__init__(kind, grace)
        self._counted: dict[Key, list[Placed]] = defaultdict(list)

    def take(self, messages: Sequence[Placed], marks: Watermarks) -> Outcome:
        """Assign messages; one is late when the latest window that could contain it is closed.

        On the rows axis that is its own window, which ends with it.
        """
        outcome = Outcome()
        after = self._looks_back() if self._kind.axis == "time" else 0
        for number, placed in enumerate(messages):
            latest = placed.position + after + 1
            if latest + self._grace <= marks.of(placed.key):
                outcome.late.add(number)
            else:
                self._counted[placed.key].append(placed)
                self._put(placed, marks)
                # The first of its windows ends with the message itself.
                outcome.partly_late += placed.position + 1 + self._grace <= marks.of(placed.key)
        return outcome

    def _put(self, placed: Placed, marks: Watermarks) -> None:
        counted = self._counted[placed.key]
        # The window that ends with one message may be the one after another: take each once.
        for start, over in set(self._bounds([other.position for other in counted])):
            if over + self._grace <= marks.of(placed.key):
                continue
            bounds_key = (start, over, placed.key)
            if bounds_key not in self.windows:
                end = over - 1 if self._kind.axis == "time" else over
                inside = [other for other in counted if start <= other.position < over]
                rolls = self._kind.rolls and self._kind.axis == "time"
                shown = end - self._kind.size if rolls else start
                self.windows[bounds_key] = OracleWindow(placed.key, shown, end, over).take(inside)
            elif start <= placed.position < over:
                self.windows[bounds_key].take([placed])

    def _looks_back(self) -> int:
        """Return the greatest distance between the first and the last message of a window."""
        kind = self._kind
        if kind.closed is None:
            return kind.size if kind.axis == "time" else kind.size - 1
        return kind.size if kind.closed in ("both", "left") else kind.size - 1

    def _bounds(self, positions: list[int]) -> Iterator[tuple[int, int]]:
        """Yield the windows that the positions of one key need, as half-open intervals."""
        size = self._looks_back()
        for position in sorted(set(positions)):
            if self._kind.axis == "rows":
                yield max(position - size, 0), position + 1
                continue
            yield position - size, position + 1
            if self._kind.rolls:
                continue
            after = position + 1
            if any(after <= other <= after + size for other in positions):
                yield after, after + size + 1
