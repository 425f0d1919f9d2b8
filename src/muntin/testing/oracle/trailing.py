"""Windows of several look-backs that end at the same instants, from all messages so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from muntin.model.trailing import Trailing
from muntin.testing.oracle.emitting import RETRACT, EmittedWindow, Ending, sort_firings
from muntin.testing.oracle.marks import Watermarks
from muntin.testing.oracle.placing import Outcome, Placing
from muntin.testing.oracle.window import Key, OracleWindow, Placed, Position


class TrailingPlacing(Placing[Trailing]):
    """All messages that count, and those of the newest row of each key and look-back."""

    def __init__(self, kind: Trailing, grace: int) -> None:
        super().__init__(kind, grace)
        self._counted: dict[Key, list[Placed]] = defaultdict(list)
        self._newest: dict[tuple[Key, int], list[Placed]] = {}

    def take(self, messages: Sequence[Placed], marks: Watermarks) -> Outcome:
        """Count messages; one is late when all instants that look back to it have passed."""
        outcome = Outcome()
        for number, placed in enumerate(messages):
            pane = placed.position - (placed.position - self._kind.origin) % self._kind.every
            mark = marks.of(placed.key)
            if pane + max(self._kind.sizes) <= mark:
                outcome.late.add(number)
                continue
            self._counted[placed.key].append(placed)
            outcome.partly_late += pane + self._kind.every <= mark
        return outcome

    def find_firings(self, ending: Ending) -> list[EmittedWindow]:
        """Return the rows of a step, at each instant that the watermark has passed in it."""
        firings = [firing for end in self._list_instants(ending) for firing in self._look(end)]
        return sort_firings(firings)

    def forget_closed(self, marks: Watermarks) -> None:
        """Keep everything."""

    def _list_instants(self, ending: Ending) -> Iterator[int]:
        """Yield the instants that pass; beyond the last look-back nothing changes any more."""
        kind, positions = self._kind, [p.position for held in self._counted.values() for p in held]
        if not positions:
            return
        last: Position = max(positions) + max(kind.sizes) + kind.every
        if ending.after.final:
            last = min(last, ending.after.latest + kind.every)
        last = min(last, ending.after.of(()))
        end = min(positions) - (min(positions) - kind.origin) % kind.every
        while end <= last:
            if end > ending.before.of(()):
                yield end
            end += kind.every

    def _look(self, end: int) -> Iterator[EmittedWindow]:
        """Yield the rows of an instant: the look-backs with other messages than before."""
        for key, counted in self._counted.items():
            for size, label in zip(self._kind.sizes, self._kind.labels, strict=True):
                inside = [one for one in counted if end - size <= one.position < end]
                if inside == self._newest.get((key, size), []):
                    continue
                self._newest[key, size] = inside
                window = OracleWindow((*key, label), end - size, end, over=end).take(inside)
                window.revision = (end - self._kind.origin) // self._kind.every
                yield window, "full" if inside else RETRACT
