"""Sets are written member by member, also those that were read, or changed in place, before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muntin.tables import App

Step = Callable[[Any], Any]


def windowed(app: App) -> Any:
    return app.SetTable("seen").hopping(10, 5)


def plain(app: App) -> Any:
    return app.SetTable("seen")


def after(make: Callable[[App], Any], *steps: Step, batch: int = 100) -> list[Any]:
    """The sets of key ``a``, by window where there are any, after some steps at one time."""
    app = App("app", max_ahead=None)
    table = make(app)

    @app.agent(app.topic("events"))
    def agent(number: int) -> None:
        steps[number](table)

    with app.open(clock=lambda: 1.0) as running:
        running.feed({"events": range(len(steps))}, batch=batch)
        if make is plain:
            return [found for key, found in table.items() if key == "a"]
        return list(table["a"].windows().values())


def see(user: str) -> Step:
    def step(table: Any) -> None:
        if user not in table["a"].current():
            table["a"].add(user)

    return step


@pytest.mark.parametrize("batch", [1, 100])
def test_a_member_may_be_added_after_a_look(batch: int) -> None:
    steps = [see(user) for user in ("ann", "bob", "ann")]
    assert after(windowed, *steps, batch=batch) == [{"ann", "bob"}] * 2


def test_a_member_may_be_taken_away_after_a_look() -> None:
    def step(table: Any) -> None:
        assert table["a"].current() == {"ann", "bob"}
        table["a"].discard("ann")
        assert table["a"].current() == {"bob"}

    assert after(windowed, see("ann"), see("bob"), step) == [{"bob"}] * 2


@pytest.mark.parametrize("write", ["add", "|="])
def test_what_was_changed_in_place_stays_when_more_comes(write: str) -> None:
    def step(table: Any) -> None:
        table["a"].current().add("in place")
        if write == "add":
            table["a"].add("ann")
        else:
            table["a"] |= {"ann"}
        assert table["a"].current() == {"in place", "ann"}

    assert after(windowed, step) == [{"ann"}, {"ann", "in place"}]


def test_sets_that_were_walked_over_are_kept_as_the_agent_leaves_them() -> None:
    def walk(table: Any) -> None:
        for key, members in table.items():
            members.add(f"walked {key}")
        assert set(table["a"]) == {"ann", "walked a"}
        table["a"].add("bob")
        assert dict(table.items())["a"] == {"ann", "bob", "walked a"}
        dict(table.items())["a"].discard("ann")

    assert after(plain, lambda t: t["a"].add("ann"), walk) == [{"bob", "walked a"}]


def test_a_set_that_was_taken_away_has_its_members() -> None:
    def step(table: Any) -> None:
        table["a"].update("xy")
        assert table.pop("a") == {"x", "y"}
        assert "a" not in table

    assert after(plain, step) == []


def test_it_does_what_sets_do() -> None:
    def step(table: Any) -> None:
        table["a"] |= {1, 2, 3}
        found = table["a"]
        assert (found & {1, 5}, found | {9}, found >= {1}) == ({1}, {1, 2, 3, 9}, True)
        found -= {1}
        found ^= {2, 7}
        with pytest.raises(KeyError):
            found.remove(9)
        assert found.pop() in {3, 7}
        assert len(found) == 1

    assert [len(members) for members in after(plain, step)] == [1]
    assert after(plain, step, lambda table: table["a"].clear()) == []


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

    assert after(plain, fill, step) == [left]


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

    assert after(plain, step) == [{"ann", "bob"}]
