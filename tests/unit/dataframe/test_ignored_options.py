"""Tests that options without an effect are refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import polars as pl
import pytest

import muntin as mt

ROWS = pl.DataFrame({"k": ["a"], "at": [datetime(2026, 1, 1)]})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"durable": "1 second"}, "durable='1 second' needs a checkpoint"),
        ({"durable": False}, "durable=False needs a checkpoint"),
        ({"available_now": "no"}, "available_now='no' isn't True or False"),
        (
            {"available_now": True, "every": "1 hour"},
            "every='1 hour' can't be combined with available_now",
        ),
    ],
)
def test_options_of_a_start(options: dict[str, Any], problem: str) -> None:
    windows = mt.windowed(ROWS, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    with pytest.raises(mt.OptionError, match=problem):
        windows.start(checkpoint=None, **options)


@pytest.mark.parametrize(
    ("windows", "lengths"), [("tumbling", (3,)), ("hopping", (3, 2)), ("cumulating", (4, 2))]
)
def test_a_time_isnt_the_origin_of_rows(windows: str, lengths: tuple[int, ...]) -> None:
    rows = mt.windowed(ROWS, key="k")
    with pytest.raises(mt.OptionError, match=r"origin='2026-01-01' is a time, and the windows"):
        getattr(rows, windows)(*map(mt.rows, lengths), origin="2026-01-01")
    assert getattr(rows, windows)(*map(mt.rows, lengths), origin=1).agg(n=mt.count())


def test_a_zone_has_no_effect_on_times_of_parquet() -> None:
    with pytest.raises(mt.OptionError, match=r"zone='Europe/Paris' doesn't apply to"):
        mt.files("in/*.parquet", zone="Europe/Paris")


@pytest.mark.parametrize("setting", ["checkpoint = 'c'", "trigger = '5 seconds'"])
def test_settings_of_a_pipeline_dont_apply_to_one_query(setting: str) -> None:
    name = setting.split()[0]
    with pytest.raises(mt.SqlError, match=f"{name} is a setting of pipelines; give it to start"):
        mt.sql(f"SET {setting}; SELECT k FROM t", t=ROWS)
