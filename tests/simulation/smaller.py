"""Shrinks a failing case: fewer faults, fewer messages, a simpler query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.property.joins import Query
from tests.property.streams import Stream
from tests.search.smaller import (
    Tries,
    find_smallest,
    list_join_passes,
    list_stream_passes,
    make_same_failure_check,
)
from tests.simulation.cases import Case
from tests.simulation.counting import Counting
from tests.simulation.running import Finding, judge

_TRIES = 400


def shrink(case: Case, differences: Callable[[Case], list[str]] | None = None) -> Finding:
    """Return the smallest case that still fails.

    Args:
        case: A case that fails.
        differences: Describes what is wrong with a case; `judge` by default.
    """
    find = differences or (lambda candidate: judge(candidate).differences)
    still_fails = Tries(make_same_failure_check(find, case), _TRIES)
    passes = [_mute_faults, _reduce_shards, _simplify_input]
    small = find_smallest(case, passes, still_fails)
    return Finding(small, find(small))


def _mute_faults(case: Case) -> Iterator[Case]:
    """Yield the case with half of the failed events muted, then with ever fewer of them."""
    if not case.rate:
        return
    failed_events = judge(case).failed_events
    size = len(failed_events)
    while size:
        for start in range(0, len(failed_events), size):
            muted = case.muted | {*failed_events[start : start + size]}
            yield replace(case, muted=muted)
        size //= 2


def _reduce_shards(case: Case) -> Iterator[Case]:
    for shards in ((1,), case.shards[:1], (2,)):
        if len(shards) < len(case.shards) or sum(shards) < sum(case.shards):
            yield replace(case, shards=shards)


def _simplify_input(case: Case) -> Iterator[Case]:
    """Yield the case with simpler inputs."""
    for simplify in _list_passes(case.input):
        for simpler_input in simplify(case.input):
            # The last step ends the input, also where it has no messages.
            if simpler_input.steps:
                yield replace(case, input=simpler_input)


def _list_passes(drawn: Any) -> list[Callable[[Any], Iterator[Any]]]:
    if isinstance(drawn, Stream):
        return list_stream_passes()
    return list_join_passes() if isinstance(drawn, Query) else [_remove_steps, _remove_messages]


def _remove_steps(drawn: Counting) -> Iterator[Counting]:
    for number in range(len(drawn.steps) - 1):
        yield Counting([*drawn.steps[:number], *drawn.steps[number + 1 :]])


def _remove_messages(drawn: Counting) -> Iterator[Counting]:
    for number, step in enumerate(drawn.steps):
        for removed in range(len(step.messages)):
            messages = [m for index, m in enumerate(step.messages) if index != removed]
            steps = [*drawn.steps]
            steps[number] = replace(step, messages=messages)
            yield Counting(steps)
