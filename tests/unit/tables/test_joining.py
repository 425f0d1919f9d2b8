"""Tests of agents that join a stream with a table, and two tables by each change of either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from muntin.tables import App

PARTITIONS = [1, 3]


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_an_event_meets_what_the_table_has_when_it_comes(partitions: int) -> None:
    app = App("app", max_ahead=None)
    names = app.Table("names", default=str)
    pairs: list[Any] = []

    @app.agent(app.topic("users"))
    def write_name(user: Any) -> None:
        names[user["id"]] = user["name"]

    @app.agent(app.topic("clicks"), sink=[pairs.append])
    def join(click: Any) -> Iterator[Any]:
        yield click["page"], names[click["id"]]

    with app.open(partitions=partitions) as running:
        running.send("clicks", {"id": 1, "page": "home"}, key=1, timestamp=1.0)
        running.send("users", {"id": 1, "name": "ann"}, key=1, timestamp=2.0)
        running.send("users", {"id": 2, "name": "bob"}, key=2, timestamp=3.0)
        running.send("clicks", {"id": 1, "page": "cart"}, key=1, timestamp=4.0)
        running.send("clicks", {"id": 2, "page": "home"}, key=2, timestamp=5.0)
    assert pairs == [("home", ""), ("cart", "ann"), ("home", "bob")]


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_two_tables_meet_by_each_change_of_either(partitions: int) -> None:
    app = App("app", max_ahead=None)
    tables = {name: app.Table(name, default=str) for name in ("left", "right")}
    pairs: list[Any] = []

    def change(name: str, row: Any) -> Iterator[Any]:
        tables[name][row["id"]] = row["value"]
        values = [table[row["id"]] for table in tables.values()]
        if all(values):
            yield row["id"], *values

    @app.agent(app.topic("left"), sink=[pairs.append])
    def change_left(row: Any) -> Iterator[Any]:
        yield from change("left", row)

    @app.agent(app.topic("right"), sink=[pairs.append])
    def change_right(row: Any) -> Iterator[Any]:
        yield from change("right", row)

    with app.open(partitions=partitions) as running:
        sent = [("left", 1, "A"), ("right", 2, "x"), ("right", 1, "a"), ("left", 1, "B")]
        for second, (topic, number, value) in enumerate([*sent, ("right", 1, "b")]):
            row = {"id": number, "value": value}
            running.send(topic, row, key=number, timestamp=float(second))
    assert pairs == [(1, "A", "a"), (1, "B", "a"), (1, "B", "b")]


# Kafka Streams' tests of joins of tables. A row without a value deletes; a pair of None is deleted.
ROWS = [
    ("left", 0, "X0"), ("left", 1, "X1"), ("right", 0, "Y0"), ("right", 1, "Y1"),
    ("left", 0, "XX0"), ("left", 2, "XX2"), ("right", 3, "Y3"), ("right", 0, None),
    ("left", 0, None), ("left", 0, None), ("left", 1, None), ("right", 1, None),
    ("right", 2, "Y2"), ("left", 3, "X3"),
]  # fmt: skip
PAIRS = {
    "inner": [
        (0, ("X0", "Y0")), (1, ("X1", "Y1")), (0, ("XX0", "Y0")), (0, None), (1, None),
        (2, ("XX2", "Y2")), (3, ("X3", "Y3")),
    ],
    "left": [
        (0, ("X0", None)), (1, ("X1", None)), (0, ("X0", "Y0")), (1, ("X1", "Y1")),
        (0, ("XX0", "Y0")), (2, ("XX2", None)), (0, ("XX0", None)), (0, None), (1, None),
        (2, ("XX2", "Y2")), (3, ("X3", "Y3")),
    ],
    "outer": [
        (0, ("X0", None)), (1, ("X1", None)), (0, ("X0", "Y0")), (1, ("X1", "Y1")),
        (0, ("XX0", "Y0")), (2, ("XX2", None)), (3, (None, "Y3")), (0, ("XX0", None)), (0, None),
        (1, (None, "Y1")), (1, None), (2, ("XX2", "Y2")), (3, ("X3", "Y3")),
    ],
}  # fmt: skip
IS_PAIR = {
    "inner": lambda left, right: None not in (left, right),
    "left": lambda left, _: left is not None,
    "outer": lambda left, right: (left, right) != (None, None),
}


@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("how", list(PAIRS))
def test_tables_with_deleted_rows_join_in_each_way(how: str, partitions: int) -> None:
    app = App("app", max_ahead=None)
    tables = {name: app.Table(name) for name in ("left", "right")}
    pairs: list[Any] = []

    def find_pair(key: int) -> tuple[Any, Any] | None:
        pair = tables["left"].get(key), tables["right"].get(key)
        return pair if IS_PAIR[how](*pair) else None

    def change(name: str, row: Any) -> Iterator[Any]:
        table, key = tables[name], row["id"]
        before = find_pair(key)
        if row["value"] is not None:
            table[key] = row["value"]
        elif key in table:
            del table[key]
        pair = find_pair(key)
        if pair is not None or before is not None:
            yield key, pair

    @app.agent(app.topic("left"), sink=[pairs.append])
    def change_left(row: Any) -> Iterator[Any]:
        yield from change("left", row)

    @app.agent(app.topic("right"), sink=[pairs.append])
    def change_right(row: Any) -> Iterator[Any]:
        yield from change("right", row)

    with app.open(partitions=partitions) as running:
        for second, (topic, key, value) in enumerate(ROWS):
            running.send(topic, {"id": key, "value": value}, key=key, timestamp=float(second))
    assert pairs == PAIRS[how]
