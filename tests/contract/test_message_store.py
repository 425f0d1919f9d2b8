"""Tests of the message store: R.1 to R.4 of the Samza design, by layout; and against a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.contract.forms import Form

from muntin.model.errors import OptionError, SpecChangedError
from muntin.stores import (
    KeyValue,
    Layout,
    MessageStore,
    SessionStore,
    WindowStore,
    message_layout,
)

TIME = message_layout()
ROWS = message_layout("rows")
TIME_EQUAL = message_layout(use="join", equal_fields=True, time_range=True, window="small")
EQUAL_TIME = message_layout(use="join", equal_fields=True)
EQUAL_ROWS = message_layout("rows", "join", equal_fields=True, window="large")
SESSION_TIME = message_layout(session=True)
SESSION_EQUAL = message_layout(use="join", equal_fields=True, session=True)
LAYOUTS = [TIME, ROWS, TIME_EQUAL, EQUAL_TIME, EQUAL_ROWS, SESSION_TIME, SESSION_EQUAL]


def open_store(kv: KeyValue, layout: Layout = TIME, **options: Any) -> MessageStore:
    return MessageStore(kv, layout=layout, **options)


def add(store: MessageStore, *messages: tuple[int, int]) -> list[bool]:
    """Add messages of (time, offset); even offsets have equal fields, and so have odd ones."""
    has_session = "session" in store.layout.parts
    return [
        store.add(
            {"offset": offset},
            time=time,
            offset=offset,
            equal=offset % 2,
            session=offset % 3 if has_session else None,
        )
        for time, offset in messages
    ]


def offsets(messages: Iterator[Any]) -> list[int]:
    return [message.offset for message in messages]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
class TestEveryLayout:
    def test_a_replayed_message_changes_nothing(self, form: Form, layout: Layout) -> None:
        store = open_store(form.open(), layout)
        assert add(store, (5, 1), (5, 2), (5, 1), (4, 3)) == [True, True, False, True]
        store.flush()
        store = open_store(form.open(), layout)
        assert add(store, (5, 2), (4, 3), (6, 4)) == [False, False, True]
        assert (store.rows, store.duplicates, store.expired) == (4, 3, 0)
        assert sorted(offsets(store.get_messages())) == [1, 2, 3, 4]

    def test_a_message_comes_back_whole(self, form: Form, layout: Layout) -> None:
        store = open_store(form.open(), layout)
        add(store, (70, 9))
        (message,) = store.get_messages()
        assert message.payload == {"offset": 9}
        assert (message.offset, message.equal) == (9, 1)
        assert message.time == (None if layout.axis == "rows" else 70)
        assert message.session == (0 if "session" in layout.parts else None)

    def test_equal_fields_are_those_of_the_same_key(self, form: Form, layout: Layout) -> None:
        store = open_store(form.open(), layout)
        session = {"session": "s"} if "session" in layout.parts else {}
        for offset, equal in enumerate((1, True, 1.0, "1", (1,))):
            store.add(None, offset=offset, time=0, equal=equal, **session)
        for offset, equal in enumerate((1, True, 1.0, "1", (1,))):
            assert offsets(store.get_messages(equal=equal, **session)) == [offset]

    def test_what_was_retired_is_not_taken_again(self, form: Form, layout: Layout) -> None:
        store = open_store(form.open(), layout, most_rows=2)
        add(store, *((n, n) for n in range(6)))
        assert store.retire() == 4
        store.flush()
        store = open_store(form.open(), layout, most_rows=2)
        assert add(store, (0, 0), (3, 3), (5, 5)) == [False] * 3
        assert (store.expired, store.duplicates, store.rows) == (2, 1, 2)

    def test_chunks_always_make_progress(self, form: Form, layout: Layout) -> None:
        store = open_store(form.open(), layout, retention=10)
        add(store, *((n // 4, n) for n in range(20)))
        store.advance(1000)
        chunks = []
        while chunk := store.retire(limit=3):
            chunks.append(chunk)
        # On the time axis, four messages of one time go together.
        assert chunks == ([3] * 6 + [2] if layout.axis == "rows" else [4] * 5)
        assert (store.rows, list(store.get_messages())) == (0, [])


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (None, None, [1, 2, 3, 4, 5]),
        (10, 20, [1, 2, 3, 4]),
        ((10, 2), (20, 3), [2, 3]),
        ((10, 3), 20, [3, 4]),
        (10, (20, 3), [1, 2, 3]),
        (21, None, [5]),
        (20, 10, []),
    ],
)
@pytest.mark.parametrize("layout", [TIME, EQUAL_TIME, SESSION_TIME], ids=str)
def test_ranges_by_time_and_offset(
    form: Form, layout: Layout, start: Any, end: Any, wanted: list[int]
) -> None:
    # time     10    20    30
    # offset   1 2   3 4   5
    store = open_store(form.open(), layout)
    add(store, (30, 5), (20, 4), (10, 2), (20, 3), (10, 1))
    assert sorted(offsets(store.get_messages(start, end))) == wanted
    odd = [offset for offset in wanted if offset % 2]
    assert offsets(store.get_messages(start, end, equal=1, reverse=True))[::-1] == (
        odd if layout is not SESSION_TIME else sorted(odd, key=lambda n: (n % 3, n))
    )


def test_a_join_of_a_session(form: Form) -> None:
    store = open_store(form.open(), SESSION_EQUAL)
    add(store, *((n, n) for n in range(24)))
    assert offsets(store.get_messages((2, 2), (20, 20), equal=0, session=2)) == [2, 8, 14, 20]
    assert offsets(store.get_messages(3, equal=1, session=0, reverse=True)) == [21, 15, 9, 3]
    assert len(offsets(store.get_messages(session=1))) == 8


def test_rows_are_ranged_by_offset(form: Form) -> None:
    store = open_store(form.open(), ROWS, retention=10)
    add(store, *((0, n) for n in range(20)))
    assert offsets(store.get_messages(None, 12)) == [10, 11, 12]
    with pytest.raises(OptionError, match="end=\\(0, 12\\) has a time; give an offset"):
        store.get_messages(None, (0, 12))


def test_expired_messages_do_not_show(form: Form) -> None:
    # retention 10, observed 20: live while time > 10
    store = open_store(form.open(), retention=10)
    add(store, (10, 1), (11, 2), (20, 3))
    assert offsets(store.get_messages()) == offsets(store.get_messages((10, 1))) == [2, 3]
    assert add(store, (10, 4), (11, 5)) == [False, True]
    assert (store.expired, store.rows) == (1, 4)


def test_equal_fields_are_cleaned_up_when_they_are_read(form: Form) -> None:
    kv = form.open()
    store = open_store(kv, EQUAL_TIME, retention=10)
    add(store, *((n, n) for n in range(10)))
    store.advance(14)
    assert offsets(store.get_messages(equal=1)) == [5, 7, 9]
    assert (store.rows, len(list(kv.scan()))) == (8, 8)
    assert store.retire() == 3
    assert offsets(store.get_messages(equal=0)) == [6, 8]


@pytest.mark.parametrize("layout", [TIME, EQUAL_TIME], ids=str)
def test_messages_of_one_time_go_together(form: Form, layout: Layout) -> None:
    # five messages too many, and the fifth shares its time with the sixth and seventh
    store = open_store(form.open(), layout, most_rows=5)
    add(store, *[(1, n) for n in range(4)], *[(2, n) for n in range(4, 7)], (3, 7), (4, 8), (4, 9))
    assert store.retire() == 7
    assert offsets(store.get_messages()) in ([7, 8, 9], [8, 7, 9])
    assert store.retire() == 0


def test_messages_are_a_snapshot(form: Form) -> None:
    store = open_store(form.open(), retention=100)
    add(store, *((n, n) for n in range(10)))
    forward, backward = store.get_messages(), store.get_messages(reverse=True)
    next(forward)
    add(store, (3, 99), (1000, 100))
    store.retire()
    store.flush()
    assert offsets(forward) == list(range(1, 10))
    assert offsets(backward) == list(range(10))[::-1]
    assert offsets(store.get_messages()) == [100]


def test_messages_and_offset_are_one_flush(form: Form) -> None:
    store = open_store(form.open())
    add(store, (1, 1), (2, 2))
    store.flush({"offset": 2})
    add(store, (3, 3), (2, 2))
    kv = form.open()
    store = open_store(kv)
    assert kv.marks == {"offset": 2}
    assert (store.rows, store.duplicates, store.observed) == (2, 0, 2)
    assert add(store, (2, 2), (3, 3)) == [False, True]


def test_raw_payloads(form: Form) -> None:
    store = open_store(form.open(), codec="raw")
    store.add(b"\x00\xff", time=1, offset=1)
    assert [message.payload for message in store.get_messages()] == [b"\x00\xff"]
    with pytest.raises(OptionError, match="isn't bytes"):
        store.add("text", time=1, offset=2)


def test_what_cannot_be_stored(form: Form) -> None:
    kv = form.open()
    store, keyed = open_store(kv), open_store(kv, EQUAL_TIME, name="keyed")
    with pytest.raises(OptionError, match="time=None is no key"):
        store.add(1, offset=1)
    with pytest.raises(OptionError, match="equal=None is no key"):
        keyed.add(1, offset=1, time=1)
    with pytest.raises(OptionError, match="session='s' isn't in the layout"):
        store.get_messages(session="s")
    with pytest.raises(OptionError, match="limit=0 isn't greater than zero"):
        store.retire(limit=0)
    assert store.observed is None


@pytest.mark.parametrize("position", [None, 5.0, "5"])
def test_only_a_place_on_the_axis_is_noted(form: Form, position: Any) -> None:
    kv = form.open()
    stores: list[Any] = [
        open_store(kv, name="messages"),
        WindowStore(kv, name="windows", retention=100),
        SessionStore(kv, name="sessions", retention=100),
    ]
    for store in stores:
        for _ in range(2):
            with pytest.raises(OptionError, match=f"position={position!r} isn't a place on the ax"):
                store.advance(position)
            store.advance(7)
            assert store.observed == 7


def test_another_layout_is_refused(form: Form) -> None:
    store = open_store(form.open())
    add(store, (1, 1))
    store.flush()
    with pytest.raises(SpecChangedError, match="layout='time: time_offset'"):
        open_store(form.open(), EQUAL_TIME)


@dataclass
class Messages:
    """A model of the message store: a dictionary of positions by offset."""

    layout: Layout
    retention: int
    most_rows: int
    positions: dict[int, int] = field(default_factory=dict)
    observed: int | None = None
    floor: int = -(10**9)
    duplicates: int = 0
    expired: int = 0

    def position(self, offset: int) -> int:
        return offset if self.layout.axis == "rows" else time_of(offset)

    def edge(self) -> int:
        passed = self.floor if self.observed is None else self.observed - self.retention
        return max(passed, self.floor)

    def add(self, offset: int) -> bool:
        position = self.position(offset)
        self.observed = position if self.observed is None else max(self.observed, position)
        if offset in self.positions:
            self.duplicates += 1
        elif position <= self.edge():
            self.expired += 1
        else:
            self.positions = {**self.positions, offset: position}
            return True
        return False

    def retire(self, limit: int) -> int:
        retired = 0
        excess = len(self.positions) - self.most_rows
        for position in sorted(set(self.positions.values())):
            if retired >= limit or (position > self.edge() and retired >= excess):
                break
            retired += list(self.positions.values()).count(position)
            self.positions = {o: p for o, p in self.positions.items() if p != position}
            self.floor = position
        return retired

    def sweep(self, equal: int, session: int) -> None:
        fields = {"session": session, "equal": equal}
        parts = [part for part in self.layout.parts if part in fields]
        self.positions = {
            offset: position
            for offset, position in self.positions.items()
            if position > self.edge()
            or self.layout.along_axis
            or any(FIELDS[part](offset) != fields[part] for part in parts)
        }

    def live(self) -> list[int]:
        alive = [offset for offset, position in self.positions.items() if position > self.edge()]
        return sorted(alive, key=lambda o: [FIELDS[part](o) for part in self.layout.parts])


def time_of(offset: int) -> int:
    return offset * 7 % 30


FIELDS: dict[str, Callable[[int], int]] = {
    "session": lambda offset: offset % 3,
    "equal": lambda offset: offset % 2,
    "time": time_of,
    "offset": lambda offset: offset,
}


class MessageMachine(RuleBasedStateMachine):
    offset = st.integers(0, 60)
    bound = st.none() | st.integers(0, 30)

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.form = form
        self.reads: list[tuple[Iterator[Any], list[int]]] = []

    @initialize(layout=st.sampled_from(LAYOUTS), retention=st.integers(5, 40))
    def begin(self, layout: Layout, retention: int) -> None:
        self.model = Messages(layout, retention, most_rows=8)
        self.flushed = replace(self.model)
        self.open()

    def open(self) -> None:
        model = self.model
        self.store = open_store(
            self.form.open(), model.layout, retention=model.retention, most_rows=model.most_rows
        )

    @rule(added=st.lists(offset, max_size=6))
    def add(self, added: list[int]) -> None:
        wanted = [self.model.add(offset) for offset in added]
        assert add(self.store, *((time_of(offset), offset) for offset in added)) == wanted

    @rule(limit=st.integers(1, 8))
    def retire(self, limit: int) -> None:
        assert self.store.retire(limit) == self.model.retire(limit)

    @rule(start=bound, end=bound, equal=st.integers(0, 1), session=st.integers(0, 2))
    def get_messages(self, start: int | None, end: int | None, equal: int, session: int) -> None:
        has_session = "session" in self.model.layout.parts
        self.model.sweep(equal, session)
        wanted = [
            offset
            for offset in self.model.live()
            if offset % 2 == equal
            and (not has_session or offset % 3 == session)
            and (start is None or self.model.position(offset) >= start)
            and (end is None or self.model.position(offset) <= end)
        ]
        fields = {"equal": equal, "session": session if has_session else None}
        self.reads.append((self.store.get_messages(start, end, **fields), wanted))
        backwards = self.store.get_messages(start, end, reverse=True, **fields)
        self.reads.append((backwards, wanted[::-1]))

    @rule()
    def check_reads(self) -> None:
        for messages, wanted in self.reads:
            assert offsets(messages) == wanted
        self.reads.clear()

    @rule()
    def flush(self) -> None:
        self.store.flush()
        self.flushed = replace(self.model)

    @rule()
    def crash(self) -> None:
        self.reads.clear()
        self.model = replace(self.flushed)
        self.open()

    @invariant()
    def equals_the_model(self) -> None:
        assert offsets(self.store.get_messages()) == self.model.live()
        assert (self.store.duplicates, self.store.expired, self.store.rows) == (
            self.model.duplicates,
            self.model.expired,
            len(self.model.positions),
        )


def test_it_behaves_as_a_list(walk: Callable[[Any], None]) -> None:
    walk(MessageMachine)
