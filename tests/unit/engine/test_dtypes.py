"""Tests that types are parsed from their text."""

from __future__ import annotations

import polars as pl
import pytest

from muntin.engine.dtypes import dtype_of


@pytest.mark.parametrize(
    "dtype",
    [
        pl.String(),
        pl.Binary(),
        pl.Boolean(),
        pl.Date(),
        pl.Int8(),
        pl.Int64(),
        pl.Float32(),
        pl.Float64(),
        pl.Datetime("us"),
        pl.Datetime("us", "UTC"),
        pl.Datetime("ns", "Europe/Berlin"),
        pl.Duration("us"),
        pl.Decimal(38, 18),
        pl.List(pl.List(pl.Datetime("us", "UTC"))),
        pl.Struct({}),
        pl.Struct({"a, b": pl.Int64(), "it's": pl.Struct({'"': pl.Binary()}), "\\\n": pl.Null()}),
        pl.Map(pl.String(), pl.List(pl.Struct({"a": pl.Decimal(10, 2)}))),
    ],
)
def test_types_are_read_back(dtype: pl.DataType) -> None:
    assert dtype_of(str(dtype)) == dtype


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Struct({'a': })",
        "Struct({a: Int64})",
        "Struct({})x",
        "Map(String)",
        "List()",
        "Int64()",
        "Set(Int64)",
        "__import__",
    ],
)
def test_a_text_that_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no type"):
        dtype_of(text)
