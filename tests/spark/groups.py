"""Groups transcripts into queries, since a query of Spark takes a second whatever it computes.

Some transcripts run in every run, a twelfth of the others with the slow tests, and all of them with
``MUNTIN_TRANSCRIPTS=all``.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import groupby
from typing import Any

import pytest
from tests.transcripts.pairing import ALL

_CASES_PER_QUERY = 8
_RARELY_ONE_IN = 12


def spark_can_run(steps: Sequence[Any]) -> bool:
    """Return whether Spark can run these steps: a stream doesn't end, and a batch is one step.

    Files have no partitions with a backlog.
    """
    if any(getattr(step, "backlog", None) for step in steps):
        return False
    return len(steps) == 1 or not any(step.final for step in steps)


def group_cases(cases: Sequence[Any], every_run: Container[str]) -> list[Any]:
    """Return lists of cases, each for one query, as parameters of a test.

    Cases of one query have about the same number of steps, and all of them are streams, or all of
    them batch frames. Cases that Spark can't run are left out.
    """
    runnable = [case for case in cases if spark_can_run(case.steps)]
    often = [case for case in runnable if case.name in every_run]
    rarely = [case for case in runnable if case.name not in every_run]
    rarely = rarely if ALL else rarely[::_RARELY_ONE_IN]
    return [
        *(pytest.param(group, id=group[0].name) for group in _split_cases(often)),
        *(
            pytest.param(group, id=group[0].name, marks=pytest.mark.slow)
            for group in _split_cases(rarely)
        ),
    ]


def _split_cases(cases: Sequence[Any]) -> Iterator[list[Any]]:
    def is_batch(case: Any) -> bool:
        return case.steps[-1].final

    in_order = sorted(cases, key=lambda case: (is_batch(case), len(case.steps)))
    for _, alike in groupby(in_order, key=is_batch):
        group = list(alike)
        for start in range(0, len(group), _CASES_PER_QUERY):
            yield group[start : start + _CASES_PER_QUERY]
