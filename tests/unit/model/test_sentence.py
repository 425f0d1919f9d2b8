"""The sentence without a DataFrame: what is given twice or without a name is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muntin.model import aggregates
from muntin.model.axis import rows
from muntin.model.errors import OptionError
from muntin.model.policies import Each, Every
from muntin.standalone import join, windowed


def test_each_step_is_given_once() -> None:
    said = windowed(key="k", time="t").late(grace="1 s").early(each=True).tumbling("10 s")
    spec = said.keep("5 s").agg(n=aggregates.count())
    assert (spec.firing.early, spec.firing.grace, spec.firing.retention) == (
        Each(),
        1_000_000,
        5_000_000,
    )


@pytest.mark.parametrize(
    ("step", "again"),
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
def test_what_would_replace_another_is_refused(step: str, again: Callable[[Any], Any]) -> None:
    with pytest.raises(OptionError, match="which it would replace; omit one of the two") as refusal:
        again(windowed(key="k", time="t"))
    assert refusal.value.option == step


def test_what_becomes_of_null_is_one_of_two() -> None:
    with pytest.raises(OptionError, match="nulls='drop' isn't done with NULL keys"):
        windowed(key="k", time="t", nulls="drop")
    said = windowed(key="k", time="t", nulls="group").tumbling("10 s")
    assert said.agg(n=aggregates.count()).nulls == "group"


def test_null_has_no_partner_in_a_join() -> None:
    sides = (windowed(time="t", nulls="group"), windowed(time="t"))
    for left, right in (sides, sides[::-1]):
        with pytest.raises(OptionError, match="nulls='group' isn't done by a join; omit it"):
            join(left, right, on="k", within="1 s")


def test_a_sentence_that_is_begun_may_be_ended_in_two_ways() -> None:
    begun = windowed(key="k", time="t").tumbling("10 s")
    policies = [
        begun.early(each=True).agg(n=aggregates.count()).firing.early,
        begun.early(every="1 s").agg(n=aggregates.count()).firing.early,
    ]
    assert policies == [Each(), Every(1_000_000)]


@pytest.mark.parametrize(
    ("option", "begin"),
    [
        ("agg", lambda: windowed(time="t").tumbling("1 s").agg(aggregates.count())),
        ("agg", lambda: windowed(time="t").tumbling("1 s").agg(n="count")),
        ("time", lambda: windowed(time=5)),
        ("offset", lambda: windowed(time="t", offset=("p", 5))),
    ],
)
def test_names_are_asked_for(option: str, begin: Callable[[], Any]) -> None:
    with pytest.raises(OptionError, match=r"name|aggregate") as refusal:
        begin()
    assert refusal.value.option == option
