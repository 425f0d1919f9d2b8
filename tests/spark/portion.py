"""Which transcripts go through Spark: each is a query of its own, and takes seconds.

A few in every run, a fifth with the slow tests, all of them with ``MUNTIN_TRANSCRIPTS=all``.
"""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from typing import Any

import pytest

ALL = os.environ.get("MUNTIN_TRANSCRIPTS") == "all"
_ONE_IN = 5


def portion(cases: Sequence[Any], every_run: Container[str]) -> list[Any]:
    """The cases as parameters of a test: of every run, slow, or left out of this run."""
    slow = [pytest.mark.slow]
    chosen = []
    for number, case in enumerate(cases):
        if case.name in every_run:
            chosen.append(pytest.param(case))
        elif ALL or number % _ONE_IN == 0:
            chosen.append(pytest.param(case, marks=slow))
    return chosen
