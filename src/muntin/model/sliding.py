"""Sliding windows: one for each distinct set of messages that lie within a size of each other.

Source: the sliding windows of Kafka Streams, aligned to the records; ``OVER (... PRECEDING)`` of
the Samza SQL window operator design.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from muntin.model.axis import Axis, Length, measure, spell
from muntin.model.by_number import ByNumber, Moving
from muntin.model.errors import OptionError

ClosedSides = Literal["right", "both", "left", "neither"]
"""The ends of a rolling window that belong to it."""


@dataclass(frozen=True, slots=True)
class Sliding(Moving, ByNumber):
    """Windows that move with the messages.

    Attributes:
        size: How far apart the first and the last place of a window are; both belong to it.
        axis: What the size is measured on.
        closed: Of rolling windows, which of their two ends belong to them. ``None``: windows don't
            roll, they slide.

    On the time axis every event time ``t`` has the window ``[t - size, t]``, and, if a message of
    its key lies in it, the window ``[t + 1, t + 1 + size]`` of what comes after (in microseconds,
    both ends included); no two hold the same messages. A window has ended when the watermark has
    passed its last place.

    On the rows axis every message has one window: itself and the ``size - 1`` messages of its key
    before it, fewer at the beginning.

    Rolling windows are those alone that end with a message. A message that its own window doesn't
    include (``left``, ``neither``) is in the state of the window, and in none of its aggregates.
    """

    KIND: ClassVar[str] = "sliding"
    row: ClassVar[str] = "a row per key and place"

    size: int
    axis: Axis = "time"
    closed: ClosedSides | None = None

    # A window is numbered by its first place, and every place is its own pane.

    @property
    def rolls(self) -> bool:
        """True if there are only windows that end with a message."""
        return self.closed is not None

    @property
    def includes_last(self) -> bool:
        """True if aggregates include the last place of a window."""
        return self.closed not in ("left", "neither")

    @property
    def span(self) -> int:
        """The greatest distance between the first and the last place of a window."""
        return self.size - self._excluded

    @property
    def _excluded(self) -> int:
        """The number of places of the size that windows exclude; of rows, the last one counts."""
        includes_first = self.axis == "time" if self.closed is None else self.closed in _FIRST
        return 0 if includes_first else 1

    def bound_part(self, frame: int | None) -> tuple[int, int]:
        """Bound the part of a window that an aggregate reads.

        Args:
            frame: How far the aggregate looks back; ``None`` is as far as the window does, and 0
                is the last place alone.

        Returns:
            How many places before the last one; both ends belong to it.
        """
        if frame == 0:
            return 0, 0
        back = self.size if frame is None else frame
        return back - self._excluded, 0 if self.includes_last else 1

    def reads_whole(self, frame: int | None) -> bool:
        """Tell whether an aggregate reads all that a window holds."""
        return self.bound_part(frame) == (self.span, 0)

    @property
    def stored(self) -> str:
        if self.rolls:
            return "every place is its own; one window ends with it"
        return "every place is its own; at most two windows begin or end with a message"

    @property
    def length(self) -> int:
        return self.size

    @property
    def pace(self) -> int:
        return 1

    @property
    def panes_per_window(self) -> int:
        return self.span + 1

    def start(self, window: int) -> int:
        """The start of an emitted window, also if that place isn't in it."""
        return self.end(window) - self.size if self.axis == "time" else window

    def end(self, window: int) -> int:
        """The end of an emitted window: its last place; on the rows axis the one behind."""
        return window + self.span + (0 if self.axis == "time" else 1)

    def pane_of(self, position: int) -> int:
        return position

    def pane_start(self, pane: int) -> int:
        return pane

    def first_inside(self, window: int) -> int:
        return window

    def first_pane(self, window: int) -> int:
        """The earliest place that a window depends on: what it begins behind."""
        return window - 1

    def last_pane(self, window: int) -> int:
        return window + self.span

    def first_window(self, pane: int) -> int:
        return pane - self.span

    def last_window(self, pane: int) -> int:
        return pane

    def ended(self, position: int) -> int:
        return position - self.span - 1

    def __str__(self) -> str:
        if self.closed is None:
            return f"sliding {spell(self.size, self.axis)}"
        return f"rolling {spell(self.size, self.axis)}, closed {self.closed}"


_FIRST = ("both", "left")


def sliding(size: Length) -> Sliding:
    """Windows that move with the messages.

    Example:
        >>> str(sliding("1 minute"))
        'sliding 1 minute'
    """
    return Sliding(*measure("size", size))


def rolling(size: Length, closed: ClosedSides = "right") -> Sliding:
    """Windows that end with a message each, and look back.

    Raises:
        OptionError: When ``closed`` isn't one of the four, or nothing can lie in a window.

    Example:
        >>> str(rolling("1 minute"))
        'rolling 1 minute, closed right'
    """
    if closed not in get_args(ClosedSides):
        hint = 'give "right", "both", "left" or "neither"'
        raise OptionError("closed", closed, "isn't a choice of ends", hint)
    windows = Sliding(*measure("size", size), closed)
    first, last = windows.bound_part(None)
    if first < last:
        hint = f'give rows({windows.size + 1}) or more, or closed="left"'
        raise OptionError("size", str(windows), "holds no message", hint)
    return windows
