"""Tests that values which no column can hold are rejected, whatever Polars does with them."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from muntin.model import aggregates
from muntin.model.spec import WindowSpec
from muntin.model.windows import tumbling
from muntin.standalone import WindowedAggregator


@pytest.mark.parametrize(
    "odd", [Decimal("NaN"), Decimal("-Infinity"), Decimal("1e999999"), Decimal(10) ** 40, "x", {}]
)
def test_decimals_that_are_none_are_malformed(odd: Any) -> None:
    spec = WindowSpec(("k",), "t", tumbling("10 us"), {"x": aggregates.sum("v")})
    types = {"k": str, "v": pl.Decimal(10, 2), "t": int}
    windows = WindowedAggregator(spec, schema=types)
    for value in (Decimal("1.50"), odd, Decimal("2.50")):
        windows.add_message(key="a", value={"v": value}, time=1)
    windows.add_messages([{"k": "b", "v": odd, "t": 1}], final=True)
    assert windows.get_result()["x"].to_list() == [Decimal("4.00")]
    assert windows.rejected["reason"].to_list() == ["malformed"] * 2


def _collect(first: Any, second: Any, *, one_by_one: bool) -> tuple[list[Any], list[str]]:
    spec = WindowSpec(("k",), "t", tumbling("10 us"), {"x": aggregates.collect_list("v")})
    windows = WindowedAggregator(spec)
    if one_by_one:
        windows.add_message(key="a", value={"v": first}, time=1)
        windows.add_message(key="a", value={"v": second}, time=1)
    else:
        windows.add_messages([{"k": "a", "v": value, "t": 1} for value in (first, second)])
    windows.add_messages([], final=True)
    return windows.get_result()["x"].to_list(), windows.rejected["unread"].to_list()


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Decimal("1.0"), Decimal("1.25")),
        (Decimal("1E+3"), Decimal("1.5")),
        (Decimal("1.5"), 5),
        (Decimal("1.5"), 0.25),
        (Decimal("0.1234567890123456789"), Decimal(1)),
    ],
)
def test_decimals_of_several_lengths_stay_what_they_are(
    first: Any, second: Any, one_by_one: bool
) -> None:
    values, unread = _collect(first, second, one_by_one=one_by_one)
    assert (values, unread) == ([sorted([first, second])], [])


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Decimal("1.5"), Decimal("0.1234567890123456789")),
        ([Decimal("1.0")], [Decimal("1.25")]),
        ({"p": Decimal("1.0")}, {"p": Decimal("1.25")}),
        (date(2026, 1, 1), datetime(2026, 1, 1, 5)),
        (datetime(2026, 1, 1, 5), date(2026, 1, 1)),
    ],
)
def test_what_a_column_would_round_is_malformed(first: Any, second: Any, one_by_one: bool) -> None:
    values, unread = _collect(first, second, one_by_one=one_by_one)
    assert (values, unread) == ([[first]], [f"v={second!r}"])


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_first_text_that_is_not_utf8_is_malformed(one_by_one: bool) -> None:
    values, unread = _collect("\ud800", "x", one_by_one=one_by_one)
    assert (values, unread) == ([["x"]], ["v='\\ud800'"])
