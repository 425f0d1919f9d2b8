"""Tests that numbered windows of a new kind work everywhere, without changes elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.agreement import differences
from tests.runners import Batch, EngineRunner, Runner, StandaloneRunner

from muntin.explain.cautions import list_cautions
from muntin.explain.ruler import draw_ruler
from muntin.explain.size import Rates
from muntin.explain.windows import describe_spec
from muntin.model import aggregates
from muntin.model.axis import Axis, rows
from muntin.model.by_number import ByNumber
from muntin.model.cumulating import cumulating
from muntin.model.days import days
from muntin.model.kinds import Kind, is_paned, of_size
from muntin.model.policies import Each, Firing
from muntin.model.sessions import make_sessions
from muntin.model.sliding import rolling, sliding
from muntin.model.spec import WindowSpec
from muntin.model.trailing import trailing
from muntin.model.windows import hopping, tumbling
from muntin.testing.oracle.placing import BOUNDS


@dataclass(frozen=True, slots=True)
class Shifts(ByNumber):
    """Windows of two alternating lengths, like an early and a late shift."""

    KIND: ClassVar[str] = "shifts"

    early: int
    late: int
    origin: int = 0
    axis: Axis = "time"

    @property
    def length(self) -> int:
        return max(self.early, self.late)

    @property
    def pace(self) -> int:
        return min(self.early, self.late)

    @property
    def panes_per_window(self) -> int:
        return 1

    def start(self, window: int) -> int:
        turn = window // 2
        return turn * (self.early + self.late) + (window - 2 * turn) * self.early

    def end(self, window: int) -> int:
        return self.start(window + 1)

    def pane_of(self, position: int) -> int:
        turn = self.early + self.late
        return position // turn + (position - self.early) // turn + 1

    def pane_start(self, pane: int) -> int:
        return self.start(pane)

    def first_pane(self, window: int) -> int:
        return window

    def last_pane(self, window: int) -> int:
        return window

    def first_window(self, pane: int) -> int:
        return pane

    def last_window(self, pane: int) -> int:
        return pane

    def last_ended(self, position: int) -> int:
        return self.pane_of(position) - 1

    def __str__(self) -> str:
        return f"shifts of {self.early} and {self.late}"


def find_bounds(kind: Shifts, position: int) -> Iterator[tuple[int, int]]:
    start = position - position % (kind.early + kind.late)
    middle = start + kind.early
    yield (start, middle) if position < middle else (middle, middle + kind.late)


@pytest.fixture(autouse=True)
def _register_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BOUNDS, Shifts, find_bounds)


def make_spec(windows: Shifts) -> WindowSpec:
    aggs = {"n": aggregates.count(), "sum": aggregates.sum("v"), "mode": aggregates.mode("v")}
    firing = Firing(early=Each(), late=Each(), grace=5, retention=9)
    types = {"k": "string", "v": "long"}
    return WindowSpec(("k",), "t", windows, aggs, firing=firing, lateness=3, types=types)


MESSAGES = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(-30, 60), st.integers(0, 3)), max_size=20
)


@given(
    batches=st.lists(MESSAGES, min_size=1, max_size=3),
    early=st.integers(1, 9),
    runner=st.sampled_from([EngineRunner(), EngineRunner(2), StandaloneRunner()]),
)
def test_a_new_kind_emits_what_the_oracle_emits(
    batches: list[list[tuple[str, int, int]]], early: int, runner: Runner
) -> None:
    steps = [
        Batch(
            messages=[{"k": k, "t": t, "v": v} for k, t, v in batch],
            wall=0,
            final=number == len(batches) - 1,
        )
        for number, batch in enumerate(batches)
    ]
    assert differences(runner, make_spec(Shifts(early, 4)), steps) == []


def test_a_new_kind_is_explained() -> None:
    spec = make_spec(Shifts(6, 3))
    assert draw_ruler(spec.windows, 31)[0] == "|-----------|-----|-----------|"
    text = describe_spec(spec)
    assert "shifts of 6 and 3" in text
    assert "up to 1 for each window; a message is stored once, in its pane" in text
    assert not any("slide is small" in caution for caution in list_cautions(spec, Rates(10, 3)))


@pytest.mark.parametrize(
    ("kind", "overlap", "has_panes"),
    [
        (tumbling("10 us"), 1, True),
        (hopping("10 us", "4 us"), 3, True),
        (cumulating("12 us", "4 us"), 3, True),
        (days("2 days", "Europe/Berlin", slide="1 day"), 2, True),
        (Shifts(6, 3), 1, True),
        (sliding("10 us"), 1, False),
        (trailing(["20 us", "10 us"], "10 us"), 1, False),
        (make_sessions("10 us"), 1, False),
        (of_size("1 day", zone_column="tz"), 1, False),
    ],
    ids=str,
)
def test_kinds_say_how_many_windows_a_message_is_in(
    kind: Kind, overlap: int, has_panes: bool
) -> None:
    assert kind.overlap == overlap
    assert is_paned(kind) == has_panes
    assert kind.is_numbered == (kind.KIND != "session")


@given(start=st.integers(-40, 40), size=st.integers(1, 12), slide=st.integers(1, 12))
def test_the_windows_at_a_position_are_those_that_contain_it(
    start: int, size: int, slide: int
) -> None:
    for kind in (hopping(f"{max(size, slide)} us", f"{slide} us"), Shifts(size, slide)):
        numbers = kind.windows_at(start)
        containing = [k for k in range(-99, 99) if kind.start(k) <= start < kind.end(k)]
        assert [*numbers] == containing
        assert {*kind.windows_of([kind.pane_of(start)])} == {*numbers}


def test_sliding_windows_follow_from_the_messages() -> None:
    kind = sliding("10 us")
    # Each message ends a window, and starts one behind itself if another one is near.
    assert [*kind.windows_of([0, 3, 30])] == [-10, -7, 20, 1]
    assert [*rolling("10 us").windows_of([0, 3, 30])] == [-9, -6, 21]
    assert [*kind.windows_at(3)] == [*range(-7, 4)]


def test_columns_of_windows_are_converted() -> None:
    def convert(field: str, column: str) -> str:
        return f"{field}:{column}"

    cut_sessions = make_sessions("10 us", start="x > 1", same="page").map_columns(convert)
    assert cut_sessions.columns == {"start": "start:x > 1", "same": "same:page"}
    assert make_sessions(by="gap").map_columns(convert).own_gap == "by:gap"
    assert of_size("1 day", zone_column="tz").map_columns(convert).zone_column == "column:tz"
    assert tumbling("10 us").map_columns(convert) == tumbling("10 us")


def test_windows_complete_the_keys() -> None:
    offset = ("partition", "offset")
    assert of_size(rows(3)).complete_keys(("k",), offset) == ("partition", "k")
    assert of_size(rows(3)).complete_keys(("partition", "k"), offset) == ("partition", "k")
    assert tumbling("10 us").complete_keys(("k",), offset) == ("k",)
    zoned = of_size("1 day", zone_column="tz")
    assert zoned.complete_keys(("k",), None) == ("k", "tz")
    assert zoned.complete_keys(("tz", "k"), None) == ("tz", "k")
