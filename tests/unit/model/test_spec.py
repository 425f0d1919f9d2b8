from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from muntin.model import aggregates
from muntin.model.axis import SECOND
from muntin.model.errors import OptionError, SpecChangedError
from muntin.model.policies import Each, Firing
from muntin.model.spec import WindowSpec
from muntin.model.windows import hopping, tumbling

SPEC = WindowSpec(
    keys=("region", "key"),
    time="time",
    windows=tumbling("10 s"),
    aggregates={"n": aggregates.count(), "sum": aggregates.sum("value")},
    firing=Firing(late=Each(), grace=SECOND, retention=2 * SECOND),
    lateness=5 * SECOND,
    types={"value": "long", "key": "string"},
)


def test_facts() -> None:
    assert SPEC.facts() == {
        "key": "region, key",
        "time": "time",
        "windows": "tumbling 10 seconds, origin 0 us",
        "early": "never",
        "late": "each message",
        "grace": "1 second",
        "keep": "2 seconds",
        "accumulate": "True",
        "lateness": "5 seconds",
        "agg n": "count()",
        "agg sum": "sum(value)",
        "type of key": "string",
        "type of value": "long",
    }


def test_a_spec_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        SPEC.lateness = 0


def test_the_same_spec_goes_on() -> None:
    SPEC.check_same(SPEC.dumps())


def test_what_state_does_not_depend_on_may_change() -> None:
    replace(SPEC, max_ahead=SECOND).check_same(SPEC.dumps())


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"windows": hopping("10 s", "5 s")}, "windows: was tumbling 10 seconds"),
        ({"lateness": 0}, "lateness: was 5 seconds, is 0 seconds"),
        ({"keys": ("key", "region")}, "key: was region, key, is key, region"),
        ({"aggregates": {"n": aggregates.count()}}, r"agg sum: was sum\(value\), is absent"),
        ({"types": {"value": "double"}}, "type of value: was long, is double"),
        ({"firing": Firing(accumulate=False)}, "accumulate: was True, is False"),
    ],
)
def test_a_changed_spec_is_refused(changes: dict[str, Any], difference: str) -> None:
    with pytest.raises(SpecChangedError, match=difference):
        replace(SPEC, **changes).check_same(SPEC.dumps())


def test_keeping_less_than_the_grace() -> None:
    with pytest.raises(OptionError, match="keep='1 second' is below the grace 2 seconds"):
        replace(SPEC, firing=Firing(grace=2 * SECOND, retention=SECOND))


@pytest.mark.parametrize("name", ["key", "window_start", "window_end", "emission", "revision"])
def test_an_aggregate_named_like_another_column(name: str) -> None:
    with pytest.raises(OptionError, match="is a column of the output already"):
        replace(SPEC, aggregates={name: aggregates.count()})
