from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from muntin.engine.order import Code, find_code, find_group_starts, sort_rows

LEAST, GREATEST = -(2**63), 2**63 - 1


def test_a_code_numbers_rows_in_their_order_and_gives_them_back() -> None:
    frame = pl.DataFrame({"a": [5, -3, 5, 4], "b": [0, 9, -2, 9]})
    code = find_code(frame, ["a", "b"])
    assert code == Code(("a", "b"), (-3, -2), (9, 12))
    coded = frame.select(code=code.expression())
    assert coded["code"].to_list() == [8 * 12 + 2, 11, 8 * 12, 7 * 12 + 11]
    assert coded.select(*code.columns("code")).equals(frame)


@pytest.mark.parametrize(
    ("bounds", "fits"),
    [
        ((0, 2**63 - 2), True),
        ((0, 2**63 - 1), False),
        ((LEAST, -2), True),
        ((LEAST, GREATEST), False),
        ((GREATEST, GREATEST), True),
    ],
)
def test_a_code_fits_63_bits_or_there_is_none(bounds: tuple[int, int], fits: bool) -> None:
    assert (Code.over({"a": bounds}) is not None) is fits
    frame = pl.DataFrame({"a": list(bounds)})
    code = find_code(frame, ["a"])
    assert (code is not None) is fits
    if code is not None:
        assert frame.select(code.expression().alias("c")).select(*code.columns("c")).equals(frame)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([], dtype=pl.Int64),
        pl.Series([1, None]),
        pl.Series([1], dtype=pl.UInt64),
        pl.Series(["1"]),
        pl.Series([True]),
    ],
)
def test_columns_that_have_no_code(column: pl.Series) -> None:
    assert find_code(pl.DataFrame({"a": column}), ["a"]) is None


@pytest.mark.parametrize(
    "values",
    [
        [3, -1, 2, -1],
        [GREATEST, LEAST, 0, LEAST],
        ["b", "é", "", "a"],
        [2**62, -(2**62), 0, 1],
    ],
)
def test_rows_are_arranged_as_by_sorting(values: list[Any]) -> None:
    frame = pl.DataFrame({"a": values, "b": [4, 3, 2, 1]})
    assert sort_rows(frame, ["a", "b"]).equals(frame.sort("a", "b"))


def test_narrow_columns_do_not_overflow() -> None:
    frame = pl.DataFrame(
        {"a": [-128, 127, 0], "b": [127, -128, 1]}, schema_overrides=dict.fromkeys("ab", pl.Int8)
    )
    assert sort_rows(frame, ["a", "b"]).rows() == [(-128, 127), (0, 1), (127, -128)]


def test_a_row_begins_where_some_column_changes() -> None:
    frame = pl.DataFrame({"a": [None, None, 1, 1], "b": ["x", "x", "x", "y"]})
    assert find_group_starts(frame, ["a", "b"]).tolist() == [True, False, True, True]
    assert find_group_starts(frame.clear(), ["a", "b"]).tolist() == []
