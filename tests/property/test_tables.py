"""Tables agree with a plain model for any order of events, batches and restarts."""

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
    """Make streams of a few batches fold runs, which they wouldn't otherwise."""
    with mock.patch.object(runs, "MAX_RUNS", 2):
        yield


def events(operations: list[str], floats: bool) -> st.SearchStrategy[Happening]:
    numbers = st.integers(-3, 3)
    operands = st.one_of(numbers, st.sampled_from([0.5, -1.25])) if floats else numbers
    return st.builds(Happening, st.sampled_from(KEYS), TIMES, st.sampled_from(operations), operands)


def any_events() -> st.SearchStrategy[list[Happening]]:
    """Draw lists of events; most only add whole numbers, which tables hold by pane."""
    adding = events(["+="], floats=False)
    anything = events([*OPERATIONS, DELETE], floats=True)
    mostly = st.one_of(adding, adding, adding, anything)
    return st.one_of(*(st.lists(strategy, max_size=40) for strategy in (adding, anything, mostly)))


WINDOWS = st.one_of(
    st.tuples(st.just(10.0), st.just(10.0)),
    st.tuples(st.just(10.0), st.sampled_from([5.0, 3.0, 2.0])),
    st.tuples(st.just(2.5), st.just(1.0)),
)
EXPIRES = st.sampled_from([None, 1.0, 10.0, 33.5])


def apply_events(app: App, table: WindowedTable) -> None:
    """Register an agent that applies the operation of each event."""

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
    """A way to run a stream: partitions, batches, and occasional restarts.

    Attributes:
        closed: The arguments of ``on_window_close``, in order.
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
            run = self._run_part(app, rows[:upto])
            if self.data.draw(st.booleans(), "restart"):
                run.close()
                app, table = self.make(self.close)
        return self._run_part(app, rows), table

    def _run_part(self, app: App, rows: list[dict[str, Any]]) -> Running:
        source = mt.source(rows, key="key", time="time")
        batch = self.data.draw(st.sampled_from([1, 3, 100]), "batch")
        if app.running is not None:
            app.running.feed({"happenings": source}, batch=batch)
            return app.running
        store = memory(self.image)
        return app.run({"happenings": source}, store=store, partitions=self.partitions, batch=batch)


def get_rejected_values(run: Running) -> list[Any]:
    """Return the values of rejected events in the order of arrival."""
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
        apply_events(app, table)
        return app, table

    model = WindowModel(*windows, expires)
    for event in happenings:
        model.add_event(event)
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
        assert get_rejected_values(run) == [asdict(event) for event in model.late]
        assert {row.reason for row in run.rejected} <= {"late"}
        for key in KEYS:
            for time in (0.0, 17.5, 60.0):
                newest = max(model.list_starts(time))
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
        apply_events(app, table)
        return app, table

    model = SessionModel(5.0, expires, closed == "both")
    for event in happenings:
        model.add_event(event)
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
        assert get_rejected_values(run) == [asdict(event) for event in model.late]


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
        starts = WindowModel(10.0, 5.0, None).list_starts(event.time)
        for entry in [event.key, *((event.key, start) for start in starts)]:
            members = expected.setdefault(entry, set())
            (members.add if event.operation else members.discard)(event.operand)
    with run:
        for key in "ab":
            assert set(seen[key]) == expected.get(key, set())
            windows = {(key, w.start): members for w, members in windowed[key].windows().items()}
            assert windows == {p: m for p, m in expected.items() if p[0] == key and p != key and m}


@given(st.data(), st.lists(st.tuples(TIMES, st.sampled_from(KEYS)), max_size=30))
def test_two_agents_on_tables_of_their_own(
    data: st.DataObject, stream: list[tuple[float, str]]
) -> None:
    """One stream is partitioned in two ways; each key is counted in one partition."""

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


def apply_operation(table: dict[Any, list[int]], operation: str, key: Any, operand: int) -> Any:
    """Apply an operation to a table of lists or to a dictionary of lists; return its output.

    No list is emptied in place: it couldn't be distinguished from an unchanged default.
    """
    match operation:
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
            contents = (
                key in table,
                table.get(key),
                len(table),
                sorted(table),
                sorted(table.values()),
            )
            return deepcopy(contents)
    return list(table[key]) if key in table else None


PLAIN = ["append", "set", "add", "set default", "pop", "walk", "in"]


@given(
    st.data(),
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(PLAIN), st.integers(0, 3)), max_size=20
    ),
)
def test_values_changed_in_place_depend_on_no_cut(
    data: st.DataObject, operations: list[tuple[str, str, int]]
) -> None:
    """A table of lists equals a dictionary of lists, for any division of the stream."""
    outputs: dict[int, Any] = {}

    def make(_: Any) -> tuple[App, Any]:
        app = App("lists", max_ahead=None)
        table = app.Table("t", default=list)

        @app.agent(app.topic("happenings"))
        async def work(stream: Any) -> None:
            async for event in stream:
                outputs[event["time"]] = apply_operation(
                    table, event["operation"], *event["operand"]
                )

        return app, table

    # All keys lie in the partition of the stream's only one, under tuples that begin with it.
    steps = [(("all", key), operation, operand) for key, operation, operand in operations]
    happenings = [
        Happening("all", number, operation, (key, operand))
        for number, (key, operation, operand) in enumerate(steps)
    ]
    run, table = Cut(data, make).run(happenings)
    model: dict[Any, list[int]] = defaultdict(list)
    expected = {
        n: apply_operation(model, operation, key, x) for n, (key, operation, x) in enumerate(steps)
    }
    with run:
        assert outputs == expected
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

    happenings = [Happening("a", time, operation, member) for time, operation, member in changes]
    run, seen = Cut(data, make).run(happenings)
    expected: dict[float, set[int]] = {}
    for event in happenings:
        starts = sorted(WindowModel(10.0, 5.0, None).list_starts(event.time))
        sets = [expected.setdefault(start, set()) for start in starts]
        is_member = event.operand in sets[-1]
        if event.operation == "add in place":
            sets[-1].add(event.operand)
        elif event.operation == "look and discard":
            for members in sets if is_member else []:
                members.discard(event.operand)
        elif event.operation != "look and add" or not is_member:
            for members in sets:
                members.add(event.operand)
    with run:
        windows = {window.start: members for window, members in seen["a"].windows().items()}
        assert windows == {start: members for start, members in expected.items() if members}
