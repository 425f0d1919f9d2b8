"""A kind of windows that nobody knows of: all that goes by numbers takes it as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors import Batch, Door, EngineDoor, StandaloneDoor
from tests.property.agreement import differences

from muntin.explain.cautions import list_cautions
from muntin.explain.ruler import draw_ruler
from muntin.explain.size import Rates
from muntin.explain.story import describe_spec
from muntin.model import aggregates
from muntin.model.axis import Axis
from muntin.model.by_number import ByNumber
from muntin.model.policies import Each, Firing
from muntin.model.spec import WindowSpec
from muntin.testing.oracle.placing import BOUNDS


@dataclass(frozen=True, slots=True)
class Shifts(ByNumber):
    """Windows of two lengths in turn, as of an early and a late shift."""

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


def bounds(kind: Shifts, position: int) -> Iterator[tuple[int, int]]:
    start = position - position % (kind.early + kind.late)
    middle = start + kind.early
    yield (start, middle) if position < middle else (middle, middle + kind.late)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BOUNDS, Shifts, bounds)


def query(windows: Shifts) -> WindowSpec:
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
    door=st.sampled_from([EngineDoor(), EngineDoor(2), StandaloneDoor()]),
)
def test_a_kind_of_its_own_gives_what_the_oracle_gives(
    batches: list[list[tuple[str, int, int]]], early: int, door: Door
) -> None:
    steps = [
        Batch(
            messages=[{"k": k, "t": t, "v": v} for k, t, v in batch],
            wall=0,
            final=number == len(batches) - 1,
        )
        for number, batch in enumerate(batches)
    ]
    assert differences(door, query(Shifts(early, 4)), steps) == []


def test_a_kind_of_its_own_is_explained() -> None:
    spec = query(Shifts(6, 3))
    assert draw_ruler(spec.windows, 31)[0] == "|-----------|-----|-----------|"
    emitted = describe_spec(spec)
    assert "shifts of 6 and 3" in emitted
    assert "up to 1 for each window; a message is stored once, in its pane" in emitted
    assert not any("slide is small" in caution for caution in list_cautions(spec, Rates(10, 3)))
