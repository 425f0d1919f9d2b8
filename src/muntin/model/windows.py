"""Windows at fixed distances, and the panes that they consist of.

A window is a half-open interval ``[start, end)``. Window number ``k`` starts at
``origin + k * slide`` and ends ``size`` later; a tumbling window slides by its own size. On the
time axis everything is in microseconds, on the rows axis in rows.

Source: the Samza SQL window operator design (time-based windows); panes as paired windows,
Krishnamurthy et al., "On-the-fly sharing for streamed aggregation", 2006.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from muntin.model.axis import Axis, Length, format_length, parse_length
from muntin.model.by_number import ByNumber
from muntin.model.errors import OptionError


@dataclass(frozen=True, slots=True)
class Windows(ByNumber):
    """Windows of one size at a fixed distance from each other.

    Attributes:
        slide: Distance between two starts, never greater than the size.
        origin: Start of window 0.

    A **pane** is the interval between two adjacent edges, where an edge is the start or the
    end of some window. There is one pane per slide if the slide divides the size, else two of
    alternating length, so a slide of 7 seconds costs no more than one of 6. Panes are numbered;
    window ``k`` is the panes ``first_pane(k)`` to ``first_pane(k) + panes_per_window - 1``.

    Example:
        >>> hop = Windows(size=10, slide=4)
        >>> hop.panes_per_slide, hop.panes_per_window
        (2, 5)
        >>> [hop.pane_of(t) for t in (0, 1, 2, 3, 4)]
        [0, 0, 1, 1, 2]
    """

    KIND: ClassVar[str] = "hopping"

    size: int
    slide: int
    origin: int = 0
    axis: Axis = "time"

    @property
    def sole_bounds(self) -> tuple[str, ...]:
        """Either bound, since all windows have the same length; none on the rows axis."""
        return ("window_start", "window_end") if self.axis == "time" else ()

    @property
    def length(self) -> int:
        return self.size

    @property
    def pace(self) -> int:
        return self.slide

    @property
    def storage(self) -> str:
        each = f"{self.panes_per_window:,} for each window, {self.panes_per_slide} for each slide"
        if self.panes_per_window == 1:
            each = "one for each window"
        return f"{each}; a message is stored once, in its pane"

    @property
    def remainder(self) -> int:
        """Distance from the last start to a window's end; 0 if the slide divides the size."""
        return self.size % self.slide

    @property
    def panes_per_slide(self) -> int:
        """Number of panes per slide: 1, or 2 if the slide doesn't divide the size."""
        return 2 if self.remainder else 1

    @property
    def panes_per_window(self) -> int:
        return self.size // self.slide * self.panes_per_slide + (1 if self.remainder else 0)

    def panes_within(self, length: int) -> int:
        return -(-length // self.slide) * self.panes_per_slide

    def start(self, window: int) -> int:
        return window * self.slide + self.origin

    def end(self, window: int) -> int:
        return window * self.slide + (self.origin + self.size)

    def pane_of(self, position: int) -> int:
        shifted = position - self.origin if self.origin else position
        slot = shifted // self.slide
        # After each start there is the edge at which another window ends.
        return slot + (shifted - self.remainder) // self.slide + 1 if self.remainder else slot

    def pane_start(self, pane: int) -> int:
        slot, half = divmod(pane, self.panes_per_slide)
        return self.origin + slot * self.slide + half * self.remainder

    def first_pane(self, window: int) -> int:
        return window * self.panes_per_slide

    def last_pane(self, window: int) -> int:
        return self.first_pane(window) + self.panes_per_window - 1

    def last_window(self, pane: int) -> int:
        return pane // self.panes_per_slide

    def first_window(self, pane: int) -> int:
        return (pane - self.panes_per_window + self.panes_per_slide) // self.panes_per_slide

    def last_ended(self, position: int) -> int:
        return (position - self.origin - self.size) // self.slide

    def __str__(self) -> str:
        size = format_length(self.size, self.axis)
        if self.size == self.slide:
            return f"tumbling {size}"
        return f"hopping {size} by {format_length(self.slide, self.axis)}"


def tumbling(size: Length, *, origin: int = 0) -> Windows:
    """Return windows that follow each other without overlap or gap.

    Example:
        >>> str(tumbling("10 minutes"))
        'tumbling 10 minutes'
    """
    length, axis = parse_length("size", size)
    return Windows(length, length, origin % length, axis)


def hopping(size: Length, slide: Length, *, origin: int = 0) -> Windows:
    """Return windows of one size that start every slide and so overlap.

    Example:
        >>> str(hopping("1 hour", "5 minutes"))
        'hopping 1 hour by 5 minutes'
    """
    length, axis = parse_length("size", size)
    step = along("slide", slide, axis)
    if step > length:
        hint = f"give a slide of at most {format_length(length, axis)}"
        raise OptionError(
            "slide", slide, f"is greater than the size {format_length(length, axis)}", hint
        )
    return Windows(length, step, origin % step, axis)


def along(option: str, value: Length, axis: Axis, *, zero: bool = False) -> int:
    """Measure a length on a given axis; refuse one on the other axis, unless it is zero."""
    length, own = parse_length(option, value, zero=zero)
    if length and own != axis:
        hint = "give both as durations, or both as muntin.rows(N)"
        raise OptionError(option, str(value), f"isn't measured in {axis} as the other is", hint)
    return length
