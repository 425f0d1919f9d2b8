"""Tests of numbers in SQL text; tests/spark/test_local_sql.py compares all with Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.hosts.local.expressions import parse_literal_rows, parse_sql_expression
from muntin.model.errors import OptionError

DOUBLES = st.floats(allow_nan=False, allow_infinity=False) | st.builds(
    lambda units, decimals: units / 10.0**decimals,
    st.integers(-(10**17), 10**17), st.integers(0, 16),
)  # fmt: skip


def compute(text: str, **columns: list[object]) -> list[object]:
    frame = pl.DataFrame(columns)
    return frame.select(parse_sql_expression(frame.schema, "where", text)).to_series().to_list()


@given(st.lists(DOUBLES, min_size=1, max_size=40), st.integers(0, 15))
def test_a_number_is_rounded_as_it_is_written(numbers: list[float], decimals: int) -> None:
    last = Decimal(1).scaleb(-decimals)
    expected = []
    for number in numbers:
        written = Decimal(repr(number))
        # Of more digits than these none are behind the last one.
        short = abs(number) < 10.0 ** (17 - decimals)
        expected.append(float(written.quantize(last, ROUND_HALF_UP)) if short else number)
    assert compute(f"round(x, {decimals})", x=[*numbers]) == expected


@pytest.mark.parametrize("divisor", [3, 10, 1000, 0.1, -7])
def test_a_quotient_is_the_nearest_double(divisor: float) -> None:
    numbers = [number / 8 for number in range(-2000, 2000)]
    assert compute(f"x / {divisor}", x=[*numbers]) == [number / divisor for number in numbers]
    assert compute("x / 10", x=[7]) == [0.7]
    assert parse_literal_rows("(1000000 / 700000)", ["q"])["q"].to_list() == [10 / 7]


def test_the_difference_of_two_moments_is_a_duration() -> None:
    at = datetime(2026, 3, 29, tzinfo=UTC)
    moments: list[object] = [at, at + timedelta(days=400, microseconds=1), None]
    expected = [timedelta(0), timedelta(days=400, microseconds=1), None]
    assert compute("t - TIMESTAMP '2026-03-29 00:00:00Z'", t=moments) == expected
    assert compute("u - t", t=[at], u=[at - timedelta(seconds=1)]) == [timedelta(seconds=-1)]
    with pytest.raises(OptionError, match="- of timestamp and timestamp_ntz"):
        compute("t - w", t=[at], w=[at.replace(tzinfo=None)])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("t > '2026-01-01 10:00:00'", [False, True]),
        ("t >= '2026-01-01T12:00:00.000+02:00'", [True, True]),
        ("'2026-01-01' <= t", [True, True]),
        ("t BETWEEN '2026-01-01' AND TIMESTAMP '2026-01-01 23:59:59.5'", [True, False]),
        ("t IN ('2026-01-02')", [False, True]),
        ("w >= '2026-01-02'", [False, True]),
        ("day > '2026-01-01'", [False, True]),
    ],
)
def test_a_literal_text_beside_a_time_is_one(condition: str, expected: list[object]) -> None:
    moments = [datetime(2026, 1, 1, 10, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)]
    local: list[object] = [one.replace(tzinfo=None) for one in moments]
    days: list[object] = [one.date() for one in moments]
    assert compute(condition, t=[*moments], w=local, day=days) == expected


@pytest.mark.parametrize("text", ["soon", "2026-13-01", "20260101", "2026-W01-1", "2026-01-01Z"])
def test_a_text_beside_a_time_that_is_none_is_named(text: str) -> None:
    with pytest.raises(OptionError, match=f"the text '{text}' beside timestamp"):
        compute(f"t > '{text}'", t=[datetime(2026, 1, 1, tzinfo=UTC)])


def test_a_text_that_is_no_number_ends_the_query_unless_it_is_tried() -> None:
    texts: list[object] = ["12", " +7 ", "1.5", None]
    assert compute("TRY_CAST(s AS INT)", s=texts) == [12, 7, None, None]
    with pytest.raises(pl.exceptions.InvalidOperationError, match=r"1\.5"):
        compute("CAST(s AS INT)", s=texts)
