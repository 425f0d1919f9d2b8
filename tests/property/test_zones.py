"""Windows with a zone per key: the engine agrees with the oracle and with DuckDB."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.local_runner import LocalRunner
from tests.property.agreement import differences
from tests.property.streams import Stream
from tests.property.zoned import zoned_streams
from tests.runners import EngineRunner, Runner

import muntin as mt
from muntin.model.axis import parse_time

RUNNERS: list[Runner] = [
    EngineRunner(),
    EngineRunner(3),
    EngineRunner(2, restart=True),
    LocalRunner(2),
]
FEWER = settings(max_examples=max(1, settings.default.max_examples // 2))


@FEWER
@given(stream=zoned_streams(), runner=st.sampled_from(RUNNERS))
def test_runners_say_what_the_oracle_says(stream: Stream, runner: Runner) -> None:
    if runner.runs(stream.spec, stream.steps):
        assert differences(runner, stream.spec, stream.steps) == []


_UNITS = {"1 day": "day", "1 month": "month", "7 days": "week"}  # A week begins on Monday.


def convert_to_local(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Return rows with times converted to local time in each row's zone, by Polars."""
    walls = [
        part.with_columns(pl.col(names).dt.convert_time_zone(zone).dt.replace_time_zone(None))
        for (zone,), part in rows.partition_by("tz", as_dict=True).items()
    ]
    return pl.concat(walls)


@pytest.mark.parametrize("size", _UNITS)
def test_days_weeks_and_months_are_those_of_duckdb(size: str) -> None:
    zones = ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC"]
    random = np.random.default_rng(len(size))
    low, high = parse_time("at", "2026-03-01"), parse_time("at", "2026-05-01")
    sales = pl.DataFrame(
        {
            "shop": random.integers(0, 4, 4000),
            "tz": random.choice(zones, 4000),
            "at": random.integers(low, high, 4000),
            "amount": random.integers(0, 100, 4000),
        }
    ).with_columns(pl.col("at").cast(pl.Datetime("us", "UTC")))
    origin = "2026-01-05" if size == "7 days" else None
    grouped = mt.windowed(sales, key="shop", time="at", max_ahead=None)
    windows = grouped.tumbling(size, zone_column="tz", origin=origin)
    results = windows.agg(n=mt.count(), total=mt.sum("amount")).results
    local_results = convert_to_local(results, "window_start", "window_end").drop(
        "emission", "revision"
    )
    with duckdb.connect() as connection:
        connection.register("sales", convert_to_local(sales, "at").to_arrow())
        expected = connection.sql(
            f"""
            SELECT shop, tz, date_trunc('{_UNITS[size]}', "at")::TIMESTAMP AS since,
                since + INTERVAL 1 {_UNITS[size]}, count(*), sum(amount)::BIGINT
            FROM sales GROUP BY shop, tz, since
            """
        ).fetchall()
    assert sorted(local_results.rows()) == sorted(expected)
