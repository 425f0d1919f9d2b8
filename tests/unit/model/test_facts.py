"""Tests that a checkpoint's query is compared by its values, not by their text."""

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
    ("old_options", "new_options", "difference"),
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
    old_options: dict[str, Any], new_options: dict[str, Any], difference: str
) -> None:
    stored = replace(SPEC, **old_options).to_dict()
    replace(SPEC, **old_options).check_same(stored)
    with pytest.raises(SpecChangedError) as refusal:
        replace(SPEC, **new_options).check_same(stored)
    assert difference in str(refusal.value)


def test_an_aggregate_may_have_any_name() -> None:
    names = ("type of k", "agg n", "key", "a, b", "none", "kind", "über uns", "x=y")
    extended = replace(SPEC, aggregates={name: a.count() for name in ("n", *names)})
    extended.check_same(SPEC.to_dict())
    with pytest.raises(SpecChangedError, match="agg type of k: was count"):
        SPEC.check_same(extended.to_dict())


def test_aggregates_before_added_ones_may_not_change_their_order() -> None:
    old_spec = replace(SPEC, aggregates={"a": a.min("v"), "b": a.max("v")})
    new_spec = replace(SPEC, aggregates={"b": a.max("v"), "a": a.min("v"), "n": a.count()})
    with pytest.raises(SpecChangedError, match="agg n: was absent"):
        new_spec.check_same(old_spec.to_dict())


def test_a_join_is_no_aggregation() -> None:
    JOIN.check_same(JOIN.to_dict())
    with pytest.raises(SpecChangedError, match="kind: was join, is windows"):
        SPEC.check_same(JOIN.to_dict())
    with pytest.raises(SpecChangedError, match="kind: was windows, is join"):
        JOIN.check_same(SPEC.to_dict())


def test_sides_of_a_join_are_compared_as_they_are() -> None:
    two_keys, one_key = (replace(SIDE, keys=keys) for keys in (("a", "b"), ("a, b",)))
    with pytest.raises(SpecChangedError, match="left on: was a, b, is 'a, b'; right on: was a, b"):
        replace(JOIN, left=one_key, right=one_key).check_same(
            replace(JOIN, left=two_keys, right=two_keys).to_dict()
        )


def test_two_zones_are_named_where_messages_depend_on_them() -> None:
    new_york, utc = (replace(SPEC, zone=zone) for zone in ("America/New_York", "UTC"))
    with pytest.raises(SpecChangedError, match="zone: was UTC, is America/New_York"):
        new_york.check_same(utc.to_dict())
    for spec in (utc, new_york):
        # The input may change, and with it whether the zone matters.
        SPEC.check_same(spec.to_dict())
        spec.check_same(SPEC.to_dict())
    left, right = (replace(JOIN, right=replace(SIDE, zone=zoned.zone)) for zoned in (utc, new_york))
    with pytest.raises(SpecChangedError, match="right zone: was UTC, is America/New_York"):
        right.check_same(left.to_dict())
    JOIN.check_same(left.to_dict())


@pytest.mark.parametrize(
    ("old_spec", "new_spec", "title"),
    [
        (replace(SPEC, lateness=1), SPEC, "tumbling 1 minute by k"),
        (SPEC, replace(SPEC, keys=()), "tumbling 1 minute"),
        (SPEC, JOIN, "inner join from 5 microseconds before to 5 microseconds after"),
    ],
)
def test_a_refused_query_is_named_by_its_title(old_spec: Any, new_spec: Any, title: str) -> None:
    with pytest.raises(SpecChangedError) as refusal:
        new_spec.check_same(old_spec.to_dict())
    assert f") than {title}; go back to it" in str(refusal.value)
