"""Tests of reading the changes of a table in the process of its app."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest

import muntin as mt
from muntin.stores import memory
from muntin.tables import App


def make_time(second: float) -> datetime:
    """Return the time so many seconds after the epoch."""
    return datetime.fromtimestamp(second, UTC)


def list_changes(changes: Any) -> list[tuple[Any, Any, str]]:
    return [(row.key, row.value, row.change) for row in changes]


def test_keys_are_new_changed_and_gone() -> None:
    app = App("app", max_ahead=None)
    table = app.Table("t", default=int)

    @app.agent(app.topic("events"))
    def write(value: Any) -> None:
        key, number = value
        if number is None:
            del table[key]
        else:
            table[key] = number

    rows: list[Any] = [("a", 1), ("b", 1), ("a", 2), ("b", 1), ("b", None), ("c", 1), ("a", None)]
    with app.open() as running:
        running.send("events", ("z", 0))
        changes = running.changes("t")
        assert list_changes(changes) == []
        running.feed({"events": rows}, batch=2)
        first, *_ = changes
        assert first == ("a", None, None, 1, "new", 2)
        running.send("events", ("z", 5))
        assert list_changes(changes) == [("z", 5, "changed")]
        running.send("events", ("z", 5))
        assert list_changes(changes) == []
        second_reader = running.changes("t")
        running.send("events", ("z", None))
        assert list_changes(changes) == list_changes(second_reader) == [("z", 5, "gone")]


def test_what_comes_and_goes_within_a_batch_is_no_change() -> None:
    app = App("app", max_ahead=None)
    table = app.Table("t", default=int)

    @app.agent(app.topic("events"))
    def write(value: Any) -> None:
        table["a"] += 1
        table["b"] = value
        del table["a"]

    with app.open() as running:
        changes = running.changes("t")
        running.feed({"events": [1, 2, 3, 3]}, batch=3)
        assert [(row.key, row.value, row.change, row.batch) for row in changes] == [
            ("b", 3, "new", 1)
        ]


@pytest.mark.parametrize("partitions", [1, 4])
def test_windows_that_only_expire_are_no_change(partitions: int) -> None:
    app = App("app", max_ahead=None)
    table = app.Table("t", default=int).tumbling(10, expires=5)

    @app.agent(app.topic("events"))
    def count(key: Any) -> None:
        table[key] += 1

    with app.open(partitions=partitions) as running:
        changes = running.changes("t")
        for key, time in (("a", 1.0), ("b", 2.0), ("a", 3.0), ("a", 30.0)):
            running.send("events", key, key=key, timestamp=time)
        assert [row[:5] for row in changes] == [
            ("a", make_time(0), make_time(10), 1, "new"),
            ("b", make_time(0), make_time(10), 1, "new"),
            ("a", make_time(0), make_time(10), 2, "changed"),
            ("a", make_time(30), make_time(40), 1, "new"),
        ]


def test_a_session_that_grows_is_gone_under_its_old_bounds() -> None:
    app = App("app", max_ahead=None)
    table = app.Table("t", default=list).session(10, expires=20)

    @app.agent(app.topic("events"))
    def add(value: Any) -> None:
        table["k"] += [value]

    with app.open() as running:
        changes = running.changes("t")
        for time in (1.0, 5.0, 200.0):
            running.send("events", time, key="k", timestamp=time)
        assert [row[1:5] for row in changes] == [
            (make_time(1), make_time(11), [1.0], "new"),
            (make_time(1), make_time(11), [1.0], "gone"),
            (make_time(1), make_time(15), [1.0, 5.0], "new"),
            (make_time(200), make_time(210), [200.0], "new"),
        ]


def test_a_value_that_is_shown_is_not_the_tables() -> None:
    app = App("app", max_ahead=None)
    table = app.Table("t", default=list)

    @app.agent(app.topic("events"))
    def add(value: Any) -> None:
        table["k"].append(value)

    with app.open() as running:
        changes = running.changes("t")
        running.send("events", 1, key="k")
        next(iter(changes)).value.append(7)
        running.send("events", 2, key="k")
        assert list_changes(changes) == [("k", [1, 2], "changed")]
        assert table["k"] == [1, 2]


def sort_set(value: Any) -> Any:
    """Return a value, a set as a sorted list."""
    return sorted(value) if isinstance(value, set) else value


def make_app() -> App:
    """Make an app with tables of every kind, none of which expires."""
    app = App("app", max_ahead=None)
    tables: list[Any] = [
        app.Table("plain", default=int),
        app.Table("hopping", default=int).hopping(10, 5),
        app.Table("lists", default=list).tumbling(10),
        app.Table("session", default=int).session(4),
    ]
    sets: list[Any] = [app.SetTable("sets"), app.SetTable("windowed").tumbling(10)]

    @app.agent(app.topic("events"))
    async def work(events: Any) -> None:
        async for event in events.events():
            key, number = event.key, event.value
            for table in tables:
                if number == 0 and table.name != "session":
                    if key in table:
                        del table[key]
                else:
                    table[key] += [number] if table.name == "lists" else number
            for table in sets:
                if number % 3:
                    table[key].add(number % 4)
                else:
                    table[key].discard(number % 4 + 1)

    return app


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("partitions", [1, 3])
def test_they_are_what_differs_between_two_batches(seed: int, partitions: int) -> None:
    dice = random.Random(seed)
    app = make_app()

    def read_table(name: str) -> dict[Any, Any]:
        shards = [part.shards[name] for part in running.parts]
        entries = (entry for shard in shards for entry in shard.snapshot())
        return {(entry.key, entry.window): sort_set(entry.value) for entry in entries}

    with app.open(store=memory(), partitions=partitions) as running:
        changes = {name: running.changes(name) for name in app.tables}
        before = {name: read_table(name) for name in app.tables}
        events: list[dict[str, Any]] = []
        for _ in range(12):
            events += [
                {"key": dice.choice("abc"), "n": dice.randrange(7), "at": dice.uniform(0, 40)}
                for _ in range(dice.randrange(1, 6))
            ]
            running.feed({"events": mt.source(events, key="key", time="at", value="n")})
            for name, reader in changes.items():
                old, new = before[name], read_table(name)
                before[name] = new
                expected = [(key[0], new[key], "new") for key in new.keys() - old.keys()]
                expected += [(key[0], old[key], "gone") for key in old.keys() - new.keys()]
                both = [key for key in new.keys() & old.keys() if new[key] != old[key]]
                expected += [(key[0], new[key], "changed") for key in both]
                rows = [
                    (key, sort_set(value), change) for key, value, change in list_changes(reader)
                ]
                assert sorted(rows, key=repr) == sorted(expected, key=repr)


def test_a_reader_that_nobody_holds_costs_nothing() -> None:
    app = make_app()
    with app.open() as running:
        running.changes("plain")
        running.send("events", 1, key="a", timestamp=1.0)
        assert len(running._changes) == 0


def test_a_table_that_is_none_is_refused() -> None:
    with make_app().open() as running, pytest.raises(mt.OptionError, match="table='x' isn't the"):
        running.changes("x")
