"""Windowed joins: which messages of two streams are partners, and how long one waits for another.

A pair is told once, however many windows hold it. What bounds it is either the distance between
the two (``Within``) or a window that holds both (``Together``). Each side has a watermark of its
own: a message is kept as long as the other side may still bring a partner.

Source: the Samza SQL window operator design (join windows, message keys); outer joins as Kafka
Streams has them, but never a null and a partner for the same message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from muntin.model.axis import Axis, Length, measure, phrase, say
from muntin.model.errors import OptionError
from muntin.model.kinds import Kind, Paned
from muntin.model.policies import DEFAULT_LATE, Each, Every, EveryRows, Firing, Policy
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import check_facts
from muntin.model.windows import along

How = Literal["inner", "left", "right", "full", "semi", "anti"]
SideName = Literal["left", "right"]
StateLayout = Literal["time", "keys"]
On = str | Sequence[str | tuple[str, str]]

HOWS: tuple[How, ...] = ("inner", "left", "right", "full", "semi", "anti")
SIDES: tuple[SideName, SideName] = ("left", "right")
OTHER: dict[SideName, SideName] = {"left": "right", "right": "left"}
# Beyond this reach a key's messages are few among those of all keys in the same stretch.
LARGE = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Within:
    """Partners at a bounded distance: from ``before`` before the left message to ``after`` after.

    Attributes:
        before: How far the right message may lie before the left one.
        after: How far after it; both ends belong to it.
        axis: What both are measured on: microseconds, or rows since each side's first.

    Example:
        >>> near = Within(before=5, after=2)
        >>> near.first_kept("left", 100), near.first_kept("right", 100)
        (98, 95)
    """

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
        return f"from {say(self.before, self.axis)} before to {say(self.after, self.axis)} after"


@dataclass(frozen=True, slots=True)
class Together:
    """Partners that share a window: one of each of these kinds holds both.

    Example:
        >>> from muntin.model.windows import tumbling
        >>> minute = Together((tumbling("1 minute"),))
        >>> minute.first_taken(61_000_000, 0), minute.partners("left", 61_000_000, 62_000_000)
        (60000000, (60000000, 119999999))
    """

    windows: tuple[Paned, ...]

    @property
    def axis(self) -> Axis:
        """What the windows are measured on."""
        return self.windows[0].axis

    @property
    def reach(self) -> int:
        """How long the longest stretch is in which partners lie."""
        first = [windows.start(0) for windows in self.windows]
        return min(w.end(0) - start for w, start in zip(self.windows, first, strict=True))

    def first_taken(self, watermark: int, grace: int) -> int:
        """The first place that is in an open window of each kind."""
        return max(self._opens(windows, watermark - grace) for windows in self.windows)

    def first_kept(self, side: SideName, edge: int) -> int:
        """The first place that shares a window with places from ``edge`` on."""
        return max(self._opens(windows, edge) for windows in self.windows)

    def partners(self, side: SideName, low: int, high: int) -> tuple[int, int]:
        """Where the partners of the messages between two places lie, ends included."""
        starts = [w.start(w.first_window(w.pane_of(low))) for w in self.windows]
        ends = [w.end(w.last_window(w.pane_of(high))) for w in self.windows]
        return max(starts), min(ends) - 1

    @staticmethod
    def _opens(windows: Paned, place: int) -> int:
        return windows.pane_start(windows.first_pane(windows.ended(place) + 1))

    def __str__(self) -> str:
        return "in one window: " + " and ".join(str(windows) for windows in self.windows)


@dataclass(frozen=True, slots=True)
class Joint:
    """Partners in one session: messages of both sides with the same key make up the sessions."""

    sessions: Sessions

    @property
    def axis(self) -> Axis:
        """Always time."""
        return self.sessions.axis

    def __str__(self) -> str:
        return f"in one {self.sessions} of both sides"


Bound = Within | Together | Joint


@dataclass(frozen=True)
class Side:
    """One input of a join.

    Attributes:
        keys: The columns compared for equality, in order.
        time: The event-time column; on the rows axis there may be none.
        windows: This side's windows, if it has any.
        firing: When its messages are let into the join, and how long late ones are taken.
        lateness: How far its watermark trails its greatest event time, microseconds.
        max_ahead: How far ahead of the wall clock a message may be; ``None`` is any.
        offset: The columns of a message's partition and of its offset in it.
        types: The type of every column, in words.
    """

    keys: tuple[str, ...]
    time: str | None
    windows: Kind | None = None
    firing: Firing = Firing(early=Each(), late=Each())
    lateness: int = 0
    max_ahead: int | None = None
    offset: tuple[str, str] | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def kept(self) -> int | None:
        """How long a message may be kept at most by its own side's clock; ``None``: any time."""
        firing = self.firing
        return firing.retention if firing.retention > firing.grace else None

    def facts(self, name: SideName) -> dict[str, str]:
        """What state depends on."""
        firing = self.firing
        facts = {
            "on": ", ".join(self.keys),
            "time": self.time or "none",
            "windows": str(self.windows) if self.windows else "none",
            "early": str(firing.early),
            "late": str(firing.late),
            "grace": phrase(firing.grace),
            "keep": phrase(firing.retention),
            "keep rows": str(firing.rows or "any"),
            "lateness": phrase(self.lateness),
        }
        if self.offset is not None:
            facts["offset"] = ", ".join(self.offset)
        facts |= {f"type of {column}": kind for column, kind in sorted(self.types.items())}
        return {f"{name} {fact}": text for fact, text in facts.items()}


