"""Bounds of join pairs: a distance, a shared window, a shared session, a version, or a key.

Source: the Samza SQL window operator design (join windows, message keys); Flink's temporal joins
(versions); Kafka Streams' joins of tables (changes), and of a stream with a table (arrival).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal

from muntin.model.axis import (
    MAX_POSITION,
    MIN_POSITION,
    Axis,
    Duration,
    Length,
    format_duration,
    format_length,
    parse_duration,
    parse_length,
)
from muntin.model.errors import OptionError
from muntin.model.json_dataclass import JsonDataclass
from muntin.model.kinds import Paned, Uniform
from muntin.model.policies import Each, Firing
from muntin.model.sessions import Sessions
from muntin.model.windows import along

SideName = Literal["left", "right"]
Distance = Length | Literal[0] | Sequence[Length | int]
"""How far apart partners may be: one length either way, or two: before and after the left one."""


class BoundKind(JsonDataclass):
    """Attributes that all bounds of pairs have.

    Attributes:
        has_range: Whether the partners of a message lie in a range around its position. Only then
            NULL may equal NULL, and the state may be sorted by time.
        revises: Whether rows replace earlier ones of their side, and pairs are emitted again.
        option: The option of joins that asks for the bound; empty if ``within`` or windows do.
        hows: The kinds of joins that ``option`` supports, and a hint for others.
        no_policies: Why the sides' policies can't be chosen; empty if they can.
        no_nulls: Why messages with NULL in a key can't be emitted unmatched; empty if they can.
    """

    __slots__ = ()

    has_range: ClassVar[bool] = False
    revises: ClassVar[bool] = False
    option: ClassVar[str] = ""
    hows: ClassVar[tuple[str, ...]] = ("inner", "left")
    hows_hint: ClassVar[str] = ""
    no_policies: ClassVar[str] = ""
    no_nulls: ClassVar[str] = ""

    @property
    def axis(self) -> Axis:
        """The axis of the bound: time, unless it is measured in rows."""
        return "time"

    @property
    def reach(self) -> int:
        """Greatest distance of partners; 0 if positions don't bound it."""
        return 0

    def first_taken(self, watermark: int, grace: int) -> int:
        """Return the first position that is accepted; messages at earlier positions are late."""
        return watermark - grace

    def partners(self, side: SideName, low: int, high: int) -> tuple[int, int]:
        """Return the range of the partners of messages between two positions, ends included."""
        return low, high

    def find_lag(self, waits: Sequence[int]) -> int | None:
        """Return how far pairs may trail others in time; ``None`` if that isn't bounded.

        ``waits`` says how late the messages of each side may be.
        """
        return self.reach + max(waits)

    def check_policies(self, name: SideName, firing: Firing) -> None:
        """Refuse policies of a side that joins of this bound can't follow."""
        asks = any(not isinstance(policy, Each) for policy in (firing.early, firing.late))
        keeps = firing.retention != firing.grace or firing.rows is not None
        if self.no_policies and (asks or keeps):
            option = "early" if asks else "keep"
            raise OptionError(option, f"on the {name}", self.no_policies, "leave it out")


@dataclass(frozen=True, slots=True)
class Within(BoundKind):
    """Partners at a bounded distance: from ``before`` before the left message to ``after`` after.

    Attributes:
        before: Greatest distance of the right message before the left one. A negative value is the
            least distance after it.
        after: Greatest distance of the right message after the left one, or with a negative value
            the least distance before it. Both ends are included.
        axis: Axis of both distances: microseconds, or rows since the first row of each side.

    Example:
        >>> near = Within(before=5, after=2)
        >>> near.first_kept("left", 100), near.first_kept("right", 100)
        (98, 95)
    """

    KIND: ClassVar[str] = "within"
    has_range: ClassVar[bool] = True

    before: int
    after: int
    axis: Axis = "time"

    @property
    def reach(self) -> int:
        """Length of the range in which the partners of a message lie."""
        return self.before + self.after

    def first_kept(self, side: SideName, edge: int) -> int:
        """Return the first position that can have partners from ``edge`` on on the other side."""
        return edge - (self.after if side == "left" else self.before)

    def partners(self, side: SideName, low: int, high: int) -> tuple[int, int]:
        back, ahead = (self.before, self.after) if side == "left" else (self.after, self.before)
        return low - back, high + ahead

    def __str__(self) -> str:
        ends = (self.before, "before", "after"), (self.after, "after", "before")
        low, high = (
            f"{format_length(abs(length), self.axis)} {way if length >= 0 else other}"
            for length, way, other in ends
        )
        return f"from {low} to {high}"


