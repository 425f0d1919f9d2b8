"""Tests that messages given to ``run`` must fit the types of the query's input."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

import muntin as mt
from muntin import OptionError
from muntin.testing import run

_AT = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("dtype", "exact_value", "rounded_value"),
    [
        (pl.Decimal(10, 1), Decimal("1.2"), Decimal("1.25")),
        (pl.Decimal(10, 1), 1, 0.25),
        (pl.Int64(), 2.0, 2.5),
    ],
)
def test_a_number_that_would_be_rounded_is_refused(
    dtype: Any, exact_value: Any, rounded_value: Any
) -> None:
    frame = pl.DataFrame({"v": pl.Series([], dtype=dtype), "at": pl.Series([], dtype=pl.Datetime)})
    query: Any = mt.windowed(frame, time="at").tumbling("1 minute").agg(s=mt.sum("v"))
    assert run(query, [{"v": exact_value, "at": _AT}]).emissions["s"].to_list() == [exact_value]
    with pytest.raises(OptionError, match=r"messages='v' has .*5, which the column of type"):
        run(query, [{"v": rounded_value, "at": _AT}])
