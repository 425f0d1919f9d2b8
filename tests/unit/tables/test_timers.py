"""Tests that timers run once when they are due, and that what they send is committed with it."""

from __future__ import annotations

from typing import Any

import pytest

import muntin as mt
from muntin.stores import Image, memory
from muntin.tables import App


class Clock:
    """A wall clock that a test sets."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def make_ticking_app(ran: list[float], clock: Clock, interval: Any = 10) -> App:
    """Make an app with a timer that lists when it ran."""
    app = App("app", max_ahead=None)

    @app.timer(interval)
    def note() -> None:
        ran.append(clock.now)

    return app


@pytest.mark.parametrize("interval", [10, 10.0, "10 seconds"])
def test_it_is_due_at_multiples_and_once_for_what_was_missed(interval: Any) -> None:
    ran: list[float] = []
    clock = Clock(5.0)
    with make_ticking_app(ran, clock, interval).open(clock=clock) as running:
        for now in (5.0, 9.9, 10.0, 10.0, 19.9, 47.0, 49.0, 48.0, 50.0):
            clock.now = now
            running.tick()
    assert ran == [10.0, 47.0, 50.0]


def test_a_restart_knows_when_it_last_ran() -> None:
    ran: list[float] = []
    clock, image = Clock(5.0), Image()
    for now in (5.0, 9.0, 12.0, 13.0, 99.0):
        clock.now = now
        with make_ticking_app(ran, clock).open(store=memory(image), clock=clock) as running:
            running.tick()
            running.tick()
    assert ran == [12.0, 99.0]


def test_a_new_timer_counts_from_its_first_start() -> None:
    ran: list[float] = []
    clock, image = Clock(5.0), Image()
    with make_ticking_app(ran, clock).open(store=memory(image), clock=clock) as running:
        running.tick()
    clock.now = 25.0
    app = make_ticking_app(ran, clock)
    app.timer(10, name="second")(lambda: ran.append(-clock.now))
    with app.open(store=memory(image), clock=clock) as running:
        running.tick()
        clock.now = 30.0
        running.tick()
    assert ran == [25.0, 30.0, -30.0]


def test_a_crontab_that_was_missed_while_the_app_was_down() -> None:
    ran: list[float] = []
    hour, clock, image = 3600.0, Clock(), Image()
    for now in (8 * hour, 8.5 * hour, 9.5 * hour, 9.6 * hour, 33 * hour):
        clock.now = now
        app = App("app", max_ahead=None)
        app.crontab("0 9 * * *", name="daily")(lambda: ran.append(clock.now / hour))
        with app.open(store=memory(image), clock=clock) as running:
            running.tick()
    assert ran == [9.5, 33.0]


def make_counting_app(clock: Clock) -> tuple[App, Any]:
    """Make an app that counts views, with a timer that reports them and an agent that deletes."""
    app = App("app", max_ahead=None)
    views = app.Table("views", default=int)

    @app.agent(app.topic("clicks"))
    async def count(clicks: Any) -> None:
        async for page in clicks:
            views[page] += 1

    @app.agent()
    async def forget(pages: Any) -> None:
        async for event in pages.events():
            del views[event.key]

    @app.timer(10)
    async def report() -> None:
        for page, seen in views.items():
            await app.topic("reports").send(value=seen, key=page)
            if seen > 1:
                await forget.send(key=page)

    return app, views


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("fed", [False, True])
def test_it_reads_all_partitions_and_sends(partitions: int, fed: bool) -> None:
    clock = Clock(5.0)
    app, views = make_counting_app(clock)
    with app.open(partitions=partitions, clock=clock) as running:
        for page in "abcdeab":
            running.send("clicks", page, key=page)
        clock.now = 20.0
        if fed:
            # A timer runs after the events of its batch.
            running.feed({"clicks": []})
        else:
            running.send("clicks", "c", key="c")
        twice = "ab" if fed else "abc"
        assert dict(views.items()) == {page: 1 for page in "abcde" if page not in twice}
        reports = {m.key: m.value for m in running.topics.messages("reports")}
        assert reports == {page: 2 if page in twice else 1 for page in "abcde"}
        assert {m.time for m in running.topics.messages("reports")} == {20.0}


def test_what_it_sent_outlives_a_crash_and_is_not_sent_again() -> None:
    clock, image, crashes = Clock(5.0), Image(), [True]

    def make_app() -> tuple[App, list[Any]]:
        app = App("app", max_ahead=None)
        done: list[Any] = []

        @app.agent(app.topic("jobs"))
        def work(job: Any) -> None:
            if crashes[0]:
                raise RuntimeError("crash")
            done.append(job)

        @app.timer(10)
        def plan() -> None:
            app.topic("jobs").post("job")

        return app, done

    app, done = make_app()
    running = app.open(store=memory(image), clock=clock)
    clock.now = 10.0
    with pytest.raises(RuntimeError, match="crash"):
        running.tick()
    crashes[0] = False
    app, done = make_app()
    with app.open(store=memory(image), clock=clock) as running:
        running.tick()
        running.tick()
        assert done == ["job"]


def test_an_error_in_it_commits_nothing_and_it_is_due_again() -> None:
    clock, image, ran = Clock(5.0), Image(), 0

    def make_app() -> tuple[App, Any]:
        app = App("app", max_ahead=None, errors="reject")
        views = app.Table("views", default=int)

        @app.agent(app.topic("clicks"))
        def count(page: Any) -> None:
            views[page] += 1

        @app.timer(10)
        def fail() -> None:
            nonlocal ran
            ran += 1
            if ran == 1:
                raise RuntimeError("a fault in the timer")

        return app, views

    app, views = make_app()
    running = app.open(store=memory(image), clock=clock)
    running.send("clicks", "a", key="a")
    clock.now = 10.0
    with pytest.raises(RuntimeError, match="a fault in the timer"):
        running.send("clicks", "a", key="a")
    app, views = make_app()
    with app.open(store=memory(image), clock=clock) as running:
        assert views["a"] == 1
        running.tick()
        assert ran == 2


@pytest.mark.parametrize("windowed", [False, True])
def test_it_writes_no_table(windowed: bool) -> None:
    clock = Clock(5.0)
    app = App("app", max_ahead=None)
    table: Any = app.Table("t", default=int)
    table = table.tumbling(10) if windowed else table

    @app.timer(10)
    def write() -> None:
        table["a"] += 1

    running = app.open(clock=clock)
    clock.now = 10.0
    with pytest.raises(mt.OutsideStreamError, match=r"'t' is written in the timer 'write'.*send"):
        running.tick()


def test_it_reads_windows_by_a_time() -> None:
    clock = Clock(5.0)
    values: list[Any] = []
    app = App("app", max_ahead=None)
    table = app.Table("t", default=int).tumbling(10)

    @app.agent(app.topic("events"))
    def count(value: Any) -> None:
        table["a"] += 1

    @app.timer(10)
    def look() -> None:
        values.append((table["a"].now(), table["a"].current(3.0), list(table.items(3.0))))
        with pytest.raises(mt.OutsideStreamError, match="read without an event in the timer"):
            table["a"].current()

    with app.open(clock=clock) as running:
        running.send("events", 1, key="a", timestamp=3.0)
        running.send("events", 1, key="a", timestamp=12.0)
        clock.now = 14.0
        running.tick()
    assert values == [(1, 1, [("a", 1)])]


def test_what_it_sends_may_have_another_time() -> None:
    clock = Clock(5.0)
    app = App("app", max_ahead=None)

    @app.timer(10)
    async def send() -> None:
        await app.topic("out").send(value=1, timestamp=3.0)

    with app.open(clock=clock) as running:
        clock.now = 10.0
        running.tick()
        assert [m.time for m in running.topics.messages("out")] == [3.0]


def test_a_topic_that_fell_silent_is_moved_on_by_it() -> None:
    closed: list[Any] = []
    clock = Clock(5.0)
    app = App("app", max_ahead=None)
    table = app.Table("t", default=int, on_window_close=lambda key, _: closed.append(key))
    windows = table.tumbling(10, expires=5)
    events = app.topic("events")

    @app.agent(events)
    async def count(stream: Any) -> None:
        async for value in stream.filter(lambda value: value is not None):
            windows[value] += 1

    with app.open(clock=clock) as running:
        running.send("events", "a", key="a", timestamp=3.0)
        clock.now = 1000.0
        running.tick()
        assert closed == []
        assert windows["a"].current(3.0) == 1
    app.timer(10, name="beat")(lambda: events.post(None))
    with app.open(clock=clock) as running:
        running.send("events", "a", key="a", timestamp=1003.0)
        clock.now = 2000.0
        running.tick()
        assert closed == [("a", (1000.0, 1010.0))]


def test_what_is_no_timer_is_refused() -> None:
    app = make_ticking_app([], Clock())
    with pytest.raises(mt.OptionError, match="interval=0 is zero"):
        app.timer(0)
    with pytest.raises(mt.OptionError, match="interval='soon' isn't a duration"):
        app.timer("soon")
    with pytest.raises(mt.OptionError, match="name='note' is the name of another timer"):
        app.timer(5, name="note")(print)


def test_it_is_a_function_still() -> None:
    app = App("app")

    @app.timer(10)
    def seven() -> int:
        return 7

    assert seven() == 7
