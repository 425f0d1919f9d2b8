from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from muntin.engine import columns
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.dense import Scatter, dense_numbers
from muntin.model import aggregates as mt
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows

AGGREGATES = {
    "n": mt.count(),
    "present": mt.count("v"),
    "yes": mt.count_if("flag"),
    "total": mt.sum("v"),
    "low": mt.min("v"),
    "high": mt.max("v"),
    "wide": mt.sum("x"),
    "top": mt.max("x"),
    "mean": mt.mean("x"),
    "spread": mt.stddev("v"),
}
SCHEMA = pl.Schema(
    {
        "k": pl.Int32(),
        "v": pl.Int64(),
        "x": pl.Float64(),
        "flag": pl.Boolean(),
        columns.TIME: pl.Int64(),
    }
)


def combiner(**selected_aggregates: mt.Aggregate) -> Combiner:
    aggregates = selected_aggregates or AGGREGATES
    return Combiner(WindowSpec(("k",), "t", Windows(10, 10), aggregates), SCHEMA)


def build_frame(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def sort_cells(cells: pl.DataFrame) -> pl.DataFrame:
    return cells.sort("k0", columns.PANE)


ROW = st.tuples(
    st.integers(-5, 20),
    st.none() | st.integers(-(2**40), 2**40),
    st.none() | st.floats(-1e6, 1e6),
    st.none() | st.booleans(),
    st.integers(-50, 300),
)


@given(st.lists(ROW, min_size=1, max_size=60), st.booleans())
def test_scattering_equals_grouping(rows: list[tuple[Any, ...]], full: bool) -> None:
    messages = build_frame(rows)
    if full:
        messages = messages.with_columns(pl.col("v", "x").fill_null(0))
    query = combiner()
    code = query._code(messages)
    assert code is not None
    grouped = query._settle(query._group(messages, code))
    scattered = query._scatter(messages, code)
    if scattered is None:
        assert messages["v"].null_count() or messages["x"].null_count()
        return
    assert_frame_equal(sort_cells(query._settle(scattered)), sort_cells(grouped), abs_tol=1e-6)


def test_a_narrow_batch_is_scattered_and_a_wide_one_isnt(monkeypatch: pytest.MonkeyPatch) -> None:
    query, scattered = combiner(n=mt.count()), []
    monkeypatch.setattr(query, "_scatter", lambda m, c: scattered.append(c.size))
    query.lift(build_frame([(1, 0, 0.0, True, 5), (2, 0, 0.0, True, 5)]))
    query.lift(build_frame([(1, 0, 0.0, True, 5), (1_000_000, 0, 0.0, True, 5)]))
    assert scattered == [2]


def test_a_sum_that_could_wrap_is_not_scattered() -> None:
    rows = [(1, 2**63 - 1, 0.0, True, 5), (1, 2**63 - 1, 0.0, True, 5)]
    query = combiner(total=mt.sum("v"))
    code = query._code(build_frame(rows))
    assert code is not None
    assert query._scatter(build_frame(rows), code) is None


def test_extremes_keep_their_type_and_unused_groups_are_absent() -> None:
    scatter = Scatter(np.array([4, 0, 4]), 6)
    assert scatter.used_groups.tolist() == [0, 4]
    greatest_values = scatter.extreme(np.array([1, 7, -3], dtype=np.int16), greatest=True)
    assert (greatest_values.tolist(), greatest_values.dtype) == ([7, 1], np.int16)
    assert scatter.extreme(np.array([1, 7, -3]), greatest=False).tolist() == [7, -3]


@pytest.mark.parametrize(
    "column",
    [
        pl.Series(["a"]),
        pl.Series([True]),
        pl.Series([1, None]),
        pl.Series([1.0, math.nan]),
        pl.Series([], dtype=pl.Int64),
    ],
    ids=str,
)
def test_columns_that_cannot_be_scattered(column: pl.Series) -> None:
    assert dense_numbers(column) is None
