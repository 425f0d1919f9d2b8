"""Tests of windows in the zone of each key on the local host: restarts, and reading state."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.moved_queries import read_tables, run

import muntin as mt
from muntin import OptionError
from muntin.hosts.inspect.report import report_state
from muntin.hosts.inspect.why import explain_state
from muntin.hosts.local.move import read_local_query, write_query
from muntin.hosts.local.rescale import rescale_folder

COLUMNS = "shop string, tz string, at timestamp, amount long"
ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Oz", None]
_ORDER = ["window_start", "shop", "tz"]


def write_days(folder: Path, days: range) -> None:
    """Write a file for each day, around the change of clocks in Berlin, with times that overlap."""
    folder.mkdir(exist_ok=True)
    for day in days:
        chance = Random(day)
        start = datetime(2026, 3, 26, tzinfo=UTC) + timedelta(days=day)
        rows = {
            "shop": [f"shop {chance.randrange(4)}" for _ in range(50)],
            "tz": [chance.choice(ZONES) for _ in range(50)],
            "at": [start + timedelta(minutes=chance.randrange(-600, 1440)) for _ in range(50)],
            "amount": [chance.randrange(100) for _ in range(50)],
        }
        path = folder / f"{day:04d}.parquet"
        pl.DataFrame(rows).with_columns(pl.col("at").dt.cast_time_unit("us")).write_parquet(path)
        os.utime(path, (1_700_000_000 + day, 1_700_000_000 + day))


def make_query(folder: Path) -> Any:
    sales = mt.files(folder / "*.parquet", columns=COLUMNS, files_per_batch=1)
    windows = mt.windowed(sales, key="shop", time="at", lateness="1 hour", max_ahead=None)
    days = windows.hopping("2 days", "1 day", zone_column="tz").early(each=True)
    return (
        days.late(grace="6 hours", each=True)
        .keep("5 days")
        .agg(n=mt.count(), total=mt.sum("amount"), middle=mt.median("amount"))
    )


@pytest.mark.parametrize("change", ["nothing", "shards", "move"])
def test_a_query_continues_where_it_stopped(tmp_path: Path, change: str) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "state"
    write_days(folder, range(4))
    unstopped_out, continued_out = tmp_path / "once.duckdb", tmp_path / "twice.duckdb"
    run(make_query(folder), checkpoint, continued_out)
    if change == "shards":
        rescale_folder(str(checkpoint), 3)
    elif change == "move":
        new = tmp_path / "new"
        new.mkdir()
        with read_local_query(str(checkpoint)) as (seed, blobs):
            write_query(new, seed, blobs)
        checkpoint = new
    write_days(folder, range(4, 8))
    continued = run(make_query(folder), checkpoint, continued_out)
    unstopped = run(make_query(folder), tmp_path / "whole", unstopped_out)
    assert continued.progress.counts == unstopped.progress.counts
    assert continued.progress.counts["malformed"] > 10
    assert continued.progress.counts["null_key"] > 10
    assert read_tables(continued_out) == read_tables(unstopped_out)


def test_state_is_read_by_the_zone_of_a_key(tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "state"
    write_days(folder, range(6))
    query = make_query(folder).start(checkpoint=str(checkpoint), available_now=True)
    assert query.await_end(60)
    state = mt.open_state(checkpoint)
    newest = query.frame().drop("emission", "revision").sort(_ORDER)
    retained = newest.filter(pl.col("window_end") > state.watermark - timedelta(days=5))
    assert_frame_equal(state.fetch().sort(_ORDER), retained)
    key = ("shop 1", "Europe/Berlin")
    key_windows = retained.filter(shop=key[0], tz=key[1])
    assert_frame_equal(state.fetch(key).sort(_ORDER), key_windows)
    # On 29 March the clocks in Berlin are set forward.
    changed = key_windows.filter(window_start=datetime(2026, 3, 27, 23, tzinfo=UTC))
    assert changed["window_end"].to_list() == [datetime(2026, 3, 29, 22, tzinfo=UTC)]
    state_windows = state.windows(key)
    assert (
        state_windows.filter(pl.col("stage") != "expired")["messages"].to_list()
        == key_windows["n"].to_list()
    )
    assert {"current", "closed"} <= set(state_windows["stage"])
    lines = explain_state(state.checkpoint, key, "2026-03-31T12:00")
    assert "windows    hopping 2 days by 1 day in Europe/Berlin, on at" in lines
    assert "window     2026-03-30 22:00:00 to 2026-04-01 22:00:00" in lines
    report = report_state(state.checkpoint, key)
    assert report["windows"]["newest"][1] >= str(newest["window_end"].max())[:19]
    assert len(report["key"]) == len(state_windows)
    for unknown in ("Oz", r"\N"):
        with pytest.raises(OptionError, match="isn't a known time zone"):
            explain_state(state.checkpoint, ("shop 1", unknown), "2026-03-31T12:00")


SALES = pl.DataFrame(
    [
        ("a", "Europe/Berlin", "2026-03-28 23:00", 1),
        ("a", "America/New_York", "2026-03-28 23:00", 2),
        ("a", "Europe/Berlin", "2026-03-29 21:59", 4),
    ],
    schema=["shop", "tz", "at", "amount"],
    orient="row",
)


def test_the_first_messages_of_each_own_day() -> None:
    days = mt.windowed(SALES, key="shop", time="at").tumbling("1 day", zone_column="tz")
    rows = days.top(1, by="amount").results.select("tz", "amount").rows()
    assert rows == [("America/New_York", 2), ("Europe/Berlin", 4)]


def test_own_weeks_of_own_days() -> None:
    days = mt.windowed(SALES, key="shop", time="at").tumbling("1 day", zone_column="tz")
    totals = days.agg(total=mt.sum("amount"))
    weeks = mt.windowed(totals, key=["shop", "tz"], time="window_time")
    weekly = weeks.tumbling("7 days", zone_column="tz", origin="2026-03-23")
    rows = weekly.agg(total=mt.sum("total")).results.select("tz", "window_end", "total").rows()
    ends = [datetime(2026, 3, 29, 22, tzinfo=UTC), datetime(2026, 3, 30, 4, tzinfo=UTC)]
    assert rows == [("Europe/Berlin", ends[0], 5), ("America/New_York", ends[1], 2)]


def test_a_zone_in_a_struct() -> None:
    nested = SALES.select("at", shop=pl.struct("shop", "tz"))
    days = mt.windowed(nested, time="at").tumbling("1 day", zone_column="shop.tz")
    results = days.agg(n=mt.count()).results
    assert results.select("tz", "n").rows() == [("America/New_York", 1), ("Europe/Berlin", 2)]


def test_a_column_that_does_not_exist_is_refused_by_its_option() -> None:
    days = mt.windowed(SALES, key="shop", time="at").tumbling("1 day", zone_column="zone")
    with pytest.raises(OptionError, match="zone_column='zone' isn't a column"):
        days.agg(n=mt.count())
