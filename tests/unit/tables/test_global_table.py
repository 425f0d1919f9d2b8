"""Tests of global tables: every partition reads every key, and writes its own."""

from __future__ import annotations

from typing import Any

import pytest

import muntin as mt
from muntin.tables import App
from muntin.tables.copartition import assign_partitions

PARTITIONS = 4
KEYS = [f"k{n}" for n in range(12)]


def ask_at_each_key(make: Any, write: Any, ask: Any, keyed: bool = True) -> list[Any]:
    """Write all keys, and return the results of ``ask(table, value)`` at an event of each key."""
    app = App("app", max_ahead=None)
    table = make(app)
    answers: list[Any] = []

    @app.agent(app.topic("writes"))
    def writes(value: Any) -> None:
        write(table, value)

    @app.agent(app.topic("asks"))
    def asks(value: Any) -> None:
        answers.append(ask(table, value))

    with app.open(partitions=PARTITIONS) as running:
        for key in KEYS:
            running.send("writes", key, key=key, timestamp=5.0)
        for key in KEYS:
            running.send("asks", key, key=key if keyed else None, timestamp=5.0)
    return answers


def test_the_keys_lie_in_several_partitions() -> None:
    assert len(set(assign_partitions(KEYS, PARTITIONS))) == PARTITIONS


@pytest.mark.parametrize("keyed", [True, False])
def test_every_agent_reads_every_key(keyed: bool) -> None:
    def write(table: Any, key: str) -> None:
        table[key] = f"of {key}"

    def ask(table: Any, _: str) -> Any:
        assert all(key in table for key in KEYS)
        assert table.get("nobody") is None
        assert (len(table), sorted(table.values())) == (12, sorted(f"of {key}" for key in KEYS))
        return {key: table[key] for key in KEYS}

    def make(app: App) -> Any:
        return app.GlobalTable("t", default=str)

    assert ask_at_each_key(make, write, ask, keyed) == [{key: f"of {key}" for key in KEYS}] * 12


def test_windows_and_tuples_are_read_likewise() -> None:
    def write(table: Any, key: str) -> None:
        table[key, 1] += 1

    def ask(table: Any, _: str) -> Any:
        assert sorted(key for key, _ in table.keys(5.0)) == sorted(KEYS)
        return sum(table[key, 1].current(5.0) for key in KEYS)

    def make(app: App) -> Any:
        return app.GlobalTable("t", default=int).hopping(10, 5)

    assert ask_at_each_key(make, write, ask) == [12] * 12


def test_another_table_shows_the_partition_at_work() -> None:
    def write(table: Any, key: str) -> None:
        table[key] = 1

    sums = ask_at_each_key(
        lambda app: app.Table("t", default=int),
        write,
        lambda table, _: sum(table[key] for key in KEYS),
    )
    assert max(sums) < 12


@pytest.mark.parametrize("windowed", [False, True])
def test_a_key_is_written_in_its_own_partition(windowed: bool) -> None:
    def make(app: App) -> Any:
        table = app.GlobalTable("t", default=int)
        return table.tumbling(10) if windowed else table

    def write(table: Any, key: str) -> None:
        table[key] += 1
        table[key] += 1

    def ask(table: Any, key: str) -> Any:
        other = next(candidate for candidate in KEYS if candidate != key)
        with pytest.raises(mt.PartitionError, match=f"'t' is written under '{other}'"):
            table[other] += 1
        if not windowed:
            with pytest.raises(mt.PartitionError):
                table.pop(other)
        return table[key].current() if windowed else table[key]

    assert ask_at_each_key(make, write, ask) == [2] * 12


def test_what_is_read_of_another_partition_is_a_copy() -> None:
    app = App("app", max_ahead=None)
    table = app.GlobalTable("t", default=list)

    @app.agent(app.topic("events"))
    def work(event: Any) -> None:
        table[event["key"]].append("own")
        if event["all"]:
            for key in KEYS:
                table[key].append("one")
            for value in table.values():
                value.append("all")

    with app.open(partitions=PARTITIONS) as running:
        for everything in (False, True):
            for key in KEYS:
                running.send("events", {"key": key, "all": everything}, key=key)
        owners = assign_partitions(KEYS, PARTITIONS)
        for key, owner in zip(KEYS, owners, strict=True):
            counts = [table[key].count(word) for word in ("own", "one", "all")]
            # Any event of its partition may change a stored value.
            assert counts == [2, owners.count(owner), owners.count(owner)]


def test_a_key_that_nobody_has_is_not_kept_for_another_partition() -> None:
    app = App("app", max_ahead=None)
    table = app.GlobalTable("t", default=list)

    @app.agent(app.topic("asks"))
    def asks(key: Any) -> None:
        table[key].append(1)

    with app.open(partitions=PARTITIONS) as running:
        running.send("asks", "k0", key="k0")
        assert dict(table.items()) == {"k0": [1]}
        with pytest.raises(mt.PartitionError, match="'t' is written under 'k1'"):
            running.send("asks", "k1", key="k2")
