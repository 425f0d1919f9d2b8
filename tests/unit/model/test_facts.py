"""A query that isn't the checkpoint's is refused by what it is, not by how that reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muntin.model import aggregates as a
from muntin.model.bounds import Within
from muntin.model.errors import SpecChangedError
from muntin.model.joins import JoinSpec, Side
from muntin.model.spec import WindowSpec
from muntin.model.windows import tumbling

SPEC = WindowSpec(("k",), "at", tumbling("1 minute"), {"n": a.count()}, types={"k": "String"})
SIDE = Side(("k",), "at")
JOIN = JoinSpec(SIDE, SIDE, Within(5, 5))


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        ({"keys": ("a, b",)}, {"keys": ("a", "b")}, "key: was 'a, b', is a, b)"),
        ({"keys": ("a", "b")}, {"keys": ("a, b",)}, "key: was a, b, is 'a, b')"),
        ({"keys": ()}, {"keys": ("",)}, "key: was , is '')"),
        ({"time": "none"}, {"time": "at"}, "time: was 'none', is at)"),
        ({"keys": ("a\nb",)}, {"keys": ("a", "b")}, r"key: was 'a\nb', is a, b)"),
        ({"keys": ("it's",)}, {"keys": ("größe",)}, """key: was "it's", is größe)"""),
        (
            {"aggregates": {"m": a.arg_max("x", "y, z")}},
            {"aggregates": {"m": a.arg_max("x, y", "z")}},
            "agg m: was arg_max(x, 'y, z'), is arg_max('x, y', z))",
        ),
        (
            {"aggregates": {"m": a.quantile("x", 0.5)}},
            {"aggregates": {"m": a.sum("x, q=0.5, k=200")}},
            "agg m: was quantile(x, q=0.5, k=200), is sum('x, q=0.5, k=200'))",
        ),
        (
            {"types": {"type of x": "String"}},
            {"types": {"x": "String"}},
            "(type of type of x: was String, is absent)",
        ),
        (
            {"aggregates": {"a": a.min("v"), "b": a.max("v")}},
            {"aggregates": {"b": a.max("v"), "a": a.min("v")}},
            "order of aggregates: was a, b, is b, a)",
        ),
    ],
)
def test_names_are_compared_as_they_are(
    then: dict[str, Any], now: dict[str, Any], said: str
) -> None:
    stored = replace(SPEC, **then).to_dict()
    replace(SPEC, **then).check_same(stored)
    with pytest.raises(SpecChangedError) as refusal:
        replace(SPEC, **now).check_same(stored)
    assert said in str(refusal.value)


def test_an_aggregate_may_have_any_name() -> None:
    names = ("type of k", "agg n", "key", "a, b", "none", "kind", "über uns", "x=y")
    more = replace(SPEC, aggregates={name: a.count() for name in ("n", *names)})
    more.check_same(SPEC.to_dict())
    with pytest.raises(SpecChangedError, match="agg type of k: was count"):
        SPEC.check_same(more.to_dict())


def test_aggregates_behind_others_may_not_change_places_either() -> None:
    then = replace(SPEC, aggregates={"a": a.min("v"), "b": a.max("v")})
    now = replace(SPEC, aggregates={"b": a.max("v"), "a": a.min("v"), "n": a.count()})
    with pytest.raises(SpecChangedError, match="agg n: was absent"):
        now.check_same(then.to_dict())


def test_a_join_is_no_aggregation() -> None:
    JOIN.check_same(JOIN.to_dict())
    with pytest.raises(SpecChangedError, match="kind: was join, is windows"):
        SPEC.check_same(JOIN.to_dict())
    with pytest.raises(SpecChangedError, match="kind: was windows, is join"):
        JOIN.check_same(SPEC.to_dict())


def test_sides_of_a_join_are_compared_as_they_are() -> None:
    two, one = (replace(SIDE, keys=keys) for keys in (("a", "b"), ("a, b",)))
    with pytest.raises(SpecChangedError, match="left on: was a, b, is 'a, b'; right on: was a, b"):
        replace(JOIN, left=one, right=one).check_same(replace(JOIN, left=two, right=two).to_dict())


def test_two_zones_are_named_where_messages_depend_on_them() -> None:
    there, here = (replace(SPEC, zone=zone) for zone in ("America/New_York", "UTC"))
    with pytest.raises(SpecChangedError, match="zone: was UTC, is America/New_York"):
        there.check_same(here.to_dict())
    for idle in (here, there):
        # What the messages are made of may change, and with it whether a zone matters.
        SPEC.check_same(idle.to_dict())
        idle.check_same(SPEC.to_dict())
    left, right = (replace(JOIN, right=replace(SIDE, zone=one.zone)) for one in (here, there))
    with pytest.raises(SpecChangedError, match="right zone: was UTC, is America/New_York"):
        right.check_same(left.to_dict())
    JOIN.check_same(left.to_dict())


@pytest.mark.parametrize(
    ("then", "now", "than"),
    [
        (replace(SPEC, lateness=1), SPEC, "tumbling 1 minute by k"),
        (SPEC, replace(SPEC, keys=()), "tumbling 1 minute"),
        (SPEC, JOIN, "inner join from 5 microseconds before to 5 microseconds after"),
    ],
)
def test_what_is_refused_is_named_among_others_of_a_chain(then: Any, now: Any, than: str) -> None:
    with pytest.raises(SpecChangedError) as refusal:
        now.check_same(then.to_dict())
    assert f") than {than}; go back to it" in str(refusal.value)
