from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pandas as pd
import pytest

from muntin.model.axis import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    WEEK,
    Duration,
    format_duration,
    format_length,
    parse_duration,
    parse_length,
    parse_time,
    read_position,
    rows,
)
from muntin.model.errors import MuntinError, OptionError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 minutes", 10 * MINUTE),
        ("10minutes", 10 * MINUTE),
        (" 10  Minutes ", 10 * MINUTE),
        ("1 hour 30 minutes", 90 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("1.5 seconds", 1_500_000),
        ("250 ms", 250_000),
        ("7 us", 7),
        ("2 weeks", 2 * WEEK),
        ("0 s", 0),
        ("PT10M", 10 * MINUTE),
        ("pt1h30m", 90 * MINUTE),
        ("P1DT12H", DAY + 12 * HOUR),
        ("P2W", 2 * WEEK),
        ("PT0.25S", 250_000),
        (timedelta(days=1, microseconds=1), DAY + 1),
        ("200000 days 1 us", 200_000 * DAY + 1),
        ("INTERVAL '10' MINUTE", 10 * MINUTE),
        ("interval 1 hour", HOUR),
        ("INTERVAL '1' DAY INTERVAL '2' HOUR", DAY + 2 * HOUR),
        ("1 hr", HOUR),
    ],
)
def test_durations(text: str | timedelta, expected: int) -> None:
    assert parse_duration("size", text) == expected


@pytest.mark.parametrize(
    "value",
    ["1000000000 days", "P53000W", timedelta(days=400_000), "9" * 5000 + " s", "9" * 400 + ".5 h"],
)
def test_durations_that_no_calendar_has_are_refused(value: str | timedelta) -> None:
    with pytest.raises(OptionError, match=r"gap=.* is longer than calendars are; give 1000 years"):
        parse_duration("gap", value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "minutes",
        "10",
        "10 fortnights",
        "ten minutes",
        "-",
        "PT",
        "P",
        10,
        None,
        "INTERVAL '1 02' DAY TO HOUR",
    ],
)
def test_invalid_durations_are_refused(value: object) -> None:
    with pytest.raises(OptionError, match=r"isn't a duration; write (for example|.10 seconds)"):
        parse_duration("size", value)


@pytest.mark.parametrize("value", [timedelta(seconds=-1), "-1 s", " -PT5M"])
def test_negative_duration(value: Duration) -> None:
    with pytest.raises(OptionError, match="is negative; durations start at zero"):
        parse_duration("grace", value)


def test_a_zero_duration_may_be_refused() -> None:
    with pytest.raises(OptionError, match="size='0 s' is zero"):
        parse_duration("size", "0 s", zero=False)


def test_an_option_error_is_a_value_error_and_a_muntin_error() -> None:
    error = OptionError("slide", 3, "is odd", "give an even one")
    assert isinstance(error, ValueError)
    assert isinstance(error, MuntinError)
    assert (error.option, error.value) == ("slide", 3)
    assert str(error) == "slide=3 is odd; give an even one"


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (0, "0 seconds"),
        (1, "1 microsecond"),
        (SECOND, "1 second"),
        (90 * MINUTE, "1 hour 30 minutes"),
        (2 * DAY + 3_004, "2 days 3 milliseconds 4 microseconds"),
    ],
)
def test_phrase(duration: int, expected: str) -> None:
    assert format_duration(duration) == expected


@pytest.mark.parametrize("duration", [1, 999, SECOND + 1, 8 * WEEK + 5 * HOUR, 300_000 * DAY + 1])
def test_a_phrase_can_be_read_back(duration: int) -> None:
    assert parse_duration("size", format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01", SECOND),
        ("1969-12-31T23:59:59.999999", -1),
        ("1970-01-01T01:00:00+01:00", 0),
        (datetime(1970, 1, 1, 0, 0, 1), SECOND),
        (datetime(1970, 1, 2, tzinfo=UTC), DAY),
        (datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=1))), -HOUR),
        ("0001-01-01T00:00:00", -62_135_596_800 * SECOND),
        ("9999-12-31T23:59:59.999999", 253_402_300_800 * SECOND - 1),
    ],
)
def test_instants(value: str | datetime, expected: int) -> None:
    assert parse_time("origin", value) == expected


@pytest.mark.parametrize("value", ["noon", "", 5, None])
def test_invalid_times_are_refused(value: object) -> None:
    with pytest.raises(OptionError, match="isn't a point in time"):
        parse_time("origin", value)


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "3", None])
def test_invalid_numbers_of_rows_are_refused(count: object) -> None:
    with pytest.raises(OptionError, match="isn't a number of rows"):
        rows(count)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [2**61, 10**30])
def test_more_rows_than_a_source_counts(count: int) -> None:
    with pytest.raises(OptionError, match="is more than a source counts"):
        rows(count)


def test_a_length_knows_its_axis() -> None:
    assert parse_length("size", rows(3)) == (3, "rows")
    assert parse_length("size", "3 s") == (3 * SECOND, "time")
    assert parse_length("grace", "0 s", zero=True) == (0, "time")
    with pytest.raises(OptionError, match="size='0 s' is zero"):
        parse_length("size", "0 s")
    assert [format_length(n, "rows") for n in (1, 2)] == ["1 row", "2 rows"]
    assert format_length(3 * SECOND, "time") == "3 seconds"


@pytest.mark.parametrize(
    ("text", "hint"), [("1mo", "1 month"), ("3q", "3 quarters"), ("2y", "2 years")]
)
def test_calendar_lengths_of_polars_are_translated(text: str, hint: str) -> None:
    with pytest.raises(OptionError, match=f'write "{hint}"'):
        parse_duration("size", text)


@pytest.mark.parametrize(
    "value", [pd.Timedelta(1), pd.Timedelta("1 us 500 ns"), "0.4 us", "PT0.0000001S"]
)
def test_a_length_that_microseconds_do_not_measure_is_refused(value: Duration) -> None:
    with pytest.raises(OptionError, match="give whole microseconds"):
        parse_duration("lateness", value)
    assert parse_duration("lateness", pd.Timedelta("2 us")) == 2


@pytest.mark.parametrize("text", ["\N{SUPERSCRIPT TWO}", "--5", "1_0", "-"])
def test_an_offset_is_a_whole_number(text: str) -> None:
    with pytest.raises(OptionError, match="isn't an offset; give a whole number"):
        read_position("start", text, "rows")
    assert read_position("start", "-5", "rows") == -5
