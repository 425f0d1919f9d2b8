"""What follows from the numbers of windows, where windows have some.

A kind of windows says where a window starts and ends and which panes it is made of; what is here
follows from that. Places and numbers are whole numbers; where a kind is ``even``, its formulas hold
for columns of whole numbers as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from muntin.model.axis import Axis
from muntin.model.json_dataclass import JsonDataclass


class WindowKind(JsonDataclass):
    """What all kinds of windows say of themselves.

    Attributes:
        moves: Whether windows move with the messages, so that each may have one of its own.
        retracts: Whether windows that were emitted may be taken back.
        row: What a row of state is.
    """

    __slots__ = ()

    moves: ClassVar[bool] = False
    retracts: ClassVar[bool] = False
    row: ClassVar[str] = "a row per key and pane"

    if TYPE_CHECKING:

        @property
        def axis(self) -> Axis:
            """What they are measured on."""

        @property
        def origin(self) -> int:
            """Where window 0 starts, or day 0 of its zone."""

    @property
    def begins(self) -> str:
        """Where windows are counted from, in words."""
        return f"{self.origin} us" if self.axis == "time" else f"row {self.origin}"


class ByNumber(WindowKind, ABC):
    """Windows with numbers that grow with their ends, and with panes or places that grow too.

    Attributes:
        even: Whether ``start``, ``end`` and ``pane_of`` are formulas.
        block: So many panes from the origin on begin a stretch that no window reaches beyond; 0
            where there is none.
    """

    __slots__ = ()

    even: ClassVar[bool] = True

    @property
    def block(self) -> int:
        """See the attributes."""
        return 0

    @abstractmethod
    def start(self, window: int) -> int:
        """Where a window starts."""

    @abstractmethod
    def end(self, window: int) -> int:
        """Where a window ends (exclusive)."""

    @abstractmethod
    def pane_of(self, position: int) -> int:
        """The pane that a position falls into."""

    @abstractmethod
    def pane_start(self, pane: int) -> int:
        """Where a pane starts."""

    @abstractmethod
    def first_pane(self, window: int) -> int:
        """The earliest pane that a window depends on."""

    @abstractmethod
    def last_pane(self, window: int) -> int:
        """The latest pane of a window."""

    @abstractmethod
    def first_window(self, pane: int) -> int:
        """The earliest window that contains a pane."""

    @abstractmethod
    def last_window(self, pane: int) -> int:
        """The latest window that contains a pane."""

    @abstractmethod
    def ended(self, position: int) -> int:
        """The latest window whose end is at or before a position."""

    @property
    @abstractmethod
    def panes_per_window(self) -> int:
        """How many panes make the longest window."""

    @property
    @abstractmethod
    def pace(self) -> int:
        """The distance between two windows of a key."""

    @property
    @abstractmethod
    def length(self) -> int:
        """How long the longest window is, about."""

    @property
    def reach(self) -> int:
        """How long the first window is."""
        return self.end(0) - self.start(0)

    @property
    def stored(self) -> str:
        """The panes that messages are stored in, in words."""
        return f"up to {self.panes_per_window:,} a window; a message is stored once a pane"

    def panes_within(self, length: int) -> int:
        """How many panes there are in a length."""
        return -(-length // self.pace)

    def first_inside(self, window: int) -> int:
        """The earliest pane of a window."""
        return self.first_pane(window)

    def pattern(self, window: int) -> int:
        """The latest window up to this one from which on windows lie as from window 0 on."""
        return window

    def opens(self, position: int) -> int:
        """The first place that some window holds which ends behind a position."""
        return self.pane_start(self.first_inside(self.ended(position) + 1))

    def last_end(self, position: int) -> int:
        """Messages from here on belong to no window that has ended at a position."""
        return self.end(self.ended(position))

    def next_edge(self, position: int, grace: int) -> int:
        """The least position at which some window has ended or closed that hasn't at this one."""
        closing = self.end(self.ended(position - grace) + 1) + grace
        return min(self.end(self.ended(position) + 1), closing)


class Moving(WindowKind):
    """Windows that move with the messages: each message may have one of its own."""

    __slots__ = ()

    moves: ClassVar[bool] = True
    origin: ClassVar[int] = 0

    def panes_within(self, length: int) -> int:
        """See ``ByNumber``; every place is its own pane."""
        return max(1, length)

    def opens(self, position: int) -> int:
        """See ``ByNumber``; a window may begin and end with any message."""
        return position

    def last_end(self, position: int) -> int:
        """See ``ByNumber``."""
        return position

    def next_edge(self, position: int, grace: int) -> int:
        """See ``ByNumber``."""
        return position + 1
