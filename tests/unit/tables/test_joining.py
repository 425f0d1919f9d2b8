"""Agents that join: a stream with a table by arrival, and two tables by each change of either."""

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
    met: list[Any] = []

    @app.agent(app.topic("users"))
    def learn(user: Any) -> None:
        names[user["id"]] = user["name"]

    @app.agent(app.topic("clicks"), sink=[met.append])
    def meet(click: Any) -> Iterator[Any]:
        yield click["page"], names[click["id"]]

    with app.open(partitions=partitions) as running:
        running.send("clicks", {"id": 1, "page": "home"}, key=1, timestamp=1.0)
        running.send("users", {"id": 1, "name": "ann"}, key=1, timestamp=2.0)
        running.send("users", {"id": 2, "name": "bob"}, key=2, timestamp=3.0)
        running.send("clicks", {"id": 1, "page": "cart"}, key=1, timestamp=4.0)
        running.send("clicks", {"id": 2, "page": "home"}, key=2, timestamp=5.0)
    assert met == [("home", ""), ("cart", "ann"), ("home", "bob")]


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_two_tables_meet_by_each_change_of_either(partitions: int) -> None:
    app = App("app", max_ahead=None)
    tables = {name: app.Table(name, default=str) for name in ("left", "right")}
    pairs: list[Any] = []

    def changed(name: str, row: Any) -> Iterator[Any]:
        tables[name][row["id"]] = row["value"]
        found = [table[row["id"]] for table in tables.values()]
        if all(found):
            yield row["id"], *found

    @app.agent(app.topic("left"), sink=[pairs.append])
    def left(row: Any) -> Iterator[Any]:
        yield from changed("left", row)

    @app.agent(app.topic("right"), sink=[pairs.append])
    def right(row: Any) -> Iterator[Any]:
        yield from changed("right", row)

    with app.open(partitions=partitions) as running:
        sent = [("left", 1, "A"), ("right", 2, "x"), ("right", 1, "a"), ("left", 1, "B")]
        for second, (topic, number, value) in enumerate([*sent, ("right", 1, "b")]):
            row = {"id": number, "value": value}
            running.send(topic, row, key=number, timestamp=float(second))
    assert pairs == [(1, "A", "a"), (1, "B", "a"), (1, "B", "b")]
