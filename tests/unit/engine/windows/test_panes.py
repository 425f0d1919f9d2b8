from __future__ import annotations

import polars as pl
import pytest

from muntin.engine.windows.panes import (
    first_open_pane,
    first_retained_pane,
    in_columns,
    pane_of,
    window_end,
    window_start,
)
from muntin.model.axis import HOUR, parse_time
from muntin.model.cumulating import Cumulating
from muntin.model.days import Days
from muntin.model.kinds import Paned
from muntin.model.months import Months
from muntin.model.sliding import Sliding
from muntin.model.windows import Windows

EVERY_KIND = [
    Cumulating(12, 4),
    Cumulating(10, 1, 7),
    Cumulating(5, 5, 2),
    Windows(10, 10),
    Windows(10, 10, 3),
    Windows(10, 5),
    Windows(10, 4),
    Windows(10, 3, 2),
    Windows(7, 1),
]
TIMES = [*range(-40, 40), -62_135_596_800_000_000, 253_402_300_799_999_999]


@pytest.mark.parametrize("windows", EVERY_KIND, ids=str)
def test_expressions_equal_the_model(windows: Paned) -> None:
    panes = [windows.pane_of(time) for time in TIMES]
    frame = pl.DataFrame({"time": TIMES, "pane": panes})
    result = frame.select(
        pane=pane_of(pl.col("time"), windows),
        first=in_columns(windows.first_window)(pl.col("pane")),
        last=in_columns(windows.last_window)(pl.col("pane")),
    )
    numbers = pl.Series(panes)
    assert result["pane"].to_list() == panes
    assert result["first"].to_list() == [windows.first_window(pane) for pane in panes]
    assert result["last"].to_list() == [windows.last_window(pane) for pane in panes]
    starts, ends = window_start(numbers, windows), window_end(numbers, windows)
    assert starts.to_list() == [windows.start(number) for number in panes]
    assert ends.to_list() == [windows.end(number) for number in panes]


CHANGES = [
    ("Europe/Berlin", "2026-03-29T01:00:00"),
    ("America/Sao_Paulo", "2018-11-04T03:00:00"),
    ("America/St_Johns", "2010-11-07T02:31:00"),
]


