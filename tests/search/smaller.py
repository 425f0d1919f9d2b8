"""Shrinks a failing case: removes one piece after another while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tests.join_runners import JoinBatch
from tests.property.joins import Query
from tests.property.streams import Stream, Twins
from tests.runners import Batch

from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec
from muntin.model.policies import Each, Firing, parts
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec

T = TypeVar("T")
Pass = Callable[[Any], Iterator[Any]]


def find_smallest(
    case: T, passes: Sequence[Callable[[T], Iterator[T]]], fails: Callable[[T], bool]
) -> T:
    """Return the smallest case that still fails.

    Args:
        case: A failing case.
        passes: Each yields cases that are simpler in one way, the simplest ones first.
        fails: Returns whether a case still fails.
    """
    previous = None
    while previous is not case:
        previous = case
        for simplify in passes:
            while (smaller_case := next(filter(fails, simplify(case)), None)) is not None:
                case = smaller_case
    return case


@dataclass
class Tries:
    """Returns whether cases fail, until no tries are left."""

    fails: Callable[[Any], bool]
    left: int

    def __call__(self, case: Any) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        return self.fails(case)


def make_same_failure_check(find: Callable[[Any], list[str]], case: Any) -> Callable[[Any], bool]:
    """Return a function that checks whether a simpler case fails as the original does.

    A query that can't be built, since a column is missing, fails differently.
    """
    was_refused = _is_refused(find(case))

    def fails(simpler_case: Any) -> bool:
        problems = find(simpler_case)
        return bool(problems) and _is_refused(problems) == was_refused

    return fails


def _is_refused(problems: list[str]) -> bool:
    return any("OptionError: " in problem for problem in problems)


def list_stream_passes() -> list[Pass]:
    return [_remove_messages, _remove_aggregates, _merge_steps, _simplify_query, _simplify_messages]


def list_twin_passes() -> list[Pass]:
    return [_remove_twin_messages, _remove_aggregates, _merge_twin_steps, _simplify_query]


def list_passes_for_several(passes: Sequence[Pass]) -> list[Pass]:
    """Return passes for lists of cases: fewer cases, then simpler ones."""

    def simplify_single(simplify: Pass) -> Pass:
        return lambda cases: (
            ([case] for case in simplify(cases[0])) if len(cases) == 1 else iter(())
        )

    return [lambda cases: filter(None, _remove_items(cases)), *map(simplify_single, passes)]


def list_join_passes() -> list[Pass]:
    return [_remove_side_messages, _merge_join_steps, _simplify_join]


def _remove_items(items: Sequence[T]) -> Iterator[list[T]]:
    """Yield the items without some adjacent ones: half of them, then a quarter, then fewer."""
    size = max(1, len(items) // 2)
    while items:
        for start in range(0, len(items), size):
            yield [*items[:start], *items[start + size :]]
        if size == 1:
            return
        size //= 2


def _remove_messages(stream: Stream) -> Iterator[Stream]:
    numbered_messages = [(n, m) for n, step in enumerate(stream.steps) for m in step.messages]
    for remaining in _remove_items(numbered_messages):
        yield replace(stream, steps=_set_messages(stream.steps, remaining))


def _set_messages(steps: list[Batch], numbered_messages: list[tuple[int, Any]]) -> list[Batch]:
    return [
        replace(step, messages=[m for n, m in numbered_messages if n == number])
        for number, step in enumerate(steps)
    ]


def _merge_steps(stream: Stream) -> Iterator[Stream]:
    for steps in _merge_neighbours(stream.steps):
        yield replace(stream, steps=steps)


def _merge_neighbours(steps: list[Batch]) -> Iterator[list[Batch]]:
    """Yield one step fewer: merge two steps at the clock of the second."""
    for number in range(len(steps) - 1):
        first, second = steps[number : number + 2]
        merged = replace(second, messages=[*first.messages, *second.messages])
        yield [*steps[:number], merged, *steps[number + 2 :]]
    if len(steps) > 1 and not steps[-1].messages:
        yield steps[:-1]


def _simplify_messages(stream: Stream) -> Iterator[Stream]:
    """Remove columns that the query doesn't read, then replace cells by a common value."""
    spec = stream.spec
    read_columns = {column for agg in spec.aggregates.values() for column in agg.columns}
    if isinstance(spec.windows, Sessions):
        read_columns |= {*spec.windows.conditions.values(), spec.windows.by}
    needed_columns = read_columns | {*spec.keys, *(spec.offset or ()), spec.time}
    unread_columns = [name for name in spec.types if name not in needed_columns]
    if unread_columns:
        types = {name: kind for name, kind in spec.types.items() if name not in unread_columns}
        steps = [
            replace(
                s,
                messages=[
                    {n: v for n, v in m.items() if n not in unread_columns} for m in s.messages
                ],
            )
            for s in stream.steps
        ]
        yield Stream(replace(spec, types=types), steps)
    common_values = {"value": 1, "amount": 1.0, "flag": True, "name": "x"}
    for step_number, step in enumerate(stream.steps):
        for number, message in enumerate(step.messages):
            for name in common_values.keys() & message.keys():
                if message[name] != common_values[name]:
                    messages = list(step.messages)
                    messages[number] = {**message, name: common_values[name]}
                    steps = list(stream.steps)
                    steps[step_number] = replace(step, messages=messages)
                    yield replace(stream, steps=steps)


