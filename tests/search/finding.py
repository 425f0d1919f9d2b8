"""One round: so many cases of one subject, and the smallest of those that are wrong."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.strategies import SearchStrategy

Case = Any


class Subject(Protocol):
    """Something that cases are drawn of.

    Attributes:
        name: How it is called.
        cases: Where they are drawn from.
        examples: How many of them make a round.
    """

    name: str
    cases: SearchStrategy[Case]
    examples: int

    def doors(self, case: Case) -> list[str]:
        """The doors that a case goes through."""
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


class WrongError(AssertionError):
    """What a case raises that is wrong, wherever that shows."""


@dataclass
class Looking:
    """Looks at one case after another.

    Attributes:
        subject: What is looked at.
        over: Whether the time is over.
        tally: How many cases went through each door.
        shrinking: How many seconds a case may be made smaller.
    """

    subject: Subject
    over: Callable[[], bool]
    tally: Counter[str]
    shrinking: float = 120.0

    def round(self, seed: int) -> Finding | None:
        """Draw the cases of a round; the smallest that is wrong, if there is one."""
        wrong: list[tuple[Case, list[str]]] = []
        until: list[float] = []

        def look(case: Case) -> None:
            if until and time.monotonic() > until[0]:
                # No more tries; what was found last is looked at once more and is still wrong.
                found = wrong[-1][1] if repr(case) == repr(wrong[-1][0]) else []
            elif not wrong and self.over():
                return
            else:
                found = self._differences(case)
            if found:
                until.append(time.monotonic() + self.shrinking)
                wrong.append((case, found))
                raise WrongError

        rules = settings(
            max_examples=self.subject.examples,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
            report_multiple_bugs=False,
        )
        try:
            hypothesis.seed(seed)(rules(given(case=self.subject.cases)(look)))()
        except Exception:
            if not wrong:
                raise
            return Finding(self.subject, *wrong[-1])
        return None

    def _differences(self, case: Case) -> list[str]:
        self.tally.update(self.subject.doors(case))
        try:
            return self.subject.differences(case)
        except Exception:
            return [traceback.format_exc(limit=-4)]
