"""Cases of the simulator, each drawn from one seed: a query, its messages, and its faults."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from hypothesis.control import BuildContext
from hypothesis.errors import StopTest
from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.strategies import SearchStrategy
from tests.property import joins
from tests.property.joins import Query
from tests.property.streams import WIDEST, Stream, any_streams
from tests.simulation.counting import Counting, draw_counting

from muntin.model.joins import SIDES

HostName = Literal["local", "spark"]
KindName = Literal["counting", "windows", "joins"]
KINDS: tuple[KindName, ...] = ("counting", "windows", "joins")
HOSTS: tuple[HostName, ...] = ("local", "spark")
# One event in so many fails, at most.
_RATES = (0.0, 0.01, 0.03, 0.1, 0.2)


@dataclass(frozen=True)
class Case:
    """A run of a query.

    Attributes:
        host: The host.
        input: The query, and its messages in the batches of a run without faults.
        shards: The number of shards of its state, for each life of its process in turn.
        seed: The seed of its faults.
        rate: The probability that an event fails.
        muted: Events that don't fail.
    """

    host: HostName
    input: Stream | Query | Counting
    shards: tuple[int, ...]
    seed: int
    rate: float
    muted: frozenset[str] = frozenset()


_WINDOWS = any_streams(WIDEST)
_JOINS = joins.queries()


def draw_case(
    seed: int, hosts: Sequence[HostName] = HOSTS, kinds: Sequence[KindName] = KINDS
) -> Case:
    """Return the case of a seed: the same one each time."""
    dice = random.Random(seed)
    if len(kinds) > 1:
        # Most cases are of the kind that is fast.
        kinds = [kind for kind in kinds for _ in range(24 if kind == "counting" else 1)]
    host, kind = dice.choice(hosts), dice.choice(kinds)
    if kind == "counting":
        shards = (dice.choice((1, 1, 2)),)
        return Case(host, draw_counting(dice), shards, seed, dice.choice(_RATES))
    drawn: Stream | Query
    drawn = (
        _replace_malformed_times(_draw(_JOINS, seed)) if kind == "joins" else _draw(_WINDOWS, seed)
    )
    if host == "spark":
        drawn = _move_clock_to_1970(drawn)
    shards = tuple(dice.choice((1, 2, 3)) for _ in range(3))
    if dice.random() < 0.6 or _keeps_rows(drawn):
        # Each shard keeps its part of the rows that are retained.
        shards = (1 if isinstance(drawn, Query) and _keeps_rows(drawn) else shards[0],)
    return Case(host, drawn, shards, seed, dice.choice(_RATES))


def _keeps_rows(drawn: Stream | Query) -> bool:
    if isinstance(drawn, Stream):
        return drawn.spec.firing.rows is not None
    return any(drawn.spec.side(side).firing.rows is not None for side in SIDES)


def _replace_malformed_times(query: Query) -> Query:
    """Return a join without malformed times, since a column of times can't hold text."""

    def replace_times(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{n: None if v == "soon" else v for n, v in m.items()} for m in messages]

    steps = [
        replace(step, left=replace_times(step.left), right=replace_times(step.right))
        for step in query.steps
    ]
    return replace(query, steps=steps)


def _move_clock_to_1970(drawn: Stream | Query) -> Stream | Query:
    """Move a case's wall clock to 1970 or later: a negative tick of Spark means the end."""
    shift = max(0, -min(step.wall for step in drawn.steps))
    return replace(drawn, steps=[replace(s, wall=s.wall + shift) for s in drawn.steps])  # type: ignore[arg-type]


def _draw(strategy: SearchStrategy[Any], seed: int) -> Any:
    """Draw a value of a strategy from a seed, again until its filters accept the value."""
    dice = random.Random(seed)
    while True:
        data = ConjectureData(random=dice)
        with BuildContext(data, is_final=False, wrapped_test=lambda: None), suppress(StopTest):
            return data.draw(strategy)
