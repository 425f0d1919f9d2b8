"""Values that no column can hold are set aside, whatever Polars says of them."""

from __future__ import annotations

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
