"""One round: so many cases of one subject, and the smallest of those that are wrong."""

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
from tests.search.smaller import Pass, Tries, fails_alike, smallest

Case = Any


class Subject(Protocol):
    """Something that cases are drawn of.

    Attributes:
        name: How it is called.
        cases: Where they are drawn from.
        examples: How many of them make a round.
        passes: How cases are made simpler.
        tries: How many simpler cases are looked at.
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
        """What is wrong, in words."""
        ...

    def transcript(self, name: str, case: Case) -> str:
        """The case in the notation of the transcripts."""
        ...


@dataclass(frozen=True)
class Finding:
    """A case that is wrong, as small as it could be made.

    Attributes:
        subject: What it was drawn of.
        case: The case.
        differences: What is wrong, in words.
    """

    subject: Subject
    case: Case
    differences: list[str]

    def __str__(self) -> str:
        return "\n".join(f"# {line}" for text in self.differences for line in text.splitlines())


class EnoughError(BaseException):
    """Ends a round; an exception of another kind would be looked at by Hypothesis."""


@dataclass
class Looking:
    """Looks at one case after another.

    Attributes:
        subject: What is looked at.
        over: Whether the time is over.
        tally: The number of cases that each runner ran.
    """

    subject: Subject
    over: Callable[[], bool]
    tally: Counter[str]

    def round(self, seed: int) -> Finding | None:
        """Draw the cases of a round; the first that is wrong, made small, if there is one."""
        wrong: list[Case] = []

        def look(case: Case) -> None:
            if self.over():
                raise EnoughError
            self.tally.update(self.subject.runners(case))
            if self._differences(case):
                wrong.append(case)
                raise EnoughError

        rules = settings(
            max_examples=self.subject.examples,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
        )
        with suppress(EnoughError):
            hypothesis.seed(seed)(rules(given(case=self.subject.cases)(look)))()
        return self._smaller(wrong[0]) if wrong else None

    def _smaller(self, case: Case) -> Finding:
        still = Tries(fails_alike(self._differences, case), self.subject.tries)
        small = smallest(case, self.subject.passes, still)
        return Finding(self.subject, small, self._differences(small))

    def _differences(self, case: Case) -> list[str]:
        """What is wrong; what fails is tried again, since a busy machine ends Spark's workers."""
        with suppress(Exception):
            return self.subject.differences(case)
        try:
            again = self.subject.differences(case)
        except Exception:
            return [traceback.format_exc(limit=-4)]
        self.tally["failed once"] += 1
        return again
