"""What batches change in a table, as it is read in the same process."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest

import muntin as mt
from muntin.stores import memory
from muntin.tables import App


def at(second: float) -> datetime:
    """So many seconds after the epoch."""
    return datetime.fromtimestamp(second, UTC)


def words(changes: Any) -> list[tuple[Any, Any, str]]:
    return [(one.key, one.value, one.change) for one in changes]


def test_keys_are_new_changed_and_gone() -> None:
    app = App("app", max_ahead=None)
    table = app.Table("t", default=int)

    @app.agent(app.topic("events"))
    def write(value: Any) -> None:
        key, to = value
        if to is None:
            del table[key]
        else:
            table[key] = to

    rows: list[Any] = [("a", 1), ("b", 1), ("a", 2), ("b", 1), ("b", None), ("c", 1), ("a", None)]
    with app.open() as running:
        running.send("events", ("z", 0))
        changes = running.changes("t")
        assert words(changes) == []
        running.feed({"events": rows}, batch=2)
        first, *_ = changes
        assert first == ("a", None, None, 1, "new", 2)
        running.send("events", ("z", 5))
        assert words(changes) == [("z", 5, "changed")]
        running.send("events", ("z", 5))
        assert words(changes) == []
        again = running.changes("t")
        running.send("events", ("z", None))
        assert words(changes) == words(again) == [("z", 5, "gone")]


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
        assert [(one.key, one.value, one.change, one.batch) for one in changes] == [
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
        assert [one[:5] for one in changes] == [
            ("a", at(0), at(10), 1, "new"),
            ("b", at(0), at(10), 1, "new"),
            ("a", at(0), at(10), 2, "changed"),
            ("a", at(30), at(40), 1, "new"),
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
        assert [one[1:5] for one in changes] == [
            (at(1), at(11), [1.0], "new"),
            (at(1), at(11), [1.0], "gone"),
            (at(1), at(15), [1.0, 5.0], "new"),
            (at(200), at(210), [200.0], "new"),
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
        assert words(changes) == [("k", [1, 2], "changed")]
        assert table["k"] == [1, 2]


def plain(value: Any) -> Any:
    """A value that is sorted the same wherever it comes from."""
    return sorted(value) if isinstance(value, set) else value


def every_kind() -> App:
    """Tables of every kind, none of which expires."""
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
            for one in sets:
                if number % 3:
                    one[key].add(number % 4)
                else:
                    one[key].discard(number % 4 + 1)

    return app


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("partitions", [1, 3])
def test_they_are_what_differs_between_two_batches(seed: int, partitions: int) -> None:
    drawn = random.Random(seed)
    app = every_kind()

    def held(name: str) -> dict[Any, Any]:
        shards = [part.shards[name] for part in running.parts]
        entries = (one for shard in shards for one in shard.snapshot())
        return {(one.key, one.window): plain(one.value) for one in entries}

    with app.open(store=memory(), partitions=partitions) as running:
        changes = {name: running.changes(name) for name in app.tables}
        before = {name: held(name) for name in app.tables}
        events: list[dict[str, Any]] = []
        for _ in range(12):
            events += [
                {"key": drawn.choice("abc"), "n": drawn.randrange(7), "at": drawn.uniform(0, 40)}
                for _ in range(drawn.randrange(1, 6))
            ]
            running.feed({"events": mt.source(events, key="key", time="at", value="n")})
            for name, one in changes.items():
                was, now = before[name], held(name)
                before[name] = now
                new = [(key[0], now[key], "new") for key in now.keys() - was.keys()]
                gone = [(key[0], was[key], "gone") for key in was.keys() - now.keys()]
                both = [key for key in now.keys() & was.keys() if now[key] != was[key]]
                changed = [(key[0], now[key], "changed") for key in both]
                found = [(key, plain(value), change) for key, value, change in words(one)]
                assert sorted(found, key=repr) == sorted([*new, *gone, *changed], key=repr)


def test_a_reader_that_nobody_holds_costs_nothing() -> None:
    app = every_kind()
    with app.open() as running:
        running.changes("plain")
        running.send("events", 1, key="a", timestamp=1.0)
        assert len(running._changes) == 0


def test_a_table_that_is_none_is_refused() -> None:
    with every_kind().open() as running, pytest.raises(mt.OptionError, match="table='x' isn't the"):
        running.changes("x")
