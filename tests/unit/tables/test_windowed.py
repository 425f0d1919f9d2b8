"""Tests of the windows that each method of a table reads and writes, as in Faust."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import muntin as mt
from muntin.tables import App, WindowRange

Agent = Callable[[Any], Any]


def run(
    make: Callable[[App], Any], work: Callable[[Any, Any], Any], *events: Any, **options: Any
) -> list[Any]:
    """Return the result of ``work(table, value)`` at each event: key, seconds, and more fields."""
    app = App("app", max_ahead=None)
    table = make(app)
    results: list[Any] = []

    @app.agent(app.topic("events"))
    def agent(value: Any) -> None:
        results.append(work(table, value))

    with app.open(**options) as running:
        for key, time, *value in events:
            row = {"key": key, "at": time, **(value[0] if value else {})}
            running.send("events", row, key=key, timestamp=time)
    return results


def make_hopping(app: App) -> Any:
    return app.Table("t", default=int).hopping(10, 5, expires=100)


def test_an_event_counts_in_all_windows_that_hold_its_time() -> None:
    def count(table: Any, event: Any) -> Any:
        table[event["key"]] += 1
        return table[event["key"]].windows()

    assert run(make_hopping, count, ("a", 12.0), ("a", 15.0))[-1] == {
        WindowRange(5.0, 15.0): 1,
        WindowRange(10.0, 20.0): 2,
        WindowRange(15.0, 25.0): 1,
    }


def test_a_window_that_has_expired_holds_nothing_though_its_panes_are_there() -> None:
    def count(table: Any, event: Any) -> Any:
        windows = table[event["key"]]
        table[event["key"]] += 1
        return windows.earliest(7.0), len(windows.windows())

    def make(app: App) -> Any:
        return app.Table("t", default=int).hopping(10, 5, expires=5)

    # [5, 15) hasn't expired and keeps the pane [5, 10), which was half of [0, 10), too.
    first, _, last = run(make, count, ("a", 7.0), ("a", 16.0), ("a", 16.5))
    assert first == (1, 2)
    assert last == (0, 3)


def test_windows_end_at_multiples_of_the_step() -> None:
    def count(table: Any, event: Any) -> Any:
        table[event["key"]] += 1
        return [window.start for window in table[event["key"]].windows()]

    (starts,) = run(lambda app: app.Table("t", default=int).hopping(10, 3), count, ("a", 12.0))
    assert starts == [5.0, 8.0, 11.0]


def test_what_each_verb_reads() -> None:
    def read(table: Any, event: Any) -> Any:
        windows = table[event["key"]]
        windows += 1
        return (
            windows.current(),
            windows.earliest(),
            windows.value(),
            windows.now(),
            windows.delta(5),
        )

    assert run(make_hopping, read, ("a", 12.0), ("b", 41.0), ("a", 13.0)) == [
        (1, 1, 1, 1, 1),
        (1, 1, 1, 1, 1),
        # Now is the window where b wrote, which has nothing of a.
        (2, 2, 2, 0, 2),
    ]


def test_now_in_an_agent_is_the_newest_window_of_the_partition() -> None:
    def read(table: Any, event: Any) -> Any:
        table[event["key"]] += 1
        return {key: table[key].now() for key in "ab"}

    assert run(make_hopping, read, ("a", 0.0), ("b", 31.0), ("a", 33.0), ("b", 2.0))[1:] == [
        {"a": 0, "b": 1},
        {"a": 1, "b": 1},
        {"a": 1, "b": 1},
    ]


def test_reading_stores_nothing() -> None:
    def read(table: Any, event: Any) -> Any:
        windows = table[event["key"]]
        values = windows.current(), windows.now(), windows.delta(30), event["key"] in table
        return values, windows.windows()

    assert run(make_hopping, read, ("a", 12.0)) == [((0, 0, 0, False), {})]


def test_other_events_can_be_named() -> None:
    events: list[Any] = []
    app = App("app", max_ahead=None)
    views = app.Table("views", default=int).tumbling(10)

    @app.agent(app.topic("clicks"))
    async def agent(stream: Any) -> None:
        async for event in stream.events():
            views["a"] += event.value
            events.append(event)
            first = events[0]
            assert views["a"].current(first) == views["a"][first] == views["a"].value(first)
            assert views["a"].current(event.value) == views["a"].current(event)
            assert views["a"].current(datetime.fromtimestamp(first.timestamp, UTC)) == 1
            assert views["a"].delta(timedelta(seconds=30), event) == (1 if event.value > 1 else 0)
            assert views["a"].delta(0, first) == 1

    with app.open() as running:
        for value, time in ((1, 1.0), (5, 31.0), (7, 35.0)):
            running.send("clicks", value, key="a", timestamp=time)
    assert [(e.value, e.timestamp, e.key, e.topic) for e in events][:2] == [
        (1, 1.0, "a", "clicks"),
        (5, 31.0, "a", "clicks"),
    ]


def test_an_unknown_event_is_refused() -> None:
    def read(table: Any, event: Any) -> Any:
        table["a"].current(object())

    with pytest.raises(mt.OptionError, match=r"stream\.events\(\)"):
        run(make_hopping, read, ("a", 1.0))


def test_operations_go_to_each_window_by_itself() -> None:
    def change(table: Any, event: Any) -> Any:
        table["a"] += 10
        table["a"] -= 1
        table["a"] *= event["by"]
        table["a"] //= 2
        table["a"] **= 2
        table["a"] %= 100
        table["a"] |= 64
        table["a"] ^= 1
        table["a"] &= 127
        table["a"] <<= 1
        table["a"] >>= 1
        table["a"] /= 1
        return table["a"].windows()

    def by_hand(value: int, by: int) -> float:
        value = ((value + 10 - 1) * by // 2) ** 2 % 100
        return (((value | 64) ^ 1) & 127) / 1

    (first, second) = run(
        lambda app: app.Table("t", default=lambda: 3).hopping(10, 5),
        change,
        ("a", 12.0, {"by": 3}),
        ("a", 40.0, {"by": 7}),
    )
    assert set(first.values()) == {by_hand(3, 3)}
    assert {second[WindowRange(35.0, 45.0)], second[WindowRange(40.0, 50.0)]} == {by_hand(3, 7)}


def test_setting_overwrites_every_window_and_deleting_empties_them() -> None:
    def change(table: Any, event: Any) -> Any:
        match event["at"]:
            case 12.0:
                table["a"] += 1
            case 16.0:
                table["a"] = 7
            case _:
                del table["a"]
        return table["a"].windows(), "a" in table

    assert run(make_hopping, change, ("a", 12.0), ("a", 16.0), ("a", 23.0)) == [
        ({(5.0, 15.0): 1, (10.0, 20.0): 1}, True),
        ({(5.0, 15.0): 1, (10.0, 20.0): 7, (15.0, 25.0): 7}, True),
        ({(5.0, 15.0): 1, (10.0, 20.0): 7}, False),
    ]


def test_lists_of_overlapping_windows_are_apart() -> None:
    def change(table: Any, event: Any) -> Any:
        if event["at"] == 16.0:
            table["a"].current().append("in place")
        else:
            table["a"] += [event["at"]]
        return table["a"].windows()

    make = lambda app: app.Table("t", default=list).hopping(10, 5)  # noqa: E731
    assert run(make, change, ("a", 12.0), ("a", 16.0), ("a", 17.0))[-1] == {
        (5.0, 15.0): [12.0],
        (10.0, 20.0): [12.0, 17.0],
        (15.0, 25.0): ["in place", 17.0],
    }


def test_relative_to_a_field() -> None:
    def make(app: App) -> Any:
        table = app.Table("t", default=int).tumbling(10, expires=20)
        return table.relative_to_field("happened")

    def count(table: Any, event: Any) -> Any:
        table["a"] += 1
        windows = table["a"]
        return windows.value(), windows.current(), windows.delta(10), list(table.items())

    assert run(
        make,
        count,
        ("a", 500.0, {"happened": 12.0}),
        ("a", 12.0, {"happened": "1970-01-01T00:00:21"}),
        ("a", 12.0, {"happened": datetime(1970, 1, 1, 0, 0, 15)}),
    ) == [
        (1, 0, 0, [("a", 1)]),
        (1, 1, 1, [("a", 1)]),
        (2, 2, 0, [("a", 2)]),
    ]


def test_fields_that_are_no_times_are_rejected() -> None:
    app = App("app", max_ahead="1 day")
    table = app.Table("t", default=int).tumbling(10, expires=20).relative_to_field("happened")

    @app.agent(app.topic("events"))
    def count(event: Any) -> None:
        table["a"] += 1

    with app.open(clock=lambda: 1000.0) as running:
        for happened in (None, "yesterday", 1e9, 990.0, 900.0):
            running.send("events", {"happened": happened}, key="a", timestamp=999.0)
        reasons = [(row.reason, row.table) for row in running.rejected]
        assert table["a"].windows() == {(990.0, 1000.0): 1}
    assert reasons == [(why, "t") for why in ("null_time", "malformed", "future", "late")]


def test_relative_to_now_goes_by_the_wall_clock() -> None:
    now = [100.0]
    app = App("app", max_ahead=None)
    closed: list[Any] = []

    def close(key: Any, value: Any) -> None:
        closed.append((key, value))

    plain = app.Table("t", default=int, on_window_close=close).tumbling(10, expires=20)
    table = plain.relative_to_now()

    @app.agent(app.topic("events"))
    def count(event: Any) -> None:
        table["a"] += 1

    with app.open(clock=lambda: now[0]) as running:
        running.send("events", 1, key="a", timestamp=3.0)
        now[0] = 112.0
        running.send("events", 1, key="a", timestamp=4.0)
        assert table["a"].windows() == {(100.0, 110.0): 1, (110.0, 120.0): 1}
        assert (table["a"].value(), table["a"].delta(10), table["a"].now()) == (1, 1, 1)
        now[0] = 129.9
        running.tick()
        assert closed == []
        now[0] = 130.0
        running.tick()
        assert closed == [(("a", (100.0, 110.0)), 1)]
        assert table["a"].windows() == {(110.0, 120.0): 1}


def test_outside_of_agents_tables_are_read_and_not_written() -> None:
    app = App("app", max_ahead=None)
    views = app.Table("views", default=int).hopping(10, 5, key_index=True)
    totals = app.Table("totals", default=int)

    @app.agent(app.topic("clicks"))
    def count(page: Any) -> None:
        views[page] += 1
        totals[page] += 1

    with pytest.raises(mt.OutsideStreamError, match=r"app\.open\(\)"):
        views["a"].current(12.0)
    with app.open(partitions=4, clock=lambda: 13.0) as running:
        for page in "abcda":
            running.send("clicks", page, key=page, timestamp=12.0)
        assert {page: views[page].current(12.0) for page in "abcdx"} == {
            "a": 2, "b": 1, "c": 1, "d": 1, "x": 0,
        }  # fmt: skip
        # The wall clock stands at 13, and the oldest window that holds it starts at 5.
        assert views["a"].now() == 2
        assert dict(views.items().now()) == {"a": 2, "b": 1, "c": 1, "d": 1}
        assert sorted(views) == sorted(totals) == list("abcd")
        assert len(views) == len(totals) == 4
        assert dict(totals.items()) == {"a": 2, "b": 1, "c": 1, "d": 1}
        with pytest.raises(mt.OutsideStreamError, match="without an event"):
            views["a"].current()
        with pytest.raises(mt.OutsideStreamError, match="'views' is written"):
            views["a"] += 1
        with pytest.raises(mt.OutsideStreamError, match="'totals' is written"):
            totals["a"] = 1


def test_views_show_what_is_in_a_window() -> None:
    def make(app: App) -> Any:
        return app.Table("t", default=int).hopping(10, 5, key_index=True)

    def look(table: Any, event: Any) -> Any:
        table[event["key"]] += 1
        return {
            "own": dict(table.items()),
            "now": sorted(table.keys().now()),
            "current": sorted(table.values().current()),
            "delta": dict(table.items().delta(20)),
            "all": sorted(table),
        }

    assert run(make, look, ("a", 2.0), ("b", 3.0), ("a", 24.0), ("c", 1.0))[1:] == [
        {
            "own": {"a": 1, "b": 1},
            "now": ["a", "b"],
            "current": [1, 1],
            "delta": {},
            "all": ["a", "b"],
        },
        {
            "own": {"a": 1},
            "now": ["a"],
            "current": [1],
            "delta": {"a": 1, "b": 1},
            "all": ["a", "b"],
        },
        {
            "own": {"a": 1, "b": 1, "c": 1},
            "now": ["a"],
            "current": [1, 1, 1],
            "delta": {},
            "all": ["a", "b", "c"],
        },
    ]


def test_views_walk_the_window_of_an_event_or_a_time() -> None:
    def make(app: App) -> Any:
        return app.Table("t", default=int).tumbling(10)

    def look(table: Any, event: Any) -> Any:
        table[event["key"]] += 1
        assert list(table.items(event)) == list(table.items())
        of_3 = table.items(3.0)
        assert list(of_3) == list(of_3.current()) == list(of_3.delta(0))
        assert list(of_3.current(event)) == list(table.items().current())
        return sorted(of_3), sorted(table.keys(13.0)), sorted(table.values(13.0).delta(10))

    assert run(make, look, ("a", 2.0), ("b", 12.0), ("c", 4.0)) == [
        ([("a", 1)], [], [1]),
        ([("a", 1)], ["b"], [1]),
        ([("a", 1), ("c", 1)], ["b"], [1, 1]),
    ]


def test_the_ranges_of_an_event_are_what_it_writes() -> None:
    def write(table: Any, event: Any) -> Any:
        table[event["key"]] += 1
        assert table.ranges() == table.ranges(event) == list(table[event["key"]].windows())
        return table.ranges(3.0)

    assert run(make_hopping, write, ("a", 12.0), ("b", 15.0)) == [[(-5.0, 5.0), (0.0, 10.0)]] * 2
    table = App("app").Table("t", default=int).hopping(10, 3)
    assert table.ranges("1970-01-01T00:00:12") == [(5.0, 15.0), (8.0, 18.0), (11.0, 21.0)]
    with pytest.raises(mt.OutsideStreamError, match="without an event"):
        table.ranges()
    with pytest.raises(mt.OptionError, match=r"table='s' has sessions.*s\[key\]\.windows\(\)"):
        App("app").Table("s", default=int).session(10).ranges(3.0)


@pytest.mark.parametrize("make", [App.Table, App.SetTable])
def test_a_loop_over_all_windows_has_to_say_which(make: Any) -> None:
    def walk(table: Any, event: Any) -> None:
        with pytest.raises(mt.OptionError, match=r"in t\[key\]\.current\(\)"):
            assert "ann" in table["a"]
        for walked in (iter, list, set):
            with pytest.raises(mt.OptionError, match=r"for .* in t\[key\]\.current\(\)"):
                walked(table["a"])

    assert run(lambda app: make(app, "t").tumbling(10), walk, ("a", 1.0)) == [None]


def test_walking_all_keys_wants_an_index() -> None:
    with pytest.raises(mt.OptionError, match="key_index=True"):
        run(make_hopping, lambda table, _: len(table), ("a", 1.0))


def test_a_table_without_default_has_no_value_for_a_new_key() -> None:
    def make(app: App) -> Any:
        return app.Table("t").tumbling(10)

    def read(table: Any, event: Any) -> Any:
        with pytest.raises(KeyError):
            table["a"].current()
        with pytest.raises(KeyError):
            table["a"] += 1
        table["a"] = 5
        return table["a"].current()

    assert run(make, read, ("a", 1.0)) == [5]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda t: t.hopping(10, 11), r"step=11 is greater than the size 10 seconds.*at most 10"),
        (lambda t: t.tumbling(0), "size=.* is zero"),
        (lambda t: t.tumbling("soon"), "size='soon' isn't a duration"),
        (lambda t: t.tumbling(float("nan")), "size=nan isn't a duration"),
        (lambda t: t.tumbling(10, expires=-1), "expires=.* is negative"),
        (lambda t: t.session(10, closed="right"), "closed='right' isn't known"),
        (lambda t: (t.tumbling(10), t.tumbling(10)), "has windows already"),
    ],
)
def test_what_cannot_work_is_refused_at_once(make: Callable[[Any], Any], problem: str) -> None:
    with pytest.raises(mt.OptionError, match=problem):
        make(App("app").Table("t", default=int))


def test_sessions_of_values_that_do_not_add_want_a_merger() -> None:
    app = App("app")
    with pytest.raises(mt.OptionError, match="merge="):
        app.Table("t", default=dict).session(10)
    app.Table("merged", default=dict).session(10, merge=lambda first, second: {**first, **second})


def test_the_windowed_table_is_what_windowing_returned() -> None:
    app = App("app", max_ahead=None)
    plain = app.Table("t", default=int)
    plain.tumbling(10)

    @app.agent(app.topic("events"))
    def count(event: Any) -> None:
        plain["a"] += 1

    with pytest.raises(mt.OptionError, match=r"has windows.*\.tumbling\(\)"), app.open() as running:
        running.send("events", 1, key="a", timestamp=1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda app: app.Table("t", default=int).tumbling(10, expires=100),
        lambda app: app.Table("t", default=int).hopping(10, 5, expires=100),
        lambda app: app.Table("t", default=int).session(10, expires=100),
        lambda app: app.SetTable("t").tumbling(10, expires=100),
        lambda app: app.Table("t", default=int),
    ],
)
def test_what_isnt_there_cannot_be_deleted(make: Any) -> None:
    def work(table: Any, event: Any) -> Any:
        key = event["key"]
        if event["write"]:
            table[key] = {1} if table.spec.sets else 1
        else:
            try:
                del table[key]
            except KeyError as error:
                return error.args
        return None

    write, delete = {"write": True}, {"write": False}
    results = run(
        make,
        work,
        ("a", 11.0, delete),
        ("a", 11.0, write),
        ("b", 11.0, delete),
        ("a", 11.0, delete),
        ("a", 11.0, delete),
    )
    assert results == [("a",), None, ("b",), None, ("a",)]


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda mine: mine > 1, r"`t\[key\] > x` .* write t\[key\]\.current\(\) > x, or \.now\(\)"),
        (lambda mine: mine < 1, r"`t\[key\] < x` doesn't say which is meant"),
        (lambda mine: mine == 1, r"`t\[key\] == x`"),
        (lambda mine: mine != 1, r"`t\[key\] == x`"),
        (lambda mine: mine + 1, r"`t\[key\] \+ x`"),
        (lambda mine: 7 // mine, r"`x // t\[key\]`"),
        (lambda mine: -mine, r"`-t\[key\]`"),
        (lambda mine: "yes" if mine else "no", r"`bool\(t\[key\]\)`"),
        (lambda mine: not mine, r"`bool\(t\[key\]\)`"),
        (lambda mine: len(mine), r"`len\(t\[key\]\)`"),
        (lambda mine: max(mine, 3), "which is meant"),
        (lambda mine: sum([mine]), r"`x \+ t\[key\]`"),
        (lambda mine: round(mine), r"`round\(t\[key\]\)`"),
        (lambda mine: [1, 2, 3][mine], r"`x\[t\[key\]\]`"),
    ],
)
def test_all_windows_of_a_key_are_no_value(ask: Any, problem: str) -> None:
    def work(table: Any, event: Any) -> Any:
        with pytest.raises(mt.OptionError, match=problem):
            ask(table["a"])
        table["a"] += 1
        assert table["a"] == table["a"]
        assert table["a"] != table["b"]
        return table["a"].current()

    assert run(make_hopping, work, ("a", 12.0)) == [1]


def test_a_method_of_the_value_is_found_behind_the_window() -> None:
    def work(table: Any, event: Any) -> None:
        with pytest.raises(AttributeError, match=r"write t\[key\]\.current\(\)\.append"):
            table["a"].append(1)
        assert not hasattr(copy(table["a"]), "__wrapped__")

    run(make_hopping, work, ("a", 12.0))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda table: table.tumbling(-5), r"size=-5 is negative"),
        (lambda table: table.tumbling(10, expires=-0.5), r"expires=-0\.5 is negative"),
        (lambda table: table.hopping(10, 1e-9), r"step=1e-09 is zero"),
        (lambda table: table.hopping(10, 1e300), r"step=1e\+300 is too long"),
        (lambda table: table.session(0), r"gap=0 is zero"),
        (lambda table: table.session(True), r"gap=True isn't a duration"),
    ],
)
def test_errors_show_what_was_given(make: Any, problem: str) -> None:
    with pytest.raises(mt.OptionError, match=problem):
        make(App("app").Table("t", default=int))
