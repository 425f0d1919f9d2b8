"""Runs rounds until the time is over, and prints the findings."""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TextIO

from tests.search.finding import Examiner, Finding, Subject

REPORT_SECONDS = 30.0


@dataclass
class Search:
    """A search.

    Attributes:
        subjects: The subjects, which take turns.
        seed: The seed of all cases.
        out: The stream for progress and findings.
        clock: A monotonic clock, in seconds.
        max_findings: The number of findings after which the search ends.
    """

    subjects: Sequence[Subject]
    seed: int
    out: TextIO
    clock: Callable[[], float] = time.monotonic
    max_findings: int = 10
    tally: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def run(self, seconds: float, only: int | None = None) -> list[Finding]:
        """Run rounds until the time is over, or only one round.

        The cases of a round depend only on the seed and its number.
        """
        self._started_at = self._reported_at = self.clock()
        self._deadline = self._started_at + seconds
        for number in count() if only is None else [only]:
            self._round = number
            self._run_round(number)
            if self._over() or len(self.findings) >= self.max_findings:
                break
        self._report("done")
        return self.findings

    def _run_round(self, number: int) -> None:
        subject = self.subjects[number % len(self.subjects)]
        drawn = zlib.crc32(f"{self.seed} {number}".encode())
        finding = Examiner(subject, self._over, self.tally).run_round(drawn)
        if finding is not None and str(finding) not in map(str, self.findings):
            self.findings.append(finding)
            self._print(finding, number)

    def _over(self) -> bool:
        now = self.clock()
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            self._report("so far")
        return now >= self._deadline

    def _print(self, finding: Finding, number: int) -> None:
        name = f"found by the search with seed {self.seed} in round {number}"
        try:
            text = finding.subject.write_transcript(name, finding.case)
        except Exception as error:
            text = f"# can't be written down ({error!r}):\n# {finding.case!r}\n"
        runners = ", ".join(finding.subject.runners(finding.case))
        lines = [f"FOUND in {finding.subject.name}, with {runners}:", "", str(finding), text]
        print("\n".join(lines), file=self.out, flush=True)

    def _report(self, label: str) -> None:
        minutes, seconds = divmod(int(self.clock() - self._started_at), 60)
        runners = ", ".join(f"{name} {n}" for name, n in sorted(self.tally.items()))
        position = f"seed {self.seed}, round {self._round}"
        findings = len(self.findings)
        text = f"{label} {minutes}:{seconds:02d}, {position}, findings {findings}; cases: {runners}"
        print(text, file=self.out, flush=True)