@dataclass(frozen=True, slots=True)
class Together(BoundKind):
    """Partners that share a window of each of these kinds.

    Example:
        >>> from muntin.model.windows import tumbling
        >>> minute = Together((tumbling("1 minute"),))
        >>> minute.first_taken(61_000_000, 0), minute.partners("left", 61_000_000, 62_000_000)
        (60000000, (60000000, 119999999))
    """

    KIND: ClassVar[str] = "together"
    has_range: ClassVar[bool] = True

    windows: tuple[Paned, ...]

    @property
    def axis(self) -> Axis:
        """The axis that the windows are measured on."""
        return self.windows[0].axis

    @property
    def reach(self) -> int:
        """Length of window 0 of the shortest kind; it is fixed, as state is laid out by it."""
        return min(w.reach for w in self.windows)

    @property
    def longest(self) -> int:
        """Length of the longest range in which partners can lie, over all windows of each kind."""
        ends = [w.end(w.last_window(w.first_pane(0))) for w in self.windows]
        return min(end - w.start(0) for end, w in zip(ends, self.windows, strict=True))

    def first_taken(self, watermark: int, grace: int) -> int:
        """Return the first position that is in an open window of each kind."""
        return max(windows.opens(watermark - grace) for windows in self.windows)

    def first_kept(self, side: SideName, edge: int) -> int:
        """Return the first position that shares a window with positions from ``edge`` on."""
        return max(windows.opens(edge) for windows in self.windows)

    def find_lag(self, waits: Sequence[int]) -> int | None:
        """Return how far pairs may trail; a window accepts messages until it closes as a whole."""
        return 2 * self.longest + max(waits)

    def partners(self, side: SideName, low: int, high: int) -> tuple[int, int]:
        starts = [w.start(w.first_window(w.pane_of(low))) for w in self.windows]
        ends = [w.end(w.last_window(w.pane_of(high))) for w in self.windows]
        return max(starts), min(ends) - 1

    def __str__(self) -> str:
        return "in one window: " + " and ".join(format_windows(windows) for windows in self.windows)


@dataclass(frozen=True, slots=True)
class SessionBound(BoundKind):
    """Partners in one session, which consists of the messages of both sides with the same key."""

    KIND: ClassVar[str] = "joint"
    no_policies: ClassVar[str] = (
        "isn't for session joins: each message is let in, and kept with its session"
    )
    no_nulls: ClassVar[str] = "isn't for session joins: without a key there is no session"

    sessions: Sessions

    @property
    def axis(self) -> Axis:
        """The axis of the sessions, which is always time."""
        return self.sessions.axis

    @property
    def reach(self) -> int:
        """Distance from a session's last message at which the watermark ends the session."""
        return self.sessions.reach

    def first_taken(self, watermark: int, grace: int) -> int:
        """Return the first last position of a session that hasn't closed."""
        return self.sessions.last_ended(watermark - grace) + 1

    def find_lag(self, waits: Sequence[int]) -> int | None:
        """Return ``None``, since sessions grow without limit."""

    def __str__(self) -> str:
        return f"in one {self.sessions} of both sides"


@dataclass(frozen=True, slots=True)
class AsOf(BoundKind):
    """The version of a left message: the newest right message at or before its time.

    Attributes:
        most: Greatest age of the version in microseconds; ``None`` for any age.

    Example:
        >>> str(AsOf(60_000_000))
        'the newest before or at its time, 1 minute old at most'
    """

    KIND: ClassVar[str] = "as of"
    option: ClassVar[str] = "as_of"
    hows_hint: ClassVar[str] = (
        'give how="inner" or how="left"; swap the sides where the left one has versions'
    )
    no_policies: ClassVar[str] = (
        "isn't for as_of joins: messages wait for their version, which is kept"
    )

    most: int | None = None

    @property
    def reach(self) -> int:
        """Greatest distance from a left message back to its version; 0 if it isn't bounded."""
        return self.most or 0

    def find_lag(self, waits: Sequence[int]) -> int | None:
        return waits[0]

    def __str__(self) -> str:
        if self.most is None:
            return "the newest before or at its time"
        return f"the newest before or at its time, {format_duration(self.most)} old at most"