def _remove_aggregates(stream: Any) -> Iterator[Any]:
    """Remove aggregates of streams or twins."""
    spec = stream.spec
    for remaining in _remove_items(list(spec.aggregates.items())):
        if remaining:
            yield from _replace_spec(
                stream, lambda remaining=remaining: replace(spec, aggregates=dict(remaining))
            )


def _simplify_query(stream: Any) -> Iterator[Any]:
    spec: WindowSpec = stream.spec
    for firing in _simplify_firing(spec.firing):
        yield from _replace_spec(stream, lambda firing=firing: replace(spec, firing=firing))
    for changes in ({"lateness": 0}, {"max_ahead": None}):
        if any(getattr(spec, name) != value for name, value in changes.items()):
            yield from _replace_spec(stream, lambda changes=changes: replace(spec, **changes))


def _simplify_firing(firing: Firing) -> Iterator[Firing]:
    alternatives: list[dict[str, Any]] = [
        {"early": None},
        {"early": Each()},
        {"late": Each()},
        *({"early": part} for part in parts(firing.early)),
        *({"late": part} for part in parts(firing.late)),
        {"grace": 0},
        {"retention": firing.grace},
        {"rows": None},
        {"accumulate": True},
        {"repeat": True},
        {"fill": None},
    ]
    for changes in alternatives:
        adds_early = changes == {"early": Each()} and firing.early is None
        if not adds_early and any(
            getattr(firing, name) != value for name, value in changes.items()
        ):
            yield replace(firing, **changes)


def _replace_spec(drawn: Any, make: Callable[[], Any]) -> Iterator[Any]:
    try:
        yield replace(drawn, spec=make())
    except OptionError:
        return


def _remove_twin_messages(twins: Twins) -> Iterator[Twins]:
    """Remove the same messages from both twins."""
    messages = [message for step in twins.first for message in step.messages]
    for remaining in _remove_items(messages):
        names = [repr(message) for message in remaining]
        yield replace(
            twins,
            first=_select_messages(twins.first, names),
            second=_select_messages(twins.second, names),
        )


def _select_messages(steps: list[Batch], names: list[str]) -> list[Batch]:
    return [replace(s, messages=[m for m in s.messages if repr(m) in names]) for s in steps]


def _merge_twin_steps(twins: Twins) -> Iterator[Twins]:
    for steps in _merge_neighbours(twins.first):
        yield replace(twins, first=steps)
    for steps in _merge_neighbours(twins.second):
        yield replace(twins, second=steps)


def _remove_side_messages(query: Query) -> Iterator[Query]:
    numbered_messages = [
        (number, side, message)
        for number, step in enumerate(query.steps)
        for side in SIDES
        for message in step.side(side)
    ]
    for remaining in _remove_items(numbered_messages):
        steps = [
            replace(
                step,
                left=[m for n, side, m in remaining if n == number and side == "left"],
                right=[m for n, side, m in remaining if n == number and side == "right"],
            )
            for number, step in enumerate(query.steps)
        ]
        yield replace(query, steps=steps)


def _merge_join_steps(query: Query) -> Iterator[Query]:
    steps = query.steps
    for number in range(len(steps) - 1):
        first, second = steps[number : number + 2]
        merged: JoinBatch = replace(
            second, left=[*first.left, *second.left], right=[*first.right, *second.right]
        )
        yield replace(query, steps=[*steps[:number], merged, *steps[number + 2 :]])
    if len(steps) > 1 and not steps[-1].left and not steps[-1].right:
        yield replace(query, steps=steps[:-1])


def _simplify_join(query: Query) -> Iterator[Query]:
    spec: JoinSpec = query.spec
    for name in SIDES:
        side = spec.side(name)
        sides = [replace(side, firing=f) for f in _simplify_firing(side.firing) if f.early]
        sides += [
            replace(side, **{option: value})
            for option, value in (("lateness", 0), ("max_ahead", None), ("windows", None))
            if getattr(side, option) != value
        ]
        for simpler_side in sides:
            yield from _replace_spec(
                query,
                lambda name=name, simpler_side=simpler_side: spec.with_side(name, simpler_side),
            )
    if spec.layout is not None:
        yield from _replace_spec(query, lambda: replace(spec, layout=None))
    if spec.nulls != "reject":
        yield from _replace_spec(query, lambda: replace(spec, nulls="reject"))
