"""The clocks that tables are written by, and the watermarks that they define.

A clock belongs to a topic. It follows the times of the topic's events, or a field of their values,
in order of arrival; so it is the same for all partitions, and however the topic is cut
into batches. An event is judged by its own clock. A window is kept until the slowest clock that
writes the table has passed it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from muntin.model.axis import MIN_POSITION
from muntin.tables.record import Keying
from muntin.tables.time_values import parse_point_in_time

WALL_CLOCK = "@now"
"""The name of the wall clock, which belongs to no topic."""


@dataclass(frozen=True)
class FieldClock:
    """A clock that follows a time in the values of events."""

    number: int
    name: str
    by: Keying

    def name_for(self, topic: str) -> str:
        """Return the name of this clock for a topic."""
        return f"@{self.name} of {topic}"

    def read_time(self, value: Any) -> int | None:
        """Return the time of a value in microseconds, or ``None`` if it has no valid time."""
        try:
            field_value = self.by.get_key(value)
            return None if field_value is None else parse_point_in_time(field_value)
        except Exception:
            # An agent may filter such a value out; if it writes with it, the event is rejected.
            return None


Relative = FieldClock | str | None
"""The clock of a table: the events' own times (``None``), ``WALL_CLOCK``, or a field's."""


class EventArrival(NamedTuple):
    """The state of the batch and the clocks when an event arrived, besides its topic's watermark.

    Attributes:
        number: Number of events of the batch that arrived before it.
        field_watermarks: The watermark of each of the app's field clocks.
    """

    number: int = 0
    field_watermarks: tuple[int, ...] = ()

    def watermark_of(self, clock: FieldClock) -> int:
        """Return the watermark of a field clock at arrival."""
        return (
            self.field_watermarks[clock.number]
            if clock.number < len(self.field_watermarks)
            else MIN_POSITION
        )


NO_ARRIVAL = EventArrival()


class Visibility(NamedTuple):
    """The windows of a table that an agent sees, and the clock of its changes.

    Attributes:
        watermark: Windows that have expired by this watermark aren't visible.
        feed: The clock on whose behalf the agent changes the table.
    """

    watermark: int = MIN_POSITION
    feed: str = ""


EVERYTHING_VISIBLE = Visibility()


def is_same_function(one: Callable[..., Any] | None, other: Callable[..., Any] | None) -> bool:
    """Return whether two functions are the same, possibly created twice by the same lines."""
    if one is None or other is None or one is other:
        return one is other
    return bool(_get_code(one) == _get_code(other))


def _get_code(function: Any) -> tuple[Any, ...]:
    closure_values = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    return (
        getattr(function, "__code__", function),
        getattr(function, "__defaults__", None),
        closure_values,
    )