@dataclass(frozen=True, slots=True)
class Newest(BoundKind):
    """The newest rows of both sides with one key, paired again at each change of either side.

    The time is one of the key columns.

    Example:
        >>> str(Newest())
        "the other side's newest row, at each change of either"
    """

    KIND: ClassVar[str] = "newest"
    revises: ClassVar[bool] = True
    option: ClassVar[str] = "each_change"
    hows: ClassVar[tuple[str, ...]] = ("inner", "left", "right", "full")
    hows_hint: ClassVar[str] = f"give one of {', '.join(hows)}"
    no_policies: ClassVar[str] = (
        "isn't for each_change joins: rows are kept until neither side changes"
    )
    no_nulls: ClassVar[str] = (
        "isn't for each_change joins: a pair that is emitted again is identified by its key"
    )

    def __str__(self) -> str:
        return "the other side's newest row, at each change of either"


@dataclass(frozen=True, slots=True)
class ByArrival(BoundKind):
    """The right side's newest row of a key, in the order of arrival, when a left message arrives.

    Times don't count, so a left message never waits, and no message is late.

    Example:
        >>> str(ByArrival())
        'the newest row that has arrived'
    """

    KIND: ClassVar[str] = "by arrival"
    option: ClassVar[str] = "newest"
    hows_hint: ClassVar[str] = (
        'give how="inner" or how="left"; swap the sides where the left one is the table'
    )

    def first_taken(self, watermark: int, grace: int) -> int:
        """Return the first position that is accepted: any, since nothing is late."""
        return MIN_POSITION

    def partners(self, side: SideName, low: int, high: int) -> tuple[int, int]:
        return MIN_POSITION, MAX_POSITION

    def find_lag(self, waits: Sequence[int]) -> int | None:
        return waits[0]

    def check_policies(self, name: SideName, firing: Firing) -> None:
        text, hint = "isn't for newest joins: nothing waits and nothing is late", "leave it out"
        if not isinstance(firing.early, Each):
            raise OptionError("early", f"{firing.early} on the {name}", text, hint)
        if firing.grace or not isinstance(firing.late, Each):
            raise OptionError("late", f"{firing.late} on the {name}", text, hint)
        if firing.rows is not None:
            text = "can't be counted here: there is one row of each key"
            raise OptionError("rows", f"{firing.rows} on the {name}", text, "give .keep(DURATION)")
        if name == "left" and firing.retention:
            text = "isn't for newest joins, which keep no left message"
            raise OptionError("keep", "on the left", text, "give it to the right side")

    def __str__(self) -> str:
        return "the newest row that has arrived"


Bound = Within | Together | SessionBound | AsOf | Newest | ByArrival


def find_bound(
    within: Distance | None,
    left: Uniform | None,
    right: Uniform | None,
    *,
    at_once: bool = False,
    as_of: bool | Duration = False,
    newest: bool = False,
    each_change: bool = False,
) -> Bound:
    """Return the bound of pairs: a distance if there is one, else the windows of the sides.

    ``within`` is the greatest distance in both directions, or a pair: that of the right message
    before the left one, and after it. One of the two may be negative; 0 is the same time. ``as_of``
    may be the greatest age of a version. ``at_once`` says that times must be equal.
    """
    kinds = [kind for kind in (left, right) if kind is not None]
    if newest is not False:
        _check_newest(newest, within, kinds, as_of=as_of, each_change=each_change)
        return ByArrival()
    if each_change:
        why = "partners have the same key and time"
        _refuse_second_bound("each_change", True, within, kinds, why)
        if as_of is not False:
            hint = "leave one of them out: a version isn't given again when it changes"
            raise OptionError("each_change", True, "can't be combined with as_of", hint)
        return Newest()
    if as_of is not False:
        why = 'as_of="1 hour" says how old a version may be'
        _refuse_second_bound("as_of", as_of, within, kinds, why)
        if as_of in ("backward", "forward", "nearest"):
            hint = "give True for the newest version of its time or before; there is no other way"
            raise OptionError("as_of", as_of, "is no age of a version", hint)
        return AsOf(None if isinstance(as_of, bool) else parse_duration("as_of", as_of))
    if within is not None:
        return _read_within(within)
    if not kinds and at_once:
        return Within(0, 0)
    if not kinds:
        hint = 'give within="10 minutes", or windows to a side'
        raise OptionError("within", None, "leaves nothing to bound a pair", hint)
    if not all(kind.is_numbered for kind in kinds):
        return _share_sessions(kinds)
    if any(kind.moves for kind in kinds):
        return _share_sliding(kinds)
    different = dict.fromkeys(kinds)
    return Together(tuple(different))  # type: ignore[arg-type]


