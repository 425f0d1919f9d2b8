from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from muntin.model.aggregates import count, last
from muntin.model.errors import OptionError
from muntin.standalone import WindowedAggregator, windowed
from muntin.stores import memory

_AT = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("times", "warnings"),
    [
        ([1_780_000_000_000, 1_780_000_060_000], 1),  # milliseconds of 2026
        ([1_780_000_000, 1_780_000_060], 1),  # seconds of 2026
        ([1_780_000_000_000, 1_780_000_060_000_000], 0),
        ([0, 60_000_000], 0),
        ([datetime(1970, 1, 20, tzinfo=UTC)] * 2, 0),
    ],
)
def test_times_that_look_like_another_unit_are_warned_of_once(
    times: list[Any], warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    spec = windowed(key="key", time="at").tumbling("1 minute").agg(n=count())
    operator = WindowedAggregator(spec, memory())
    with caplog.at_level(logging.WARNING, "muntin.standalone"):
        for _ in range(2):
            operator.add_messages([{"key": "a", "at": at} for at in times])
    lines = [record.getMessage() for record in caplog.records]
    assert [line[:15] for line in lines] == ["time='at': all "] * warnings


@pytest.mark.parametrize(
    ("first", "second", "fits", "beyond"),
    [
        (pl.Int8, pl.Int64, 5, 300),
        (pl.Float64, pl.Int64, 2**53, 2**53 + 1),
        (pl.Float32, pl.Float64, 0.5, 0.1),
        (pl.Datetime("ms"), pl.Datetime("us"), _AT, _AT + timedelta(microseconds=5)),
    ],
)
def test_a_table_is_not_rounded_to_the_types_of_the_first(
    first: Any, second: Any, fits: Any, beyond: Any
) -> None:
    spec = windowed(key="key", time="at").tumbling("1 minute").agg(v=last("v"))
    operator = WindowedAggregator(spec, memory())

    def add(value: Any, kind: Any, at: int) -> None:
        column = pl.Series([value], dtype=kind)
        operator.add_messages(pl.DataFrame({"key": ["a"], "at": [at], "v": column}))

    add(fits, first, 0)
    add(fits, second, 60_000_000)
    with pytest.raises(OptionError, match=r"batch='v' has values that .* doesn't hold"):
        add(beyond, second, 120_000_000)
    assert operator.get_windows()["v"].to_list()[-1] == fits
