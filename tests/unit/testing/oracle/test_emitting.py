from __future__ import annotations

from typing import Any

import pytest
from tests.unit.testing.oracle.queries import build_time_spec, place_messages

from muntin.model.policies import Each, Every, EveryRows, Firing, RowsOrEvery
from muntin.model.windows import Windows
from muntin.testing.oracle.emitting import Ending, firings, row
from muntin.testing.oracle.marks import Watermarks
from muntin.testing.oracle.window import OracleWindow


def build_window(end: int = 10, emitted: int = 0, start: int = 0, key: str = "a") -> OracleWindow:
    messages = place_messages(1, 2, 3)
    return OracleWindow((key,), start, end, end, messages, messages[emitted:], 1 if emitted else 0)


def list_emissions(firing: Firing, before: int, after: int, **options: Any) -> list[str]:
    spec = build_time_spec(Windows(10, 10), firing=firing)
    ending = Ending(Watermarks(spec, before), Watermarks(spec, after), wall=20, wall_before=9)
    return [emission for _, emission in firings(spec, [build_window(**options)], ending)]


@pytest.mark.parametrize(("before", "after", "full"), [(9, 10, True), (9, 99, True), (3, 9, False)])
def test_full_when_the_watermark_reaches_the_end(before: int, after: int, full: bool) -> None:
    assert list_emissions(Firing(), before, after) == ["full"] * full


@pytest.mark.parametrize(("emitted", "full"), [(0, True), (2, True), (3, False)])
def test_full_without_repeating(emitted: int, full: bool) -> None:
    firing = Firing(early=EveryRows(99), repeat=False)
    assert list_emissions(firing, 9, 10, emitted=emitted) == ["full"] * full


@pytest.mark.parametrize(
    ("policy", "emitted", "due"),
    [
        (None, 0, False),
        (Each(), 0, True),
        (Each(), 3, False),
        (EveryRows(3), 0, True),
        (EveryRows(3), 1, False),
        (Every(10), 0, True),
        (Every(25), 0, False),
        (Every(10, least=3), 0, True),
        (Every(10, least=3), 1, False),
        (RowsOrEvery(3, 25), 0, True),
        (RowsOrEvery(4, 25), 0, False),
        (RowsOrEvery(4, 10), 2, True),
        (RowsOrEvery(4, 10), 3, False),
    ],
)
def test_early_when_the_policy_is_due(policy: Any, emitted: int, due: bool) -> None:
    assert list_emissions(Firing(early=policy), 3, 4, emitted=emitted) == ["early"] * due


def test_late_when_the_policy_is_due_or_the_window_closes() -> None:
    rare_late = Firing(late=Every(1_000), grace=5, retention=5)
    assert list_emissions(rare_late, 12, 13) == []
    assert list_emissions(rare_late, 12, 15) == ["late"]
    assert list_emissions(rare_late, 12, 15, emitted=3) == []
    assert list_emissions(Firing(late=Each(), grace=5, retention=5), 12, 13) == ["late"]


def test_the_order_in_which_windows_emit() -> None:
    spec = build_time_spec(Windows(10, 10))
    ending = Ending(Watermarks(spec, 0), Watermarks(spec, 99), wall=0, wall_before=None)
    windows = [
        build_window(20),
        build_window(10, key="b"),
        build_window(10),
        build_window(9, start=-1),
    ]
    windows[0].replaced.append(build_window(30, emitted=3))
    emitted = firings(spec, windows, ending)
    assert [(w.start, w.key[0], w.end, emission) for w, emission in emitted] == [
        (0, "a", 30, "retract"),
        (-1, "a", 9, "full"),
        (0, "a", 10, "full"),
        (0, "a", 20, "full"),
        (0, "b", 10, "full"),
    ]


def test_a_retracted_row_has_no_values() -> None:
    emitted, overflown = row(build_time_spec(Windows(10, 10)), build_window(emitted=3), "retract")
    assert not overflown
    assert emitted == {
        "key": "a",
        "window_start": 0,
        "window_end": 10,
        "n": None,
        "sum": None,
        "emission": "retract",
        "revision": 1,
    }


def test_a_delta_has_only_the_new_messages() -> None:
    spec = build_time_spec(Windows(10, 10), firing=Firing(accumulate=False))
    emitted, _ = row(spec, build_window(emitted=1), "late")
    assert (emitted["n"], emitted["sum"]) == (2, 5)
