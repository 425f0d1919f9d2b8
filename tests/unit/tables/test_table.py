"""Tests of tables without windows: dictionaries that know where they may be written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

import muntin as mt
from muntin.stores import Image, memory
from muntin.tables import App


@dataclass
class Account:
    owner: str
    moves: list[float] = field(default_factory=list)


def run_at_event(make: Any, work: Any, value: Any = None, key: Any = "a") -> Any:
    """Run ``work(table, value)`` in an agent, and return its result."""
    app = App("app", max_ahead=None)
    table = make(app)
    results: list[Any] = []

    @app.agent(app.topic("events"))
    def agent(value: Any) -> None:
        results.append(work(table, value))

    with app.open() as running:
        running.send("events", value, key=key, timestamp=1.0)
    return results[0]


def test_it_is_a_dictionary() -> None:
    def work(table: Any, _: Any) -> Any:
        assert (table["a"], len(table), "a" in table) == (0, 0, False)
        assert table.get("a", 7) == 7
        assert table.setdefault("a", 3) == 3
        table["a"] += 1
        table.update({("a", 1): 5})
        assert sorted(table.values()) == [4, 5]
        assert set(table.keys()) == set(table) == {"a", ("a", 1)}
        assert table.pop(("a", 1)) == 5
        assert table.pop(("a", 1), None) is None
        with pytest.raises(KeyError):
            del table["a", 1]
        with pytest.raises(KeyError):
            table.pop(("a", 1))
        return table.items()

    assert run_at_event(lambda app: app.Table("t", default=int), work) == [("a", 4)]


def test_without_a_default_a_new_key_is_an_error() -> None:
    def work(table: Any, _: Any) -> Any:
        with pytest.raises(KeyError):
            table["a"] += 1
        return len(table)

    assert run_at_event(lambda app: app.Table("t"), work) == 0


@pytest.mark.parametrize(
    ("own", "key"),
    [("a", "a"), ("a", ("a", 1)), ("a", b"a"), (b"a", "a"), (("a", 1), ("a", 1, 2)), (None, "b")],
)
def test_keys_that_belong_here(own: Any, key: Any) -> None:
    def work(table: Any, _: Any) -> Any:
        table[key] = 1
        return table[key]

    assert run_at_event(lambda app: app.Table("t"), work, key=own) == 1


@pytest.mark.parametrize(("own", "key"), [("a", "b"), ("a", ("b", "a")), (1, "1"), (("a", 1), "a")])
@pytest.mark.parametrize("windowed", [False, True])
def test_keys_that_belong_elsewhere(own: Any, key: Any, windowed: bool) -> None:
    def make(app: App) -> Any:
        table = app.Table("t", default=int)
        return table.tumbling(10) if windowed else table

    def work(table: Any, _: Any) -> Any:
        table[key] += 1

    with pytest.raises(mt.PartitionError) as caught:
        run_at_event(make, work, {"field": key}, key=own)
    message = str(caught.value)
    assert all(part in message for part in ("'t'", repr(key), repr(own), "'agent'"))
    assert "group_by('field')" in message


def test_values_of_a_declared_type_outlive_a_restart() -> None:
    image = Image()
    for number in (1, 2):
        app = App("app", max_ahead=None)
        accounts = app.Table("accounts", value_type=Account)
        words = app.Table("words", default=Counter)

        @app.agent(app.topic("moves"))
        def move(value: Any, accounts: Any = accounts, words: Any = words) -> None:
            account = accounts.get("a") or Account("ann")
            account.moves.append(value)
            accounts["a"] = account
            words["a"][str(value)] += 1

        with app.open(store=memory(image)) as running:
            running.send("moves", 1.5 * number, key="a", timestamp=1.0)
            assert accounts["a"] == Account("ann", [1.5, 3.0][:number])
            assert words["a"] == Counter(["1.5", "3.0"][:number])


def test_what_is_read_and_not_changed_is_not_written() -> None:
    image = Image()
    app = App("app", max_ahead=None)
    lists = app.Table("lists", default=list)

    @app.agent(app.topic("events"))
    def look(value: Any) -> None:
        if value is not None:
            lists["a"].append(value)
        assert lists["a"] is lists["a"]

    with app.open(store=memory(image)) as running:
        running.send("events", 1, key="a", timestamp=1.0)
        (run,) = running.parts[0].shards["lists"].entries["values"].journal.list_runs(0)
        running.send("events", None, key="a", timestamp=1.0)
        assert running.parts[0].shards["lists"].entries["values"].journal.list_runs(0) == [run]
        running.send("events", None, key="b", timestamp=1.0)
        assert dict(lists.items()) == {"a": [1]}


def test_what_the_agent_keeps_does_not_change_the_table() -> None:
    app = App("app", max_ahead=None)
    lists = app.Table("lists", default=list)
    own_list: list[int] = []

    @app.agent(app.topic("events"))
    def write(value: Any) -> None:
        lists["a"] = own_list
        own_list.append(value)

    with app.open() as running:
        running.send("events", 1, key="a", timestamp=1.0)
        running.send("events", 2, key="a", timestamp=1.0)
        assert lists["a"] == [1]


def test_values_that_cannot_be_kept_are_refused() -> None:
    app = App("app", max_ahead=None)
    things = app.Table("things")

    @app.agent(app.topic("events"))
    def keep(value: Any) -> None:
        things["a"] = Account("ann")

    with (
        pytest.raises(mt.OptionError, match=r"Account.*value_type"),
        app.open(store=memory()) as running,
    ):
        running.send("events", 1, key="a", timestamp=1.0)


def test_a_set_table() -> None:
    def work(table: Any, _: Any) -> Any:
        members = table["a"]
        members.add(1)
        members |= {2, 3}
        table["a"] |= [4]
        table["a"] -= [1]
        members.update([5], [6])
        members.discard(9)
        members.remove(6)
        with pytest.raises(KeyError):
            members.remove(6)
        assert 5 in members
        assert 6 not in table["a"]
        assert (len(members), members == {2, 3, 4, 5}) == (4, True)
        assert "a" in table
        assert "b" not in table
        table["a"] = {3, 7}
        assert sorted(members) == [3, 7]
        entries = dict(table.items())
        members.clear()
        assert "a" not in table
        return entries

    assert run_at_event(lambda app: app.SetTable("t"), work) == {"a": {3, 7}}


def test_a_member_is_written_by_itself() -> None:
    app = App("app", max_ahead=None)
    users = app.SetTable("users").tumbling(100)

    @app.agent(app.topic("visits"))
    def visit(user: Any) -> None:
        users["all"].add(user)
        users["all"] |= {f"friend of {user}"}

    with app.open(store=memory()) as running:
        for user in ("ann", "bob", "ann"):
            running.send("visits", user, timestamp=1.0)
        journal = running.parts[0].shards["users"].entries["windows"].journal
        assert [run.rows for run in journal.list_runs(0)] == [2, 2]
        assert users["all"].current(1.0) == {"ann", "bob", "friend of ann", "friend of bob"}
