"""Tests that frames, columns and lengths that can't work are refused, with what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import muntin as mt
from muntin.model.errors import OptionError

CLICKS = pl.DataFrame({"page": ["a", "b"], "at": ["2026-01-01 09:00", "2026-01-01 09:01"]})


def count(frame: Any = CLICKS, size: Any = "1 minute", **options: Any) -> pl.DataFrame:
    windows = mt.windowed(frame, **{"key": "page", "time": "at", **options}).tumbling(size)
    results = windows.agg(n=mt.count()).results
    assert isinstance(results, pl.DataFrame)
    return results


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (CLICKS.with_columns(__muntin_time=1), "frame='__muntin_time' is a column with a name"),
        (
            CLICKS.with_columns(pl.Series("o", [object(), object()], dtype=pl.Object)),
            "frame='o' is a column of Python objects; cast it to text",
        ),
        (pd.DataFrame([["a", "b"]], columns=["page", "page"]), "'page' is the name of two columns"),
        (pa.table([["a"], ["b"]], names=["page", "page"]), "'page' is the name of two columns"),
        (pl.DataFrame(), "time='at' isn't a column; give a frame that has columns"),
    ],
)
def test_a_frame_with_unfit_columns_is_refused(frame: Any, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        count(frame)


def test_a_key_that_is_named_twice_is_refused() -> None:
    with pytest.raises(OptionError, match="key='page' is named twice; name it once"):
        count(key=["page", "page"])


@pytest.mark.parametrize(
    "options",
    [
        {"time": pl.col("at").max()},
        {"time": pl.col("at").head(1)},
        {"key": pl.col("page").first().alias("first")},
        {"where": pl.col("page").is_not_null().all()},
    ],
)
def test_an_expression_without_a_value_for_each_row_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="has no value for each row; add it to the frame"):
        count(**options)


def test_constants_and_functions_of_users_are_expressions_of_a_row() -> None:
    upper = pl.col("page").map_elements(str.upper, return_dtype=pl.String).alias("upper")
    assert count(key=[upper, pl.lit(1).alias("one")])["upper"].to_list() == ["A", "B"]


@pytest.mark.parametrize("size", [0, -5, True, float("nan"), float("inf"), 10**30])
def test_a_number_that_is_no_length_isnt_proposed_as_one(size: Any) -> None:
    with pytest.raises(OptionError, match='isn\'t a duration; write for example "10 minutes"'):
        count(size=size)


@pytest.mark.parametrize("size", [60, np.int64(60)])
def test_a_number_is_proposed_as_seconds(size: Any) -> None:
    with pytest.raises(OptionError, match='isn\'t a duration; write "60 seconds"'):
        count(size=size)
