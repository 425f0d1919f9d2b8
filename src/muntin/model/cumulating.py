"""Cumulating windows: results that grow step by step up to a size, and then restart.

Source: the cumulate table function of Flink SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from muntin.model.axis import Axis, Length, format_length, parse_length
from muntin.model.by_number import ByNumber
from muntin.model.errors import OptionError
from muntin.model.windows import along


@dataclass(frozen=True, slots=True)
class Cumulating(ByNumber):
    """Windows that start every ``size`` and end at each ``step`` within it.

    Attributes:
        size: Length of the longest window.
        step: Distance between two ends; it divides the size.

    Window ``k`` ends ``(k + 1) * step`` after the origin, and starts at the last multiple of the
    size before that. There is one pane per step.

    Example:
        >>> day = Cumulating(size=24, step=6)
        >>> [(day.start(k), day.end(k)) for k in range(5)]
        [(0, 6), (0, 12), (0, 18), (0, 24), (24, 30)]
    """

    KIND: ClassVar[str] = "cumulating"

    size: int
    step: int
    origin: int = 0
    axis: Axis = "time"

    @property
    def sole_bounds(self) -> tuple[str, ...]:
        """The end, which only one window has; none on the rows axis."""
        return ("window_end",) if self.axis == "time" else ()

    @property
    def steps(self) -> int:
        """Number of windows with the same start."""
        return self.size // self.step

    @property
    def block(self) -> int:
        """Number of panes of the windows with the same start, which no window crosses."""
        return self.steps

    @property
    def length(self) -> int:
        return self.size

    @property
    def pace(self) -> int:
        return self.step

    @property
    def panes_per_window(self) -> int:
        return self.steps

    def start(self, window: int) -> int:
        return window // self.steps * self.size + self.origin

    def end(self, window: int) -> int:
        return (window + 1) * self.step + self.origin

    def pane_of(self, position: int) -> int:
        return (position - self.origin if self.origin else position) // self.step

    def pane_start(self, pane: int) -> int:
        return self.origin + pane * self.step

    def first_pane(self, window: int) -> int:
        return window // self.steps * self.steps

    def last_pane(self, window: int) -> int:
        return window

    def first_window(self, pane: int) -> int:
        return pane

    def last_window(self, pane: int) -> int:
        return pane // self.steps * self.steps + (self.steps - 1)

    def pattern(self, window: int) -> int:
        """Return the first of the windows with the same start."""
        return window // self.steps * self.steps

    def last_ended(self, position: int) -> int:
        return (position - self.origin) // self.step - 1

    def __str__(self) -> str:
        size, step = (format_length(length, self.axis) for length in (self.size, self.step))
        return f"cumulating {size} by {step}"


def cumulating(size: Length, step: Length, *, origin: int = 0) -> Cumulating:
    """Return windows that start every ``size`` and emit the result so far at each ``step``.

    Example:
        >>> str(cumulating("1 day", "1 hour"))
        'cumulating 1 day by 1 hour'
    """
    length, axis = parse_length("size", size)
    pace = along("step", step, axis)
    if length % pace:
        hint = f"give a step that {format_length(length, axis)} is a multiple of"
        raise OptionError("step", str(step), f"doesn't divide {format_length(length, axis)}", hint)
    return Cumulating(length, pace, origin % length, axis)
