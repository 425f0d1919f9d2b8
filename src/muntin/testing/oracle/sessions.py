"""Assigns the messages of a step to sessions, and merges sessions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

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
        return window.end - self._kind.gap

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


class LongestPlacing(SessionPlacing):
    """Sessions with a longest duration: all of a key's open ones are cut anew in each step.

    From the first message after the last closed session on, a message begins a session if it isn't
    within the gap of the one before, or not within the longest duration of the session's first.
    """

    def take(self, messages: Sequence[Placed], marks: Watermarks) -> Outcome:
        """Assign messages; one is late when its session is closed, or would be."""
        outcome = Outcome()
        by_key: dict[Key, set[int]] = defaultdict(set)
        for number, placed in enumerate(messages):
            if self._belongs_to_closed(placed):
                outcome.late.add(number)
            else:
                by_key[placed.key].add(number)
        for key, numbers in by_key.items():
            old = [window for window in self.windows.values() if window.key == key]
            kept = [_Member(placed, old=window) for window in old for placed in window.messages]
            while True:
                parts = self._cut([*kept, *(_Member(messages[n], n) for n in sorted(numbers))])
                late = {
                    one.number
                    for part in parts
                    if self._is_closed(self._end(part), marks.of(key))
                    for one in part
                    if one.number is not None
                }
                if not late:
                    break
                outcome.late |= late
                numbers -= late
            self._replace(key, old, parts, messages[0].wall)
        return outcome

    def _belongs_to_closed(self, placed: Placed) -> bool:
        return any(
            window.key == placed.key and placed.position - self._last(window) < self._kind.reach
            for window in self._remembered
        )

    def _cut(self, members: list[_Member]) -> list[list[_Member]]:
        kind, parts = self._kind, list[list[_Member]]()
        assert kind.longest is not None
        most = kind.longest + kind.reach - kind.gap
        for one in sorted(members, key=lambda one: one.placed.position):
            position = one.placed.position
            if (
                not parts
                or position - parts[-1][-1].placed.position >= kind.reach
                or position - parts[-1][0].placed.position >= most
            ):
                parts.append([])
            parts[-1].append(one)
        return parts

    def _end(self, part: list[_Member]) -> int:
        """Return the last position of a session, as if it ended a gap before its end."""
        assert self._kind.longest is not None
        cut = part[0].placed.position + self._kind.longest - self._kind.gap
        return min(part[-1].placed.position, cut)

    def _replace(
        self, key: Key, old: list[OracleWindow], parts: list[list[_Member]], wall: int
    ) -> None:
        """Store the sessions of a key; one with other bounds replaces those that began in it.

        Messages of a session that was cut are unemitted, as if they came now.
        """
        for window in old:
            del self.windows[window.start, self._last(window), key]
        for part in parts:
            first, last = part[0].placed.position, self._end(part)
            new = [one.placed for one in part if one.number is not None]
            begun_by = [one.old for one in part if one.old and one.placed.position == one.old.start]
            inside = [window for window in old if any(one is window for one in begun_by)]
            before = [w for w in inside if (w.start, self._last(w)) == (first, last)]
            if before and len(inside) == 1:
                self.windows[first, last, key] = before[0].take(new)
                continue
            session = OracleWindow(key, first, last + self._kind.gap, last + self._kind.reach)
            for one in part:
                session.messages.append(one.placed)
                if one.old is None or not self._is_within(one.old, part):
                    session.unemitted.append(one.placed._replace(wall=wall))
            for window in inside:
                if self._is_within(window, part):
                    session.unemitted += window.unemitted
                session.emissions |= window.emissions
                session.replaced += [*window.replaced, *([window] if window.revision else [])]
            self.windows[first, last, key] = session

    def _is_within(self, window: OracleWindow, part: list[_Member]) -> bool:
        return sum(one.old is window for one in part) == len(window.messages)
