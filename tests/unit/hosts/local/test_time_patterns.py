"""Tests of formatting and parsing times by patterns; the values are those of Spark 4.3 in UTC."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import pytest

import muntin as mt
from muntin.hosts.local.sql_values import Unportable
from muntin.hosts.local.time_patterns import format_by_pattern, parse_formatted_times

TIMES = [
    datetime(2026, 1, 2, 15, 4, 5),
    datetime(2024, 2, 29, 0, 0, 0, 123456),
    datetime(1969, 7, 20, 20, 17, 40, 1),
    datetime(5, 3, 4, 9, 8, 7),
    None,
]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (
            "yyyy-MM-dd'T'HH:mm:ss.SSS",
            ["2026-01-02T15:04:05.000", "2024-02-29T00:00:00.123", "1969-07-20T20:17:40.000",
             "0005-03-04T09:08:07.000"],
        ),
        ("dd/MM/yy", ["02/01/26", "29/02/24", "20/07/69", "04/03/05"]),
        ("d.M.y", ["2.1.2026", "29.2.2024", "20.7.1969", "4.3.5"]),
        (
            "EEE, d MMM yyyy h:mm a",
            ["Fri, 2 Jan 2026 3:04 PM", "Thu, 29 Feb 2024 12:00 AM", "Sun, 20 Jul 1969 8:17 PM",
             "Fri, 4 Mar 0005 9:08 AM"],
        ),
        ("EEEE d MMMM", ["Friday 2 January", "Thursday 29 February", "Sunday 20 July",
                         "Friday 4 March"]),
        ("yyyy 'o''clock' k K", ["2026 o'clock 15 3", "2024 o'clock 24 0", "1969 o'clock 20 8",
                                 "0005 o'clock 9 9"]),
        ("DDD D Q QQ", ["002 2 1 01", "060 60 1 01", "201 201 3 03", "063 63 1 01"]),
        ("SSSSSSSSS S yyy", ["000000000 0 2026", "123456000 1 2024", "000001000 0 1969",
                             "000000000 0 005"]),
        ("''", ["'"] * 4),
    ],
)  # fmt: skip
def test_times_are_formatted_as_on_spark(pattern: str, texts: list[str]) -> None:
    frame = pl.DataFrame({"at": TIMES}, schema={"at": pl.Datetime("us")})
    formatted = frame.select(format_by_pattern(pl.col("at"), pattern).alias("text"))["text"]
    assert formatted.to_list() == [*texts, None]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (
            "yyyy-MM-dd HH:mm:ss",
            {"2026-01-02 03:04:05": "2026-01-02 03:04:05", "2026-1-2 03:04:05": None,
             "2026-01-02 24:00:00": None, "2026-02-30 00:00:00": None, "2026-01-02 03:04:60": None,
             "2026-01-02 03:04:05 ": None, "2026-01-02T03:04:05": None, "": None},
        ),
        ("d/M/yyyy H:m", {"2/1/2026 3:4": "2026-01-02 03:04:00",
                          "002/01/2026 03:04": "2026-01-02 03:04:00", "32/1/2026 1:1": None}),
        ("yyyyMMdd", {"20260102": "2026-01-02 00:00:00", "2026012": None, "202601023": None}),
        (
            "yyyy-MM-dd'T'HH:mm:ss.SSS",
            {"2026-01-02T03:04:05.1": "2026-01-02 03:04:05.100000", "2026-01-02T03:04:05": None,
             "2026-01-02t03:04:05.123": "2026-01-02 03:04:05.123000",
             "2026-01-02T03:04:05.1234": None},
        ),
        (
            "yyyy-MM-dd HH:mm:ssXXX",
            {"2026-01-02 03:04:05+01:00": "2026-01-02 02:04:05",
             "2026-01-02 03:04:05Z": "2026-01-02 03:04:05", "2026-01-02 03:04:05+0100": None},
        ),
        (
            "dd/MMM/yyyy:HH:mm:ss Z",
            {"02/jan/2026:03:04:05 -0130": "2026-01-02 04:34:05",
             "02/JANUARY/2026:03:04:05 +0000": None},
        ),
        (
            "MMMM d, yyyy h:mm a",
            {"January 2, 2026 3:04 PM": "2026-01-02 15:04:00",
             "may 12, 2026 12:04 am": "2026-05-12 00:04:00", "May 12, 2026 0:04 am": None,
             "May 12, 2026 13:04 am": None},
        ),
        ("hh:mm a", {"03:04 PM": "1970-01-01 15:04:00"}),
        ("MM/dd", {"02/03": "1970-02-03 00:00:00", "02/29": None}),
        ("yy-MM-dd", {"99-01-02": "2099-01-02 00:00:00"}),
    ],
)  # fmt: skip
def test_texts_are_parsed_as_on_spark(pattern: str, texts: dict[str, str | None]) -> None:
    frame = pl.DataFrame({"text": [*texts, None]}, schema={"text": pl.String})
    times = frame.select(parse_formatted_times(pl.col("text"), pattern).alias("at"))["at"]
    parsed = [None if at is None else str(at.replace(tzinfo=None)) for at in times.to_list()]
    assert parsed == [*texts.values(), None]


@pytest.mark.parametrize(
    "pattern", ["e", "w", "G", "zzz", "XXX", "[yyyy]", "MMMMM", "ddd", "'x", "aa", "yyyyyyy"]
)
def test_unsupported_fields_are_refused_in_formatting(pattern: str) -> None:
    with pytest.raises(Unportable, match="pattern"):
        format_by_pattern(pl.col("at"), pattern)


@pytest.mark.parametrize(
    "pattern", ["EEE d", "DDD yyyy", "h:mm", "HH a", "HH h a", "yMMdd", "yyyy yyyy", "kk", "Q"]
)
def test_unsupported_fields_are_refused_in_parsing(pattern: str) -> None:
    with pytest.raises(Unportable, match="pattern"):
        parse_formatted_times(pl.col("at"), pattern)


def test_a_statement_parses_and_formats() -> None:
    clicks = pl.DataFrame({"text": ["02.01.2026 09:04", "02.01.2026 09:07", "yesterday"]})
    views = mt.sql(
        """
        WITH v AS (SELECT to_timestamp(text, 'dd.MM.yyyy HH:mm') AS at FROM clicks)
        SELECT date_format(window_start, 'EEE HH:mm') AS since, count(*) AS n
        FROM v GROUP BY TUMBLE(at, INTERVAL '5' MINUTE)
        """,
        clicks=clicks,
    )
    assert sorted(views.results.select("since", "n").rows()) == [("Fri 09:00", 1), ("Fri 09:05", 1)]
    assert views.rejected["reason"].to_list() == ["null_time"]


def test_a_pattern_that_only_spark_has_is_named() -> None:
    clicks = pl.DataFrame({"at": TIMES}, schema={"at": pl.Datetime("us")})
    statement = "SELECT date_format(window_start, 'zzz') AS z, count(*) AS n FROM clicks GROUP BY "
    with pytest.raises(mt.SqlError, match="the field 'zzz' of a time pattern, which needs Spark"):
        mt.sql(f"{statement} TUMBLE(at, INTERVAL 1 HOUR)", clicks=clicks)
