"""Tests that changes inside of values that agents read are seen at once, and kept."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.stores import Image, memory
from muntin.tables import App


def make_lists(app: App) -> Any:
    return app.Table("t", default=list)


def make_windowed(app: App) -> Any:
    return app.Table("t", default=list).hopping(10, 5, key_index=True)


def run_in_one_batch(make: Any, *steps: Any) -> list[Any]:
    """Return the result of each step, a function of the table, and the table's entries at the end.

    Each step is an event, all at one time and in one batch.
    """
    app = App("app", max_ahead=None)
    table = make(app)
    results: list[Any] = []

    @app.agent(app.topic("events"))
    def agent(number: int) -> None:
        results.append(steps[number](table))

    with app.open(clock=lambda: 1.0) as running:
        running.feed({"events": range(len(steps))})
        results.append(dict(table.items()) if make is make_lists else table["a"].windows())
    return results


def append(table: Any) -> None:
    table["a"].append(1)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda t: "a" in t, True),
        (lambda t: "b" in t, False),
        (lambda t: len(t), 1),
        (lambda t: list(t), ["a"]),
        (lambda t: t.keys(), ["a"]),
        (lambda t: t.items(), [("a", [1])]),
        (lambda t: t.values(), [[1]]),
        (lambda t: t.get("a", 7), [1]),
        (lambda t: t.setdefault("a", [5]), [1]),
    ],
)
def test_what_was_changed_in_place_is_seen_before_the_batch_ends(ask: Any, answer: Any) -> None:
    assert run_in_one_batch(make_lists, append, ask) == [None, answer, {"a": [1]}]


def test_it_can_be_taken_away_before_the_batch_ends() -> None:
    assert run_in_one_batch(make_lists, append, lambda t: t.pop("a")) == [None, [1], {}]

    def delete(table: Any) -> None:
        del table["a"]

    assert run_in_one_batch(make_lists, append, delete) == [None, None, {}]


def test_a_default_that_nobody_changed_is_no_value() -> None:
    def read(table: Any) -> Any:
        return table["a"], "a" in table, len(table), table.items(), table.get("a")

    assert run_in_one_batch(make_lists, read) == [([], False, 0, [], None), {}]


def test_values_that_were_walked_over_are_kept_as_the_agent_leaves_them() -> None:
    image = Image()
    for upto in (2, 3, 3):
        app = App("app", max_ahead=None)
        table = app.Table("t", default=list)

        @app.agent(app.topic("events"))
        def work(number: int, table: Any = table) -> None:
            if number < 2:
                table["ab"[number]] += [number]
                return
            for key, value in table.items():
                value[:] = [key]
            for value in table.values():
                value.append("walked")

        with app.run({"events": range(upto)}, store=memory(image), batch=1):
            walked = {"a": ["a", "walked"], "b": ["b", "walked"]}
            assert dict(table.items()) == ({"a": [0], "b": [1]} if upto == 2 else walked)


def test_outside_of_agents_values_are_copies() -> None:
    app = App("app", max_ahead=None)
    plain, hopping = app.Table("plain", default=list), app.Table("hopping", default=list)
    windows = hopping.tumbling(10)

    @app.agent(app.topic("events"))
    def work(value: Any) -> None:
        plain["a"] += [value]
        windows["a"] += [value]

    with app.open() as running:
        running.send("events", 1, key="a", timestamp=1.0)
        plain["a"].clear()
        plain["b"].append(1)
        for values in (
            plain.values(),
            windows["a"].windows().values(),
            windows.values().current(1),
        ):
            for value in values:
                value.clear()
        assert (dict(plain.items()), "b" in plain) == ({"a": [1]}, False)
        assert windows["a"].windows() == {(0.0, 10.0): [1]}
        assert dict(windows.items().current(1.0)) == {"a": [1]}


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda t: "a" in t, True),
        (lambda t: "b" in t, False),
        (lambda t: len(t), 1),
        (lambda t: list(t), ["a"]),
        (lambda t: list(t.keys()), ["a"]),
        (lambda t: list(t.items()), [("a", [1])]),
        (lambda t: list(t.values().current()), [[1]]),
        (lambda t: list(t["a"].windows().values()), [[1]]),
    ],
)
def test_so_it_is_with_windows(ask: Any, answer: Any) -> None:
    (_, result, windows) = run_in_one_batch(
        make_windowed, lambda t: t["a"].current().append(1), ask
    )
    assert (result, list(windows.values())) == (answer, [[1]])


def walk_windows(table: Any) -> None:
    for value in table["a"].windows().values():
        value.append("all")
    for value in table.values():
        value.append("newest")
    for _, value in table.items().current():
        value.append("again")


def test_values_of_windows_that_were_walked_over_are_kept() -> None:
    image = Image()
    for upto in (1, 2, 2):
        app = App("app", max_ahead=None)
        table = make_windowed(app)

        @app.agent(app.topic("events"))
        def work(number: int, table: Any = table) -> None:
            if number == 0:
                table["a"] += [1]
            else:
                walk_windows(table)

        with app.open(store=memory(image), clock=lambda: 1.0) as running:
            running.feed({"events": range(upto)})
            walked = [[1, "all"], [1, "all", "newest", "again"]]
            assert list(table["a"].windows().values()) == ([[1], [1]] if upto == 1 else walked)


def test_a_window_of_its_own_among_sums_may_be_changed_in_place() -> None:
    def work(table: Any) -> None:
        table["a"] = [1]
        table["a"].current().append(2)
        table["a"] += [3]

    def make(app: App) -> Any:
        return app.Table("t", default=int).hopping(10, 5)

    assert list(run_in_one_batch(make, work)[-1].values()) == [[1, 3], [1, 2, 3]]


def test_windows_that_are_only_changed_in_place_expire() -> None:
    closed: list[Any] = []

    def close(key: Any, value: Any) -> None:
        closed.append((key, value))

    app = App("app", max_ahead=None)
    table = app.Table("t", default=list, on_window_close=close).tumbling(10, expires=10)
    topics = [app.topic("changing"), app.topic("reading")]

    @app.agent(topics[0])
    def change(second: int) -> None:
        table["a"].current().append(second)

    @app.agent(topics[1])
    def read(second: int) -> None:
        table["a"].current()

    with app.open() as running:
        running.send("reading", 0, key="a", timestamp=0.0)
        for second in (1, 5, 12, 40):
            running.send("changing", second, key="a", timestamp=float(second))
        assert [value for _, value in closed] == [[1, 5], [12]]
        assert table["a"].windows() == {(40.0, 50.0): [40]}
