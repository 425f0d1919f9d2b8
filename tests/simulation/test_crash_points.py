"""Every write, flush and call of every transcript fails, and so does one of the process after it.

The points are those that a run without faults goes through. The fast tests take a sample of the
transcripts and of their points, the slow one all transcripts, and long ones all of both.
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
    """The transcripts that the local host can take, each as a case of the simulator.

    Those of partitions with a backlog are left out: the simulator's sources have no partitions.
    """
    cases: list[tuple[str, Stream | Query]] = [
        (one.name, Stream(one.spec, one.steps))
        for one in test_transcripts.RIGHT
        if LocalRunner().runs(one.spec, one.steps) and not any(step.backlog for step in one.steps)
    ]
    cases += [
        (one.name, Query(one.spec, one.types, one.steps))
        for one in test_joins.RIGHT
        if all(
            runner.runs(one.spec, one.steps) for runner in (LocalJoinRunner(), OracleJoinRunner())
        )
    ]
    return [
        pytest.param(Case("local", drawn, (1,), number, 0.0), id=name)
        for number, (name, drawn) in enumerate(cases)
    ]


ALL = transcripts()


def crash_differences(case: Case, most: int | None) -> list[str]:
    """What is wrong after a run whose process failed at a point, and again at its next life."""
    whole, plans = ChosenFaults((), case.seed), Plans()
    texts = outcome_differences(case, run_local(case, whole, plans=plans))
    points: Sequence[int] = range(1, len(whole.asked) + 1)
    if most is not None:
        points = points[case.seed % 3 :: max(1, len(points) // most)]
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
    mine = ALL[part::_PARTS]
    assert [text for case in mine for text in crash_differences(case.values[0], _POINTS)] == []


@pytest.mark.long
@pytest.mark.parametrize("case", ALL)
def test_every_crash_point(case: Case) -> None:
    assert crash_differences(case, None) == []
