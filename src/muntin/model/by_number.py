"""Base classes of window kinds, with the arithmetic on the numbers of windows.

A kind of windows defines where a window starts and ends and which panes it consists of; the methods
here derive the rest. Positions and window numbers are integers. Where a kind is ``even``, its
formulas work on columns of integers as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from muntin.model.axis import Axis, format_length
from muntin.model.errors import OptionError
from muntin.model.json_dataclass import JsonDataclass

if TYPE_CHECKING:
    from muntin.model.policies import Firing


class WindowKind(JsonDataclass):
    """Attributes that all kinds of windows have.

    Attributes:
        is_numbered: Whether windows have numbers that grow with their ends. Sessions have none;
            they are identified by their bounds.
        has_panes: Whether windows consist of panes, which lie on a fixed grid.
        even: Whether the formulas of windows work on columns of integers, too, and all windows
            have the same distance.
        moves: Whether windows move with the messages, so that each message may have its own.
        retracts: Whether windows may be retracted after they were emitted.
        row: Description of one row of the state.
        result_key: The key column that only results have; ``None`` for most kinds. With one, a
            result is identified by its keys alone, and replaces that of the window before.
    """

    __slots__ = ()

    has_panes: ClassVar[bool] = False
    even: ClassVar[bool] = True
    moves: ClassVar[bool] = False
    retracts: ClassVar[bool] = False
    row: ClassVar[str] = "a row per key and pane"
    result_key: ClassVar[str | None] = None

    if TYPE_CHECKING:

        @property
        def axis(self) -> Axis:
            """The axis that the windows are measured on."""

        @property
        def origin(self) -> int:
            """Start of window 0, or of day 0 in the zone of calendar windows."""

    @property
    def rolls(self) -> bool:
        """True if each window ends with a message, which is a row of the results."""
        return False

    @property
    def is_cut(self) -> bool:
        """True if a window may end sooner than its length or gap says."""
        return False

    @property
    def includes_end(self) -> bool:
        """True if a message at a window's end belongs to the window."""
        return False

    @property
    def can_reopen(self) -> bool:
        """True if closed windows may take messages again once the watermark is set back."""
        return True

    @property
    def own_gap(self) -> Any:
        """The column of each message's own session gap; ``None`` if there is none."""
        return None

    @property
    def zone_column(self) -> str | None:
        """The key column with each key's time zone; ``None`` if there is none."""
        return None

    @property
    def columns(self) -> dict[str, Any]:
        """The columns and conditions of messages that windows depend on, by field."""
        return {}

    @property
    def conditions(self) -> dict[str, Any]:
        """The conditions and the column that sessions depend on, by option."""
        return {}

    @property
    def sole_bounds(self) -> tuple[str, ...]:
        """The bounds that identify a window of a key without the other bound."""
        return ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The values of ``result_key``; empty without one."""
        return ()

    @property
    def overlap(self) -> int:
        """Greatest number of windows that contain a pane; 1 for windows without panes."""
        return 1

    @property
    def begins(self) -> str:
        """The origin of the windows, in words."""
        return f"{self.origin} us" if self.axis == "time" else f"row {self.origin}"

    def in_zone(self, zone: str) -> Self:
        """Return the windows of the keys in a zone: these, unless each key has its own zone."""
        return self

    def map_columns(self, convert: Callable[[str, Any], Any]) -> Self:
        """Return the windows with their columns converted by a function of field and column."""
        converted = {field: convert(field, column) for field, column in self.columns.items()}
        return replace(self, **converted) if converted else self  # type: ignore[type-var]

    def complete_keys(
        self, keys: tuple[Any, ...], offset: tuple[str, str] | None
    ) -> tuple[Any, ...]:
        """Return keys with the partition first if windows are measured on its offsets."""
        if offset is None or self.axis != "rows":
            return keys
        is_first = bool(keys) and isinstance(keys[0], str) and keys[0] == offset[0]
        return keys if is_first else (offset[0], *keys)

    def reads_whole(self, frame: int | None) -> bool:
        """Return whether an aggregate that looks back by ``frame`` reads the whole window."""
        return True

    def check_frame(self, aggregate: str, frame: int, axis: Axis) -> None:
        """Refuse an aggregate that looks back within its window, unless windows slide."""
        problem = f"looks back {format_length(frame, axis)} within {self} windows"
        hint = "leave over() out, or roll: rolling(...) over the longest time"
        raise OptionError("agg", aggregate, problem, hint)

    def check_policies(self, firing: Firing) -> None:
        """Refuse policies that this kind of windows can't follow; by default none."""


