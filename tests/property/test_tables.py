"""Tables hold what the plain model holds, however events are ordered, cut and restarted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.tables_model import (
    DELETE,
    OPERATIONS,
    Happening,
    SessionModel,
    WindowModel,
)

import muntin as mt
from muntin.state import runs
from muntin.stores import Image, memory
from muntin.tables import App, Running, WindowedTable, WindowRange

KEYS = "abc"
TIMES = st.integers(0, 240).map(lambda half: half / 2)


@pytest.fixture(autouse=True, scope="module")
def runs_are_folded_early() -> Iterator[None]:
    """Streams of a few batches would fold no runs otherwise."""
    with mock.patch.object(runs, "MAX_RUNS", 2):
        yield


def events(operations: list[str], floats: bool) -> st.SearchStrategy[Happening]:
    numbers = st.integers(-3, 3)
    operands = st.one_of(numbers, st.sampled_from([0.5, -1.25])) if floats else numbers
    return st.builds(Happening, st.sampled_from(KEYS), TIMES, st.sampled_from(operations), operands)


def any_events() -> st.SearchStrategy[list[Happening]]:
    """Most streams do nothing but add whole numbers, which are kept by pane."""
    adding = events(["+="], floats=False)
    anything = events([*OPERATIONS, DELETE], floats=True)
    mostly = st.one_of(adding, adding, adding, anything)
    return st.one_of(*(st.lists(one, max_size=40) for one in (adding, anything, mostly)))


WINDOWS = st.one_of(
    st.tuples(st.just(10.0), st.just(10.0)),
    st.tuples(st.just(10.0), st.sampled_from([5.0, 3.0, 2.0])),
    st.tuples(st.just(2.5), st.just(1.0)),
)
EXPIRES = st.sampled_from([None, 1.0, 10.0, 33.5])


def doing(app: App, table: WindowedTable) -> None:
    """An agent that does what events say."""

    @app.agent(app.topic("happenings"))
    async def happen(stream: Any) -> None:
        async for event in stream:
            key, operand = event["key"], event["operand"]
            match event["operation"]:
                case "+=":
                    table[key] += operand
                case "-=":
                    table[key] -= operand
                case "*=":
                    table[key] *= operand
                case "=":
                    table[key] = operand
                case "delete":
                    with suppress(KeyError):
                        del table[key]


class Cut:
    """One way to run a stream: partitions, batches, and a restart now and then.

    Attributes:
        closed: What ``on_window_close`` was given, in order.
    """

    def __init__(self, data: st.DataObject, make: Any) -> None:
        self.data = data
        self.make = make
        self.partitions = data.draw(st.sampled_from([1, 1, 2, 5]), "partitions")
        self.image = Image()
        self.closed: list[tuple[Any, WindowRange, Any]] = []

    def close(self, key: Any, value: Any) -> None:
        self.closed.append((*key, value))

    def run(self, happenings: list[Happening]) -> tuple[Running, Any]:
        rows = [asdict(event) for event in happenings]
        app, table = self.make(self.close)
        cuts = st.lists(st.integers(0, len(rows)), max_size=4).map(sorted)
        for upto in self.data.draw(cuts, "cuts"):
            run = self._part(app, rows[:upto])
            if self.data.draw(st.booleans(), "restart"):
                run.close()
                app, table = self.make(self.close)
        return self._part(app, rows), table

    def _part(self, app: App, rows: list[dict[str, Any]]) -> Running:
        source = mt.source(rows, key="key", time="time")
        batch = self.data.draw(st.sampled_from([1, 3, 100]), "batch")
        if app.running is not None:
            app.running.feed({"happenings": source}, batch=batch)
            return app.running
        store = memory(self.image)
        return app.run({"happenings": source}, store=store, partitions=self.partitions, batch=batch)


def refused(run: Running) -> list[Any]:
    """Values of rejected events in the order of arrival."""
    return [row.value for row in sorted(run.rejected, key=lambda row: row.offset)]


@given(st.data(), any_events(), WINDOWS, EXPIRES)
def test_windows(
    data: st.DataObject,
    happenings: list[Happening],
    windows: tuple[float, float],
    expires: float | None,
) -> None:
    def make(close: Any) -> tuple[App, WindowedTable]:
        app = App("windows", max_ahead=None)
        table = app.Table("t", default=int, on_window_close=close).hopping(*windows, expires)
        doing(app, table)
        return app, table

    model = WindowModel(*windows, expires)
    for event in happenings:
        model.take(event)
    cut = Cut(data, make)
    run, table = cut.run(happenings)
    with run:
        live = {
            (key, window.start): value
            for key in KEYS
            for window, value in table[key].windows().items()
        }
        assert live == model.live
        assert {(key, window.start): value for key, window, value in cut.closed} == model.closed
        assert len(cut.closed) == len(model.closed)
        assert refused(run) == [asdict(event) for event in model.late]
        assert {row.reason for row in run.rejected} <= {"late"}
        for key in KEYS:
            for time in (0.0, 17.5, 60.0):
                newest = max(model.starts(time))
                assert table[key].current(time) == model.live.get((key, newest), 0)


@given(
    st.data(),
    st.lists(events(["+=", "=", "*=", DELETE], floats=False), max_size=30),
    EXPIRES,
    st.sampled_from(["both", "left"]),
)
def test_sessions(
    data: st.DataObject, happenings: list[Happening], expires: float | None, closed: Any
) -> None:
    def make(close: Any) -> tuple[App, WindowedTable]:
        app = App("sessions", max_ahead=None)
        plain = app.Table("t", default=int, on_window_close=close)
        table = plain.session(5.0, expires, closed=closed)
        doing(app, table)
        return app, table

    model = SessionModel(5.0, expires, closed == "both")
    for event in happenings:
        model.take(event)
    cut = Cut(data, make)
    run, table = cut.run(happenings)
    with run:
        live = {
            (key, window.start, window.end - 5): value
            for key in KEYS
            for window, value in table[key].windows().items()
        }
        assert live == model.live
        emitted = {(key, window.start, window.end - 5): value for key, window, value in cut.closed}
        assert emitted == model.closed
        assert len(cut.closed) == len(model.closed)
        assert refused(run) == [asdict(event) for event in model.late]


@given(
    st.data(),
    st.lists(
        st.tuples(st.sampled_from("ab"), TIMES, st.booleans(), st.integers(0, 3)), max_size=30
    ),
)
def test_sets(data: st.DataObject, changes: list[tuple[str, float, bool, int]]) -> None:
    def make(_: Any) -> tuple[App, Any]:
        app = App("sets", max_ahead=None)
        seen = app.SetTable("seen")
        windowed = app.SetTable("windowed").hopping(10.0, 5.0)

        @app.agent(app.topic("happenings"))
        async def change(stream: Any) -> None:
            async for event in stream:
                for table in (seen, windowed):
                    if event["operation"]:
                        table[event["key"]].add(event["operand"])
                    else:
                        table[event["key"]].discard(event["operand"])

        return app, (seen, windowed)

    happenings = [Happening(key, time, add, member) for key, time, add, member in changes]
    run, (seen, windowed) = Cut(data, make).run(happenings)
    expected: dict[Any, set[int]] = {}
    for event in happenings:
        starts = WindowModel(10.0, 5.0, None).starts(event.time)
        for place in [event.key, *((event.key, start) for start in starts)]:
            members = expected.setdefault(place, set())
            (members.add if event.operation else members.discard)(event.operand)
    with run:
        for key in "ab":
            assert set(seen[key]) == expected.get(key, set())
            found = {(key, w.start): members for w, members in windowed[key].windows().items()}
            assert found == {p: m for p, m in expected.items() if p[0] == key and p != key and m}


@given(st.data(), st.lists(st.tuples(TIMES, st.sampled_from(KEYS)), max_size=30))
def test_two_agents_on_tables_of_their_own(
    data: st.DataObject, stream: list[tuple[float, str]]
) -> None:
    """The same stream, partitioned in two ways; each key is counted in one place."""

    def make(_: Any) -> tuple[App, Any]:
        app = App("two", max_ahead=None)
        by_key = app.Table("by_key", default=int)
        by_tens = app.Table("by_tens", default=list)
        topic = app.topic("happenings")

        @app.agent(topic)
        async def keys(events: Any) -> None:
            async for event in events:
                by_key[event["key"]] += 1

        @app.agent(topic)
        async def tens(events: Any) -> None:
            async for event in events.group_by(lambda event: int(event["time"] // 10)):
                by_tens[int(event["time"] // 10)].append(event["key"])

        return app, (by_key, by_tens)

    happenings = [Happening(key, time, "", 0) for time, key in stream]
    run, (by_key, by_tens) = Cut(data, make).run(happenings)
    with run:
        keys = [key for _, key in stream]
        assert {key: by_key[key] for key in KEYS} == {key: keys.count(key) for key in KEYS}
        lists: dict[int, list[str]] = {}
        for time, key in stream:
            lists.setdefault(int(time // 10), []).append(key)
        assert dict(by_tens.items()) == lists
        assert run.counts.get("seen", 0) == len(stream)


def plainly(table: dict[Any, list[int]], doing: str, key: Any, operand: int) -> Any:
    """One step on a table of lists, or on a dictionary that stands for it; what it emits.

    Nothing is emptied in place: it couldn't be distinguished from a default that nobody changed.
    """
    match doing:
        case "append":
            table[key].append(operand)
        case "set":
            table[key] = [operand]
        case "add":
            table[key] += [operand]
        case "set default":
            table.setdefault(key, []).append(operand)
        case "pop":
            return table.pop(key, None)
        case "walk":
            for walked, value in table.items():
                value.append(operand if walked == key else -operand)
        case "in":
            found = key in table, table.get(key), len(table), sorted(table), sorted(table.values())
            return deepcopy(found)
    return list(table[key]) if key in table else None


PLAIN = ["append", "set", "add", "set default", "pop", "walk", "in"]


@given(
    st.data(),
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(PLAIN), st.integers(0, 3)), max_size=20
    ),
)
def test_values_changed_in_place_depend_on_no_cut(
    data: st.DataObject, plain: list[tuple[str, str, int]]
) -> None:
    """A table of lists is a dictionary of lists, however the stream is cut into batches."""
    said: dict[int, Any] = {}

    def make(_: Any) -> tuple[App, Any]:
        app = App("lists", max_ahead=None)
        table = app.Table("t", default=list)

        @app.agent(app.topic("happenings"))
        async def work(stream: Any) -> None:
            async for event in stream:
                said[event["time"]] = plainly(table, event["operation"], *event["operand"])

        return app, table

    # All keys lie in the partition of the stream's only one, under tuples that begin with it.
    steps = [(("all", key), doing, operand) for key, doing, operand in plain]
    happenings = [
        Happening("all", number, doing, (key, operand))
        for number, (key, doing, operand) in enumerate(steps)
    ]
    run, table = Cut(data, make).run(happenings)
    model: dict[Any, list[int]] = defaultdict(list)
    expected = {n: plainly(model, doing, key, x) for n, (key, doing, x) in enumerate(steps)}
    with run:
        assert said == expected
        assert dict(table.items()) == dict(model)


LOOKING = ["look and add", "look and discard", "add in place", "|=", "add"]


@given(
    st.data(),
    st.lists(st.tuples(TIMES, st.sampled_from(LOOKING), st.integers(0, 3)), max_size=20),
)
def test_sets_that_are_read_and_changed_depend_on_no_cut(
    data: st.DataObject, changes: list[tuple[float, str, int]]
) -> None:
    def make(_: Any) -> tuple[App, Any]:
        app = App("sets", max_ahead=None)
        seen = app.SetTable("seen").hopping(10.0, 5.0)

        @app.agent(app.topic("happenings"))
        async def change(stream: Any) -> None:
            async for event in stream:
                member = event["operand"]
                match event["operation"]:
                    case "look and add":
                        if member not in seen["a"].current():
                            seen["a"].add(member)
                    case "look and discard":
                        if member in seen["a"].current():
                            seen["a"].discard(member)
                    case "add in place":
                        seen["a"].current().add(member)
                    case "|=":
                        seen["a"] |= {member}
                    case "add":
                        seen["a"].add(member)

        return app, seen

    happenings = [Happening("a", time, doing, member) for time, doing, member in changes]
    run, seen = Cut(data, make).run(happenings)
    expected: dict[float, set[int]] = {}
    for event in happenings:
        starts = sorted(WindowModel(10.0, 5.0, None).starts(event.time))
        sets = [expected.setdefault(start, set()) for start in starts]
        there = event.operand in sets[-1]
        if event.operation == "add in place":
            sets[-1].add(event.operand)
        elif event.operation == "look and discard":
            for members in sets if there else []:
                members.discard(event.operand)
        elif event.operation != "look and add" or not there:
            for members in sets:
                members.add(event.operand)
    with run:
        found = {window.start: members for window, members in seen["a"].windows().items()}
        assert found == {start: members for start, members in expected.items() if members}
