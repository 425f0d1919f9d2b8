"""Values chosen by their place, with nulls and without, against the oracle's plain Python."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.queries import combiner, lowered, messages

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
    held = [({"x": v} if nested and v is not None else v) for _, v, _ in rows]
    frame = messages(
        [("a", at, one, by) for (at, _, by), one in zip(rows, held, strict=True)], types
    )
    parts = [query.lift(frame[a:b]) for a, b in pairwise([0, *sorted(cuts), len(frame)])]
    placed = [
        Placed(("a",), at, {"value": one, "amount": by})
        for (at, _, by), one in zip(rows, held, strict=True)
    ]
    expected = {name: value(agg, placed) for name, agg in AGGREGATES.items()}
    assert lowered(query.merge(parts, by=query.keys), query) == [expected]


def test_what_is_not_done_with_nulls() -> None:
    with pytest.raises(OptionError, match="nulls='drop' isn't a treatment of nulls"):
        aggregates.last("value", nulls="drop")  # type: ignore[arg-type]
