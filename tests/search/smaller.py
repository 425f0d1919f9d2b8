"""How a case that is wrong is made small: piece by piece is left out while it stays wrong."""

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


def smallest(
    case: T, passes: Sequence[Callable[[T], Iterator[T]]], wrong: Callable[[T], bool]
) -> T:
    """The case with all left out that can be.

    Args:
        case: What is wrong.
        passes: Each gives cases that are simpler in one way, those first that leave out much.
        wrong: Whether a case is wrong still.
    """
    before = None
    while before is not case:
        before = case
        for simpler in passes:
            while (found := next(filter(wrong, simpler(case)), None)) is not None:
                case = found
    return case


@dataclass
class Tries:
    """Whether cases are wrong, as long as there are tries left."""

    wrong: Callable[[Any], bool]
    left: int

    def __call__(self, case: Any) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        return self.wrong(case)


def fails_alike(find: Callable[[Any], list[str]], case: Any) -> Callable[[Any], bool]:
    """Whether a simpler case is wrong as the case is.

    A query that can't be built, since a column is left out, is wrong in a way of its own.
    """
    refused = _is_refused(find(case))

    def fails(simpler: Any) -> bool:
        problems = find(simpler)
        return bool(problems) and _is_refused(problems) == refused

    return fails


def _is_refused(problems: list[str]) -> bool:
    return any("OptionError: " in problem for problem in problems)


def of_streams() -> list[Pass]:
    return [_fewer_messages, _fewer_aggregates, _merged_steps, _simpler_queries, _plainer_messages]


def of_twins() -> list[Pass]:
    return [_fewer_twins, _fewer_aggregates, _merged_twins, _simpler_queries]


def of_several(passes: Sequence[Pass]) -> list[Pass]:
    """Of lists of cases: fewer of them, then simpler ones."""

    def each(simpler: Pass) -> Pass:
        return lambda cases: ([case] for case in simpler(cases[0])) if len(cases) == 1 else iter(())

    return [lambda cases: filter(None, _without(cases)), *map(each, passes)]


def of_joins() -> list[Pass]:
    return [_fewer_of_sides, _merged_joins, _simpler_joins]


