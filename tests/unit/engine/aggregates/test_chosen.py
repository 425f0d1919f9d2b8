"""Tests of aggregates that choose one value of a window, with and without nulls."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.queries import combiner, lower_partials, messages

from muntin.model import aggregates
from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError
from muntin.testing.oracle.values import value
from muntin.testing.oracle.window import Placed

AGGREGATES: dict[str, Aggregate] = {
    "first": aggregates.first("value", nulls="skip"),
    "last": aggregates.last("value", nulls="skip"),
    "least": aggregates.arg_min("value", "amount", nulls="skip"),
    "greatest": aggregates.arg_max("value", "amount", nulls="skip"),
    "latest": aggregates.last_values("value", nulls="skip"),
    "last_of_all": aggregates.last("value"),
}
ROWS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.none() | st.integers(0, 3),
        st.none() | st.integers(0, 3),
    ),
    min_size=1,
    max_size=9,
)


@pytest.mark.parametrize("dtype", [pl.Int64(), pl.Struct({"x": pl.Int64()})], ids=str)
@given(rows=ROWS, cuts=st.lists(st.integers(0, 9), max_size=3))
def test_values_without_nulls(
    dtype: pl.DataType, rows: list[tuple[int, int | None, int | None]], cuts: list[int]
) -> None:
    nested = isinstance(dtype, pl.Struct)
    types = {"value": dtype, "amount": pl.Int64()}
    query = combiner(aggs=AGGREGATES, schema=types)
    values = [({"x": v} if nested and v is not None else v) for _, v, _ in rows]
    frame = messages(
        [("a", at, item, by) for (at, _, by), item in zip(rows, values, strict=True)], types
    )
    parts = [query.lift(frame[a:b]) for a, b in pairwise([0, *sorted(cuts), len(frame)])]
    window_messages = [
        Placed(("a",), at, {"value": item, "amount": by})
        for (at, _, by), item in zip(rows, values, strict=True)
    ]
    expected = {name: value(agg, window_messages) for name, agg in AGGREGATES.items()}
    assert lower_partials(query.merge(parts, by=query.keys), query) == [expected]


def test_an_unknown_treatment_of_nulls_is_refused() -> None:
    with pytest.raises(OptionError, match="nulls='drop' isn't a treatment of nulls"):
        aggregates.last("value", nulls="drop")  # type: ignore[arg-type]
