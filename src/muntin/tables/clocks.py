"""Clocks: what says how far time has come, and how far a table that goes by several has come.

A clock is a topic's: it follows the times of all its events, or one field of their values, in
the order in which they arrive. So it is the same for all partitions, and however the topic is cut
into batches. An event is judged by its own clock; a window is kept until the slowest clock that
writes the table has passed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from muntin.tables.moments import BEGINNING, moment
from muntin.tables.record import Keying

WALL_CLOCK = "@now"
"""The wall clock, which belongs to no topic."""


@dataclass(frozen=True)
class FieldClock:
    """A time in the values of events."""

    number: int
    name: str
    by: Keying

    def feed(self, topic: str) -> str:
        """The clock's name as a topic has it."""
        return f"@{self.name} of {topic}"

    def time(self, value: Any) -> int | None:
        """The time of a value; ``None`` where it has none that the clock could follow."""
        try:
            found = self.by.of(value)
            return None if found is None else moment(found)
        except Exception:
            # Agents may filter such a value out; where one writes by it, that is rejected.
            return None


Relative = FieldClock | str | None
"""What a table's times are: the events' own (``None``), ``WALL_CLOCK``, or a field's."""


class ArrivalMarks(NamedTuple):
    """What an event found when it arrived, besides its topic's watermark.

    Attributes:
        number: How many events of the batch were before it.
        judged: The watermark in force of each of the app's field clocks.
    """

    number: int = 0
    judged: tuple[int, ...] = ()

    def of(self, clock: FieldClock) -> int:
        """The watermark in force of one of them."""
        return self.judged[clock.number] if clock.number < len(self.judged) else BEGINNING


NOBODY = ArrivalMarks()


class Visibility(NamedTuple):
    """What an agent sees of a table.

    Attributes:
        horizon: The watermark that it judges windows by: what has expired by it isn't seen.
        feed: The clock that what it changes counts for.
    """

    horizon: int = BEGINNING
    feed: str = ""


OUTSIDE = Visibility()


def reached(
    feeds: Iterable[str],
    marks: Mapping[str, int],
    moved: Mapping[str, int],
    wall: int,
    idle: int | None,
) -> int:
    """How far a table has come: as far as the slowest of its clocks that isn't idle.

    Args:
        feeds: The clocks that write it.
        marks: How far each has come.
        moved: When each has last come further, by the wall clock.
        wall: The wall clock.
        idle: From how long a rest on a clock isn't waited for; ``None``: all are.

    Example:
        >>> marks, moved = {"a": 7, "b": 3}, {"a": 100, "b": 50}
        >>> reached("ab", marks, moved, 100, 51), reached("ab", marks, moved, 100, 50)
        (3, 7)
    """
    known = [feed for feed in feeds if feed in marks]
    live = [f for f in known if idle is None or wall - moved.get(f, wall) < idle]
    if live:
        return min(marks[feed] for feed in live)
    return max((marks[feed] for feed in known), default=BEGINNING)


def same(one: Callable[..., Any] | None, other: Callable[..., Any] | None) -> bool:
    """Whether two functions are one, perhaps made twice by the same lines."""
    if one is None or other is None or one is other:
        return one is other
    return bool(_lines(one) == _lines(other))


def _lines(function: Any) -> tuple[Any, ...]:
    held = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    return getattr(function, "__code__", function), getattr(function, "__defaults__", None), held
