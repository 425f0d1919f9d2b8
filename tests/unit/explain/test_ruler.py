"""Tests of windows drawn on a ruler."""

from __future__ import annotations

import pytest

from muntin.explain.ruler import create_picture, draw_ruler
from muntin.model import cumulating, days, sessions, sliding, windows
from muntin.model.axis import rows

HOP = """
|-------------------|
        |-------------------|
                |-------------------|
                        |-------------------|
+-------+-------+---+---+---+-------+-------+  panes
0       4       8   10  12  14      18      22  minutes
"""
TUMBLE = """
|---------|---------|---------|
0         3         6         9  rows
"""
CUMULATE = """
|-----|
|-----------|
|-----------------|
|-----------------------|
                        |-----|
+-----+-----+-----+-----+-----+  panes
0     6     12    18    24    30  hours
"""
SESSION = """
●  ●      ●                   ●  messages
|----------~~~~~~~~~|         |~~~~~~~~~|
0         30        60        90        120  minutes
a silence of 30 minutes ends a session
"""
SLIDE = """
                    ●         ●  messages
|-------------------|
          |-------------------|
                    |-------------------|  just behind the first message
-10                 0         5         10  minutes
one ends with each message, one begins just behind it
"""
BERLIN = """
|---------|---------|---------|
0         1         2         3  days
whole days of Europe/Berlin, 23 to 25 hours long
"""


@pytest.mark.parametrize(
    ("kind", "width", "expected"),
    [
        (windows.hopping("10 minutes", "4 minutes"), 45, HOP),
        (windows.tumbling(rows(3)), 31, TUMBLE),
        (cumulating.cumulating("1 day", "6 hours"), 31, CUMULATE),
        (sessions.make_sessions("30 minutes"), 41, SESSION),
        (sliding.sliding("10 minutes"), 41, SLIDE),
        (days.days("1 day", "Europe/Berlin"), 31, BERLIN),
    ],
    ids=["hopping", "tumbling", "cumulating", "session", "sliding", "days"],
)
def test_each_kind_is_drawn(kind, width, expected):
    assert "\n".join(["", *draw_ruler(kind, width), ""]) == expected


@pytest.mark.parametrize("size", ["1 second", "7 minutes", "3 hours", "90 days"])
@pytest.mark.parametrize("slide", ["1 ms", "77 ms", "1 second"])
def test_windows_that_overlap_much_are_drawn_in_part(size, slide):
    lines = draw_ruler(windows.hopping(size, slide))
    assert len(lines) <= 10
    assert max(map(len, lines)) < 100
    if len(lines) > 4:
        assert "hold a message" in lines[-1] or "panes" in lines[-2]


def test_bars_are_to_scale():
    picture = create_picture(windows.hopping("10 minutes", "4 minutes"))
    assert [bar.end - bar.start for (bar,) in picture.bars] == [600_000_000] * 4
    assert [bar.start // 60_000_000 for (bar,) in picture.bars] == [0, 4, 8, 12]