def _without(items: Sequence[T]) -> Iterator[list[T]]:
    """The items without some that stand together: half of them, then a quarter, then fewer."""
    size = max(1, len(items) // 2)
    while items:
        for start in range(0, len(items), size):
            yield [*items[:start], *items[start + size :]]
        if size == 1:
            return
        size //= 2


def _fewer_messages(stream: Stream) -> Iterator[Stream]:
    placed = [(n, m) for n, step in enumerate(stream.steps) for m in step.messages]
    for kept in _without(placed):
        yield replace(stream, steps=_put(stream.steps, kept))


def _put(steps: list[Batch], kept: list[tuple[int, Any]]) -> list[Batch]:
    return [
        replace(step, messages=[m for n, m in kept if n == number])
        for number, step in enumerate(steps)
    ]


def _merged_steps(stream: Stream) -> Iterator[Stream]:
    for steps in _merged(stream.steps):
        yield replace(stream, steps=steps)


def _merged(steps: list[Batch]) -> Iterator[list[Batch]]:
    """One step fewer: two of them as one, at the clock of the second."""
    for number in range(len(steps) - 1):
        one, other = steps[number : number + 2]
        both = replace(other, messages=[*one.messages, *other.messages])
        yield [*steps[:number], both, *steps[number + 2 :]]
    if len(steps) > 1 and not steps[-1].messages:
        yield steps[:-1]


def _plainer_messages(stream: Stream) -> Iterator[Stream]:
    """Columns that nobody reads left out, then cells as those of others."""
    spec = stream.spec
    read = {column for agg in spec.aggregates.values() for column in agg.columns}
    if isinstance(spec.windows, Sessions):
        read |= {*spec.windows.conditions.values(), spec.windows.by}
    needed = read | {*spec.keys, *(spec.offset or ()), spec.time}
    idle = [name for name in spec.types if name not in needed]
    if idle:
        types = {name: kind for name, kind in spec.types.items() if name not in idle}
        steps = [
            replace(s, messages=[{n: v for n, v in m.items() if n not in idle} for m in s.messages])
            for s in stream.steps
        ]
        yield Stream(replace(spec, types=types), steps)
    plain = {"value": 1, "amount": 1.0, "flag": True, "name": "x"}
    for at, step in enumerate(stream.steps):
        for number, message in enumerate(step.messages):
            for name in plain.keys() & message.keys():
                if message[name] != plain[name]:
                    messages = list(step.messages)
                    messages[number] = {**message, name: plain[name]}
                    steps = list(stream.steps)
                    steps[at] = replace(step, messages=messages)
                    yield replace(stream, steps=steps)


def _fewer_aggregates(stream: Any) -> Iterator[Any]:
    """Of streams and of twins."""
    spec = stream.spec
    for kept in _without(list(spec.aggregates.items())):
        if kept:
            yield from _possible(stream, lambda kept=kept: replace(spec, aggregates=dict(kept)))


def _simpler_queries(stream: Any) -> Iterator[Any]:
    spec: WindowSpec = stream.spec
    for firing in _simpler_firings(spec.firing):
        yield from _possible(stream, lambda firing=firing: replace(spec, firing=firing))
    for changes in ({"lateness": 0}, {"max_ahead": None}):
        if any(getattr(spec, name) != value for name, value in changes.items()):
            yield from _possible(stream, lambda changes=changes: replace(spec, **changes))


def _simpler_firings(firing: Firing) -> Iterator[Firing]:
    simpler: list[dict[str, Any]] = [
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
    for changes in simpler:
        asked = changes == {"early": Each()} and firing.early is None
        if not asked and any(getattr(firing, name) != value for name, value in changes.items()):
            yield replace(firing, **changes)


def _possible(drawn: Any, make: Callable[[], Any]) -> Iterator[Any]:
    try:
        yield replace(drawn, spec=make())
    except OptionError:
        return


def _fewer_twins(twins: Twins) -> Iterator[Twins]:
    """The same messages left out on both sides."""
    messages = [message for step in twins.one for message in step.messages]
    for kept in _without(messages):
        names = [repr(message) for message in kept]
        yield replace(twins, one=_only(twins.one, names), other=_only(twins.other, names))


def _only(steps: list[Batch], names: list[str]) -> list[Batch]:
    return [replace(s, messages=[m for m in s.messages if repr(m) in names]) for s in steps]


def _merged_twins(twins: Twins) -> Iterator[Twins]:
    for steps in _merged(twins.one):
        yield replace(twins, one=steps)
    for steps in _merged(twins.other):
        yield replace(twins, other=steps)


def _fewer_of_sides(query: Query) -> Iterator[Query]:
    placed = [
        (number, side, message)
        for number, step in enumerate(query.steps)
        for side in SIDES
        for message in step.side(side)
    ]
    for kept in _without(placed):
        steps = [
            replace(
                step,
                left=[m for n, side, m in kept if n == number and side == "left"],
                right=[m for n, side, m in kept if n == number and side == "right"],
            )
            for number, step in enumerate(query.steps)
        ]
        yield replace(query, steps=steps)


def _merged_joins(query: Query) -> Iterator[Query]:
    steps = query.steps
    for number in range(len(steps) - 1):
        one, other = steps[number : number + 2]
        both: JoinBatch = replace(
            other, left=[*one.left, *other.left], right=[*one.right, *other.right]
        )
        yield replace(query, steps=[*steps[:number], both, *steps[number + 2 :]])
    if len(steps) > 1 and not steps[-1].left and not steps[-1].right:
        yield replace(query, steps=steps[:-1])


def _simpler_joins(query: Query) -> Iterator[Query]:
    spec: JoinSpec = query.spec
    for name in SIDES:
        side = spec.side(name)
        sides = [replace(side, firing=f) for f in _simpler_firings(side.firing) if f.early]
        sides += [
            replace(side, **{option: value})
            for option, value in (("lateness", 0), ("max_ahead", None), ("windows", None))
            if getattr(side, option) != value
        ]
        for simpler in sides:
            yield from _possible(
                query, lambda name=name, simpler=simpler: spec.with_side(name, simpler)
            )
    if spec.layout is not None:
        yield from _possible(query, lambda: replace(spec, layout=None))
    if spec.nulls != "reject":
        yield from _possible(query, lambda: replace(spec, nulls="reject"))
