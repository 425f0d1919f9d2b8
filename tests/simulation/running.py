"""Runs cases, seed after seed, and finds those whose outcome differs from the oracle's."""

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
from tests.transcripts.writing import write_join_transcript, write_transcript

_RUNS: dict[HostName, Callable[[Case], Outcome]] = {"local": run_local, "spark": run_spark}


@dataclass(frozen=True)
class Finding:
    """A case that fails.

    Attributes:
        case: The case.
        differences: Descriptions of the differences.
    """

    case: Case
    differences: list[str]

    def __str__(self) -> str:
        case, lines = self.case, []
        lines.append(f"seed {case.seed} on the {case.host} host, {case.shards} shards:")
        lines += [f"  {text}" for text in self.differences[:5]]
        lines += [f"  fails: {name}" for name in judge(case).failed_events]
        lines.append(_transcribe(case))
        return "\n".join(lines)


def _transcribe(case: Case) -> str:
    """Return the input of a case in the notation of the transcripts, if it has one."""
    drawn, name = case.input, f"simulated with seed {case.seed}"
    try:
        if isinstance(drawn, Stream):
            return write_transcript(name, drawn.spec, drawn.steps)
        if isinstance(drawn, Query):
            return write_join_transcript(name, drawn.spec, drawn.types, drawn.steps)
    except Exception as error:
        return f"can't be written as a transcript ({error!r}): {drawn!r}"
    return "\n".join(f"  {step.wall}: {step.messages}" for step in drawn.steps)


@dataclass
class Judgement:
    """The end of a case.

    Attributes:
        differences: Descriptions of the differences.
        failed_events: The names of the events that failed.
        steps: The number of batches that ran, including repeated ones.
    """

    differences: list[str]
    failed_events: list[str] = field(default_factory=list)
    steps: int = 0


def judge(case: Case) -> Judgement:
    """Run a case, and compare its outcome with the oracle's."""
    try:
        outcome = _RUNS[case.host](case)
        differences = outcome_differences(case, outcome)
    except Exception:
        return Judgement([traceback.format_exc(limit=-5)])
    return Judgement(differences, outcome.failed_events, outcome.steps)


@dataclass
class Simulation:
    """Cases of many seeds.

    Attributes:
        first: The next seed.
        stride: The difference between consecutive seeds.
        hosts: The hosts to run on.
        kinds: The kinds of queries.
        steps: The number of batches that ran.
        cases: The number of cases that ran.
        faults: The number of events that failed.
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
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.cases != most_cases:
            case = draw_case(self.first, self.hosts, self.kinds)
            self.first += self.stride
            judgement = judge(case)
            self.cases += 1
            self.steps += judgement.steps
            self.faults += len(judgement.failed_events)
            if judgement.differences:
                yield Finding(case, judgement.differences)
