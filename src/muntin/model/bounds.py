"""What bounds a pair: a distance, a window that holds both, a session, a version, or a key.

Source: the Samza SQL window operator design (join windows, message keys); versions as Flink's
temporal joins have them; changes as Kafka Streams' joins of tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal

from muntin.model.axis import Axis, Duration, Length, measure, micros, phrase, spell
from muntin.model.errors import OptionError
from muntin.model.json_dataclass import JsonDataclass
from muntin.model.kinds import Kind, Paned
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.windows import along

SideName = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Within(JsonDataclass):
    """Partners at a bounded distance: from ``before`` before the left message to ``after`` after.

    Attributes:
        before: How far the right message may lie before the left one; less than zero where it lies
            at least so far after it.
        after: How far after it, or less than zero; both ends belong to it.
        axis: What both are measured on: microseconds, or rows since each side's first.

    Example:
        >>> near = Within(before=5, after=2)
        >>> near.first_kept("left", 100), near.first_kept("right", 100)
        (98, 95)
    """

    KIND: ClassVar[str] = "within"

    before: int
    after: int
    axis: Axis = "time"

    @property
    def reach(self) -> int:
        """How long the stretch is in which partners lie."""
        return self.before + self.after

    def first_taken(self, watermark: int, grace: int) -> int:
        """The first place that a message may still have; earlier ones are late."""
        return watermark - grace

    def first_kept(self, side: SideName, edge: int) -> int:
        """The first place on a side that may find partners from ``edge`` on upon the other."""
        return edge - (self.after if side == "left" else self.before)

    def partners(self, side: SideName, low: int, high: int) -> tuple[int, int]:
        """Where the partners of the messages between two places lie, ends included."""
        back, ahead = (self.before, self.after) if side == "left" else (self.after, self.before)
        return low - back, high + ahead

    def __str__(self) -> str:
        ends = (self.before, "before", "after"), (self.after, "after", "before")
        low, high = (
            f"{spell(abs(length), self.axis)} {way if length >= 0 else other}"
            for length, way, other in ends
        )
        return f"from {low} to {high}"


@dataclass(frozen=True, slots=True)
class Together(JsonDataclass):
    """Partners that share a window: one of each of these kinds holds both.

    Example:
        >>> from muntin.model.windows import tumbling
        >>> minute = Together((tumbling("1 minute"),))
        >>> minute.first_taken(61_000_000, 0), minute.partners("left", 61_000_000, 62_000_000)
        (60000000, (60000000, 119999999))
    """

    KIND: ClassVar[str] = "together"

    windows: tuple[Paned, ...]

    @property
    def axis(self) -> Axis:
        """What the windows are measured on."""
        return self.windows[0].axis

    @property
    def reach(self) -> int:
        """How long the first window is; stored state is laid out by it, so it stays as it was."""
        return min(w.reach for w in self.windows)

    @property
    def longest(self) -> int:
        """How long the longest stretch is in which partners lie, of all windows of each kind."""
        ends = [w.end(w.last_window(w.first_pane(0))) for w in self.windows]
        return min(end - w.start(0) for end, w in zip(ends, self.windows, strict=True))

    def first_taken(self, watermark: int, grace: int) -> int:
        """The first place that is in an open window of each kind."""
        return max(windows.opens(watermark - grace) for windows in self.windows)

    def first_kept(self, side: SideName, edge: int) -> int:
        """The first place that shares a window with places from ``edge`` on."""
        return max(windows.opens(edge) for windows in self.windows)

    def partners(self, side: SideName, low: int, high: int) -> tuple[int, int]:
        """Where the partners of the messages between two places lie, ends included."""
        starts = [w.start(w.first_window(w.pane_of(low))) for w in self.windows]
        ends = [w.end(w.last_window(w.pane_of(high))) for w in self.windows]
        return max(starts), min(ends) - 1

    def __str__(self) -> str:
        return "in one window: " + " and ".join(placed(windows) for windows in self.windows)


@dataclass(frozen=True, slots=True)
class Joint(JsonDataclass):
    """Partners in one session: messages of both sides with the same key make up the sessions."""

    KIND: ClassVar[str] = "joint"

    sessions: Sessions

    @property
    def axis(self) -> Axis:
        """Always time."""
        return self.sessions.axis

    def __str__(self) -> str:
        return f"in one {self.sessions} of both sides"


@dataclass(frozen=True, slots=True)
class AsOf(JsonDataclass):
    """The partner of a left message is the newest right one of its time or before: its version.

    Attributes:
        most: How far it may lie before the left one, microseconds; ``None`` is any distance.

    Example:
        >>> str(AsOf(60_000_000))
        'the newest before or at its time, 1 minute old at most'
    """

    KIND: ClassVar[str] = "as of"

    most: int | None = None

    @property
    def axis(self) -> Axis:
        """Always time."""
        return "time"

    @property
    def reach(self) -> int:
        """How far a left message looks back, where that is bounded."""
        return self.most or 0

    def first_taken(self, watermark: int, grace: int) -> int:
        """The first place that a message may still have; earlier ones are late."""
        return watermark - grace

    def __str__(self) -> str:
        if self.most is None:
            return "the newest before or at its time"
        return f"the newest before or at its time, {phrase(self.most)} old at most"


@dataclass(frozen=True, slots=True)
class Newest(JsonDataclass):
    """The newest row of either side with the same key, whose time is a part; at each change.

    Example:
        >>> str(Newest())
        "the other side's newest row, at each change of either"
    """

    KIND: ClassVar[str] = "newest"

    @property
    def axis(self) -> Axis:
        """Always time."""
        return "time"

    @property
    def reach(self) -> int:
        """Partners have the same time."""
        return 0

    def first_taken(self, watermark: int, grace: int) -> int:
        """The first place that a row may still have; earlier ones are late."""
        return watermark - grace

    def partners(self, side: SideName, low: int, high: int) -> tuple[int, int]:
        """Where the partners of the rows between two places lie, ends included."""
        return low, high

    def __str__(self) -> str:
        return "the other side's newest row, at each change of either"


Bound = Within | Together | Joint | AsOf | Newest


def bound_of(
    within: Length | Sequence[Length | int] | None,
    left: Kind | None,
    right: Kind | None,
    *,
    at_once: bool = False,
    as_of: bool | Duration = False,
    each_change: bool = False,
) -> Bound:
    """What bounds a pair: the distance where one is given, else the windows of the sides.

    Args:
        within: The greatest distance either way, or two of them: how far the right message may lie
            before the left one, and how far after. One of the two may be negative.
        left: The left side's windows.
        right: The right side's windows.
        at_once: Whether the times of both are among the columns that must be equal.
        as_of: Whether the partner is the right side's newest message, or how old it may be.
        each_change: Whether a change of either side gives the pair of both sides' newest rows.

    Example:
        >>> bound_of(("1 minute", 0), None, None)
        Within(before=60000000, after=0, axis='time')
        >>> print(bound_of(("-5 seconds", "10 seconds"), None, None))
        from 5 seconds after to 10 seconds after
    """
    kinds = [kind for kind in (left, right) if kind is not None]
    if each_change:
        _check_alone("each_change", True, within, kinds, "partners have the same key and time")
        if as_of is not False:
            hint = "leave one of them out: a version isn't given again when it changes"
            raise OptionError("each_change", True, "stands beside as_of", hint)
        return Newest()
    if as_of is not False:
        _check_alone("as_of", as_of, within, kinds, 'as_of="1 hour" says how old a version may be')
        return AsOf(None if isinstance(as_of, bool) else micros("as_of", as_of))
    if within is not None:
        return _within(within)
    if not kinds and at_once:
        return Within(0, 0)
    if not kinds:
        hint = 'give within="10 minutes", or windows to a side'
        raise OptionError("within", None, "leaves nothing to bound a pair", hint)
    if any(isinstance(kind, Sessions) for kind in kinds):
        own = any(isinstance(kind, Sessions) and kind.by is not None for kind in kinds)
        if own:
            hint = "give both sides .session(gap) with the same gap"
            raise OptionError("session", kinds, "has gaps of its messages, and joins one", hint)
        if left != right or not isinstance(left, Sessions) or left.axis == "rows":
            hint = "give both sides .session(…) with the same gap, on the time axis"
            raise OptionError("session", kinds, "doesn't go with the other side", hint)
        return Joint(left)
    if any(isinstance(kind, Sliding) for kind in kinds):
        return _share_sliding(kinds)
    different = dict.fromkeys(kinds)
    return Together(tuple(different))  # type: ignore[arg-type]


def _share_sliding(kinds: Sequence[Kind]) -> Within:
    """The bound of partners that share a sliding window."""
    if any(isinstance(kind, Sliding) and kind.rolls for kind in kinds):
        hint = 'give within=("5 minutes", 0) for partners up to so much before'
        raise OptionError("rolling", (*map(str, kinds),), "emits a row for each message", hint)
    if len({*kinds}) > 1:
        hint = "give both sides the same sliding windows, or write within="
        raise OptionError("sliding", kinds, "doesn't go with the other side", hint)
    kind = kinds[0]
    assert isinstance(kind, Sliding)
    return Within(kind.span, kind.span, kind.axis)


def _check_alone(
    option: str,
    value: bool | Duration,
    within: Length | Sequence[Length | int] | None,
    kinds: Sequence[Kind],
    why: str,
) -> None:
    """Refuse what bounds a pair a second time."""
    if within is not None or kinds:
        other = "within" if within is not None else "windows"
        text = f"stands beside {other}, which bounds a pair, too"
        raise OptionError(option, value, text, f"leave one of them out; {why}")


def _within(within: Length | Sequence[Length | int]) -> Within:
    if not isinstance(within, Sequence) or isinstance(within, str):
        reach, axis = measure("within", within, zero=True)
        return Within(reach, reach, axis)
    ends = [_signed(length) for length in within]
    given = [length for _, length in ends if length is not None]
    if len(ends) != 2 or not given:
        hint = 'give one length, or two: ("1 minute", 0) for before and after'
        raise OptionError("within", within, "isn't one length or two", hint)
    axis = measure("within", given[0], zero=True)[1]
    before, after = (
        0 if length is None else sign * along("within", length, axis, zero=True)
        for sign, length in ends
    )
    if before + after < 0:
        hint = 'give the farther end too, as in ("-5 seconds", "10 seconds"): 5 to 10 seconds after'
        raise OptionError("within", within, "leaves no time for a partner", hint)
    return Within(before, after, axis)


def _signed(length: Length | int) -> tuple[int, Length | None]:
    """A sign, and the length without it; of a plain 0 no length, since it lies on every axis."""
    if isinstance(length, int) and length == 0:
        return 1, None
    if isinstance(length, timedelta) and length < timedelta(0):
        return -1, -length
    if isinstance(length, str) and length.strip().startswith("-"):
        return -1, length.strip()[1:]
    return 1, length  # type: ignore[return-value]


def placed(windows: Kind) -> str:
    """Windows in words, and where they begin where that isn't at zero."""
    return f"{windows}, origin {windows.begins}" if windows.origin else str(windows)
