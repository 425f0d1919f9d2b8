"""Tests of the window store: order, retention, grace and snapshots; and against a list as model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.contract.forms import Form

from muntin.model.errors import OptionError, SpecChangedError
from muntin.stores import KeyValue, WindowMeta, WindowStore


def open_store(kv: KeyValue, **options: Any) -> WindowStore:
    return WindowStore(kv, **{"retention": 100, "minimum": 1, **options})


def times(rows: Iterator[Any]) -> list[int]:
    return [row.time for row in rows]


def test_rows_come_by_time_then_key_then_arrival(form: Form) -> None:
    store = open_store(form.open(), retain_duplicates=True)
    puts = [("b", 10, 1), ("a", 20, 2), ("a", 10, 3), ("b", 10, 4), ("a", 10, 5), ("c", -5, 6)]
    for put in puts:
        store.put(*put)
    wanted = [(-5, "c", 6), (10, "a", 3), (10, "a", 5), (10, "b", 1), (10, "b", 4), (20, "a", 2)]
    assert list(store.fetch_all()) == wanted
    assert list(store.fetch_all(reverse=True)) == wanted[::-1]
    assert [row.value for row in store.fetch("a")] == [3, 5, 2]
    assert [row.value for row in store.fetch("a", reverse=True)] == [2, 5, 3]
    assert store.get("b", 10) == 1


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (None, None, [1, 2, 3, 4]),
        (2, 3, [2, 3]),
        (3, None, [3, 4]),
        (None, 2, [1, 2]),
        (3, 2, []),
        (3, 3, [3]),
        (9, 10, []),
    ],
)
def test_bounds_are_included_and_open_where_null(
    form: Form, start: int | None, end: int | None, wanted: list[int]
) -> None:
    store = open_store(form.open())
    for time in (1, 2, 3, 4):
        for key in ("a", "b"):
            store.put(key, time, time)
    assert times(store.fetch("a", start, end)) == wanted
    assert times(store.fetch("a", start, end, reverse=True)) == wanted[::-1]
    assert times(store.fetch_all(start, end, first_key="b")) == wanted
    assert times(store.fetch_all(start, end, last_key="a", reverse=True)) == wanted[::-1]
    assert times(store.fetch_all(start, end, first_key="b", last_key="a")) == []


def test_a_row_among_many_others_is_looked_up(form: Form) -> None:
    store = open_store(form.open())
    for time in range(5):
        for key in range(40):
            store.put(key, time, time)
    for key in (0, 20, 39):
        assert times(store.fetch(key)) == [0, 1, 2, 3, 4]
        assert times(store.fetch(key, 1, 3, reverse=True)) == [3, 2, 1]
    assert times(store.fetch(40)) == []


def test_retention_is_strict(form: Form) -> None:
    # time        0 1 ... 100 101      retention 100: live while time > observed - 100
    store = open_store(form.open())
    for time in (0, 1, 100):
        store.put("a", time, time)
    assert times(store.fetch("a")) == [1, 100]
    store.put("a", 101, 101)
    assert times(store.fetch_all()) == [100, 101]
    assert (store.get("a", 1), store.get("a", 100)) == (None, 100)


def test_expired_segments_are_dropped_before_each_action(form: Form) -> None:
    # retention 100 in 3 segments: segments of 50, so up to 49 expired times linger
    kv = form.open()
    store = open_store(kv)
    for time in range(0, 200, 10):
        store.put("a", time, time)
    assert store.interval == 50
    assert len(list(kv.scan())) == 15
    store.advance(259)
    assert len(list(kv.scan())) == 5
    assert times(store.fetch("a")) == [160, 170, 180, 190]


def test_what_comes_too_late_is_counted(form: Form) -> None:
    store = open_store(form.open(), grace=10)
    assert store.put("a", 100, 1)
    assert [store.put("a", time, 2) for time in (91, 90, 1, 0)] == [True, False, False, False]
    assert (store.late, store.expired) == (2, 1)
    assert not store.delete("a", 90)
    assert times(store.fetch("a")) == [91, 100]


def test_null_deletes_but_not_among_duplicates(form: Form) -> None:
    kv = form.open()
    single, duplicates = open_store(kv), open_store(kv, name="many", retain_duplicates=True)
    for store in (single, duplicates):
        store.put("a", 1, "kept")
        store.put("a", 1, None)
        store.delete("a", 2)
    assert (times(single.fetch("a")), times(duplicates.fetch("a"))) == ([], [1])
    assert (single.observed, duplicates.observed) == (2, 2)


def test_a_fetch_is_a_snapshot(form: Form) -> None:
    store = open_store(form.open())
    for time in range(10):
        store.put("a", time, "before")
    fetched, everything = store.fetch("a"), store.fetch_all(reverse=True)
    next(fetched)
    store.put("a", 5, "after")
    store.put("a", 1000, "after")
    store.flush()
    assert [(row.time, row.value) for row in fetched] == [(t, "before") for t in range(1, 10)]
    assert times(everything) == list(range(10))[::-1]
    assert times(store.fetch("a")) == [1000]


def test_a_null_key_is_refused(form: Form) -> None:
    store = open_store(form.open())
    calls = (lambda: store.put(None, 1, 1), lambda: store.fetch(None), lambda: store.get(None, 1))
    for call in calls:
        with pytest.raises(OptionError, match="key=None is no key; give a key"):
            call()
    assert store.observed is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retention": 0}, "retention=0 isn't greater than zero"),
        ({"grace": 101}, "grace=101 is longer than rows are kept"),
        ({"grace": 0}, "grace=0 isn't greater than zero"),
        ({"segments": 1}, "segments=1 are too few"),
        ({"codec": "pickle"}, "codec='pickle' isn't known"),
    ],
)
def test_options_that_cannot_work(form: Form, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        open_store(form.open(), **options)


@pytest.mark.parametrize("change", [{"retain_duplicates": True}, {"codec": "raw"}])
def test_changed_options_are_refused(form: Form, change: dict[str, Any]) -> None:
    store = open_store(form.open())
    store.put("a", 1, 1)
    store.flush()
    with pytest.raises(SpecChangedError, match=f"written with {next(iter(change))}="):
        open_store(form.open(), **change)


def test_retention_applies_to_what_is_restored(form: Form) -> None:
    store = open_store(form.open())
    for time in (1, 50, 100):
        store.put("a", time, time)
    store.put("b", 0, 0)
    store.flush({"offset": 4})
    kv = form.open()
    store = open_store(kv, retention=60)
    assert (store.observed, store.expired, kv.marks) == (100, 1, {"offset": 4})
    assert times(store.fetch_all()) == [50, 100]


def test_window_metadata_comes_back(form: Form) -> None:
    store = open_store(form.open(), codec="meta")
    meta = WindowMeta(start_offset=3, last_offset=9, start=0, end=60, aggregate={"n": 2})
    store.put(("JFK", 7), 0, meta)
    store.flush()
    store = open_store(form.open(), codec="meta")
    assert list(store.fetch_all()) == [(0, ("JFK", 7), meta)]


@dataclass
class Rows:
    """A model of the window store: a list of rows."""

    retention: int
    grace: int
    duplicates: bool
    rows: list[tuple[int, str, int, int]] = field(default_factory=list)
    observed: int | None = None
    arrivals: int = 0
    expired: int = 0
    late: int = 0

    def put(self, key: str, time: int, value: int | None) -> bool:
        self.observed = time if self.observed is None else max(self.observed, time)
        if time <= self.observed - self.retention:
            self.expired += 1
            return False
        if time <= self.observed - self.grace:
            self.late += 1
            return False
        if not self.duplicates:
            self.rows = [row for row in self.rows if row[:2] != (time, key)]
        if value is not None:
            self.rows = sorted([*self.rows, (time, key, self.arrivals, value)])
            self.arrivals += 1
        return True

    def live(self) -> list[tuple[int, str, int]]:
        bound = -(10**9) if self.observed is None else self.observed - self.retention
        return [(time, key, value) for time, key, _, value in self.rows if time > bound]


class WindowMachine(RuleBasedStateMachine):
    duplicates = False
    key = st.sampled_from(["a", "b", "ba", "c"])
    time = st.integers(-20, 120)
    bound = st.none() | time

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.form = form
        self.model = Rows(retention=40, grace=25, duplicates=self.duplicates)
        self.flushed = replace(self.model)
        self.fetches: list[tuple[Iterator[Any], list[Any]]] = []
        self.open()

    def open(self) -> None:
        self.store = open_store(
            self.form.open(), retention=40, grace=25, retain_duplicates=self.model.duplicates
        )

    @rule(key=key, time=time, value=st.none() | st.integers(0, 9))
    def put(self, key: str, time: int, value: int | None) -> None:
        assert self.store.put(key, time, value) == self.model.put(key, time, value)

    @rule(time=time)
    def advance(self, time: int) -> None:
        self.store.advance(time)
        observed = self.model.observed
        self.model.observed = time if observed is None else max(observed, time)

    @rule(key=key, start=bound, end=bound, reverse=st.booleans())
    def fetch(self, key: str, start: int | None, end: int | None, reverse: bool) -> None:
        rows = [row for row in self.model.live() if row[1] == key and is_within(row[0], start, end)]
        fetched = self.store.fetch(key, start, end, reverse=reverse)
        self.fetches.append((fetched, rows[::-1] if reverse else rows))

    @rule(start=bound, end=bound, first=st.none() | key, last=st.none() | key)
    def fetch_all(
        self, start: int | None, end: int | None, first: str | None, last: str | None
    ) -> None:
        rows = [
            row
            for row in self.model.live()
            if is_within(row[0], start, end) and is_within(row[1], first, last)
        ]
        bounds = {"first_key": first, "last_key": last}
        self.fetches.append((self.store.fetch_all(start, end, **bounds), rows))
        self.fetches.append((self.store.fetch_all(start, end, reverse=True, **bounds), rows[::-1]))

    @rule()
    def check_fetches(self) -> None:
        for fetched, rows in self.fetches:
            assert list(fetched) == rows
        self.fetches.clear()

    @rule()
    def flush(self) -> None:
        self.store.flush()
        self.flushed = replace(self.model)

    @rule()
    def crash(self) -> None:
        self.fetches.clear()
        self.model = replace(self.flushed)
        self.open()

    @invariant()
    def equals_the_model(self) -> None:
        assert list(self.store.fetch_all()) == self.model.live()
        assert (self.store.expired, self.store.late) == (self.model.expired, self.model.late)
        assert self.store.observed == self.model.observed


def is_within(value: Any, low: Any, high: Any) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


class DuplicatesMachine(WindowMachine):
    duplicates = True


@pytest.mark.parametrize("machine", [WindowMachine, DuplicatesMachine])
def test_it_behaves_as_a_list(walk: Callable[[Any], None], machine: Any) -> None:
    walk(machine)
