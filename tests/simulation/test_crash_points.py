"""Fails every write, flush and call of every transcript, and one event of the next process.

The points are the events of a run without faults. The fast tests use a sample of the transcripts
and of their points, the slow one all transcripts, and the long one all of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.join_runners import OracleJoinRunner
from tests.local_runner import LocalJoinRunner, LocalRunner
from tests.property.joins import Query
from tests.property.streams import Stream
from tests.simulation.cases import Case
from tests.simulation.faults import ChosenFaults
from tests.simulation.judging import outcome_differences
from tests.simulation.local import Plans, run_local
from tests.transcripts import test_joins, test_transcripts

_SAMPLE, _POINTS = 37, 4
# So many tests share the transcripts, since the processes of a run can share tests only.
_PARTS = 8


def transcripts() -> list[Any]:
    """Return the transcripts that the local host can run, each as a case of the simulator.

    Transcripts with a backlog are omitted: the simulator's sources have no partitions.
    """
    cases: list[tuple[str, Stream | Query]] = [
        (transcript.name, Stream(transcript.spec, transcript.steps))
        for transcript in test_transcripts.RIGHT
        if LocalRunner().runs(transcript.spec, transcript.steps)
        and not any(step.backlog for step in transcript.steps)
    ]
    cases += [
        (transcript.name, Query(transcript.spec, transcript.types, transcript.steps))
        for transcript in test_joins.RIGHT
        if all(
            runner.runs(transcript.spec, transcript.steps)
            for runner in (LocalJoinRunner(), OracleJoinRunner())
        )
    ]
    return [
        pytest.param(Case("local", drawn, (1,), number, 0.0), id=name)
        for number, (name, drawn) in enumerate(cases)
    ]


ALL = transcripts()


def crash_differences(case: Case, max_points: int | None) -> list[str]:
    """Return the differences after runs that fail at a point, and again in the next process."""
    no_faults, plans = ChosenFaults((), case.seed), Plans()
    texts = outcome_differences(case, run_local(case, no_faults, plans=plans))
    points: Sequence[int] = range(1, len(no_faults.events) + 1)
    if max_points is not None:
        points = points[case.seed % 3 :: max(1, -(-len(points) // max_points))]
    for point in points:
        names = (f"life 0, event {point}", f"life 1, event {1 + point % 7}")
        outcome = run_local(case, ChosenFaults(names, case.seed + point), plans=plans)
        texts += [f"{names}: {text}" for text in outcome_differences(case, outcome)]
    return texts


@pytest.mark.parametrize("case", ALL[::_SAMPLE])
def test_a_sample_of_crash_points(case: Case) -> None:
    assert crash_differences(case, _POINTS) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_some_crash_points_of_all(part: int) -> None:
    cases = ALL[part::_PARTS]
    assert [text for case in cases for text in crash_differences(case.values[0], _POINTS)] == []


@pytest.mark.long
@pytest.mark.parametrize("case", ALL)
def test_every_crash_point(case: Case) -> None:
    assert crash_differences(case, None) == []
