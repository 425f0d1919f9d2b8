from __future__ import annotations

import polars as pl
import pytest

from muntin.engine.panes import closed_before, first_window, last_window, pane_of, window_start
from muntin.model.windows import Windows

EVERY_KIND = [
    Windows(10, 10),
    Windows(10, 10, 3),
    Windows(10, 5),
    Windows(10, 4),
    Windows(10, 3, 2),
    Windows(7, 1),
]
TIMES = [*range(-40, 40), -62_135_596_800_000_000, 253_402_300_799_999_999]


@pytest.mark.parametrize("windows", EVERY_KIND, ids=str)
def test_columns_say_what_the_model_says(windows: Windows) -> None:
    panes = [windows.pane_of(time) for time in TIMES]
    frame = pl.DataFrame({"time": TIMES, "pane": panes})
    found = frame.select(
        pane=pane_of(pl.col("time"), windows),
        first=first_window(pl.col("pane"), windows),
        last=last_window(pl.col("pane"), windows),
        start=window_start(pl.col("pane"), windows),
    )
    assert found["pane"].to_list() == panes
    assert found["first"].to_list() == [windows.first_window(pane) for pane in panes]
    assert found["last"].to_list() == [windows.last_window(pane) for pane in panes]
    assert found["start"].to_list() == [windows.start(number) for number in panes]


def test_panes_where_the_slide_does_not_divide() -> None:
    # time    0    1    2 | 3 4 | 5 ...       windows of 8 every 5, panes of 3 and 2 by turns
    # pane   |------ 0 ----|-- 1 -|--- 2
    windows = Windows(8, 5)
    found = pl.select(pane_of(pl.int_range(-2, 8), windows)).to_series()
    assert found.to_list() == [-1, -1, 0, 0, 0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("windows", EVERY_KIND, ids=str)
@pytest.mark.parametrize("grace", [0, 1, 6])
def test_a_pane_is_closed_when_all_of_its_windows_are(windows: Windows, grace: int) -> None:
    for watermark in range(-25, 25):
        opened = closed_before(windows, watermark, grace)
        for pane in range(-60, 60):
            last = windows.last_window(pane)
            still_open = windows.end(last) + grace > watermark
            assert (pane >= opened) == still_open


def test_nothing_is_closed_before_the_first_message() -> None:
    assert closed_before(Windows(10, 5), None, 3) is None
