"""Tests that sets are written member by member, also after they were read or changed in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muntin.tables import App

Step = Callable[[Any], Any]


def make_windowed(app: App) -> Any:
    return app.SetTable("seen").hopping(10, 5)


def make_plain(app: App) -> Any:
    return app.SetTable("seen")


def run_steps(make: Callable[[App], Any], *steps: Step, batch: int = 100) -> list[Any]:
    """Run steps at one time, and return the sets of key ``a``, one for each window."""
    app = App("app", max_ahead=None)
    table = make(app)

    @app.agent(app.topic("events"))
    def agent(number: int) -> None:
        steps[number](table)

    with app.open(clock=lambda: 1.0) as running:
        running.feed({"events": range(len(steps))}, batch=batch)
        if make is make_plain:
            return [members for key, members in table.items() if key == "a"]
        return list(table["a"].windows().values())


def make_step(user: str) -> Step:
    def step(table: Any) -> None:
        if user not in table["a"].current():
            table["a"].add(user)

    return step


@pytest.mark.parametrize("batch", [1, 100])
def test_a_member_may_be_added_after_a_look(batch: int) -> None:
    steps = [make_step(user) for user in ("ann", "bob", "ann")]
    assert run_steps(make_windowed, *steps, batch=batch) == [{"ann", "bob"}] * 2


def test_a_member_may_be_taken_away_after_a_look() -> None:
    def step(table: Any) -> None:
        assert table["a"].current() == {"ann", "bob"}
        table["a"].discard("ann")
        assert table["a"].current() == {"bob"}

    assert run_steps(make_windowed, make_step("ann"), make_step("bob"), step) == [{"bob"}] * 2


@pytest.mark.parametrize("write", ["add", "|="])
def test_what_was_changed_in_place_stays_when_more_comes(write: str) -> None:
    def step(table: Any) -> None:
        table["a"].current().add("in place")
        if write == "add":
            table["a"].add("ann")
        else:
            table["a"] |= {"ann"}
        assert table["a"].current() == {"in place", "ann"}

    assert run_steps(make_windowed, step) == [{"ann"}, {"ann", "in place"}]


def test_sets_that_were_walked_over_are_kept_as_the_agent_leaves_them() -> None:
    def walk(table: Any) -> None:
        for key, members in table.items():
            members.add(f"walked {key}")
        assert set(table["a"]) == {"ann", "walked a"}
        table["a"].add("bob")
        assert dict(table.items())["a"] == {"ann", "bob", "walked a"}
        dict(table.items())["a"].discard("ann")

    assert run_steps(make_plain, lambda t: t["a"].add("ann"), walk) == [{"bob", "walked a"}]


def test_a_set_that_was_taken_away_has_its_members() -> None:
    def step(table: Any) -> None:
        table["a"].update("xy")
        assert table.pop("a") == {"x", "y"}
        assert "a" not in table

    assert run_steps(make_plain, step) == []


def test_it_does_what_sets_do() -> None:
    def step(table: Any) -> None:
        table["a"] |= {1, 2, 3}
        own_set = table["a"]
        assert (own_set & {1, 5}, own_set | {9}, own_set >= {1}) == ({1}, {1, 2, 3, 9}, True)
        own_set -= {1}
        own_set ^= {2, 7}
        with pytest.raises(KeyError):
            own_set.remove(9)
        assert own_set.pop() in {3, 7}
        assert len(own_set) == 1

    assert [len(members) for members in run_steps(make_plain, step)] == [1]
    assert run_steps(make_plain, step, lambda table: table["a"].clear()) == []


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda users: users.difference_update({"bob", "eve"}, {"kim"}), {"ann"}),
        (lambda users: users.intersection_update({"ann", "kim"}, {"kim"}), {"kim"}),
        (lambda users: users.symmetric_difference_update({"ann", "eve"}), {"bob", "eve", "kim"}),
        (lambda users: users.__isub__({"ann"}), {"bob", "kim"}),
        (lambda users: users.__iand__({"ann", "eve"}), {"ann"}),
        (lambda users: users.__ixor__({"ann", "eve"}), {"bob", "eve", "kim"}),
    ],
)
def test_a_set_is_changed_as_pythons_sets_are(change: Callable[[Any], Any], left: set[str]) -> None:
    def fill(table: Any) -> None:
        table["a"].update(["ann", "bob", "kim"])

    def step(table: Any) -> None:
        change(table["a"])

    assert run_steps(make_plain, fill, step) == [left]


def test_a_set_is_compared_and_combined_without_being_changed() -> None:
    def step(table: Any) -> None:
        users = table["a"]
        users.update({"ann", "bob"})
        assert users.union({"eve"}, {"kim"}) == {"ann", "bob", "eve", "kim"}
        assert users.intersection({"ann"}) == users.difference({"bob"}) == {"ann"}
        assert users.symmetric_difference({"ann", "eve"}) == {"bob", "eve"}
        assert users.issubset({"ann", "bob", "eve"})
        assert users.issuperset({"ann"})
        assert type(users.copy()) is set

    assert run_steps(make_plain, step) == [{"ann", "bob"}]