@pytest.mark.parametrize("grid", [Windows(1, 1), Windows(3, 2, 1), Windows(2, 1)], ids=str)
@pytest.mark.parametrize("kind", [Days, Months])
@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_days_in_columns_are_those_of_the_model(
    grid: Windows, kind: type[Days], zone: str, change: str
) -> None:
    windows, change_time = kind(grid, zone), parse_time("change", change)
    times = [change_time + quarter * HOUR // 4 for quarter in range(-300, 300)]
    edges = [windows.midnight(windows.day_of(change_time) + day) for day in range(-3, 4)]
    times += [edge + off for edge in edges for off in (-1, 0, 1)]
    pane_frame = pl.DataFrame({"time": times}).select(pane=pane_of(pl.col("time"), windows))
    panes = [windows.pane_of(time) for time in times]
    assert pane_frame["pane"].to_list() == panes
    window_frame = pane_frame.select(
        first=in_columns(windows.first_window)(pl.col("pane")),
        last=in_columns(windows.last_window)(pl.col("pane")),
    )
    assert window_frame["first"].to_list() == [windows.first_window(pane) for pane in panes]
    assert window_frame["last"].to_list() == [windows.last_window(pane) for pane in panes]
    numbers = pl.Series(panes)
    assert window_start(numbers, windows).to_list() == [windows.start(w) for w in panes]
    assert window_end(numbers, windows).to_list() == [windows.end(w) for w in panes]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("kind", [Days, Months])
def test_days_in_columns_at_the_ends_of_the_calendar(kind: type[Days], zone: str) -> None:
    windows, today = kind(Windows(1, 1), zone), parse_time("today", "2026-03-29T01:00:00")
    edges = [-62_135_596_800_000_000, 253_402_300_800_000_000]
    times = [
        edge + hour * HOUR + off for edge in edges for hour in range(-60, 60) for off in (-1, 0)
    ]
    times += [today, -(2**62), 2**62]
    panes = pl.DataFrame({"time": times}).select(pane=pane_of(pl.col("time"), windows))["pane"]
    assert panes.to_list() == [windows.pane_of(time) for time in times]
    assert window_start(panes, windows).to_list() == [windows.start(w) for w in panes]
    assert window_end(panes, windows).to_list() == [windows.end(w) for w in panes]


def test_only_the_days_that_occur_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    computed_days: list[int] = []
    midnight = Days.midnight

    def count_midnight(days: Days, day: int) -> int:
        computed_days.append(day)
        return midnight(days, day)

    monkeypatch.setattr(Days, "midnight", count_midnight)
    times = [0, 5 * HOUR, parse_time("far", "1066-10-14T09:00:00")]
    pl.DataFrame({"time": times}).select(pane_of(pl.col("time"), Days(Windows(1, 1), "UTC")))
    assert len(computed_days) < 20


def test_no_times_have_no_panes() -> None:
    no_times = pl.DataFrame(schema={"time": pl.Int64})
    windows = Days(Windows(1, 1), "Europe/Berlin")
    assert no_times.select(pane_of(pl.col("time"), windows)).to_series().to_list() == []
    assert window_start(pl.Series([], dtype=pl.Int64), windows).to_list() == []


def test_every_position_is_a_pane_of_sliding_windows() -> None:
    windows, positions = Sliding(10), pl.Series([-3, 0, 10**17])
    assert (
        pl.select(pane_of(pl.lit(positions), windows)).to_series().to_list() == positions.to_list()
    )
    assert window_start(positions, windows).to_list() == positions.to_list()
    assert window_end(positions, windows).to_list() == [7, 10, 10**17 + 10]


@pytest.mark.parametrize("grace", [0, 1, 6])
def test_a_position_is_closed_when_the_last_window_that_could_hold_it_is(grace: int) -> None:
    windows = Sliding(4)
    for watermark in range(-9, 9):
        first_open = first_open_pane(windows, watermark, grace)
        for position in range(-30, 30):
            # The window that begins at a position is the last that may hold it.
            still_open = position + 4 + 1 + grace > watermark
            assert (position >= first_open) == still_open


@pytest.mark.parametrize("windows", [*EVERY_KIND, Sliding(1), Sliding(9)], ids=str)
@pytest.mark.parametrize("retention", [0, 5, 21])
def test_panes_of_windows_within_the_retention_are_retained(
    windows: Paned | Sliding, retention: int
) -> None:
    for watermark in range(-15, 15):
        first_retained = first_retained_pane(windows, watermark, retention)
        least_end = 1 if isinstance(windows, Sliding) else 0
        retained_windows = [
            window
            for window in range(-90, 60)
            if windows.end(window) + least_end + retention > watermark
        ]
        assert first_retained == windows.first_pane(min(retained_windows))
    assert first_retained_pane(windows, None, retention) is None


def test_panes_where_the_slide_does_not_divide() -> None:
    # time    0    1    2 | 3 4 | 5 ...       windows of 8 every 5, panes of 3 and 2 by turns
    # pane   |------ 0 ----|-- 1 -|--- 2
    windows = Windows(8, 5)
    panes = pl.select(pane_of(pl.int_range(-2, 8), windows)).to_series()
    assert panes.to_list() == [-1, -1, 0, 0, 0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("windows", EVERY_KIND, ids=str)
@pytest.mark.parametrize("grace", [0, 1, 6])
def test_a_pane_is_closed_when_all_of_its_windows_are(windows: Paned, grace: int) -> None:
    for watermark in range(-25, 25):
        first_open = first_open_pane(windows, watermark, grace)
        for pane in range(-60, 60):
            last = windows.last_window(pane)
            still_open = windows.end(last) + grace > watermark
            assert (pane >= first_open) == still_open


def test_nothing_is_closed_before_the_first_message() -> None:
    assert first_open_pane(Windows(10, 5), None, 3) is None
