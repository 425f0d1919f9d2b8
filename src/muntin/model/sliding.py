"""Sliding windows: one for each distinct set of messages that lie within a size of each other.

Source: Kafka Streams' sliding windows, aligned to the records; ``OVER (... PRECEDING)`` of the
Samza SQL window operator design.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal, get_args

from muntin.model.axis import Axis, Length, format_length, parse_length
from muntin.model.by_number import ByNumber, Moving, WindowKind
from muntin.model.errors import OptionError

ClosedSides = Literal["right", "both", "left", "neither"]
"""The ends of a rolling window that belong to it."""


@dataclass(frozen=True, slots=True)
class Sliding(Moving, ByNumber):
    """Windows that move with the messages.

    Attributes:
        size: Distance of the first and the last position of a window; both belong to it.
        closed: The ends that belong to a rolling window; ``None`` for sliding windows.

    On the time axis every event time ``t`` has the window ``[t - size, t]``, and, if a message of
    its key lies in it, the window ``[t + 1, t + 1 + size]`` of what comes after (in microseconds,
    both ends included); no two hold the same messages. A window has ended when the watermark has
    passed its last position.

    On the rows axis every message has one window: itself and the ``size - 1`` messages of its key
    before it, fewer at the beginning.

    Rolling windows are only those that end with a message. A message that its own window excludes
    (``left``, ``neither``) is in the state of the window, but in none of its aggregates.
    """

    KIND: ClassVar[str] = "sliding"
    has_panes: ClassVar[bool] = False
    row: ClassVar[str] = "a row per key and place"

    size: int
    axis: Axis = "time"
    closed: ClosedSides | None = None

    # A window is numbered by its first position, and every position is its own pane.

    @property
    def rolls(self) -> bool:
        """True if there are only windows that end with a message."""
        return self.closed is not None

    @property
    def includes_end(self) -> bool:
        return True

    @property
    def includes_last(self) -> bool:
        """True if aggregates include the last position of a window."""
        return self.closed not in ("left", "neither")

    @property
    def span(self) -> int:
        """Greatest distance between the first and the last position of a window."""
        return self.size - self._exclusion

    @property
    def _exclusion(self) -> int:
        """Difference of size and span, in positions; a size in rows counts the last position."""
        includes_first = self.axis == "time" if self.closed is None else self.closed in _FIRST
        return 0 if includes_first else 1

    def bound_part(self, frame: int | None) -> tuple[int, int]:
        if frame == 0:
            return 0, 0
        back = self.size if frame is None else frame
        return back - self._exclusion, 0 if self.includes_last else 1

    def reads_whole(self, frame: int | None) -> bool:
        return self.bound_part(frame) == (self.span, 0)

    def check_frame(self, aggregate: str, frame: int, axis: Axis) -> None:
        """Refuse an aggregate that looks back further than the window, or where nothing can be."""
        if axis != self.axis:
            WindowKind.check_frame(self, aggregate, frame, axis)
        back = f"looks back {format_length(frame, axis)}"
        if frame > self.size:
            hint = "let windows roll over the longest time of all"
            problem = f"{back}, and its windows don't: {self}"
            raise OptionError("agg", aggregate, problem, hint)
        first, last = self.bound_part(frame)
        if first < last:
            hint = "let it look back further"
            raise OptionError("agg", aggregate, f"{back}, where no message can be", hint)

    @property
    def storage(self) -> str:
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
        """Return the start of an emitted window, even if the window excludes that position."""
        return self.end(window) - self.size if self.axis == "time" else window

    def end(self, window: int) -> int:
        """Return the end of an emitted window: its last position; on the rows axis the next one."""
        return window + self.span + (0 if self.axis == "time" else 1)

    def pane_of(self, position: int) -> int:
        return position

    def pane_start(self, pane: int) -> int:
        return pane

    def windows_of(self, panes: Sequence[int]) -> Iterable[int]:
        """Return the windows that end with messages, and those that start right after one."""
        windows = [pane - self.span for pane in panes]
        if not self.rolls:
            windows += [
                pane + 1 for pane, after in pairwise(panes) if after <= self.last_pane(pane + 1)
            ]
        return windows

    def first_inside(self, window: int) -> int:
        return window

    def first_pane(self, window: int) -> int:
        """Return the earliest position that a window depends on: the one before its first."""
        return window - 1

    def last_pane(self, window: int) -> int:
        return window + self.span

    def first_window(self, pane: int) -> int:
        return pane - self.span

    def last_window(self, pane: int) -> int:
        return pane

    def last_ended(self, position: int) -> int:
        return position - self.span - 1

    def __str__(self) -> str:
        if self.closed is None:
            return f"sliding {format_length(self.size, self.axis)}"
        return f"rolling {format_length(self.size, self.axis)}, closed {self.closed}"


_FIRST = ("both", "left")


def sliding(size: Length) -> Sliding:
    """Return windows that move with the messages.

    Example:
        >>> str(sliding("1 minute"))
        'sliding 1 minute'
    """
    return Sliding(*parse_length("size", size))


def rolling(size: Length, closed: ClosedSides = "right") -> Sliding:
    """Return windows that look back from a message each.

    Raises:
        OptionError: When ``closed`` isn't one of the four, or nothing can lie in a window.

    Example:
        >>> str(rolling("1 minute"))
        'rolling 1 minute, closed right'
    """
    if closed not in get_args(ClosedSides):
        hint = 'give "right", "both", "left" or "neither"'
        raise OptionError("closed", closed, "isn't a choice of ends", hint)
    windows = Sliding(*parse_length("size", size), closed)
    first, last = windows.bound_part(None)
    if first < last:
        hint = f'give rows({windows.size + 1}) or more, or closed="left"'
        raise OptionError("size", str(windows), "holds no message", hint)
    return windows
