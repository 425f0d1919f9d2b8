from __future__ import annotations

from typing import Any

import pytest

from muntin.model.axis import MINUTE, SECOND
from muntin.model.errors import OptionError
from muntin.model.inputs import InputSpec
from muntin.model.policies import (
    After,
    Each,
    Every,
    EveryRows,
    Firing,
    FirstThen,
    Never,
    Policy,
    RowsOrEvery,
    When,
    ages_of,
    policy,
)


@pytest.mark.parametrize(
    ("arguments", "expected", "text"),
    [
        ((True, None, None), Each(), "each message"),
        ((False, 3, None), EveryRows(3), "every 3 rows"),
        ((False, None, "1 minute"), Every(MINUTE), "every 1 minute of wall clock"),
        (
            (False, 3, "1 minute"),
            RowsOrEvery(3, MINUTE),
            "every 3 rows or every 1 minute of wall clock",
        ),
        (
            (False, None, "1 minute", 3),
            Every(MINUTE, 3),
            "every 1 minute of wall clock with at least 3 rows",
        ),
        (
            (False, 1, None, None, None, {"every": "1 minute"}),
            FirstThen(EveryRows(1), Every(MINUTE)),
            "first every 1 rows, then every 1 minute of wall clock",
        ),
        (
            (False, 2, None, None, None, "never"),
            FirstThen(EveryRows(2), Never()),
            "first every 2 rows, then never",
        ),
        (
            (False, None, None, None, None, None, "1 minute"),
            After(MINUTE),
            "1 minute after the first new message",
        ),
        (
            (False, 3, None, None, None, {"after": "1 s", "since": "last"}, "1 minute", "last"),
            FirstThen(After(MINUTE, "last", 3), After(SECOND, "last")),
            "first every 3 rows or 1 minute after the last new message, then 1 second after the "
            "last new message",
        ),
    ],
)
def test_a_policy(arguments: tuple[Any, ...], expected: Policy, text: str) -> None:
    parsed = policy("early", *arguments)
    assert parsed == expected
    assert str(parsed) == text


@pytest.mark.parametrize(
    "arguments", [(False, None, None), (True, 3, None), (True, None, "1 s"), (True, 3, "1 s")]
)
def test_no_policy_or_more_than_each_message(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(OptionError, match=r"rows=N, every=DURATION or both, whichever"):
        policy("late", *arguments)


@pytest.mark.parametrize(
    ("then", "problem"),
    [
        ({}, "then=False asks for no policy"),
        ({"each": True, "rows": 2}, "then=.* asks for each message and for more"),
        ({"rows": 0}, "rows=0 is less than one row"),
        ({"soon": True}, r"isn't a policy; .*then=\{.every.: .1 minute.\}"),
        ({"rows": 1, "then": {"rows": 2}}, "isn't a policy"),
        ("each", "then='each' isn't a policy"),
    ],
)
def test_policies_that_cannot_come_second(then: Any, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        policy("early", each=True, then=then)


def test_a_policy_with_a_second_one_is_stored_and_read_back() -> None:
    firing = Firing(
        early=FirstThen(Each(), Every(MINUTE, 2)), late=FirstThen(When("n > 2"), Each())
    )
    assert Firing.from_dict(firing.to_dict()) == firing


@pytest.mark.parametrize("rows", [0, -1])
def test_less_than_a_row(rows: int) -> None:
    with pytest.raises(OptionError, match="less than one row"):
        policy("early", False, rows, None)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((True, None, None, 3), "only works with every="),
        ((False, 5, None, 3), "only works with every="),
        ((False, 5, "1 s", 3), "without rows=N"),
        ((False, None, "1 s", 0), "at_least=0 is less than one row"),
    ],
)
def test_at_least_goes_with_the_clock_alone(arguments: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        policy("early", *arguments)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"since": "last"}, "since='last' says from when.*after=DURATION"),
        ({"after": "1 s", "since": "middle"}, "since='middle' is no message"),
        ({"after": "1 s", "every": "1 s"}, "after='1 s' is a clock beside another"),
        ({"after": "1 s", "rows": 2, "at_least": 2}, "after='1 s' is a clock beside another"),
        ({"after": "0 s"}, "after='0 s' is zero"),
        ({"after": "1 s", "each": True}, "asks for each message and for more"),
        ({"after": "1 s", "when": "n > 2"}, "can't be combined with other triggers"),
        ({"after": "1 s", "rows": 0}, "less than one row"),
    ],
)
def test_options_that_after_cannot_be_combined_with(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        policy("early", **options)


def test_ages_are_compared_at_every_tenth_of_the_wait() -> None:
    assert (After(MINUTE).period, After(5, "last").period) == (6 * SECOND, 1)
    assert ages_of(FirstThen(After(9, "last"), After(9)), Every(9)) == ["first", "last"]


def test_a_period_of_zero_is_refused() -> None:
    with pytest.raises(OptionError, match="zero"):
        policy("early", False, None, "0 s")


def test_defaults_are_those_of_aggregates() -> None:
    assert Firing() == Firing(None, Every(10 * SECOND), grace=0, retention=0, accumulate=True)


@pytest.mark.parametrize(
    ("firing", "expected"),
    [
        (Firing(), False),  # nothing can be late
        (Firing(grace=SECOND, retention=SECOND), True),
        (Firing(late=Each(), grace=SECOND, retention=SECOND), False),
        (Firing(early=Every(SECOND)), True),
        (Firing(early=RowsOrEvery(2, SECOND)), True),
        (Firing(late=RowsOrEvery(2, SECOND)), False),
        (Firing(early=FirstThen(Each(), Every(SECOND))), True),
        (Firing(early=FirstThen(Each(), EveryRows(2))), False),
        (Firing(early=EveryRows(1), late=EveryRows(1), grace=SECOND, retention=SECOND), False),
    ],
)
def test_policies_that_emit_by_the_wall_clock_alone(firing: Firing, expected: bool) -> None:
    assert InputSpec((), "at", firing=firing).fires_by_clock is expected
