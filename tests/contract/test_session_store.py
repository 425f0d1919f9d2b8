"""Tests of the session store: the examples of KIP-94; and against a dictionary as model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.contract.forms import Form

from muntin.model.errors import OptionError, SpecChangedError
from muntin.stores import KeyValue, Session, SessionStore


def open_store(kv: KeyValue, **options: Any) -> SessionStore:
    return SessionStore(kv, **{"retention": 10_000, "minimum": 1, **options})


def fill_store(form: Form, *sessions: tuple[str, int, int], **options: Any) -> SessionStore:
    store = open_store(form.open(), **options)
    for session in sessions:
        store.put(Session(*session), session[1])
    return store


def starts(sessions: Iterator[Any]) -> list[int]:
    return [session.start for session, _ in sessions]


KIP_94 = [("any", 0, 99), ("any", 101, 200), ("any", 201, 300), ("any", 301, 400)]


@pytest.mark.parametrize(("end", "segment"), [(0, 0), (500, 0), (1000, 1), (2000, 2), (-1, -1)])
def test_the_segments_of_kip_94(form: Form, end: int, segment: int) -> None:
    store = open_store(form.open(), retention=2000, segments=3)
    assert store.interval == 1000
    assert store.segment(end) == segment


def test_the_least_segment_interval(form: Form) -> None:
    assert open_store(form.open(), retention=2000, minimum=5000).interval == 5000


def test_the_search_of_kip_94(form: Form) -> None:
    # sessions   0--99  101--200  201--300  301--400
    # search                 150 ........300
    store = fill_store(form, *KIP_94, ("other", 101, 200))
    assert starts(store.find_sessions("any", 150, 300)) == [101, 201]
    assert starts(store.find_sessions("any", 150, 300, reverse=True)) == [201, 101]


@pytest.mark.parametrize(
    ("earliest_end", "latest_start", "wanted"),
    [
        (99, None, [0, 101, 201, 301]),
        (100, None, [101, 201, 301]),
        (None, 101, [0, 101]),
        (None, 100, [0]),
        (None, None, [0, 101, 201, 301]),
        (401, None, []),
        (300, 200, []),
    ],
)
def test_both_bounds_are_included(
    form: Form, earliest_end: int | None, latest_start: int | None, wanted: list[int]
) -> None:
    store = fill_store(form, *KIP_94, retention=500)
    forwards = store.find_sessions("any", earliest_end, latest_start)
    assert starts(forwards) == wanted
    backwards = store.find_sessions("any", earliest_end, latest_start, reverse=True)
    assert starts(backwards) == wanted[::-1]


def test_one_event_makes_a_session(form: Form) -> None:
    store = fill_store(form, ("a", 7, 7))
    assert list(store.fetch("a")) == [(("a", 7, 7), 7)]
    assert starts(store.find_sessions("a", 7, 7)) == [7]
    assert starts(store.find_sessions("a", 8, 9)) == starts(store.find_sessions("a", 5, 6)) == []


def test_sessions_are_merged_as_kip_94_does(form: Form) -> None:
    # a message at 250 with a gap of 60 bridges the second and the third session
    store = fill_store(form, ("a", 0, 99), ("a", 101, 200), ("a", 300, 310))
    merged = Session("a", 250, 250)
    for session, _ in list(store.find_sessions("a", 250 - 60, 250 + 60)):
        store.remove(session)
        start, end = min(merged.start, session.start), max(merged.end, session.end)
        merged = Session("a", start, end)
    store.put(merged, "merged")
    assert [session[1:] for session, _ in store.fetch("a")] == [(0, 99), (101, 310)]


def test_sessions_come_by_end_then_key_then_start(form: Form) -> None:
    wanted = [("b", 0, 5), ("a", 0, 9), ("a", 3, 9), ("b", 1, 9), ("a", 0, 30)]
    store = fill_store(form, *reversed(wanted), retention=40, segments=5)
    assert [tuple(session) for session, _ in store.fetch_all()] == wanted
    assert [tuple(session) for session, _ in store.fetch_all(reverse=True)] == wanted[::-1]
    assert [tuple(session) for session, _ in store.fetch_all(9, 9)] == wanted[1:4]


def test_one_session_is_looked_up(form: Form) -> None:
    store = fill_store(form, *KIP_94, ("other", 0, 99), retention=350)
    assert store.get(Session("any", 101, 200)) == 101
    assert store.get(Session("any", 101, 201)) is store.get(Session("any", 100, 200)) is None
    store.remove(Session("any", 101, 200))
    assert store.get(Session("any", 101, 200)) is None
    store.put(Session("other", 440, 449), 1)
    assert store.get(Session("any", 0, 99)) is None  # expired
    with pytest.raises(OptionError, match="key=None is no key"):
        store.get(Session(None, 0, 99))


@pytest.mark.parametrize(
    ("first_key", "last_key", "wanted"),
    [
        ("a", "b", [("a", 0, 2), ("b", 1, 3), ("aa", 0, 4), ("a", 8, 8)]),
        ("aa", None, [("b", 1, 3), ("aa", 0, 4), ("c", 5, 6)]),
        (None, "a", [("a", 0, 2), ("a", 8, 8)]),
        ("b", "a", []),
    ],
)
def test_keys_are_bounded(
    form: Form, first_key: str | None, last_key: str | None, wanted: list[Any]
) -> None:
    rows = [("a", 0, 2), ("b", 1, 3), ("aa", 0, 4), ("c", 5, 6), ("a", 8, 8)]
    store = fill_store(form, *rows, retention=20, segments=5)
    bounds = {"first_key": first_key, "last_key": last_key}
    assert [tuple(session) for session, _ in store.fetch_all(**bounds)] == wanted
    backwards = [tuple(session) for session, _ in store.fetch_all(reverse=True, **bounds)]
    assert backwards == wanted[::-1]
    wanted_by_end = [session for session in wanted if 3 <= session[2] <= 4]
    assert [tuple(session) for session, _ in store.fetch_all(3, 4, **bounds)] == wanted_by_end


def test_a_put_outside_the_retention_is_counted(form: Form) -> None:
    store = fill_store(form, ("a", 0, 100), retention=50)
    assert not store.put(Session("a", 0, 50), 1)
    assert store.put(Session("a", 0, 51), 1)
    assert store.expired == 1
    assert [session.end for session, _ in store.fetch("a")] == [51, 100]


def test_expired_segments_are_dropped(form: Form) -> None:
    kv = form.open()
    store = open_store(kv, retention=100)
    for end in range(0, 200, 10):
        store.put(Session("a", end, end), 1)
    assert store.interval == 50
    assert len(list(kv.scan())) == 15
    store.advance(259)
    assert len(list(kv.scan())) == 5
    assert starts(store.fetch_all()) == [160, 170, 180, 190]


def test_removing_and_null(form: Form) -> None:
    store = fill_store(form, *KIP_94)
    store.remove(Session("any", 0, 99))
    store.put(Session("any", 101, 200), None)
    store.remove(Session("any", 5000, 5000))
    assert starts(store.fetch("any")) == [201, 301]
    assert store.observed == 400


def test_what_is_found_is_a_snapshot(form: Form) -> None:
    store = fill_store(form, *KIP_94, retention=500)
    fetched, everything = store.fetch("any"), store.fetch_all(reverse=True)
    next(fetched)
    store.remove(Session("any", 101, 200))
    store.put(Session("any", 150, 250), 1)
    store.advance(9_999)
    store.flush()
    assert starts(fetched) == [101, 201, 301]
    assert starts(everything) == [301, 201, 101, 0]
    assert starts(store.fetch("any")) == []


def test_what_cannot_be_a_session(form: Form) -> None:
    store = open_store(form.open())
    with pytest.raises(OptionError, match="ends before it starts; give the first"):
        store.put(Session("a", 2, 1), 1)
    for call in (lambda: store.put(Session(None, 1, 1), 1), lambda: store.fetch(None)):
        with pytest.raises(OptionError, match="key=None is no key; give a key"):
            call()


def test_another_segment_interval_is_refused(form: Form) -> None:
    store = fill_store(form, *KIP_94)
    store.flush()
    with pytest.raises(SpecChangedError, match="segment interval='5000', not '10'"):
        open_store(form.open(), retention=20)


def test_restoring_keeps_time_and_counts(form: Form) -> None:
    store = fill_store(form, *KIP_94, ("any", -99_999, -99_999))
    store.flush({"offset": 5})
    kv = form.open()
    store = open_store(kv)
    assert (store.observed, store.expired, kv.marks) == (400, 1, {"offset": 5})
    assert starts(store.fetch("any")) == [0, 101, 201, 301]


@dataclass
class Sessions:
    """A model of the session store: a dictionary."""

    retention: int
    aggregates: dict[Session, int] = field(default_factory=dict)
    observed: int | None = None
    expired: int = 0

    def see(self, time: int) -> None:
        self.observed = time if self.observed is None else max(self.observed, time)

    def put(self, session: Session, aggregate: int | None) -> bool:
        self.see(session.end)
        assert self.observed is not None
        if session.end <= self.observed - self.retention:
            self.expired += 1
            return False
        self.aggregates = {s: a for s, a in self.aggregates.items() if s != session}
        if aggregate is not None:
            self.aggregates[session] = aggregate
        return True

    def live(self) -> list[tuple[Session, int]]:
        bound = -(10**9) if self.observed is None else self.observed - self.retention
        alive = [row for row in self.aggregates.items() if row[0].end > bound]
        return sorted(alive, key=lambda row: (row[0].end, row[0].key, row[0].start))


class SessionMachine(RuleBasedStateMachine):
    time = st.integers(-20, 120)
    key = st.none() | st.sampled_from(["a", "b", "ba"])
    session = st.builds(
        lambda key, end, length: Session(key, end - length, end),
        st.sampled_from(["a", "b", "ba"]),
        time,
        st.integers(0, 15),
    )

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.form = form
        self.model = Sessions(retention=50)
        self.flushed = replace(self.model)
        self.searches: list[tuple[Iterator[Any], list[Any]]] = []
        self.open()

    def open(self) -> None:
        self.store = open_store(self.form.open(), retention=50, segments=4)

    @rule(session=session, aggregate=st.none() | st.integers(0, 9))
    def put(self, session: Session, aggregate: int | None) -> None:
        assert self.store.put(session, aggregate) == self.model.put(session, aggregate)

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        stored_sessions = (
            st.sampled_from(list(self.model.aggregates)) if self.model.aggregates else self.session
        )
        session = data.draw(stored_sessions | self.session)
        self.store.remove(session)
        self.model.aggregates = {s: a for s, a in self.model.aggregates.items() if s != session}

    @rule(time=time)
    def advance(self, time: int) -> None:
        self.store.advance(time)
        self.model.see(time)

    @rule(session=session, open_end=st.booleans(), reverse=st.booleans())
    def find(self, session: Session, open_end: bool, reverse: bool) -> None:
        end = None if open_end else session.end
        wanted = [
            (s, a)
            for s, a in self.model.live()
            if s.key == session.key and s.end >= session.start and (end is None or s.start <= end)
        ]
        search = self.store.find_sessions(session.key, session.start, end, reverse=reverse)
        self.searches.append((search, wanted[::-1] if reverse else wanted))

    @rule(first=st.none() | time, last=st.none() | time, keys=st.tuples(key, key))
    def fetch_all(
        self, first: int | None, last: int | None, keys: tuple[str | None, str | None]
    ) -> None:
        wanted = [
            (s, a)
            for s, a in self.model.live()
            if (first is None or s.end >= first)
            and (last is None or s.end <= last)
            and (keys[0] is None or s.key >= keys[0])
            and (keys[1] is None or s.key <= keys[1])
        ]
        bounds = dict(zip(("first_key", "last_key"), keys, strict=True))
        self.searches.append((self.store.fetch_all(first, last, **bounds), wanted))
        backwards = self.store.fetch_all(first, last, reverse=True, **bounds)
        self.searches.append((backwards, wanted[::-1]))

    @rule(session=session)
    def get(self, session: Session) -> None:
        assert self.store.get(session) == dict(self.model.live()).get(session)

    @rule()
    def check_searches(self) -> None:
        for search, wanted in self.searches:
            assert list(search) == wanted
        self.searches.clear()

    @rule()
    def flush(self) -> None:
        self.store.flush()
        self.flushed = replace(self.model, aggregates=dict(self.model.aggregates))

    @rule()
    def crash(self) -> None:
        self.searches.clear()
        self.model = replace(self.flushed, aggregates=dict(self.flushed.aggregates))
        self.open()

    @invariant()
    def equals_the_model(self) -> None:
        assert list(self.store.fetch_all()) == self.model.live()
        assert self.store.expired == self.model.expired
        assert self.store.observed == self.model.observed


def test_it_behaves_as_a_dictionary(walk: Callable[[Any], None]) -> None:
    walk(SessionMachine)
