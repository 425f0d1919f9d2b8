"""Draws firings of windows of two sides, in steps, for joins that emit a pair at each change."""

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
Arrival = tuple[SideName, Row]


def make_spec(how: How, lateness: int = 0, grace: int = 0, *, shared: bool = False) -> JoinSpec:
    """Return the spec of a join of two windowed results."""
    firing = Firing(Each(), Each(), grace=grace, retention=grace)
    side = Side(ON, "time", firing=firing, lateness=lateness)
    return JoinSpec(side, side, Newest(), how, shared_time=shared)


@st.composite
def revisions(draw: st.DrawFn, side: SideName) -> list[Arrival]:
    """Draw all firings of a side, those of each window in order."""
    arrivals: list[Arrival] = []
    for key in "ab":
        for end in (10, 20, 30):
            ranks = sorted(draw(st.lists(st.sampled_from([0, 0, 1, 2]), max_size=3)))
            emissions = [("early", "full", "late")[rank] for rank in ranks]
            emissions += ["retract"] if emissions and draw(st.integers(0, 3)) == 0 else []
            for number, emission in enumerate(emissions):
                value = None if emission == "retract" else draw(st.integers(0, 9))
                row = {"value": value, "emission": emission, "revision": number}
                arrivals.append((side, {"key": key, "time": end, **row}))
    return arrivals


@st.composite
def arrival_lists(draw: st.DrawFn) -> list[Arrival]:
    """Draw the firings of both sides, in any order."""
    arrivals = [*draw(revisions("left")), *draw(revisions("right"))]
    return draw(st.permutations(arrivals))


@st.composite
def cuts(draw: st.DrawFn, arrivals: Sequence[Arrival]) -> list[JoinBatch]:
    """Draw a division of firings into steps, some of which may be empty."""
    positions = sorted(draw(st.lists(st.integers(0, len(arrivals)), max_size=6)))
    parts = [
        arrivals[a:b] for a, b in zip([0, *positions], [*positions, len(arrivals)], strict=True)
    ]
    return [
        JoinBatch(
            *([row for arrival_side, row in part if arrival_side == side] for side in SIDES),
            wall=number,
        )
        for number, part in enumerate(parts)
    ]


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """Draw a join at each change and its input; some rows may be late, or lack a key."""
    how = draw(st.sampled_from(HOWS[:4]))
    grace, lateness = draw(st.sampled_from([0, 10])), draw(st.sampled_from([0, 10, 50]))
    spec = make_spec(how, lateness, grace, shared=draw(st.booleans()))
    arrivals = draw(arrival_lists())
    for _, row in arrivals:
        if draw(st.integers(0, 15)) == 0:
            row["key"] = None
    return Query(spec, TYPES, draw(cuts(arrivals)))


def upsert_rows(rows: Iterable[Row], on: Sequence[str] = ON) -> dict[tuple[Any, ...], Row]:
    """Return the final rows of a sink that upserts by key and window."""
    newest: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in on)
        if row["revision"] >= newest.get(key, row)["revision"]:
            newest[key] = row
    return {key: row for key, row in newest.items() if row["emission"] != "retract"}
