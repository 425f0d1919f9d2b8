"""Runs one round: some cases of one subject, and shrinks the first failing one."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.strategies import SearchStrategy
from tests.search.smaller import Pass, Tries, find_smallest, make_same_failure_check

Case = Any


class Subject(Protocol):
    """A kind of cases, and the check that they must pass.

    Attributes:
        name: The name of the subject.
        cases: The strategy that draws cases.
        examples: The number of cases in a round.
        passes: Functions that simplify cases.
        tries: The greatest number of simpler cases to try.
    """

    name: str
    cases: SearchStrategy[Case]
    examples: int
    passes: Sequence[Pass]
    tries: int

    def runners(self, case: Case) -> list[str]:
        """Return the names of the runners of a case."""
        ...

    def differences(self, case: Case) -> list[str]:
        """Return descriptions of what is wrong with a case."""
        ...

    def write_transcript(self, name: str, case: Case) -> str:
        """Write a case in the notation of the transcripts."""
        ...


@dataclass(frozen=True)
class Finding:
    """A failing case, after shrinking.

    Attributes:
        subject: The subject of the case.
        case: The case.
        differences: Descriptions of the differences.
    """

    subject: Subject
    case: Case
    differences: list[str]

    def __str__(self) -> str:
        return "\n".join(f"# {line}" for text in self.differences for line in text.splitlines())


class EnoughError(BaseException):
    """Ends a round; Hypothesis would handle an exception of another kind."""


@dataclass
class Examiner:
    """Checks the cases of a subject.

    Attributes:
        subject: The subject.
        over: Returns whether the time is over.
        tally: The number of cases that each runner ran.
    """

    subject: Subject
    over: Callable[[], bool]
    tally: Counter[str]

    def run_round(self, seed: int) -> Finding | None:
        """Check the cases of a round; return the first failing one, after shrinking, or None."""
        failing_cases: list[Case] = []

        def check_case(case: Case) -> None:
            if self.over():
                raise EnoughError
            self.tally.update(self.subject.runners(case))
            if self._differences(case):
                failing_cases.append(case)
                raise EnoughError

        profile = settings(
            max_examples=self.subject.examples,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
        )
        with suppress(EnoughError):
            hypothesis.seed(seed)(profile(given(case=self.subject.cases)(check_case)))()
        return self._shrink(failing_cases[0]) if failing_cases else None

    def _shrink(self, case: Case) -> Finding:
        still_fails = Tries(make_same_failure_check(self._differences, case), self.subject.tries)
        small = find_smallest(case, self.subject.passes, still_fails)
        return Finding(self.subject, small, self._differences(small))

    def _differences(self, case: Case) -> list[str]:
        """Return the differences; retry errors, since a busy machine kills Spark's workers."""
        with suppress(Exception):
            return self.subject.differences(case)
        try:
            differences = self.subject.differences(case)
        except Exception:
            return [traceback.format_exc(limit=-4)]
        self.tally["failed once"] += 1
        return differences
