"""Makes a case that fails small: fewer faults, fewer messages, a simpler query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.property.joins import Query
from tests.property.streams import Stream
from tests.search.smaller import Tries, fails_alike, of_joins, of_streams, smallest
from tests.simulation.cases import Case
from tests.simulation.counting import Counting
from tests.simulation.running import Finding, judge

_TRIES = 400


def shrink(case: Case, differences: Callable[[Case], list[str]] | None = None) -> Finding:
    """The smallest case that still fails.

    Args:
        case: A case that fails.
        differences: What is wrong with a case, in words; as `judge` says where it isn't passed.
    """
    find = differences or (lambda one: judge(one).differences)
    still = Tries(fails_alike(find, case), _TRIES)
    passes = [_fewer_faults, _one_life, _inputs]
    small = smallest(case, passes, still)
    return Finding(small, find(small))


def _fewer_faults(case: Case) -> Iterator[Case]:
    """The case with half of the events that failed muted, then with one of them."""
    if not case.rate:
        return
    struck = judge(case).struck
    size = len(struck)
    while size:
        for start in range(0, len(struck), size):
            muted = case.muted | {*struck[start : start + size]}
            yield replace(case, muted=muted)
        size //= 2


def _one_life(case: Case) -> Iterator[Case]:
    for shards in ((1,), case.shards[:1], (2,)):
        if len(shards) < len(case.shards) or sum(shards) < sum(case.shards):
            yield replace(case, shards=shards)


def _inputs(case: Case) -> Iterator[Case]:
    """The case with a simpler input."""
    for simpler in _passes(case.input):
        for smaller in simpler(case.input):
            # The last step ends the input, also where it has no messages.
            if smaller.steps:
                yield replace(case, input=smaller)


def _passes(drawn: Any) -> list[Callable[[Any], Iterator[Any]]]:
    if isinstance(drawn, Stream):
        return of_streams()
    return of_joins() if isinstance(drawn, Query) else [_fewer_steps, _fewer_messages]


def _fewer_steps(drawn: Counting) -> Iterator[Counting]:
    for number in range(len(drawn.steps) - 1):
        yield Counting([*drawn.steps[:number], *drawn.steps[number + 1 :]])


def _fewer_messages(drawn: Counting) -> Iterator[Counting]:
    for number, step in enumerate(drawn.steps):
        for left_out in range(len(step.messages)):
            messages = [m for place, m in enumerate(step.messages) if place != left_out]
            steps = [*drawn.steps]
            steps[number] = replace(step, messages=messages)
            yield Counting(steps)
