"""Firings of windows of two sides, cut into steps, for joins that give a pair at each change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st
from tests.join_runners import Columns, JoinBatch
from tests.property.joins import Query

from muntin.model.bounds import Newest, SideName
from muntin.model.joins import HOWS, SIDES, How, JoinSpec, Side
from muntin.model.policies import Each, Firing

ON = ("key", "time")
FIRING = {
    "key": "string",
    "time": "long",
    "value": "long",
    "emission": "string",
    "revision": "long",
}
TYPES: Columns = dict.fromkeys(SIDES, FIRING)
Row = dict[str, Any]
Come = tuple[SideName, Row]


def spec_of(how: How, lateness: int = 0, grace: int = 0, *, shared: bool = False) -> JoinSpec:
    """A join of two windowed results."""
    firing = Firing(Each(), Each(), grace=grace, retention=grace)
    side = Side(ON, "time", firing=firing, lateness=lateness)
    return JoinSpec(side, side, Newest(), how, shared_time=shared)


@st.composite
def revisions(draw: st.DrawFn, side: SideName) -> list[Come]:
    """All firings of a side, those of each window in order."""
    found: list[Come] = []
    for key in "ab":
        for end in (10, 20, 30):
            words = sorted(draw(st.lists(st.sampled_from([0, 0, 1, 2]), max_size=3)))
            named = [("early", "full", "late")[word] for word in words]
            named += ["retract"] if named and draw(st.integers(0, 3)) == 0 else []
            for number, emission in enumerate(named):
                value = None if emission == "retract" else draw(st.integers(0, 9))
                row = {"value": value, "emission": emission, "revision": number}
                found.append((side, {"key": key, "time": end, **row}))
    return found


@st.composite
def comings(draw: st.DrawFn) -> list[Come]:
    """The firings of both sides as they come: in any order."""
    both = [*draw(revisions("left")), *draw(revisions("right"))]
    return draw(st.permutations(both))


@st.composite
def cuts(draw: st.DrawFn, come: Sequence[Come]) -> list[JoinBatch]:
    """What comes, in steps, of which some may be empty."""
    places = sorted(draw(st.lists(st.integers(0, len(come)), max_size=6)))
    parts = [come[a:b] for a, b in zip([0, *places], [*places, len(come)], strict=True)]
    return [
        JoinBatch(*([row for one, row in part if one == side] for side in SIDES), wall=number)
        for number, part in enumerate(parts)
    ]


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """A join at each change and its input, of which something may be late, or have no key."""
    how = draw(st.sampled_from(HOWS[:4]))
    grace, lateness = draw(st.sampled_from([0, 10])), draw(st.sampled_from([0, 10, 50]))
    spec = spec_of(how, lateness, grace, shared=draw(st.booleans()))
    come = draw(comings())
    for _, row in come:
        if draw(st.integers(0, 15)) == 0:
            row["key"] = None
    return Query(spec, TYPES, draw(cuts(come)))


def table_of(emitted: Iterable[Row], on: Sequence[str] = ON) -> dict[tuple[Any, ...], Row]:
    """What a sink that upserts by key and window holds in the end."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in emitted:
        key = tuple(row[name] for name in on)
        if row["revision"] >= found.get(key, row)["revision"]:
            found[key] = row
    return {key: row for key, row in found.items() if row["emission"] != "retract"}
