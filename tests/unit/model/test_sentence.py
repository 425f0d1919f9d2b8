"""Tests of queries without a DataFrame: repeated steps and missing names are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muntin.model import aggregates
from muntin.model.axis import rows
from muntin.model.errors import OptionError
from muntin.model.policies import Each, Every
from muntin.standalone import join, windowed


def test_steps_may_come_in_any_order() -> None:
    windows = windowed(key="k", time="t").late(grace="1 s").early(each=True).tumbling("10 s")
    spec = windows.keep("5 s").agg(n=aggregates.count())
    assert (spec.firing.early, spec.firing.grace, spec.firing.retention) == (
        Each(),
        1_000_000,
        5_000_000,
    )


@pytest.mark.parametrize(
    ("step", "repeat_step"),
    [
        ("early", lambda w: w.early(each=True).early(every="1 s")),
        ("early", lambda w: w.early(each=True).late(grace="1 s").early(each=True)),
        ("late", lambda w: w.late(grace="1 s").late(grace="2 s", each=True)),
        ("keep", lambda w: w.keep("1 s").keep("2 s", rows=3)),
        ("windows", lambda w: w.tumbling("10 s").hopping("10 s", "5 s")),
        ("windows", lambda w: w.tumbling("1 day", zone="Europe/Berlin").tumbling("1 day")),
        ("windows", lambda w: w.cumulating("10 s", "5 s").sliding("5 s")),
        ("windows", lambda w: w.session("5 s").session("5 s")),
        ("windows", lambda w: w.sliding(rows(3)).hopping("1 day", "1 day", zone="Europe/Berlin")),
    ],
)
def test_a_repeated_step_is_refused(step: str, repeat_step: Callable[[Any], Any]) -> None:
    with pytest.raises(OptionError, match="which it would replace; omit one of the two") as refusal:
        repeat_step(windowed(key="k", time="t"))
    assert refusal.value.option == step


def test_nulls_are_rejected_or_grouped() -> None:
    with pytest.raises(OptionError, match="nulls='drop' isn't a treatment of NULL keys"):
        windowed(key="k", time="t", nulls="drop")
    windows = windowed(key="k", time="t", nulls="group").tumbling("10 s")
    assert windows.agg(n=aggregates.count()).nulls == "group"


def test_null_has_no_partner_in_a_join() -> None:
    sides = (windowed(time="t", nulls="group"), windowed(time="t"))
    for left, right in (sides, sides[::-1]):
        with pytest.raises(OptionError, match="nulls='group' isn't supported by joins; omit it"):
            join(left, right, on="k", within="1 s")


def test_a_prefix_may_be_continued_in_two_ways() -> None:
    windows = windowed(key="k", time="t").tumbling("10 s")
    policies = [
        windows.early(each=True).agg(n=aggregates.count()).firing.early,
        windows.early(every="1 s").agg(n=aggregates.count()).firing.early,
    ]
    assert policies == [Each(), Every(1_000_000)]


@pytest.mark.parametrize(
    ("option", "build_query"),
    [
        ("agg", lambda: windowed(time="t").tumbling("1 s").agg(aggregates.count())),
        ("agg", lambda: windowed(time="t").tumbling("1 s").agg(n="count")),
        ("time", lambda: windowed(time=5)),
        ("offset", lambda: windowed(time="t", offset=("p", 5))),
    ],
)
def test_missing_names_are_refused(option: str, build_query: Callable[[], Any]) -> None:
    with pytest.raises(OptionError, match=r"name|aggregate") as refusal:
        build_query()
    assert refusal.value.option == option


def test_sets_of_keys_are_numbered() -> None:
    windows = windowed(key=["a", "b"], time="t").tumbling("10 s")
    spec = windows.sets(["b"], []).agg(n=aggregates.count())
    assert (spec.keys, spec.sets) == (("a", "b", "grouping_id"), (2, 3))
    assert (spec.key_columns, spec.facts()["sets"].words) == (("a", "b"), "(b), ()")
    assert type(spec).from_dict(spec.to_dict()) == spec
    assert windows.sets("rollup").agg(n=aggregates.count()).differences(spec) == [
        "sets: was (b), (), is (a, b), (a), ()"
    ]


@pytest.mark.parametrize(
    ("add_sets", "problem"),
    [
        (lambda w: w.sets("all"), "aren't sets of key columns"),
        (lambda w: w.sets("a", "b"), "aren't sets of key columns"),
        (lambda w: w.sets(), "aren't sets of key columns"),
        (lambda w: w.sets(["c"]), "isn't a key column"),
        (lambda w: w.sets(["a"], ["a"]), "is listed twice"),
        (lambda w: w.sets("cube").sets("rollup"), "comes after another"),
        (lambda w: windowed(time="t").sets("cube").tumbling("1 s"), "needs key columns"),
        (lambda w: windowed(key="a", time="t").sets("cube").session("1 s"), "are others for each"),
        (lambda w: windowed(key="a").sets("cube").tumbling(rows(3)), "are others for each"),
        (
            lambda w: windowed(key=list("abcdefg"), time="t").sets("cube").tumbling("1 s"),
            "would be 128 sets",
        ),
    ],
)
def test_invalid_sets_are_refused(add_sets: Callable[[Any], Any], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        add_sets(windowed(key=["a", "b"], time="t").tumbling("10 s")).agg(n=aggregates.count())