@dataclass(frozen=True)
class JoinSpec:
    """One windowed join.

    Attributes:
        left: The left input.
        right: The right input.
        bound: What else partners must have in common.
        how: Which messages are told without a partner, or once for all of their partners.
        layout: What the state is sorted by first; ``None`` leaves the choice to ``state_layout``.
        buckets: How many shards the keys are kept in, if that is known.
    """

    left: Side
    right: Side
    bound: Bound
    how: How = "inner"
    layout: StateLayout | None = None
    buckets: int | None = None

    def __post_init__(self) -> None:
        if self.how not in HOWS:
            raise OptionError("how", self.how, "isn't known", f"give one of {', '.join(HOWS)}")
        if len(self.left.keys) != len(self.right.keys) or not self.left.keys:
            cure = "name at least one column that both sides have"
            raise OptionError("on", self.left.keys, "compares nothing", cure)
        for side in SIDES:
            self._check(side, self.side(side))
        if self.layout == "keys" and self.marked:
            cure = 'leave it away, or write layout="time"'
            text = f"can't find in time what stays alone in a {self.how} join"
            raise OptionError("layout", self.layout, text, cure)

    def _check(self, name: SideName, side: Side) -> None:
        for option, policy in (("early", side.firing.early), ("late", side.firing.late)):
            if isinstance(policy, EveryRows):
                cure = f"give {option}(each=True) or {option}(every=DURATION)"
                raise OptionError(option, f"{policy} on the {name}", "isn't for joins", cure)
        if isinstance(self.bound, Joint):
            asks = [p for p in (side.firing.early, side.firing.late) if not isinstance(p, Each)]
            if asks or side.kept is not None or side.firing.rows is not None:
                option = "early" if asks else "keep"
                text = "isn't for session joins: each message is let in, and kept with its session"
                raise OptionError(option, f"on the {name}", text, "leave it away")
        rows = side.firing.rows
        if rows is not None and (self.axis == "rows" or self.layout == "keys"):
            cure = 'leave it away; .keep(DURATION) bounds time, layout="time" goes with rows='
            raise OptionError("rows", f"{rows} on the {name}", "can't be counted here", cure)
        if self.axis == "rows" and side.offset is None:
            cure = 'give windowed(…, offset=("partition", "offset"))'
            raise OptionError("within", self.bound, f"needs offsets on the {name}", cure)
        if self.axis == "time" and side.time is None:
            cure = "give windowed(…, time=…)"
            raise OptionError("time", None, f"is missing on the {name}", cure)
        if side.windows is not None and side.windows.axis != self.axis:
            text = f"isn't measured in {self.axis} as the join is"
            raise OptionError("windows", f"{side.windows} on the {name}", text, "use one axis")

    @property
    def axis(self) -> Axis:
        """What the distance of partners is measured on."""
        return self.bound.axis

    @property
    def lag(self) -> int | None:
        """How far a row may lie behind rows told before it, if messages come within grace.

        Either the message that has just come is as late as its side takes them, or it has met one
        that lies within reach of it; a window is open as a whole, whatever of it has passed.
        ``None`` where the reach isn't a time, or a policy lets messages in by the wall clock.
        """
        firings = [self.side(name).firing for name in SIDES]
        slow = any(isinstance(p, Every) for f in firings for p in (f.early, f.late))
        if self.axis == "rows" or isinstance(self.bound, Joint) or slow:
            return None
        waits = [self.side(name).lateness + self.side(name).firing.grace for name in SIDES]
        windows = isinstance(self.bound, Together)
        return self.bound.reach * (2 if windows else 1) + max(waits)

    @property
    def marked(self) -> tuple[SideName, ...]:
        """The sides on which it is remembered who has found a partner."""
        if self.how == "full":
            return SIDES
        if self.how == "inner":
            return ()
        return ("right",) if self.how == "right" else ("left",)

    @property
    def lonely(self) -> tuple[SideName, ...]:
        """The sides whose messages are told when they stay without a partner."""
        return () if self.how == "semi" else self.marked

    def side(self, name: SideName) -> Side:
        """One of the inputs."""
        return self.left if name == "left" else self.right

    def with_side(self, name: SideName, side: Side) -> JoinSpec:
        """The same join with another input."""
        return replace(self, left=side) if name == "left" else replace(self, right=side)

    @property
    def state_layout(self) -> StateLayout:
        """What the state is sorted by first: ``time``, then keys; or ``keys``, then time.

        The message-key matrix of the Samza design: the equal fields come first where many windows
        or a large one would have to be looked through for few partners.
        """
        if self.layout is not None:
            return self.layout
        if isinstance(self.bound, Joint):
            return "keys"
        if self.left.firing.rows is not None or self.right.firing.rows is not None:
            return "time"
        large = self.axis == "time" and self.bound.reach >= LARGE
        return "keys" if large and not self.marked else "time"

    def facts(self) -> dict[str, str]:
        """What state depends on, each fact by name and in words."""
        facts = {"join": self.how, "partners": str(self.bound), "layout": self.state_layout}
        if self.buckets is not None:
            facts["buckets"] = str(self.buckets)
        return facts | self.left.facts("left") | self.right.facts("right")

    def dumps(self) -> str:
        """The facts as JSON, for the checkpoint."""
        return json.dumps(self.facts())

    def check_same(self, stored: str) -> None:
        """Refuse to go on from state that another spec wrote.

        Raises:
            SpecChangedError: Naming each fact that differs, then and now.
        """
        check_facts(stored, self.facts())


