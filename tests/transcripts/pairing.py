"""Pairs each transcript with the runners that run it.

Every transcript runs on the first runner, the oracle, and on two of the others, which take
turns: the transcripts of each file run on every runner. ``MUNTIN_TRANSCRIPTS=all`` pairs every
transcript with every runner.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

ALL = os.environ.get("MUNTIN_TRANSCRIPTS") == "all"


def pair_with_runners(cases: Sequence[Any], runners: Sequence[Any]) -> list[Any]:
    """Return pairs of a case and a runner as parameters of a test.

    The two runners of a case are half the list apart, so that one is an engine and the other a
    standalone operator. If a runner can't run the steps of a case, the next one does.
    """
    oracle, *others = runners
    pairs = []
    for number, case in enumerate(cases):
        able_runners = [runner for runner in others if runner.runs(case.spec, case.steps)]
        half = len(able_runners) // 2
        chosen = (
            able_runners
            if ALL
            else [
                able_runners[number % half],
                able_runners[half + number % (len(able_runners) - half)],
            ]
        )
        if oracle.runs(case.spec, case.steps):
            chosen = [oracle, *chosen]
        pairs += [pytest.param(case, runner, id=f"{case.name}-{runner.name}") for runner in chosen]
    return pairs


def pair_in_turn(cases: Sequence[Any], runners: Sequence[Any]) -> list[Any]:
    """Return each case with one runner that can run it, as parameters of a test."""
    pairs = []
    for number, case in enumerate(cases):
        able_runners = [runner for runner in runners if runner.runs(case.spec, case.steps)]
        start = number % max(1, len(able_runners))
        chosen = able_runners if ALL else able_runners[start : start + 1]
        pairs += [pytest.param(case, runner, id=f"{case.name}-{runner.name}") for runner in chosen]
    return pairs
