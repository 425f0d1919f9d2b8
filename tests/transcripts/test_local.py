"""Every transcript through the local host, its doors in turn."""

from __future__ import annotations

import pytest
from tests.local_door import LOCAL_DOORS, LOCAL_JOIN_DOORS, LocalDoor, LocalJoinDoor
from tests.transcripts import test_joins, test_transcripts
from tests.transcripts.join_notation import JoinCase
from tests.transcripts.notation import Case
from tests.transcripts.pairing import pair_in_turn
from tests.transcripts.test_transcripts import by_name


@pytest.mark.parametrize(("case", "door"), pair_in_turn(test_transcripts.RIGHT, LOCAL_DOORS))
def test_windows(case: Case, door: LocalDoor) -> None:
    assert test_transcripts.differences(case, door) == []


@pytest.mark.parametrize("case", test_transcripts.WRONG, ids=by_name)
def test_wrong_windows(case: Case) -> None:
    assert test_transcripts.differences(case, LOCAL_DOORS[0]) != []


@pytest.mark.parametrize(("case", "door"), pair_in_turn(test_joins.RIGHT, LOCAL_JOIN_DOORS))
def test_joined(case: JoinCase, door: LocalJoinDoor) -> None:
    assert test_joins.differences(case, door) == []


# The figures of a join have one watermark for both sides.
_TOLD = [case for case in test_joins.WRONG if case.name != "wrong, a watermark"]


@pytest.mark.parametrize("case", _TOLD, ids=by_name)
def test_wrong_joined(case: JoinCase) -> None:
    assert test_joins.differences(case, LOCAL_JOIN_DOORS[0]) != []
