"""Tests that each window closes once, by the watermark, in any partition and after a restart."""

from __future__ import annotations

from typing import Any

import pytest

import muntin as mt
from muntin.stores import Image, memory
from muntin.tables import App


def make_counting_app(closed: list[Any], **options: Any) -> tuple[App, Any]:
    app = App("app", max_ahead=None, **options)

    async def close(key: Any, value: Any) -> None:
        closed.append((key, value))

    views = app.Table("views", default=int, on_window_close=close).hopping(10, 5, expires=20)

    @app.agent(app.topic("clicks"))
    async def count(clicks: Any) -> None:
        async for page in clicks:
            views[page] += 1

    return app, views


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("restart", [False, True])
def test_each_window_closes_once_in_order(partitions: int, restart: bool) -> None:
    closed: list[Any] = []
    image = Image()
    app, _ = make_counting_app(closed)
    running = app.open(store=memory(image), partitions=partitions)
    for page, time in (("b", 1.0), ("a", 2.0), ("c", 7.0), ("a", 34.9), ("a", 35.0), ("z", 60.0)):
        running.send("clicks", page, key=page, timestamp=time)
        if restart:
            running.close()
            app, _ = make_counting_app(closed)
            running = app.open(store=memory(image), partitions=partitions)
    running.close()
    expected = [
        (("a", (-5.0, 5.0)), 1), (("b", (-5.0, 5.0)), 1),
        (("a", (0.0, 10.0)), 1), (("b", (0.0, 10.0)), 1), (("c", (0.0, 10.0)), 1),
        (("c", (5.0, 15.0)), 1),
        (("a", (25.0, 35.0)), 1), (("a", (30.0, 40.0)), 2),
    ]  # fmt: skip
    # Partitions close one after another.
    assert sorted(closed) == sorted(expected)
    if partitions == 1:
        assert closed == expected


def test_a_late_event_revives_no_window() -> None:
    closed: list[Any] = []
    app, views = make_counting_app(closed)
    with app.open() as running:
        for time in (1.0, 7.0, 34.0, 1.0, 4.9, 8.0):
            running.send("clicks", "a", key="a", timestamp=time)
        # At 34, the windows that ended at 5 and 10 have expired; 8.0 still counts in [5, 15).
        assert views["a"].windows()[5.0, 15.0] == 2
        assert closed == [(("a", (-5.0, 5.0)), 1), (("a", (0.0, 10.0)), 2)]
        late = [(row.reason, row.time, row.table, row.agent) for row in running.rejected]
        assert late == [("late", time, "views", "count") for time in (1_000_000, 4_900_000)]
        assert running.rejected[0].watermark == 34_000_000
        assert running.counts == {"seen": 6, "taken": 6, "late": 2}


def test_lateness_holds_the_watermark_back() -> None:
    closed: list[Any] = []
    app, _ = make_counting_app(closed, lateness="30 seconds")
    with app.open() as running:
        for time in (1.0, 50.0, 2.0, 59.0):
            running.send("clicks", "a", key="a", timestamp=time)
        assert closed == [(("a", (-5.0, 5.0)), 2)]
        assert running.rejected == []


def test_one_bad_clock_closes_nobody_elses_windows() -> None:
    closed: list[Any] = []
    app, views = make_counting_app(closed)
    app.max_ahead = 60_000_000
    with app.open(clock=lambda: 100.0) as running:
        for time in (90.0, 1e12, 161.0, 91.0):
            running.send("clicks", "a", key="a", timestamp=time)
        assert closed == []
        assert views["a"].current(91.0) == 2
        assert [(row.reason, row.value) for row in running.rejected] == [("future", "a")] * 2


def test_a_callback_may_write_other_tables() -> None:
    app = App("app", max_ahead=None)
    best = app.Table("best", default=int)

    def close(key: Any, value: Any) -> None:
        page, window = key
        best[page] = max(best[page], value)
        if value > 2:
            app.topics["records"].post({"page": page, "start": window.start}, key=page)

    app.topic("records")
    views = app.Table("views", default=int, on_window_close=close).tumbling(10, expires=1)

    @app.agent(app.topic("clicks"))
    def count(page: Any) -> None:
        views[page] += 1

    with app.open(partitions=3) as running:
        for time in (1.0, 2.0, 3.0, 11.0, 12.0, 40.0):
            running.send("clicks", "a", key="a", timestamp=time)
        assert dict(best.items()) == {"a": 3}
        assert running.topics.values("records") == [{"page": "a", "start": 0.0}]


def test_a_table_of_two_topics_goes_by_the_slower_one() -> None:
    closed: list[Any] = []
    app, views = make_counting_app(closed)

    @app.agent(app.topic("imports"))
    async def add(pages: Any) -> None:
        async for page in pages:
            views[page] += 100

    with app.open() as running:
        running.send("imports", "a", key="a", timestamp=1.0)
        running.send("clicks", "a", key="a", timestamp=2.0)
        running.send("clicks", "a", key="a", timestamp=500.0)
        running.send("imports", "a", key="a", timestamp=3.0)
        assert closed == []
        assert views["a"].current(3.0) == 201
        running.send("imports", "a", key="a", timestamp=40.0)
        assert [value for _, value in closed] == [201, 201]


def test_sessions_close_a_gap_and_the_expiry_behind_their_last_event() -> None:
    app = App("app", max_ahead=None)
    closed: list[Any] = []

    def close(key: Any, value: Any) -> None:
        closed.append((*key, value))

    visits = app.Table("visits", default=list, on_window_close=close).session(10, expires=15)

    @app.agent(app.topic("clicks"))
    def visit(value: Any) -> None:
        visits[value[0]] += [value[1]]

    with app.open() as running:

        def click(key: str, time: float) -> None:
            running.send("clicks", (key, time), key=key, timestamp=time)

        click("a", 1.0)
        click("a", 21.0 - 1e-6)
        assert list(visits["a"].windows().values()) == [[1.0], [21.0 - 1e-6]]
        # An event that lies within the gap of both joins them, in the order of their starts.
        click("a", 11.0)
        assert visits["a"].windows() == {(1.0, 31.0 - 1e-6): [1.0, 21.0 - 1e-6, 11.0]}
        assert (visits["a"].now(), visits["a"].current(31.0)) == ([], [])
        assert visits["a"].current(30.0) == [1.0, 21.0 - 1e-6, 11.0]
        click("b", 46.0 - 1e-6)
        assert closed == []
        click("b", 46.0)
        assert [(key, window.end) for key, window, _ in closed] == [("a", 31.0 - 1e-6)]
        click("a", 12.0)
        assert [row.reason for row in running.rejected] == ["late"]
        assert visits["a"].windows() == {}


def test_expires_may_not_be_changed_into_other_windows() -> None:
    image = Image()
    app, _ = make_counting_app([])
    with app.open(store=memory(image)) as running:
        running.send("clicks", "a", key="a", timestamp=1.0)
    other = App("app", max_ahead=None)
    other.Table("views", default=int).tumbling(10, expires=20)
    with pytest.raises(
        mt.SpecChangedError, match=r"'views'.*windows: was hopping .*, is tumbling 10 seconds"
    ):
        other.open(store=memory(image))
    with pytest.raises(mt.SpecChangedError, match="table 'views' that the app doesn't define"):
        App("app").open(store=memory(image))