def bound_of(
    within: Length | Sequence[Length | int] | None, left: Kind | None, right: Kind | None
) -> Bound:
    """What bounds a pair: the distance where one is given, else the windows of the sides.

    Args:
        within: The greatest distance either way, or two of them: how far the right message may lie
            before the left one, and how far after.
        left: The left side's windows.
        right: The right side's windows.

    Raises:
        OptionError: When nothing bounds a pair, so that state would grow for ever.

    Example:
        >>> bound_of(("1 minute", 0), None, None)
        Within(before=60000000, after=0, axis='time')
    """
    if within is not None:
        return _within(within)
    kinds = [kind for kind in (left, right) if kind is not None]
    if not kinds:
        cure = 'give within="10 minutes", or windows to a side'
        raise OptionError("within", None, "leaves nothing to bound a pair", cure)
    if any(isinstance(kind, Sessions) for kind in kinds):
        if left != right or not isinstance(left, Sessions) or left.axis == "rows":
            cure = "give both sides .session(…) with the same gap, on the time axis"
            raise OptionError("session", kinds, "doesn't go with the other side", cure)
        return Joint(left)
    if any(isinstance(kind, Sliding) for kind in kinds):
        if left is not None and right is not None and left != right:
            cure = "give both sides the same sliding windows, or write within="
            raise OptionError("sliding", kinds, "doesn't go with the other side", cure)
        kind = kinds[0]
        assert isinstance(kind, Sliding)
        return Within(kind.size, kind.size, kind.axis)
    different = dict.fromkeys(kinds)
    return Together(tuple(different))  # type: ignore[arg-type]


def _within(within: Length | Sequence[Length | int]) -> Within:
    if not isinstance(within, Sequence) or isinstance(within, str):
        reach, axis = measure("within", within, zero=True)
        return Within(reach, reach, axis)
    lengths = [None if isinstance(length, int) and length == 0 else length for length in within]
    if len(lengths) != 2 or lengths == [None, None]:
        cure = 'give one length, or two: ("1 minute", 0) for before and after'
        raise OptionError("within", within, "isn't one length or two", cure)
    axis = next(measure("within", w, zero=True)[1] for w in lengths if w is not None)  # type: ignore[arg-type]
    before, after = (0 if w is None else along("within", w, axis, zero=True) for w in lengths)  # type: ignore[arg-type]
    return Within(before, after, axis)


def pairs_of(on: On) -> list[tuple[str, str]]:
    """The columns that must be equal, by pairs of a left and a right name.

    Example:
        >>> pairs_of(["id", ("city", "place")])
        [('id', 'id'), ('city', 'place')]
    """
    given = [on] if isinstance(on, str) else list(on)
    return [(name, name) if isinstance(name, str) else (name[0], name[1]) for name in given]


def firing_of(firing: Firing) -> Firing:
    """The policies of a side, with the defaults of joins: each message, early and late."""
    early: Policy = firing.early or Each()
    late: Policy = Each() if firing.late is DEFAULT_LATE else firing.late
    return Firing(early, late, firing.grace, firing.retention, firing.accumulate, firing.rows)
