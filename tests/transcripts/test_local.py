"""Every transcript through the local host; its doors take turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.local_door import LOCAL_DOORS, LOCAL_JOIN_DOORS, LocalDoor, LocalJoinDoor
from tests.transcripts import test_joins, test_transcripts
from tests.transcripts.join_notation import JoinCase
from tests.transcripts.notation import Case
from tests.transcripts.pairing import ALL

# The figures of a join have one watermark for both sides.
_TOLD = [case for case in test_joins.WRONG if case.name != "wrong, a watermark"]


def _pair(cases: Sequence[Any], doors: Sequence[Any]) -> list[Any]:
    pairs = []
    for number, case in enumerate(cases):
        able = [door for door in doors if door.runs(case.spec, case.steps)]
        turns = able if ALL else able[number % len(able) :][:1]
        pairs += [pytest.param(case, door, id=f"{case.name}-{door.name}") for door in turns]
    return pairs


@pytest.mark.parametrize(("case", "door"), _pair(test_transcripts.RIGHT, LOCAL_DOORS))
def test_windows(case: Case, door: LocalDoor) -> None:
    assert test_transcripts.differences(case, door) == []


@pytest.mark.parametrize(("case", "door"), _pair(test_transcripts.WRONG, LOCAL_DOORS))
def test_wrong_windows_are_found_out(case: Case, door: LocalDoor) -> None:
    assert test_transcripts.differences(case, door) != []


@pytest.mark.parametrize(("case", "door"), _pair(test_joins.RIGHT, LOCAL_JOIN_DOORS))
def test_joined(case: JoinCase, door: LocalJoinDoor) -> None:
    assert test_joins.differences(case, door) == []


@pytest.mark.parametrize(("case", "door"), _pair(_TOLD, LOCAL_JOIN_DOORS))
def test_wrong_joins_are_found_out(case: JoinCase, door: LocalJoinDoor) -> None:
    assert test_joins.differences(case, door) != []
