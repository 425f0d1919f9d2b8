"""Tests of sessions whose values are read before they are written, or changed in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from muntin.stores import Image, memory
from muntin.tables import App

Step = Callable[[Any], Any]


def run_steps(default: Any, *steps: tuple[float, Step], batch: int, **options: Any) -> Any:
    """Run a step at each of some times, and return the sessions of key ``a`` with a gap of 10."""
    app = App("app", max_ahead=None)
    table = app.Table("t", default=default).session(10, **options)

    @app.agent(app.topic("events"))
    async def agent(stream: Any) -> None:
        async for event in stream.events():
            by_time[event.timestamp](table)

    by_time = dict(steps)
    with app.open() as running:
        for at in range(0, len(steps), batch):
            topics = running.topics
            for time, _ in steps[at : at + batch]:
                topics.send("events", 1, timestamp=time)
            running.feed(topics)
        return table["a"].windows()


def count(table: Any) -> None:
    number, total = table["a"].current()
    table["a"] = (number + 1, total + 0.5)


@pytest.mark.parametrize("batch", [1, 100])
def test_a_value_may_be_read_and_then_written(batch: int) -> None:
    steps = [(time, count) for time in (1.0, 5.0, 14.0, 40.0)]
    assert run_steps(lambda: (0, 0.0), *steps, batch=batch) == {
        (1.0, 24.0): (3, 1.5),
        (40.0, 50.0): (1, 0.5),
    }


@pytest.mark.parametrize("batch", [1, 100])
def test_what_was_read_of_sessions_that_grow_together_is_overwritten(batch: int) -> None:
    def start(table: Any) -> None:
        table["a"] = [1]

    def overwrite(table: Any) -> None:
        table["a"].current(1.0).append("lost")
        table["a"].current(16.0).append("lost")
        table["a"] = ["all"]

    windows = run_steps(list, (1.0, start), (16.0, start), (8.0, overwrite), batch=batch)
    assert windows == {(1.0, 26.0): ["all"]}


@pytest.mark.parametrize("batch", [1, 100])
def test_a_write_costs_no_other_session_what_was_changed_in_it(batch: int) -> None:
    """A session that begins at the time 0 keeps its changes, too."""

    def start(table: Any) -> None:
        table["a"] = ["first"]

    def write(table: Any) -> None:
        table["a"].current(0.0).append("in place")
        table["a"] = ["second"]

    assert run_steps(list, (0.0, start), (50.0, write), batch=batch) == {
        (0.0, 10.0): ["first", "in place"],
        (50.0, 60.0): ["second"],
    }


@pytest.mark.parametrize("batch", [1, 100])
def test_what_is_changed_in_place_is_kept_and_lengthens_nothing(batch: int) -> None:
    def start(table: Any) -> None:
        table["a"] += [1]

    def change(table: Any) -> None:
        table["a"].current().append(2)
        assert [list(value) for value in table["a"].windows().values()] == [[1, 2]]
        assert list(table.items()) == [("a", [1, 2])]
        for value in table.values():
            value.append(3)

    def begin_nothing(table: Any) -> None:
        table["a"].current().append(4)
        assert "a" not in table

    steps = (0.0, start), (5.0, change), (40.0, begin_nothing)
    assert run_steps(list, *steps, batch=batch) == {(0.0, 10.0): [1, 2, 3]}


def test_the_agent_may_hold_on_to_a_value_that_it_changed() -> None:
    app = App("app", max_ahead=None)
    table = app.Table("t", default=list).session(10)
    values: list[Any] = []

    @app.agent(app.topic("events"))
    def agent(value: Any) -> None:
        if not values:
            table["a"] += [value]
            values.append(table["a"].current())
        values[0].append(value)

    with app.open() as running:
        for value in (1, 2):
            running.send("events", value, timestamp=1.0)
        assert table["a"].windows() == {(1.0, 11.0): [1, 1]}


@dataclass
class Total:
    n: int

    def __add__(self, other: Total) -> Total:
        return Total(self.n + other.n)


def test_sessions_of_a_declared_type_outlive_a_restart() -> None:
    image = Image()
    for number in (1, 2):
        app = App("app", max_ahead=None)
        table = app.Table("t", default=lambda: Total(0), value_type=Total).session(10)

        @app.agent(app.topic("events"))
        def agent(value: int, table: Any = table) -> None:
            table["a"] += Total(value)

        with app.open(store=memory(image)) as running:
            running.send("events", 2, timestamp=float(number))
            assert table["a"].windows() == {(1.0, number + 10.0): Total(2 * number)}


@pytest.mark.parametrize("batch", [1, 100])
def test_an_event_within_the_gap_of_an_expired_session_is_late(batch: int) -> None:
    """The session of 0 has expired when the clock is at 11.5; that of 12 begins beyond its gap."""

    def add(table: Any) -> None:
        table["a"] += 1

    def elsewhere(table: Any) -> None:
        table["b"] += 1

    steps = (0.0, add), (11.5, elsewhere), (6.0, add), (12.0, add), (10.0, add)
    assert run_steps(int, *steps, batch=batch, expires=1.0) == {(12.0, 22.0): 1}
