"""One round after another, until the time is over."""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TextIO

from tests.search.finding import Finding, Looking, Subject

SPEAKS = 30.0


@dataclass
class Search:
    """A search.

    Attributes:
        subjects: What is looked at, in turns.
        seed: Where all that is drawn comes from.
        out: Where it says how it goes.
        clock: Seconds, monotonic.
        most: How many findings are enough.
    """

    subjects: Sequence[Subject]
    seed: int
    out: TextIO
    clock: Callable[[], float] = time.monotonic
    most: int = 10
    tally: Counter[str] = field(default_factory=Counter)
    found: list[Finding] = field(default_factory=list)

    def run(self, seconds: float, only: int | None = None) -> list[Finding]:
        """Look until the time is over; with ``only`` at one round.

        The cases of a round depend on the seed and its number alone.
        """
        self._began = self._said = self.clock()
        self._until = self._began + seconds
        for number in count() if only is None else [only]:
            self._round = number
            self._look(number)
            if self._over() or len(self.found) >= self.most:
                break
        self._say("done")
        return self.found

    def _look(self, number: int) -> None:
        subject = self.subjects[number % len(self.subjects)]
        drawn = zlib.crc32(f"{self.seed} {number}".encode())
        finding = Looking(subject, self._over, self.tally).round(drawn)
        if finding is not None and str(finding) not in map(str, self.found):
            self.found.append(finding)
            self._print(finding, number)

    def _over(self) -> bool:
        now = self.clock()
        if now - self._said >= SPEAKS:
            self._said = now
            self._say("so far")
        return now >= self._until

    def _print(self, finding: Finding, number: int) -> None:
        name = f"found by the search with seed {self.seed} in round {number}"
        try:
            text = finding.subject.transcript(name, finding.case)
        except Exception as error:
            text = f"# can't be written down ({error!r}):\n# {finding.case!r}\n"
        runners = ", ".join(finding.subject.runners(finding.case))
        lines = [f"FOUND in {finding.subject.name}, with {runners}:", "", str(finding), text]
        print("\n".join(lines), file=self.out, flush=True)

    def _say(self, when: str) -> None:
        minutes, seconds = divmod(int(self.clock() - self._began), 60)
        runners = ", ".join(f"{name} {n}" for name, n in sorted(self.tally.items()))
        where = f"seed {self.seed}, round {self._round}"
        text = (
            f"{when} {minutes}:{seconds:02d}, {where}, findings {len(self.found)}; cases: {runners}"
        )
        print(text, file=self.out, flush=True)
