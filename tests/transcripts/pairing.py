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

    The two runners of a case stand half the list apart, so that an engine and an operator that runs
    by itself take it. A runner that can't take the steps of a case passes its turn on.
    """
    oracle, *others = runners
    pairs = []
    for number, case in enumerate(cases):
        able = [runner for runner in others if runner.runs(case.spec, case.steps)]
        half = len(able) // 2
        turns = able if ALL else [able[number % half], able[half + number % (len(able) - half)]]
        if oracle.runs(case.spec, case.steps):
            turns = [oracle, *turns]
        pairs += [pytest.param(case, runner, id=f"{case.name}-{runner.name}") for runner in turns]
    return pairs


def pair_in_turn(cases: Sequence[Any], runners: Sequence[Any]) -> list[Any]:
    """Return each case with one runner that can take it, as parameters of a test."""
    pairs = []
    for number, case in enumerate(cases):
        able = [runner for runner in runners if runner.runs(case.spec, case.steps)]
        start = number % max(1, len(able))
        turns = able if ALL else able[start : start + 1]
        pairs += [pytest.param(case, runner, id=f"{case.name}-{runner.name}") for runner in turns]
    return pairs
