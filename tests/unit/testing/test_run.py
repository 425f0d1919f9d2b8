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


def test_idle_of_a_query_over_a_frame_applies_to_the_batches_of_a_test() -> None:
    clicks = pl.DataFrame(schema={"page": pl.String, "at": pl.Datetime("us", "UTC")})
    windows = mt.windowed(clicks, key="page", time="at", idle="1 minute").tumbling("1 minute")
    messages = [{"page": "home", "at": "2026-01-01T00:00:05Z"}]
    ticks = ["2026-01-01T00:00:05Z", "2026-01-01T00:01:30Z", "2026-01-01T00:05:00Z"]
    result = run(windows.agg(n=mt.count()), messages, ticks=ticks, final=False)
    assert result.emissions.select("page", "n", "emission").rows() == [("home", 1, "full")]
