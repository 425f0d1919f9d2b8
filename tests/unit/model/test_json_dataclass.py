"""Tests that queries are stored in a checkpoint as JSON and read back unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.model import aggregates as a
from muntin.model.aggregates import Aggregate
from muntin.model.bounds import Bound, SessionBound, Together, Within
from muntin.model.cumulating import Cumulating
from muntin.model.days import Days
from muntin.model.joins import HOWS, JoinSpec, Side
from muntin.model.json_dataclass import JsonDataclass, load_value
from muntin.model.kinds import Kind
from muntin.model.months import Months
from muntin.model.policies import Each, Every, EveryRows, Firing, Policy
from muntin.model.recall import load_spec
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows

LENGTHS = st.integers(1, 10**15)
ORIGINS = st.integers(-(10**15), 10**15)
# Names that occur in facts, and names with every separator.
NAMES = st.sampled_from(
    ["a, b", "a", "none", "kind", "key", "type of x", "agg n", "x=y", "it's", 'say "so"', "a\nb",
     "größe", "", " ", "left on", "]", "was a, is b"]
) | st.text(max_size=5)  # fmt: skip
NAMED = NAMES.filter(lambda name: name not in ("window_start", "window_end"))
TYPES = st.dictionaries(NAMES, st.sampled_from(["String", "Int64"]), max_size=3)
POLICY = st.one_of(
    st.just(Each()), LENGTHS.map(EveryRows), st.builds(Every, LENGTHS, st.integers(1, 9))
)
ZONES = st.none() | st.sampled_from(["UTC", "America/New_York"])


def grids(axis: Any) -> st.SearchStrategy[Windows]:
    def make_windows(size: int, slide: int, origin: int) -> Windows:
        return Windows(max(size, slide), min(size, slide), origin, axis)

    return st.builds(make_windows, LENGTHS, LENGTHS, ORIGINS)


def kinds(axis: Any) -> st.SearchStrategy[Kind]:
    strategies: list[st.SearchStrategy[Kind]] = [
        grids(axis),
        st.builds(lambda n, s, o: Cumulating(n * s, s, o, axis), LENGTHS, LENGTHS, ORIGINS),
        st.builds(Sliding, LENGTHS, st.just(axis)),
        st.builds(Sessions, LENGTHS, st.sampled_from(["both", "left"]), st.just(axis)),
    ]
    if axis == "time":
        zones = st.sampled_from(["UTC", "Europe/Berlin"])
        strategies += [
            st.builds(Days, grids("rows"), zones),
            st.builds(Months, grids("rows"), zones),
        ]
    return st.one_of(strategies)


def firings(grace: int, policy: st.SearchStrategy[Any]) -> st.SearchStrategy[Firing]:
    retention = st.integers(grace, 10**15)
    return st.builds(Firing, st.none() | policy, policy, st.just(grace), retention, st.just(True))


AGGREGATES: st.SearchStrategy[Aggregate] = st.one_of(
    st.builds(a.count, st.none() | NAMES),
    st.builds(a.sum, NAMES),
    st.builds(a.arg_max, NAMES, NAMES),
    st.builds(lambda c, q, k: a.quantile(c, q, k=k), NAMES, st.floats(0, 1), st.integers(8, 65535)),
    st.builds(a.top_k, NAMES, st.integers(1, 10_000)),
    st.lists(NAMES, min_size=1, max_size=3).map(lambda names: a.apply(len, *names)),
    NAMES.map(
        lambda name: a.aggregate(name, initializer=int, aggregator=max, merger=max)
    ),
)  # fmt: skip


@st.composite
def queries(draw: Any) -> WindowSpec:
    axis = draw(st.sampled_from(["time", "rows"]))
    offset = draw(st.tuples(NAMED, NAMED)) if axis == "rows" else None
    keys = draw(st.lists(NAMED, unique=True, max_size=3))
    if offset is not None:
        keys = [offset[0], *(key for key in keys if key != offset[0])]
    return WindowSpec(
        tuple(keys),
        draw(NAMES) if axis == "time" else None,
        draw(kinds(axis)),
        draw(st.dictionaries(NAMED.filter(lambda n: n not in keys), AGGREGATES, max_size=4)),
        firing=draw(firings(draw(st.integers(0, 10)), POLICY)),
        lateness=draw(st.integers(0, 10**12)) if axis == "time" else 0,
        max_ahead=draw(st.none() | LENGTHS),
        types=draw(TYPES),
        shards=draw(st.none() | st.integers(1, 500)),
        offset=offset,
        zone=draw(ZONES),
    )


@st.composite
def joins(draw: Any) -> JoinSpec:
    axis = draw(st.sampled_from(["time", "rows"]))
    count = draw(st.integers(1, 3))
    bounds: list[st.SearchStrategy[Bound]] = [st.builds(Within, LENGTHS, LENGTHS, st.just(axis))]
    if axis == "time":
        paned = st.lists(grids("time"), min_size=1, max_size=2).map(tuple)
        bounds += [
            st.builds(Together, paned),
            st.builds(SessionBound, st.builds(Sessions, LENGTHS)),
        ]
    bound = draw(st.one_of(bounds))
    policy = (
        st.just(Each()) if isinstance(bound, SessionBound) else st.just(Each()) | LENGTHS.map(Every)
    )

    def side() -> Side:
        grace = draw(st.integers(0, 9))
        retention = grace if isinstance(bound, SessionBound) else draw(st.integers(grace, 99))
        return Side(
            tuple(draw(st.lists(NAMES, min_size=count, max_size=count))),
            draw(NAMES) if axis == "time" else None,
            draw(st.none() | kinds(axis)),
            firing=Firing(draw(policy), draw(policy), grace, retention),
            lateness=draw(st.integers(0, 10**12)) if axis == "time" else 0,
            max_ahead=draw(st.none() | LENGTHS),
            offset=draw(st.tuples(NAMES, NAMES)) if axis == "rows" else None,
            types=draw(TYPES),
            zone=draw(ZONES),
        )

    layout = draw(st.sampled_from([None, "time"]))
    how, shards = draw(st.sampled_from(HOWS)), draw(st.none() | st.integers(1, 9))
    return JoinSpec(side(), side(), bound, how, layout, shards)


def pass_through_json(value: JsonDataclass) -> Any:
    stored = value.to_dict()
    loaded = json.loads(json.dumps(stored))
    # Facts are compared with those of a manifest, so they must equal what JSON gives back.
    assert loaded == stored
    return loaded


@given(spec=queries() | joins())
def test_a_query_is_read_back_as_it_was(spec: WindowSpec | JoinSpec) -> None:
    loaded = load_spec(pass_through_json(spec))
    assert loaded == spec
    assert type(loaded) is type(spec)
    assert loaded.facts() == spec.facts()
    assert list(loaded.words()) == list(spec.words())
    spec.check_same(pass_through_json(spec))


@given(kind=kinds("time") | kinds("rows"), policy=POLICY)
def test_windows_and_policies_are_read_back(kind: Kind, policy: Any) -> None:
    assert load_value(Kind, pass_through_json(kind)) == kind
    assert load_value(Policy, pass_through_json(policy)) == policy


_FRAME = {"frame": None, "frame_axis": "time"}


def test_the_stored_form_of_a_query() -> None:
    spec = WindowSpec(
        ("k",), "at", Windows(10, 5), {"n": a.arg_max("x", "y, z")}, firing=Firing(Every(7)),
        types={"k": "String"},
    )  # fmt: skip
    agg = {"kind": "arg_max", "column": "x", "by": "y, z"}
    assert spec.to_dict() == {
        "kind": "windows",
        "keys": ["k"],
        "time": "at",
        "windows": {"kind": "hopping", "size": 10, "slide": 5, "origin": 0, "axis": "time"},
        "aggregates": [["n", {**agg, "options": [], "rows": None, **_FRAME}]],
        "firing": {
            "early": {"kind": "wall clock", "period": 7, "least": 1},
            "late": {"kind": "wall clock", "period": 10_000_000, "least": 1},
            "grace": 0,
            "retention": 0,
            "accumulate": True,
            "rows": None,
            "repeat": True,
            "fill": None,
            "over": None,
        },
        "lateness": 0,
        "max_ahead": None,
        "idle": None,
        "watermark": None,
        "clocks": [],
        "sets": None,
        "types": [["k", "String"]],
        "buckets": None,
        "offset": None,
        "zone": None,
        "nulls": "reject",
    }


def test_options_missing_in_old_checkpoints_have_their_defaults() -> None:
    spec = WindowSpec(("k",), "at", Windows(10, 5), {"n": a.count()})
    stored = spec.to_dict()
    del stored["zone"], stored["firing"]["rows"], stored["aggregates"][0][1]["frame"]
    assert WindowSpec.from_dict(stored) == spec


@pytest.mark.parametrize(
    "stored",
    [
        {"kind": "round", "size": 5},
        {"kind": "hopping", "size": 5},
        {"kind": "hopping", "size": "soon", "slide": 5},
        {"kind": "hopping", "size": True, "slide": 1},
        {"kind": "hopping", "size": 5, "slide": 5, "shape": "round"},
        {"size": 5, "slide": 5},
    ],
)
def test_nothing_is_guessed(stored: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError)):
        load_value(Kind, stored)
