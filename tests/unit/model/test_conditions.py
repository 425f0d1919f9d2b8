"""Tests of conditions on a window's values: parsing and evaluation."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from muntin.model import aggregates
from muntin.model.conditions import read_condition
from muntin.model.errors import OptionError
from muntin.standalone import windowed

NAN = float("nan")


@pytest.mark.parametrize(
    ("text", "values", "holds"),
    [
        ("n > 3", {"n": 4}, True),
        ("n > 3", {"n": 3}, False),
        ("n > 3", {"n": None}, False),
        ("NOT n > 3", {"n": None}, False),
        ("3 < n", {"n": 4}, True),
        ("n >= -2.5", {"n": Decimal("-2.5")}, True),
        ("n != 3 and n == 4", {"n": 4}, True),
        ("n <> m", {"n": 1, "m": 2}, True),
        ("n > 3 OR m > 3 AND n < 0", {"n": 4, "m": 0}, True),
        ("(n > 3 OR m > 3) AND n < 0", {"n": 4, "m": 0}, False),
        ("n > 3 OR m > 3", {"n": None, "m": 4}, True),
        ("n > 3 AND m > 3", {"n": None, "m": 4}, False),
        ("NOT (n > 3 AND m > 3)", {"n": None, "m": 1}, True),
        ("k = 'it''s'", {"k": "it's"}, True),
        ("`a ``b` < 'c'", {"a `b": "b"}, True),
        ("flag", {"flag": True}, True),
        ("NOT flag OR flag = FALSE", {"flag": None}, False),
        ("x > 1e308", {"x": NAN}, True),
        ("x = y", {"x": NAN, "y": NAN}, True),
        ("x < y", {"x": 1.0, "y": NAN}, True),
    ],
)
def test_when_a_condition_holds(text: str, values: dict[str, Any], holds: bool) -> None:
    assert read_condition(text).holds(values) is holds


@pytest.mark.parametrize(
    "text",
    ["", "n >", "n > 3 n", "3 > 2", "n + 1 > 3", "(n > 3", "n > 3)", "max(n) > 3", "n > 3 > 2",
     "n IS NULL", "'open", "3", "n AND 3", "(n > 1) = TRUE"],
)  # fmt: skip
def test_invalid_conditions_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="when"):
        read_condition(text)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"when": "m > 3"}, "is neither an aggregate nor a key; give some of k, n, all"),
        ({"when": "n > 3", "each": True}, "can't be combined with other triggers"),
        ({"when": "n > 3", "at_least": 2}, "can't be combined with other triggers"),
        ({"when": "all = 3"}, "is a list of values"),
    ],
)
def test_conditions_that_a_query_cannot_have(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        windowed(key="k", time="t").tumbling("1 s").early(**options).agg(
            n=aggregates.count(), all=aggregates.collect_list("v")
        )


def test_policies_with_a_condition_are_stored_and_read_back() -> None:
    windows = windowed(key="k", time="t").tumbling("1 s")
    windows = windows.early(when="n > 3").late(grace="1 s", when="k = 'a'")
    spec = windows.agg(n=aggregates.count())
    assert type(spec).from_dict(spec.to_dict()) == spec
    assert spec.words()["early"] == "when n > 3"
