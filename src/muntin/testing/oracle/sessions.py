"""Assigns the messages of a step to sessions, and merges sessions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from muntin.model.sessions import Sessions
from muntin.testing.oracle.marks import Watermarks
from muntin.testing.oracle.placing import Outcome, Placing
from muntin.testing.oracle.values import to_micros
from muntin.testing.oracle.window import Key, OracleWindow, Placed, Position


@dataclass
class _Group:
    """Old sessions and new messages of one key that share one session."""

    first: int
    last: int
    old: list[OracleWindow] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


class SessionPlacing(Placing[Sessions]):
    """Sessions: windows of one key that messages create, extend and merge.

    The messages of a step and the open sessions are grouped at once, so the order of messages
    within a step doesn't matter. The unemitted messages of a merged session are those that none of
    its parts has emitted. A closed session is remembered until the watermark is a gap past its end.
    """

    def __init__(self, kind: Sessions, grace: int) -> None:
        super().__init__(kind, grace)
        self._remembered: list[OracleWindow] = []

    def take(self, messages: Sequence[Placed], marks: Watermarks) -> Outcome:
        """Assign messages; one is late when its session is closed, or would be."""
        outcome = Outcome()
        by_key: dict[Key, list[int]] = defaultdict(list)
        for number, placed in enumerate(messages):
            if self._belongs_to_closed(placed):
                outcome.late.add(number)
            else:
                by_key[placed.key].append(number)
        for key, numbers in by_key.items():
            for group in self._groups(key, numbers, messages):
                if self._is_closed(group.last, marks.of(key)):
                    outcome.late.update(group.numbers)
                elif group.numbers:
                    new = [messages[number] for number in sorted(group.numbers)]
                    self._join(key, group, new)
        return outcome

    def forget_closed(self, marks: Watermarks) -> None:
        """Drop closed sessions, but remember them until the watermark is a gap past their ends."""
        closed = [
            w for w in self.windows.values() if self._is_closed(self._last(w), marks.of(w.key))
        ]
        super().forget_closed(marks)
        self._remembered = [
            window
            for window in [*self._remembered, *closed]
            if not self._is_closed(self._last(window) + self._kind.memory, marks.of(window.key))
        ]

    def _belongs_to_closed(self, placed: Placed) -> bool:
        return any(
            window.key == placed.key
            and placed.position - self._last(window) < self._kind.reach
            and window.start - self._find_end(placed) < self._kind.reach
            for window in self._remembered
        )

    def _find_end(self, placed: Placed) -> int:
        """Return the position up to which a message extends its session, without the gap."""
        by = self._kind.by
        return placed.position + (0 if by is None else to_micros(placed.message[by]))

    def _is_closed(self, last: int, mark: Position) -> bool:
        return last + self._kind.reach + self._grace <= mark

    def _groups(self, key: Key, numbers: list[int], messages: Sequence[Placed]) -> Iterator[_Group]:
        old = [w for w in self.windows.values() if w.key == key]
        single = [_Group(window.start, self._last(window), [window]) for window in old]
        for number in numbers:
            placed = messages[number]
            single.append(_Group(placed.position, self._find_end(placed), [], [number]))
        single.sort(key=lambda group: group.first)
        current = single[0]
        for group in single[1:]:
            # Sessions merge if they are closer than the reach: the gap, or less if an end is open.
            if group.first - current.last < self._kind.reach:
                current.last = max(current.last, group.last)
                current.old += group.old
                current.numbers += group.numbers
            else:
                yield current
                current = group
        yield current

    def _last(self, window: OracleWindow) -> int:
        return window.over - self._kind.reach

    def _join(self, key: Key, group: _Group, new: list[Placed]) -> None:
        """Create or extend the session of a group; a new session replaces the old ones in it."""
        bounds = (group.first, group.last, key)
        if bounds in self.windows:
            self.windows[bounds].take(new)
            return
        end, over = group.last + self._kind.gap, group.last + self._kind.reach
        joined = OracleWindow(key, group.first, end, over)
        for old in group.old:
            del self.windows[old.start, self._last(old), key]
            joined.messages += old.messages
            joined.unemitted += old.unemitted
            joined.emissions |= old.emissions
            joined.replaced += [*old.replaced, *([old] if old.revision else [])]
        self.windows[bounds] = joined.take(new)


@dataclass(frozen=True)
class _Member:
    """A message of a key, and what brought it: its number in the step, or its old session."""

    placed: Placed
    number: int | None = None
    old: OracleWindow | None = None

    @property
    def position(self) -> int:
        return self.placed.position


@dataclass
class _Part:
    """A session of a key, or messages of one time that are in no session.

    Attributes:
        end: Its end as it is emitted.
        over: Least mark at which it has ended.
        outside: Whether it is no session.
    """

    members: list[_Member]
    end: int
    over: int
    outside: bool = False


class CutPlacing(SessionPlacing):
    """Sessions that are cut: all of a key's open ones are cut anew in each step.

    From the first message after the last closed session on, messages of one time either begin a
    session, or continue the one before, or are outside of all.
    """

    def __init__(self, kind: Sessions, grace: int) -> None:
        super().__init__(kind, grace)
        self._outside: list[Placed] = []
        # Messages that may be outside or not, depending on messages that may still come.
        self._undecided: list[Placed] = []
        # The sessions that were replaced, by key, start and end.
        self._former: dict[tuple[Key, int, int], OracleWindow] = {}

    def take(self, messages: Sequence[Placed], marks: Watermarks) -> Outcome:
        """Assign messages; one is late when its session is closed, or would be."""
        outcome = Outcome()
        by_key: dict[Key, set[int]] = {placed.key: set() for placed in self._outside}
        for number, placed in enumerate(messages):
            if self._belongs_to_closed(placed):
                outcome.late.add(number)
            else:
                by_key.setdefault(placed.key, set()).add(number)
        for key, numbers in by_key.items():
            old = [window for window in self.windows.values() if window.key == key]
            members = [_Member(placed, old=window) for window in old for placed in window.messages]
            members += [_Member(placed) for placed in self._outside if placed.key == key]
            while True:
                new = [_Member(messages[number], number) for number in sorted(numbers)]
                parts = self._divide([*members, *new])
                late = {
                    one.number
                    for part in parts
                    if part.over + self._grace <= marks.of(key)
                    for one in part.members
                    if one.number is not None
                }
                if not late:
                    break
                outcome.late |= late
                numbers -= late
            if self._kind.start is not None:
                self._undecided += [messages[number] for number in sorted(numbers)]
            wall = messages[0].wall if messages else 0
            self._replace(key, old, [part for part in parts if not part.outside], wall)
            others = [placed for placed in self._outside if placed.key != key]
            outside = [one.placed for part in parts if part.outside for one in part.members]
            self._outside = others + outside
        return outcome

    def settle(self, marks: Watermarks) -> tuple[list[Placed], int]:
        """Decide which messages no session has, once the marks have passed them."""
        settled, undecided = list[Placed](), list[Placed]()
        for one in self._undecided:
            is_passed = one.position + 1 + self._grace <= marks.of(one.key)
            (settled if is_passed else undecided).append(one)
        self._undecided = undecided
        outside = [one for one in settled if any(one is other for other in self._outside)]
        self._outside = [one for one in self._outside if not any(one is o for o in outside)]
        return outside, len(settled) - len(outside)

    def _belongs_to_closed(self, placed: Placed) -> bool:
        return any(
            window.key == placed.key and placed.position < window.over
            for window in self._remembered
        )

    def _divide(self, members: list[_Member]) -> list[_Part]:
        """Return the sessions of a key, in order."""
        kind, parts = self._kind, list[_Part]()
        members.sort(key=lambda one: one.position)
        current: _Part | None = None
        before: list[_Member] = []
        for position, group in groupby(members, key=lambda one: one.position):
            now = list(group)
            if current is not None and position >= current.over:
                current = None
            if current is not None and self._changes(before, now):
                current.end = current.over = position
                current = None
            if current is not None:
                current.members += now
                self._extend(current, position)
            elif kind.start is None or _is_any(now, kind.start):
                current = _Part(now, position, position)
                self._extend(current, position)
                parts.append(current)
            else:
                parts.append(_Part(now, position, position + 1, outside=True))
            if current is not None and _is_any(now, kind.end):
                current.end, current.over = position, position + 1
            before = now
        return parts

    def _extend(self, part: _Part, position: int) -> None:
        """Let a session last a gap from a position on, or as long as it may at most."""
        kind = self._kind
        last = position
        if kind.longest is not None:
            last = min(last, part.members[0].position + kind.longest - kind.gap)
        part.end, part.over = last + kind.gap, last + kind.reach

    def _changes(self, before: list[_Member], now: list[_Member]) -> bool:
        """Return whether messages within the gap of those before begin another session."""
        kind = self._kind
        if kind.same is not None:
            return len({one.placed.message[kind.same] for one in (*before, *now)}) > 1 or (
                kind.end is None and _is_any(now, kind.start)
            )
        return kind.end is None and _is_any(now, kind.start)

    def _replace(self, key: Key, old: list[OracleWindow], parts: list[_Part], wall: int) -> None:
        """Store the sessions of a key; one with other bounds replaces those that began in it.

        Messages of a session that was cut are unemitted, as if they came now. A session with the
        bounds of one that was replaced before continues its revisions.
        """
        for window in old:
            del self.windows[window.start, window.end, key]
        sessions = []
        for part in parts:
            first = part.members[0].position
            begun = [one.old for one in part.members if one.old and one.position == one.old.start]
            inside = [window for window in old if any(one is window for one in begun)]
            if [(window.start, window.end) for window in inside] == [(first, part.end)]:
                session = inside[0]
                session.over = part.over
                session.take(one.placed for one in part.members if one.number is not None)
            else:
                session = self._create(key, part, inside, wall)
                self._former.update({(key, w.start, w.end): w for w in inside if w.revision})
            sessions.append(session)
            self.windows[first, part.end, key] = session
        for session in sessions:
            former = self._former.pop((key, session.start, session.end), None)
            if former is not None and former is not session:
                self._continue(session, former, sessions)

    def _continue(
        self, session: OracleWindow, former: OracleWindow, sessions: list[OracleWindow]
    ) -> None:
        """Let a session continue the revisions of a former one, without an owed retraction."""
        for other in sessions:
            other.replaced = [one for one in other.replaced if one is not former]
        session.revision += former.revision
        session.emissions |= former.emissions

    def forget_closed(self, marks: Watermarks) -> None:
        """Drop closed sessions, and forget replaced ones when they would have been forgotten."""
        super().forget_closed(marks)
        self._former = {
            bounds: window
            for bounds, window in self._former.items()
            if not self._is_closed(self._last(window) + self._kind.memory, marks.of(window.key))
        }

    def _create(self, key: Key, part: _Part, inside: list[OracleWindow], wall: int) -> OracleWindow:
        """Return a new session, which replaces those that began in it."""
        session = OracleWindow(key, part.members[0].position, part.end, part.over)
        for one in part.members:
            session.messages.append(one.placed)
            if one.old is None or not self._is_within(one.old, part):
                session.unemitted.append(one.placed._replace(wall=wall))
        for window in inside:
            if self._is_within(window, part):
                session.unemitted += window.unemitted
            session.emissions |= window.emissions
            if window.revision:
                session.replaced.append(window)
            session.replaced += window.replaced
        # If only the end has changed, all messages have been emitted, but with another end.
        if not session.unemitted:
            session.unemitted = [placed._replace(wall=wall) for placed in session.messages]
        return session

    def _is_within(self, window: OracleWindow, part: _Part) -> bool:
        return sum(one.old is window for one in part.members) == len(window.messages)


def _is_any(members: list[_Member], condition: Any) -> bool:
    return condition is not None and any(one.placed.message[condition] for one in members)
