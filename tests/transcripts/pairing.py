"""Pairs each transcript with the doors that it goes through.

Every transcript goes through the first door, the oracle, and through two of the others, which take
turns: the transcripts of each file meet every door. ``MUNTIN_TRANSCRIPTS=all`` pairs every
transcript with every door.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

ALL = os.environ.get("MUNTIN_TRANSCRIPTS") == "all"


def pair_with_doors(cases: Sequence[Any], doors: Sequence[Any]) -> list[Any]:
    """Return pairs of a case and a door as parameters of a test.

    The two doors of a case stand half the list apart, so that an engine and an operator that runs
    by itself take it. A door that can't take the steps of a case passes its turn on.
    """
    oracle, *others = doors
    pairs = []
    for number, case in enumerate(cases):
        able = [door for door in others if door.runs(case.spec, case.steps)]
        half = len(able) // 2
        turns = able if ALL else [able[number % half], able[half + number % (len(able) - half)]]
        if oracle.runs(case.spec, case.steps):
            turns = [oracle, *turns]
        pairs += [pytest.param(case, door, id=f"{case.name}-{door.name}") for door in turns]
    return pairs
