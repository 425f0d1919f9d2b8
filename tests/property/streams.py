"""Streams of messages, queries over them, and how they are cut into steps.

Times are small numbers of some unit around some base, so that windows, ties and edges meet often.
A message arrives at its time plus a delay. While no delay exceeds the lateness nothing is late;
``any_streams`` lets delays exceed lateness and grace together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from tests.doors import Batch

from muntin.model import aggregates
from muntin.model.policies import Each, Every, EveryRows, Firing
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows

SPAN = 40
UNITS = (1, 7_919, 1_000_000)
BASES = (0, -SPAN, -SPAN // 2, 1_000_000_007)
EXTREMES = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The first and last microsecond that a timestamp can hold: year 1 and year 9999."""

AGGREGATES = {
    "n": aggregates.count(),
    "values": aggregates.count("value"),
    "flags": aggregates.count_if("flag"),
    "sum": aggregates.sum("value"),
    "amount": aggregates.sum("amount"),
    "least": aggregates.min("value"),
    "most": aggregates.max("amount"),
    "mean": aggregates.mean("amount"),
    "variance": aggregates.variance("amount"),
    "stddev": aggregates.stddev("amount"),
    "first": aggregates.first("value"),
    "last": aggregates.last("amount"),
    "low": aggregates.arg_min("value", "amount"),
    "high": aggregates.arg_max("amount", "value"),
    "all": aggregates.bool_and("flag"),
    "some": aggregates.bool_or("flag"),
    "distinct": aggregates.approx_distinct("value"),
    "median": aggregates.quantile("amount", 0.5),
    "p90": aggregates.quantile("amount", 0.9),
}


@dataclass(frozen=True)
class Stream:
    """A query and the steps that it is run through."""

    spec: WindowSpec
    steps: list[Batch]


@dataclass(frozen=True)
class Twins:
    """A query and one set of messages, arranged in two ways."""

    spec: WindowSpec
    one: list[Batch]
    other: list[Batch]