class ByNumber(WindowKind, ABC):
    """Windows with numbers that grow with their ends and with their panes or positions.

    Attributes:
        block: Number of panes in a block that no window crosses, with blocks counted from the
            origin; 0 if there are no such blocks.
    """

    __slots__ = ()

    is_numbered: ClassVar[Literal[True]] = True
    has_panes: ClassVar[bool] = True

    @property
    def block(self) -> int:
        """Number of panes in a block that no window crosses; 0 by default, for no such blocks."""
        return 0

    @abstractmethod
    def start(self, window: int) -> int:
        """Return the start of a window."""

    @abstractmethod
    def end(self, window: int) -> int:
        """Return the end of a window (exclusive)."""

    @abstractmethod
    def pane_of(self, position: int) -> int:
        """Return the pane that a position falls into."""

    @abstractmethod
    def pane_start(self, pane: int) -> int:
        """Return the start of a pane."""

    @abstractmethod
    def first_pane(self, window: int) -> int:
        """Return the earliest pane that a window depends on."""

    @abstractmethod
    def last_pane(self, window: int) -> int:
        """Return the latest pane of a window."""

    @abstractmethod
    def first_window(self, pane: int) -> int:
        """Return the earliest window that contains a pane."""

    @abstractmethod
    def last_window(self, pane: int) -> int:
        """Return the latest window that contains a pane."""

    @abstractmethod
    def last_ended(self, position: int) -> int:
        """Return the latest window that ends at or before a position."""

    @property
    @abstractmethod
    def panes_per_window(self) -> int:
        """Number of panes in the longest window."""

    @property
    @abstractmethod
    def pace(self) -> int:
        """Distance between two consecutive windows of a key."""

    @property
    @abstractmethod
    def length(self) -> int:
        """Approximate length of the longest window."""

    @property
    def overlap(self) -> int:
        """Greatest number of windows that contain a pane."""
        return self.last_window(0) - self.first_window(0) + 1 if self.has_panes else 1

    @property
    def reach(self) -> int:
        """Length of window 0."""
        return self.end(0) - self.start(0)

    @property
    def storage(self) -> str:
        """The panes that messages are stored in, in words."""
        count = f"up to {self.panes_per_window:,} for each window"
        return f"{count}; a message is stored once, in its pane"

    def panes_within(self, length: int) -> int:
        """Return the number of panes that cover a length."""
        return -(-length // self.pace)

    def windows_at(self, position: int) -> range:
        """Return the windows that contain a position."""
        pane = self.pane_of(position)
        return range(self.first_window(pane), self.last_window(pane) + 1)

    def windows_of(self, panes: Sequence[int]) -> Iterable[int]:
        """Return the windows that contain messages, by the panes with messages, in their order."""
        return {n for p in panes for n in range(self.first_window(p), self.last_window(p) + 1)}

    def bound_part(self, frame: int | None) -> tuple[int, int]:
        """Return the ends of the part of a window that an aggregate reads; both belong to it.

        They are distances before the window's last position. ``frame`` is how far the aggregate
        looks back: ``None`` for the whole window, and 0 for the last position alone.
        """
        return self.panes_per_window - 1, 0

    def first_inside(self, window: int) -> int:
        """Return the earliest pane of a window."""
        return self.first_pane(window)

    def pattern(self, window: int) -> int:
        """Return the latest window up to this one that starts a layout like that from window 0."""
        return window

    def first_from(self, position: int) -> int:
        """Return the first window that starts at or after a position."""
        return self.last_window(self.pane_of(position - 1)) + 1

    def first_whole_start(self, position: int) -> int:
        """Return the start of the first window that only has messages from a position on."""
        return self.start(self.first_from(position))

    def watermark_at_end(self, window: int) -> int:
        """Return the least watermark by which a window has ended."""
        end = self.end(window)
        return end if self.last_ended(end) >= window else end + 1

    def opens(self, position: int) -> int:
        """Return the first position in a window that ends after a position."""
        return self.pane_start(self.first_inside(self.last_ended(position) + 1))

    def last_end(self, position: int) -> int:
        """Return the end of the latest ended window; later messages are in no ended window."""
        return self.end(self.last_ended(position))

    def next_edge(self, position: int, grace: int) -> int:
        """Return the next position at which another window ends or closes."""
        closing = self.end(self.last_ended(position - grace) + 1) + grace
        return min(self.end(self.last_ended(position) + 1), closing)


class Moving(WindowKind):
    """Windows that move with the messages, so that each message may have its own."""

    __slots__ = ()

    moves: ClassVar[bool] = True
    origin: ClassVar[int] = 0

    def panes_within(self, length: int) -> int:
        """Return the number of positions in a length, since every position is its own pane."""
        return max(1, length)

    def opens(self, position: int) -> int:
        """Return the position itself, since a window may start and end with any message."""
        return position

    def last_end(self, position: int) -> int:
        """Return the position itself, since a window may end at any position."""
        return position

    def next_edge(self, position: int, grace: int) -> int:
        """Return the next position, since a window may end or close at any position."""
        return position + 1
