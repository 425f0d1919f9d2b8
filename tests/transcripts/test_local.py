"""Runs every transcript on the local host, on its runners in turn."""

from __future__ import annotations

import pytest
from tests.local_runner import LOCAL_JOIN_RUNNERS, LOCAL_RUNNERS, LocalJoinRunner, LocalRunner
from tests.transcripts import test_joins, test_transcripts
from tests.transcripts.join_notation import JoinCase
from tests.transcripts.notation import Case
from tests.transcripts.pairing import pair_in_turn
from tests.transcripts.test_transcripts import get_name


@pytest.mark.parametrize(("case", "runner"), pair_in_turn(test_transcripts.RIGHT, LOCAL_RUNNERS))
def test_windows(case: Case, runner: LocalRunner) -> None:
    assert test_transcripts.differences(case, runner) == []


@pytest.mark.parametrize("case", test_transcripts.WRONG, ids=get_name)
def test_wrong_windows(case: Case) -> None:
    assert test_transcripts.differences(case, LOCAL_RUNNERS[0]) != []


@pytest.mark.parametrize(("case", "runner"), pair_in_turn(test_joins.RIGHT, LOCAL_JOIN_RUNNERS))
def test_joined(case: JoinCase, runner: LocalJoinRunner) -> None:
    assert test_joins.differences(case, runner) == []


# The figures of a join have one watermark for both sides.
_WRONG_JOINS = [case for case in test_joins.WRONG if case.name != "wrong, a watermark"]


@pytest.mark.parametrize("case", _WRONG_JOINS, ids=get_name)
def test_wrong_joined(case: JoinCase) -> None:
    assert test_joins.differences(case, LOCAL_JOIN_RUNNERS[0]) != []
