"""Runs cases, seed after seed, and says which of them end otherwise than the oracle says."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.property.joins import Query
from tests.property.streams import Stream
from tests.simulation.cases import HOSTS, KINDS, Case, HostName, KindName, draw_case
from tests.simulation.judging import outcome_differences
from tests.simulation.local import Outcome, run_local
from tests.simulation.spark import run_spark
from tests.transcripts.writing import join_transcript, transcript

_RUNS: dict[HostName, Callable[[Case], Outcome]] = {"local": run_local, "spark": run_spark}


@dataclass(frozen=True)
class Finding:
    """A case that fails.

    Attributes:
        case: The case.
        differences: What is wrong, in words.
    """

    case: Case
    differences: list[str]

    def __str__(self) -> str:
        case, lines = self.case, []
        lines.append(f"seed {case.seed} on the {case.host} host, {case.shards} shards:")
        lines += [f"  {text}" for text in self.differences[:5]]
        lines += [f"  fails: {name}" for name in judge(case).struck]
        lines.append(_transcribe(case))
        return "\n".join(lines)


def _transcribe(case: Case) -> str:
    """The input of a case in the notation of the transcripts, as far as it has one."""
    drawn, name = case.input, f"simulated with seed {case.seed}"
    try:
        if isinstance(drawn, Stream):
            return transcript(name, drawn.spec, drawn.steps)
        if isinstance(drawn, Query):
            return join_transcript(name, drawn.spec, drawn.types, drawn.steps)
    except Exception as error:
        return f"can't be written as a transcript ({error!r}): {drawn!r}"
    return "\n".join(f"  {step.wall}: {step.messages}" for step in drawn.steps)


@dataclass
class Judgement:
    """The end of a case.

    Attributes:
        differences: What is wrong, in words.
        struck: The names of the events that failed.
        steps: How many batches were run, repeated ones included.
    """

    differences: list[str]
    struck: list[str] = field(default_factory=list)
    steps: int = 0


def judge(case: Case) -> Judgement:
    """Run a case, and compare its end with the oracle's."""
    try:
        outcome = _RUNS[case.host](case)
        differences = outcome_differences(case, outcome)
    except Exception:
        return Judgement([traceback.format_exc(limit=-5)])
    return Judgement(differences, outcome.struck, outcome.steps)


@dataclass
class Simulation:
    """Cases of many seeds.

    Attributes:
        first: The first seed that has yet to run.
        stride: How far the next one is.
        hosts: The hosts to run on.
        kinds: The kinds of queries.
        steps: How many batches were run.
        cases: How many cases.
        faults: How many events failed.
    """

    first: int
    stride: int = 1
    hosts: Sequence[HostName] = HOSTS
    kinds: Sequence[KindName] = KINDS
    steps: int = 0
    cases: int = 0
    faults: int = 0

    def run(self, seconds: float, most_cases: int | None = None) -> Iterator[Finding]:
        """Run case after case until the time is over, and yield those that fail, as drawn.

        Another run continues with the seed after the last one.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.cases != most_cases:
            case = draw_case(self.first, self.hosts, self.kinds)
            self.first += self.stride
            end = judge(case)
            self.cases += 1
            self.steps += end.steps
            self.faults += len(end.struck)
            if end.differences:
                yield Finding(case, end.differences)
