"""Sliding windows: one for each distinct set of messages that lie within a size of each other.

Source: the sliding windows of Kafka Streams, aligned to the records; ``OVER (... PRECEDING)`` of
the Samza SQL window operator design.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from muntin.model.axis import Axis, Length, measure, spell
from muntin.model.by_number import ByNumber, Moving


@dataclass(frozen=True, slots=True)
class Sliding(Moving, ByNumber):
    """Windows that move with the messages.

    Attributes:
        size: How far apart the first and the last place of a window are; both belong to it.
        axis: What the size is measured on.

    On the time axis every event time ``t`` has the window ``[t - size, t]``, and, if a message of
    its key lies in it, the window ``[t + 1, t + 1 + size]`` of what comes after (in microseconds,
    both ends included); no two hold the same messages. A window has ended when the watermark has
    passed its last place.

    On the rows axis every message has one window: itself and the ``size - 1`` messages of its key
    before it, fewer at the beginning.
    """

    KIND: ClassVar[str] = "sliding"
    row: ClassVar[str] = "a row per key and place"

    size: int
    axis: Axis = "time"

    # A window is numbered by its first place, and every place is its own pane.

    @property
    def span(self) -> int:
        """How far apart the first and the last place of a window may be."""
        return self.size if self.axis == "time" else self.size - 1

    @property
    def stored(self) -> str:
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
        return window

    def end(self, window: int) -> int:
        """Where an emitted window ends: its last place; on the rows axis the one behind."""
        return window + self.size

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
        return f"sliding {spell(self.size, self.axis)}"


def sliding(size: Length) -> Sliding:
    """Windows that move with the messages.

    Example:
        >>> str(sliding("1 minute"))
        'sliding 1 minute'
    """
    return Sliding(*measure("size", size))
