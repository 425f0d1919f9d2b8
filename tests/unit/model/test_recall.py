"""Tests that a query is read back from its checkpoint."""

from __future__ import annotations

import re

import pytest

from muntin.model import aggregates as a
from muntin.model.axis import rows
from muntin.model.errors import OptionError
from muntin.model.policies import Each, Every, EveryRows, Firing
from muntin.model.recall import load_spec, with_functions
from muntin.model.sessions import make_sessions
from muntin.model.spec import WindowSpec
from muntin.model.windows import hopping

ALL = {
    "n": a.count(),
    "n_v": a.count("v"),
    "if": a.count_if("flag"),
    "odd, name": a.sum("a, b"),
    "pair": a.arg_max("x", "y, z"),
    "least": a.min("v"),
    "most": a.max("v"),
    "mean": a.mean("v"),
    "var": a.variance("v"),
    "dev": a.stddev("v"),
    "one": a.first("v"),
    "other": a.last("v"),
    "low": a.arg_min("v", "w"),
    "high": a.arg_max("v", "w"),
    "all": a.bool_and("flag"),
    "any": a.bool_or("flag"),
    "about": a.approx_distinct("v", lg_k=9),
    "p": a.quantile("v", 0.95, k=64),
    "top": a.top_k("v", 3),
    "mid": a.median("v"),
    "exact": a.exact_quantile("v", 0.1),
    "list": a.collect_list("v"),
    "set": a.distinct("v"),
}
FIRINGS = [
    Firing(),
    Firing(EveryRows(7), Each(), 5_000_000, 60_000_000, accumulate=False, rows=1000),
    Firing(Every(250_000), Every(1_500_000), 1, 1),
]


def make_spec(firing: Firing, **changes: object) -> WindowSpec:
    options = {
        "keys": ("k", "l"),
        "time": "ts",
        "windows": hopping("1 hour", "7 minutes", origin=5),
        "aggregates": ALL,
        "firing": firing,
        "lateness": 30_000_000,
        "types": {"k": "String", "l": "Int64", "v": "Float64"},
        "shards": 8,
    }
    return WindowSpec(**(options | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("firing", FIRINGS)
def test_a_whole_query_is_read_back(firing: Firing) -> None:
    spec = make_spec(firing)
    assert load_spec(spec.to_dict()) == spec


def test_sessions_and_rows() -> None:
    for windows, changes in (
        (make_sessions("10 minutes", closed="left"), {}),
        (hopping(rows(6), rows(4)), {"keys": ("part",), "offset": ("part", "o"), "lateness": 0}),
    ):
        spec = make_spec(Firing(), windows=windows, **changes)
        assert load_spec(spec.to_dict()) == spec


def make_functions() -> dict[str, a.Aggregate]:
    return {
        "mine": a.aggregate(
            "v", initializer=int, aggregator=lambda s, v: s + v, merger=lambda s, t: s + t
        ),
        "rows": a.apply(len, "v", "w", result_type="long"),
    }


def test_functions_are_added_to_a_stored_query() -> None:
    spec = make_spec(Firing(), aggregates=make_functions())
    spec_with_functions = with_functions(spec, make_functions())
    assert spec_with_functions == spec
    assert spec_with_functions.aggregates["rows"].rows is not None
    assert spec_with_functions.aggregates["mine"].functions is not None


@pytest.mark.parametrize(
    ("functions", "problem"),
    [
        ({}, "aggregates='mine' is computed by a function"),
        ({"mine": a.aggregate("v", initializer=int, aggregator=max, merger=max,
                              state_type="long")}, "was user(v, state_type=double"),
    ],
)  # fmt: skip
def test_functions_of_another_query_are_refused(
    functions: dict[str, a.Aggregate], problem: str
) -> None:
    spec = make_spec(Firing(), aggregates=make_functions())
    with pytest.raises(OptionError, match=re.escape(problem)):
        with_functions(spec, functions)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "mystery"},
        {"windows": {"kind": "round"}},
        {"windows": None},
        {"aggregates": [["x", {"kind": "sum", "colour": "red"}]]},
        {"keys": 7},
        {"firing": {"late": "soon"}},
        {"lateness": "1 minute"},
        {"shape": "round"},
    ],
)
def test_queries_of_another_version_are_refused(changes: dict[str, object]) -> None:
    stored = make_spec(Firing(), aggregates={"x": a.count()}).to_dict() | changes
    with pytest.raises(OptionError, match="use the muntin that wrote the checkpoint"):
        load_spec(stored)
