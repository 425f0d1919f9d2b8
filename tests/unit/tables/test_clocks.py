"""Tests that partitions, batches and clocks don't change what expires and what is late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import muntin as mt
from muntin.stores import Image, memory
from muntin.tables import App
from muntin.tables.app import RESTING

BATCHES = [1, 2, 100]
PARTITIONS = [1, 2, 8]
WAYS = [(partitions, batch) for partitions in PARTITIONS for batch in BATCHES]


class Outcome:
    """Closed windows, late events, counts and values of an app with one table, after all events."""

    def __init__(
        self,
        make: Callable[[App, Any], Any],
        do: Callable[[Any, Any], None],
        make_rows: list[dict[str, Any]],
        partitions: int = 1,
        batch: int = 100,
        **options: Any,
    ) -> None:
        self.closed: list[Any] = []
        app = App("app", max_ahead=None, **options)
        table = make(app, lambda key, value: self.closed.append((*key, value)))

        @app.agent(app.topic("events"))
        def work(event: Any) -> None:
            do(table, event)

        source = mt.source(make_rows, key="key", time="at")
        with app.run(
            {"events": source}, partitions=partitions, batch=batch, clock=lambda: 1e9
        ) as run:
            self.late = [(row.value["at"], row.watermark) for row in run.rejected]
            self.counts = run.counts
            self.current_value = {
                key: table[key].windows() for key in {row["key"] for row in make_rows}
            }
        self.late.sort()
        self.closed.sort(key=repr)

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self.__dict__}"


def make_rows(*times: float, keys: str = "k", **fields: list[Any]) -> list[dict[str, Any]]:
    return [
        {"key": keys[n % len(keys)], "at": float(at), **{f: v[n] for f, v in fields.items()}}
        for n, at in enumerate(times)
    ]


def make_lists(app: App, close: Any) -> Any:
    return app.Table("t", default=list, on_window_close=close).tumbling(10, expires=5)


def make_sets(app: App, close: Any) -> Any:
    return app.Table("t", default=set, on_window_close=close).hopping(10, 5, expires=5)


def make_sessions(app: App, close: Any) -> Any:
    return app.Table("t", default=list, on_window_close=close).session(10, expires=5)


def append(table: Any, event: Any) -> None:
    value = table[event["key"]].current()
    (value.add if isinstance(value, set) else value.append)(event["at"])


def walk(table: Any, event: Any) -> None:
    if event["key"] not in table:
        append(table, event)
    for value in table[event["key"]].windows().values():
        (value.add if isinstance(value, set) else value.append)(event["at"])
    for value in table.values().current():
        (value.add if isinstance(value, set) else value.append)(-event["at"])


def begin(table: Any, event: Any) -> None:
    """Begin a session with a write, or change one in place."""
    if event["write"]:
        table[event["key"]] += [event["at"]]
    else:
        append(table, event)


@pytest.mark.parametrize("make", [make_lists, make_sets])
@pytest.mark.parametrize("do", [append, walk])
@pytest.mark.parametrize("batch", BATCHES)
def test_an_expired_window_is_changed_in_place_by_nobody(make: Any, do: Any, batch: int) -> None:
    events = make_rows(1, 100, 2, 101, 3, 95)
    outcome = Outcome(make, do, events, 1, batch)
    assert outcome == Outcome(make, do, events, 1, 1)
    assert outcome.counts["late"] == len(outcome.late) == 2
    assert outcome.late == [(2.0, 100_000_000), (3.0, 101_000_000)]
    assert 2.0 not in [at for *_, value in outcome.closed for at in value]


def test_that_is_what_was_found() -> None:
    for batch in BATCHES:
        outcome = Outcome(make_lists, append, make_rows(1, 100, 2), 1, batch)
        assert outcome.closed == [("k", (0.0, 10.0), [1.0])]
        assert outcome.late == [(2.0, 100_000_000)]


@pytest.mark.parametrize("batch", BATCHES)
def test_an_expired_session_is_changed_in_place_by_nobody(batch: int) -> None:
    writes = [True, True, True, False, False, False]
    events = make_rows(1, 8, 100, 5, 104, 2, write=writes)
    outcome = Outcome(make_sessions, begin, events, 1, batch)
    assert outcome.closed == [("k", (1.0, 18.0), [1.0, 8.0])]
    assert outcome.current_value == {"k": {(100.0, 110.0): [100.0, 104.0]}}
    assert outcome.late == [(2.0, 104_000_000), (5.0, 100_000_000)]


@pytest.mark.parametrize("batch", BATCHES)
def test_what_has_expired_isnt_read(batch: int) -> None:
    """An agent reads the same in one batch as in several."""
    seen: list[Any] = []

    def look(table: Any, event: Any) -> None:
        table[event["key"]] += [event["at"]]
        values = table[event["key"]]
        seen.append(
            (
                list(values.windows()), values.delta(100), event["key"] in table, list(table),
                list(table.items().delta(100)), values.current(1.0),
            )
        )  # fmt: skip

    def make(app: App, close: Any) -> Any:
        return app.Table("t", default=list).hopping(10, 5, expires=5, key_index=True)

    Outcome(make, look, make_rows(1, 100, 2, 101), 1, batch)
    assert [len(windows) for windows, *_ in seen] == [2, 4, 2, 2]
    assert [rest[0] for _, *rest in seen] == [[], [1.0], [], []]
    assert [rest[1] for _, *rest in seen] == [True, True, False, True]
    assert seen[1][4] == [("k", [1.0])]
    assert seen[3][4:] == ([], [])


def test_reading_an_expired_window_rejects_nothing() -> None:
    def read(table: Any, event: Any) -> None:
        table[event["key"]].current()
        list(table.values().current())
        value = table[event["key"]].current(0.0)
        value.append(1)
        value.remove(1)

    assert Outcome(make_lists, read, make_rows(1, 100, 2)).counts == {"seen": 3, "taken": 3}


def test_what_was_changed_late_is_seen_by_nobody() -> None:
    seen = []

    def change(table: Any, event: Any) -> None:
        table[event["key"]].current().append("x")
        table[event["key"]].current().append("y")
        seen.append(list(table[event["key"]].current()))

    outcome = Outcome(make_lists, change, make_rows(100, 1, 1, 2))
    assert seen == [["x", "y"]] * 4
    assert outcome.counts["late"] == 3
    assert outcome.current_value == {"k": {(100.0, 110.0): ["x", "y"]}}


def test_a_foreign_key_is_changed_in_place_by_nobody() -> None:
    def change(table: Any, event: Any) -> None:
        assert table["other"].current() == []
        table["other"].current().append(1)

    with pytest.raises(mt.PartitionError, match="'t' is written under 'other'"):
        Outcome(make_lists, change, make_rows(1))


def make_by_field(app: App, close: Any) -> Any:
    table = app.Table("t", default=int, on_window_close=close).tumbling(10, expires=5)
    return table.relative_to_field("happened")


def count(table: Any, event: Any) -> None:
    table[event["key"]] += 1


@pytest.mark.parametrize(("partitions", "batch"), WAYS)
def test_a_time_in_values_has_one_clock(partitions: int, batch: int) -> None:
    events = make_rows(
        *range(6), keys="abcdef", happened=[1.0, 100.0, 2.0, 100.0, 3.0, None]
    )  # fmt: skip
    outcome = Outcome(make_by_field, count, events, partitions, batch)
    assert outcome == Outcome(make_by_field, count, events)
    # A quiet partition's windows close with the others.
    assert outcome.closed == [("a", (0.0, 10.0), 1)]
    assert [at for at, _ in outcome.late] == [2.0, 4.0, 5.0]
    assert (outcome.counts["late"], outcome.counts["null_time"]) == (2, 1)


@pytest.mark.parametrize(("partitions", "batch"), WAYS)
def test_two_clocks_of_one_topic(partitions: int, batch: int) -> None:
    """A window is kept until both clocks have passed it, and its own clock decides what is late."""

    def do(table: Any, event: Any) -> None:
        other = table.relative_to_field("happened")
        other[event["key"]] += 1
        table[event["key"]] += 100

    def make(app: App, close: Any) -> Any:
        table = make_by_field(app, close)
        return table.relative_to_stream()

    events = make_rows(
        0, 50, 51, 52, 53, 54, keys="abc", happened=[0.0, 1.0, 2.0, 40.0, 41.0, 9.0]
    )  # fmt: skip
    outcome = Outcome(make, do, events, partitions, batch)
    assert outcome == Outcome(make, do, events)
    assert outcome.closed == [("a", (0.0, 10.0), 101), ("b", (0.0, 10.0), 1), ("c", (0.0, 10.0), 1)]
    assert [at for at, _ in outcome.late] == [54.0]


def make_waiting_app(
    idle: Any, second: Callable[[App, Any], None]
) -> tuple[list[Any], list[float], Any]:
    """Make an app whose table has a second writer, with a wall clock that the test sets."""
    closed: list[Any] = []
    now = [0.0]
    app = App("app", max_ahead=None, idle=idle)
    table = app.Table(
        "t", default=int, on_window_close=lambda key, value: closed.append((*key, value))
    ).tumbling(10, expires=5)

    @app.agent(app.topic("events"))
    def work(event: Any) -> None:
        table["k"] += 1

    second(app, table)
    return closed, now, app


def constant(app: App, table: Any) -> None:
    other = table.relative_to_field(lambda event: 3.0)

    @app.agent(app.topic("events"), name="second")
    def work(event: Any) -> None:
        if event == "second":
            other["k"] += 1


def other_topic(app: App, table: Any) -> None:
    @app.agent(app.topic("others"), name="second")
    def work(event: Any) -> None:
        table["k"] += 1


@pytest.mark.parametrize("second", [constant, other_topic])
@pytest.mark.parametrize("restart", [False, True])
def test_a_clock_that_rests_isnt_waited_for(second: Any, restart: bool) -> None:
    closed, now, app = make_waiting_app("10 minutes", second)
    image = Image()
    running = app.open(store=memory(image), partitions=4, clock=lambda: now[0])
    topic = "others" if second is other_topic else "events"
    running.send(topic, "second", key="k", timestamp=3.0)
    for at in (4.0, 100.0, 200.0):
        running.send("events", "first", key="k", timestamp=at)
    assert closed == []
    if restart:
        running.close()
        closed, now, app = make_waiting_app("10 minutes", second)
        running = app.open(store=memory(image), partitions=4, clock=lambda: now[0])
    now[0] = 599.0
    running.send("events", "first", key="k", timestamp=300.0)
    assert closed == []
    now[0] = 600.0
    running.tick()
    assert [window[0] for _, window, _ in closed] == [0.0, 100.0, 200.0]
    # The watermark never goes back when a clock starts again.
    running.send(topic, "second", key="k", timestamp=4.0)
    assert [(row.reason, row.time) for row in running.rejected][:1] == [("late", 4_000_000)]
    running.send("events", "first", key="k", timestamp=400.0)
    running.close()


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_time_follows_the_wall_clock_in_silence_if_idle_is_given(partitions: int) -> None:
    closed, now, app = make_waiting_app("1 minute", other_topic)
    with app.open(partitions=partitions, clock=lambda: now[0]) as running:
        running.send("events", 1, key="k", timestamp=1000.0)
        for now[0] in (59.0, 74.0):
            running.tick()
        # At 74 s the watermark is 1014 s, and the window closes at 1015 s.
        assert closed == []
        now[0] = 75.0
        running.tick()
        assert closed == [("k", (1000.0, 1010.0), 1)]
        # An event whose window has closed meanwhile is late, and the watermark stops again.
        running.send("events", 2, key="k", timestamp=1009.0)
        assert [(row.reason, row.time) for row in running.rejected] == [("late", 1_009_000_000)]
        running.send("events", 3, key="k", timestamp=1016.0)
        now[0] = 134.0
        running.tick()
        assert len(closed) == 1


def test_time_for_which_an_app_was_down_isnt_silence() -> None:
    image = Image()
    _, now, app = make_waiting_app("1 minute", other_topic)
    with app.open(store=memory(image), clock=lambda: now[0]) as running:
        running.send("events", 1, key="k", timestamp=1000.0)
    closed, now, app = make_waiting_app("1 minute", other_topic)
    now[0] = 5000.0
    with app.open(store=memory(image), clock=lambda: now[0]) as running:
        running.tick()
        assert closed == []
        now[0] = 5075.0
        running.tick()
        assert closed == [("k", (1000.0, 1010.0), 1)]


@pytest.mark.parametrize("idle", ["default", None])
def test_time_stands_still_in_silence_unless_idle_is_given(idle: str | None) -> None:
    closed, now, app = make_waiting_app(RESTING if idle else None, other_topic)
    with app.open(clock=lambda: now[0]) as running:
        running.send("events", 1, key="k", timestamp=1000.0)
        now[0] = 1e6
        running.tick()
        assert closed == []


def test_all_clocks_may_be_waited_for() -> None:
    closed, now, app = make_waiting_app(None, other_topic)
    with app.open(clock=lambda: now[0]) as running:
        running.send("others", 1, key="k", timestamp=3.0)
        now[0] = 1e9
        running.send("events", 1, key="k", timestamp=1000.0)
        assert closed == []
        running.send("others", 1, key="k", timestamp=1000.0)
        assert [window for _, window, _ in closed] == [(0.0, 10.0)]


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_a_partition_waits_for_clocks_of_which_it_has_no_event(partitions: int) -> None:
    def second(app: App, table: Any) -> None:
        other_topic(app, table)

        @app.agent(app.topic("mine"), name="third")
        def work(event: Any) -> None:
            table[event] += 1

    closed, _, app = make_waiting_app(None, second)
    with app.open(partitions=partitions) as running:
        for key in "abcdefgh":
            running.send("mine", key, key=key, timestamp=1.0)
        running.send("others", 1, key="k", timestamp=3.0)
        running.send("mine", "a", key="a", timestamp=1000.0)
        assert closed == []
        running.send("others", 1, key="k", timestamp=1000.0)
        assert sorted(key for key, *_ in closed) == list("abcdefghk")


def test_a_clock_is_made_before_its_events() -> None:
    def do(table: Any, event: Any) -> None:
        assert table.relative_to_field("happened").relative == table.relative
        table.relative_to_field(lambda event: 1.0)["k"] += 1

    with pytest.raises(mt.OptionError, match=r"first made at an event; write other = t\.relative"):
        Outcome(make_by_field, do, make_rows(1, happened=[1.0]))


@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("batch", BATCHES)
def test_what_agents_send_arrives_in_the_order_of_its_causes(partitions: int, batch: int) -> None:
    app = App("app", max_ahead=None)
    total = app.Table("t", default=int).tumbling(10, expires=5)
    second = app.topic("second")

    @app.agent(app.topic("first"))
    def send(event: Any) -> None:
        second.post(event, key=event["key"])

    @app.agent(second)
    def add(event: Any) -> None:
        total[event["key"]] += 1

    source = mt.source(make_rows(*range(0, 200, 7), keys="abcdefg"), key="key", time="at")
    with app.run({"first": source}, partitions=partitions, batch=batch) as run:
        assert run.rejected == []
        assert run.counts == {"seen": 58, "taken": 58}


@pytest.mark.parametrize("batch", BATCHES)
def test_what_agents_send_is_rejected_each_by_itself(batch: int) -> None:
    app = App("app", max_ahead=None)
    total = app.Table("t", default=int).tumbling(10, expires=5)
    second = app.topic("second")

    @app.agent(app.topic("first"))
    def send(event: Any) -> None:
        second.post(1, key="k", timestamp=event["at"])

    @app.agent(second)
    def add(event: Any) -> None:
        total["k"] += 1

    source = mt.source(make_rows(100, 1, 1, 2), key="key", time="at")
    with app.run({"first": source}, batch=batch) as run:
        assert run.counts["late"] == len(run.rejected) == 3


@pytest.mark.parametrize("batch", BATCHES)
def test_what_closing_writes_is_late_in_no_batch(batch: int) -> None:
    app = App("app", max_ahead=None)
    best = app.Table("best", default=int).tumbling(20, expires=5)

    def close(key: Any, value: Any) -> None:
        best["all"] += value

    views = app.Table("views", default=int, on_window_close=close).tumbling(10, expires=30)

    @app.agent(app.topic("events"))
    def work(event: Any) -> None:
        views["k"] += 1

    def add(key: Any, value: Any) -> None:
        closed.append((*key, value))

    closed: list[Any] = []
    app.redefine_table(replace(app.tables["best"], on_window_close=add))
    # Events without a key are in one partition, so closing windows may be added up there.
    source = mt.source(make_rows(*range(0, 300, 3)), time="at")
    with app.run({"events": source}, batch=batch) as run:
        assert run.rejected == []
        windows = [*closed, *(("all", w, v) for w, v in best["all"].windows().items())]
        assert [window[0] for _, window, _ in windows] == [20.0 * n for n in range(14)]
        assert sum(value for *_, value in windows) == 87