def _share_sessions(kinds: Sequence[Uniform]) -> SessionBound:
    """Return the bound of two sides with the same sessions."""
    for kind in kinds:
        if not kind.is_numbered and kind.is_cut:
            option = "longest" if kind.longest is not None else next(iter(kind.conditions))
            hint = f"leave {option}= out: a pair would have to be taken back when a cut moves"
            raise OptionError(option, str(kind), "isn't for joins", hint)
    if any(kind.own_gap is not None for kind in kinds):
        hint = "give both sides .session(gap) with the same gap"
        raise OptionError("session", kinds, "has gaps of its messages, and joins one", hint)
    first = kinds[0]
    is_shared = len(kinds) == 2 and first == kinds[1]
    if not is_shared or first.is_numbered or first.axis == "rows":
        hint = "give both sides .session(…) with the same gap, on the time axis"
        raise OptionError("session", kinds, "doesn't go with the other side", hint)
    return SessionBound(first)


def _share_sliding(kinds: Sequence[Any]) -> Within:
    """Return the bound of partners that share a sliding window."""
    if any(kind.rolls for kind in kinds):
        hint = 'give within=("5 minutes", 0) for partners up to so much before'
        raise OptionError("rolling", (*map(str, kinds),), "emits a row for each message", hint)
    if len({*kinds}) > 1:
        hint = "give both sides the same sliding windows, or write within="
        raise OptionError("sliding", kinds, "doesn't fit the other side", hint)
    return Within(kinds[0].span, kinds[0].span, kinds[0].axis)


def _check_newest(
    newest: object,
    within: Distance | None,
    kinds: Sequence[Uniform],
    *,
    as_of: bool | Duration,
    each_change: bool,
) -> None:
    if newest is not True:
        hint = 'give newest=True; .keep("30 days") on the right side bounds the age of its rows'
        raise OptionError("newest", newest, "isn't True or False", hint)
    if as_of is not False or each_change:
        other = "each_change" if each_change else "as_of"
        hint = "leave one of them out: newest goes by arrival, as_of by time"
        raise OptionError("newest", True, f"can't be combined with {other}", hint)
    _refuse_second_bound(
        "newest", True, within, kinds, "the partner is the newest row, whatever its time"
    )


def _refuse_second_bound(
    option: str, value: bool | Duration, within: Distance | None, kinds: Sequence[Uniform], why: str
) -> None:
    if within is not None or kinds:
        other = "within" if within is not None else "windows"
        text = f"can't be combined with {other}, which also bounds a pair"
        raise OptionError(option, value, text, f"leave one of them out; {why}")


def _read_within(within: Distance) -> Within:
    if isinstance(within, int) and within == 0 and within is not False:
        return Within(0, 0)
    if not isinstance(within, Sequence) or isinstance(within, str):
        reach, axis = parse_length("within", within, zero=True)
        return Within(reach, reach, axis)
    ends = [_split_sign(length) for length in within]
    lengths = [length for _, length in ends if length is not None]
    if len(ends) == 2 and not lengths:
        return Within(0, 0)
    if len(ends) != 2:
        hint = 'give one length, or two: ("1 minute", 0) for before and after'
        raise OptionError("within", within, "isn't one length or two", hint)
    axis = parse_length("within", lengths[0], zero=True)[1]
    before, after = (
        0 if length is None else sign * along("within", length, axis, zero=True)
        for sign, length in ends
    )
    if before + after < 0:
        hint = 'give the farther end too, as in ("-5 seconds", "10 seconds"): 5 to 10 seconds after'
        raise OptionError("within", within, "leaves no time for a partner", hint)
    return Within(before, after, axis)


def _split_sign(length: Length | int) -> tuple[int, Length | None]:
    """Split a length into sign and absolute value; a plain 0 has no length, as it has no axis."""
    if isinstance(length, int) and length == 0:
        return 1, None
    if isinstance(length, timedelta) and length < timedelta(0):
        return -1, -length
    if isinstance(length, str) and length.strip().startswith("-"):
        return -1, length.strip()[1:]
    return 1, length  # type: ignore[return-value]


def format_windows(windows: Uniform) -> str:
    """Describe windows in words, with their origin unless it is zero."""
    return f"{windows}, origin {windows.begins}" if windows.origin else str(windows)
