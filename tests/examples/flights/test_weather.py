"""Tests of the check and the page of the weather, from a small DuckDB file."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from examples.flights.report.weather import read_skies, write_weather_page
from examples.flights.weather_check import check_weather
from tests.examples.flights.test_page import Nesting

FLIGHTS = """
SELECT TIMESTAMP '2013-01-01 06:00' + INTERVAL (i * 21) SECOND AS scheduled,
       scheduled + INTERVAL 2 HOUR AS landed, ['EWR', 'JFK'][i % 2 + 1] AS origin, 'IAH' AS dest,
       'UA' AS carrier, i AS flight, CASE WHEN i % 10 = 0 THEN NULL ELSE i % 60 END AS dep_delay
FROM range(6000) AS s(i)
"""
READINGS = """
SELECT 'EWR' AS origin, TIMESTAMP '2013-01-01' + INTERVAL (i) HOUR AS "at", "at" AS known,
       30.0 AS temp, 5.0 AS wind_speed, CASE WHEN i < 9 THEN 0.2 ELSE 0.0 END AS precip,
       10.0 AS visib
FROM range(48) AS s(i)
"""
WINDOWS = """
SELECT CASE WHEN origin = 'JFK' THEN 'no reading' WHEN scheduled < '2013-01-01 09:00' THEN 'snow'
            ELSE 'fair' END AS weather,
       time_bucket(INTERVAL 1 HOUR, scheduled) AS window_start, count(*) AS flights,
       count(dep_delay) AS departed, sum(dep_delay) AS delay,
       count(*) FILTER (dep_delay >= 30) AS late
FROM flown GROUP BY ALL
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Write the tables that a query would write, with one rejected flight."""
    for name, rows in (("flights", FLIGHTS), ("weather", READINGS)):
        (tmp_path / name).mkdir()
        duckdb.execute(f"COPY ({rows}) TO '{tmp_path}/{name}/0.parquet' (FORMAT parquet)")
    path = tmp_path / "weather.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE rejected AS SELECT * FROM ({FLIGHTS}) WHERE flight = 33")
        connection.execute(f"CREATE TEMP TABLE flown AS FROM ({FLIGHTS}) WHERE flight <> 33")
        connection.execute(f"CREATE TABLE weather AS {WINDOWS}")
    return path


def test_windows_are_found_equal_but_for_rejected_flights(database: Path) -> None:
    verdict = check_weather(database, database.parent)
    assert verdict.equal, verdict.differences
    assert verdict.rejected == 1
    assert verdict.windows > 50


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE weather SET late = late + 1 WHERE weather = 'snow'",
        "DELETE FROM weather WHERE weather = 'fair'",
        "INSERT INTO weather SELECT 'fog', window_start, 1, 1, 1, 1 FROM weather LIMIT 1",
        "DELETE FROM rejected",
    ],
)
def test_a_difference_is_found(database: Path, change: str) -> None:
    with duckdb.connect(str(database)) as connection:
        connection.execute(change)
    assert not check_weather(database, database.parent).equal


def test_the_page_tells_each_kind_of_weather(database: Path) -> None:
    skies, _ = read_skies(database)
    assert {sky.name for sky in skies} == {"snow", "fair", "no reading"}
    assert [sky.mean for sky in skies] == sorted((sky.mean for sky in skies), reverse=True)
    page = write_weather_page(
        database, ("equal & <content>", True), {"flights": 299}, database.with_suffix(".html")
    )
    html = page.read_text(encoding="utf-8")
    nesting = Nesting()
    nesting.feed(html)
    assert nesting.open == []
    assert "equal &amp; &lt;content&gt;" in html
    assert html.count("<svg") == 2