@st.composite
def any_streams(draw: st.DrawFn) -> Stream:
    """Everything at once: late and future messages, nulls, extreme times, every policy."""
    unit, base = draw(st.sampled_from(UNITS)), draw(st.sampled_from(BASES))
    spec = draw(specs(unit))
    extreme = draw(st.integers(0, 9)) == 0
    messages = draw(message_lists(spec, unit, base, extreme=extreme))
    most = spec.lateness + draw(st.sampled_from((0, SPAN * unit, SPAN * unit)))
    arrived = draw(arrivals(messages, most // unit, unit))
    return Stream(spec, draw(splits(arrived, unit, base)))


@st.composite
def twins_in_time(draw: st.DrawFn) -> Twins:
    """One set of messages, none of them late, in two orders and two ways of cutting."""
    unit, base = draw(st.sampled_from(UNITS)), draw(st.sampled_from(BASES))
    spec = draw(specs(unit, in_time=True))
    messages = draw(message_lists(spec, unit, base))
    one, other = (
        draw(splits(draw(arrivals(messages, spec.lateness // unit, unit)), unit, base))
        for _ in range(2)
    )
    return Twins(spec, one, other)


@st.composite
def specs(draw: st.DrawFn, unit: int, in_time: bool = False) -> WindowSpec:
    """Queries; with ``in_time`` such that every firing is the whole result and none is refused."""
    size = draw(st.integers(1, 12))
    slide = draw(st.one_of(st.just(size), st.integers(1, size)))
    few = st.sampled_from((0, 0, 1, 3, 8)).map(lambda n: n * unit)
    grace = draw(few)
    policies = _policies(unit)
    firing = Firing(
        early=draw(st.none() | policies),
        late=draw(policies),
        grace=grace,
        retention=grace + draw(few),
        accumulate=in_time or draw(st.booleans()),
    )
    names = draw(st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, unique=True))
    key = draw(st.sampled_from(("long", "string")))
    kinds = {"value": "long", "amount": "double", "flag": "boolean"}
    return WindowSpec(
        keys=("key",),
        time="time",
        windows=Windows(size * unit, slide * unit, draw(st.integers(0, slide - 1)) * unit),
        aggregates={"n": AGGREGATES["n"]} | {name: AGGREGATES[name] for name in names},
        firing=firing,
        lateness=draw(few),
        max_ahead=None if in_time else draw(st.sampled_from((None, None, 5 * unit, SPAN * unit))),
        types={"key": key} | kinds,
    )


def _policies(unit: int) -> st.SearchStrategy[Any]:
    # Where 99 rows or a great period are waited for, only the end or the close of a window speaks.
    rows = st.sampled_from((1, 2, 3, 99)).map(EveryRows)
    periods = (st.integers(1, 15) | st.just(10**6)).map(lambda n: Every(n * unit))
    return st.one_of(st.just(Each()), rows, periods)


@st.composite
def message_lists(
    draw: st.DrawFn, spec: WindowSpec, unit: int, base: int, extreme: bool = False
) -> list[dict[str, Any]]:
    """Messages in no order; some are there several times."""
    within = st.sampled_from((0, 0, unit // 2, unit - 1))
    slots = st.integers(0, SPAN)
    times = st.builds(lambda slot, rest: (base + slot) * unit + rest, slots, within)
    if extreme:
        times |= st.sampled_from(EXTREMES)
    odd = st.sampled_from((None, None, "no time"))
    messages = st.fixed_dictionaries(
        {
            "key": _mostly(_keys(spec.types["key"]), st.none()),
            "time": _mostly(times, odd),
            "value": _mostly(st.integers(-9, 9), _odd_values()),
            "amount": _mostly(st.integers(-40, 40).map(lambda n: n / 4), st.none()),
            "flag": st.sampled_from((True, False, None)),
        }
    )
    least = draw(st.sampled_from((0, 12)))
    copies = _mostly(st.just(1), st.integers(2, 3))
    drawn = draw(st.lists(st.tuples(messages, copies), min_size=least, max_size=25))
    return [dict(message) for message, times_told in drawn for _ in range(times_told)]


def _mostly(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 11).flatmap(lambda n: odd if n == 11 else usual)


def _keys(kind: str) -> st.SearchStrategy[Any]:
    return st.sampled_from((-1, 0, 2, 10) if kind == "long" else ("", "a", "b", "é"))


def _odd_values() -> st.SearchStrategy[int | None]:
    return st.sampled_from((None, None, None, 2**63 - 1, -(2**63), 2**62))


@st.composite
def arrivals(
    draw: st.DrawFn, messages: list[dict[str, Any]], most: int, unit: int
) -> list[dict[str, Any]]:
    """The messages in an order in which each is at most so many units behind those before it."""
    delays = st.sampled_from((0, 0, most)) | st.integers(0, most)
    arrived = []
    for number, message in enumerate(messages):
        time = message["time"] if isinstance(message["time"], int) else 0
        arrived.append((time + draw(delays) * unit, draw(st.integers(0, 9)), number))
    return [messages[number] for _, _, number in sorted(arrived)]


@st.composite
def splits(draw: st.DrawFn, messages: list[dict[str, Any]], unit: int, base: int) -> list[Batch]:
    """The messages cut into steps, some of them empty, the last one the end of the input."""
    fewest = draw(st.sampled_from((0, 4)))
    places = st.lists(st.integers(0, len(messages)), min_size=fewest, max_size=8)
    cuts = sorted(draw(places))
    wall = (base + draw(st.integers(0, SPAN))) * unit
    steps = []
    for start, end in pairwise([0, *cuts, len(messages)]):
        wall += draw(st.integers(0, 12)) * unit
        steps.append(Batch(messages[start:end], wall))
    return [*steps, Batch(wall=wall + draw(st.integers(0, 12)) * unit, final=True)]
