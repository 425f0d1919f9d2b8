"""Which sessions take the messages of a step, and which sessions they join."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from muntin.model.sessions import Sessions
from muntin.testing.oracle.marks import Watermarks
from muntin.testing.oracle.placing import Outcome, Placing
from muntin.testing.oracle.values import micros_of
from muntin.testing.oracle.window import Key, Placed, Position, Window


@dataclass
class _Group:
    """Old sessions and new messages of one key that share one session."""

    first: int
    last: int
    old: list[Window] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


class SessionPlacing(Placing[Sessions]):
    """Sessions: windows of one key that messages make, stretch and join.

    The messages of a step and the open sessions are grouped at once, so that it doesn't matter in
    which order a step holds its messages. To a session that is made of others all of its messages
    are new, so a policy of every so many rows counts those that the vanished had emitted, too.
    """

    def take(self, messages: Sequence[Placed], marks: Watermarks) -> Outcome:
        """A message is late when the whole session that it would be part of is closed."""
        outcome = Outcome()
        by_key: dict[Key, list[int]] = defaultdict(list)
        for number, placed in enumerate(messages):
            by_key[placed.key].append(number)
        for key, numbers in by_key.items():
            for group in self._groups(key, numbers, messages):
                if self._is_closed(group.last, marks.of(key)):
                    outcome.late.update(group.numbers)
                elif group.numbers:
                    new = [messages[number] for number in sorted(group.numbers)]
                    outcome.vanished.extend(self._join(key, group, new))
        return outcome

    def _is_closed(self, last: int, mark: Position) -> bool:
        return last + self._kind.reach + self._grace <= mark

    def _groups(self, key: Key, numbers: list[int], messages: Sequence[Placed]) -> Iterator[_Group]:
        old = [w for w in self.windows.values() if w.key == key]
        single = [_Group(window.start, self._last(window), [window]) for window in old]
        for number in numbers:
            position, own = messages[number].position, 0
            if self._kind.by is not None:
                own = micros_of(messages[number].message[self._kind.by])
            single.append(_Group(position, position + own, [], [number]))
        single.sort(key=lambda group: group.first)
        current = single[0]
        for group in single[1:]:
            # A distance below the reach is shared: at most the gap, or less where it is open.
            if group.first - current.last < self._kind.reach:
                current.last = max(current.last, group.last)
                current.old += group.old
                current.numbers += group.numbers
            else:
                yield current
                current = group
        yield current

    def _last(self, window: Window) -> int:
        return window.end - self._kind.gap

    def _join(self, key: Key, group: _Group, new: list[Placed]) -> list[Window]:
        """Make the session of a group; the old sessions that it isn't have vanished."""
        place = (group.first, group.last, key)
        if place in self.windows:
            self.windows[place].messages += new
            return []
        for window in group.old:
            del self.windows[window.start, self._last(window), key]
        everything = [placed for window in group.old for placed in window.messages] + new
        end, over = group.last + self._kind.gap, group.last + self._kind.reach
        self.windows[place] = Window(key, group.first, end, over, everything)
        return group.old
