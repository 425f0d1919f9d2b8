"""Standalone joins agree with the oracle, for batches and for single messages."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.join_runners import StandaloneJoinRunner
from tests.property.agreement import join_differences
from tests.property.joins import Query, queries

from muntin.state import runs

FEWER = settings(max_examples=max(1, settings.default.max_examples // 2))


@pytest.mark.parametrize("restart", [False, True])
@FEWER
@given(query=queries())
def test_batches_say_what_the_oracle_says(restart: bool, query: Query) -> None:
    runner = StandaloneJoinRunner(restart=restart)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "MAX_RUNS", 2)
        assert join_differences(runner, query.spec, query.types, query.steps) == []


@FEWER
@given(query=queries())
def test_single_messages_are_batches_of_one(query: Query) -> None:
    runner = StandaloneJoinRunner(single=True)
    assert join_differences(runner, query.spec, query.types, query.steps) == []
