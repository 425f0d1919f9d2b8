"""Tests of policies by the age of a message, in operators whose clock is set by ``timeout``.

A message's age counts from the last ``timeout`` before it. The oracle agrees if each step is
split: the clock first, then its messages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.transcripts.notation import Case, read_cases

import muntin as mt
from muntin import standalone
from muntin.model.policies import ages_of
from muntin.model.sessions import Sessions
from muntin.stores import memory
from muntin.testing.oracle import Oracle

FOLDER = Path(__file__).parents[2] / "transcripts"
CASES = [
    case for case in read_cases(FOLDER) if ages_of(case.spec.firing.early, case.spec.firing.late)
]
KINDS = {False: standalone.WindowedAggregator, True: standalone.SessionAggregator}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("single", [False, True])
def test_an_operator_emits_what_the_oracle_emits(case: Case, single: bool) -> None:
    kind = KINDS[isinstance(case.spec.windows, Sessions)]
    types = {"key": str, "time": int, "value": int}
    operator = kind(case.spec, memory(), schema=types, clock=lambda: 0)
    oracle = Oracle(case.spec)
    emitted, expected = [], []
    for step in case.steps:
        operator.timeout(step.wall)
        expected += oracle.step([], step.wall).firings
        if single:
            for message in step.messages:
                operator.add_message(key=message["key"], time=message["time"], value=message)
                expected += oracle.step([message], step.wall).firings
        else:
            operator.add_messages(step.messages)
            expected += oracle.step(step.messages, step.wall).firings
        emitted += operator.get_result().to_dicts()
        operator.flush()
    assert emitted == expected
    assert {row["emission"] for row in emitted} & {"early", "late"}


def test_the_age_of_the_first_messages_counts_from_the_opening() -> None:
    spec: Any = standalone.windowed(key="k", time="at").tumbling("1 hour").early(after="10 s")
    operator = standalone.WindowedAggregator(spec.agg(n=mt.count()), clock=lambda: 5_000_000)
    operator.add_message(key="a", time=1)
    for second in (6, 14):
        operator.timeout(second * 1_000_000)
        assert not len(operator.get_result())
    operator.timeout(15_000_000)
    assert operator.get_result()["emission"].to_list() == ["early"]
