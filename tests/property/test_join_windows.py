"""Joins that run by themselves say what the oracle says, and hold what they say they hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from tests.join_doors import JoinBatch, OracleJoinDoor, StandaloneJoinDoor
from tests.property.joins import Query, queries
from tests.property.test_joins import comparable

from muntin.engine import runs
from muntin.engine.oracle.joins import JoinStep
from muntin.model.joins import SIDES

FEWER = settings(max_examples=max(1, settings.default.max_examples // 2))


@pytest.mark.parametrize("restart", [False, True])
@FEWER
@given(query=queries())
def test_batches_say_what_the_oracle_says(restart: bool, query: Query) -> None:
    # A batch is judged by the clock that its step ends with, and let in by the one before.
    for side in SIDES:
        known = replace(query.spec.side(side), max_ahead=None)
        query = replace(query, spec=query.spec.with_side(side, known))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "MOST_RUNS", 2)
        told = StandaloneJoinDoor(restart=restart).run(query.spec, query.types, query.steps)
    for number, (one, other) in enumerate(zip(told, by_batch(query), strict=True)):
        assert comparable(one) == comparable(other), number


@FEWER
@given(query=queries())
def test_single_messages_are_batches_of_one(query: Query) -> None:
    told = StandaloneJoinDoor(single=True).run(query.spec, query.types, query.steps)
    for number, (one, other) in enumerate(zip(told, one_by_one(query), strict=True)):
        assert comparable(one) == comparable(other), number


def by_batch(query: Query) -> list[JoinStep]:
    """What the oracle says of the steps when the clock is told after the messages of each."""
    wall, parts = query.steps[0].wall, []
    for step in query.steps:
        parts += [JoinBatch(step.left, step.right, wall, step.final), JoinBatch(wall=step.wall)]
        wall = step.wall
    told = iter(OracleJoinDoor().run(query.spec, query.types, parts))
    return [joined([next(told), next(told)]) for _ in query.steps]


def one_by_one(query: Query) -> list[JoinStep]:
    """What the oracle says of the steps when each message is one, and each clock too."""
    wall, parts, counts = query.steps[0].wall, [], []
    for step in query.steps:
        mine = [JoinBatch([message], [], wall) for message in step.left]
        mine += [JoinBatch([], [message], wall) for message in step.right]
        wall = step.wall
        mine.append(JoinBatch([], [], wall, step.final))
        parts += mine
        counts.append(len(mine))
    told = iter(OracleJoinDoor().run(query.spec, query.types, parts))
    return [joined([next(told) for _ in range(n)]) for n in counts]


def joined(told: list[JoinStep]) -> JoinStep:
    counts: dict[str, int] = {}
    for step in told:
        for name, n in step.counts.items():
            counts[name] = counts.get(name, 0) + n
    whole = JoinStep()
    whole.rows = [row for step in told for row in step.rows]
    whole.rejected = [row for step in told for row in step.rejected]
    whole.counts, whole.watermarks = counts, told[-1].watermarks
    return whole
