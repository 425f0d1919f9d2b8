"""Watchers: none delays what is watched, and what one raises is counted."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from muntin.hosts.watchers import RefCounted, Watcher, WatcherCall

PATIENCE = 30.0


def test_batches_are_shown_in_order_by_another_thread() -> None:
    seen: list[Any] = []
    watcher = Watcher(lambda n: seen.append((n, threading.current_thread())), most=3)
    for n in range(3):
        watcher.show(WatcherCall(n, (n,)))
    assert watcher.settle(PATIENCE)
    assert [n for n, _ in seen] == [0, 1, 2]
    assert threading.current_thread() not in {thread for _, thread in seen}
    assert (watcher.failures, watcher.skipped) == (0, 0)


def test_the_newest_wait_for_one_who_is_slow_and_all_is_given_back() -> None:
    seen: list[int] = []
    given_back: list[int] = []
    began, may_go_on = threading.Event(), threading.Event()

    def look(n: int) -> None:
        began.set()
        assert may_go_on.wait(PATIENCE)
        seen.append(n)

    def show(n: int) -> None:
        kept = RefCounted(lambda: given_back.append(n))
        watcher.show(WatcherCall(n, (n,), kept))
        kept.done()  # as the query, which is done with a batch before those who watch

    watcher = Watcher(look, most=2)
    show(0)
    assert began.wait(PATIENCE)
    for n in range(1, 10):
        show(n)
    assert not watcher.settle(0)
    assert given_back == list(range(1, 8))
    may_go_on.set()
    assert watcher.settle(PATIENCE)
    assert seen == [0, 8, 9]
    assert watcher.skipped == 7
    assert sorted(given_back) == list(range(10))


def test_what_one_raises_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    def look(n: int) -> None:
        if n < 2:
            raise RuntimeError("the page is gone")
        seen.append(n)

    def fail() -> None:
        raise RuntimeError("the session has ended")

    seen: list[int] = []
    watcher = Watcher(look, most=10)
    for n in range(4):
        kept = RefCounted(fail)
        watcher.show(WatcherCall(n, (n,), kept))
        kept._users -= 1
    assert watcher.settle(PATIENCE)
    assert (seen, watcher.failures) == ([2, 3], 2)
    assert "failed at batch 1" in caplog.text


def test_one_whose_thread_has_ended_is_shown_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muntin.hosts.watchers._IDLE", 0.001)
    seen: list[int] = []
    watcher = Watcher(seen.append, most=1)
    for n in range(3):
        watcher.show(WatcherCall(n, (n,)))
        assert watcher.settle(PATIENCE)
        thread = watcher._thread
        if thread is not None:
            thread.join(PATIENCE)
    assert seen == [0, 1, 2]


def test_one_who_stops_what_he_watches_doesnt_wait_for_himself() -> None:
    found: list[bool] = []
    watcher = Watcher(lambda: found.append(watcher.settle(PATIENCE)), most=1)
    watcher.show(WatcherCall(0, ()))
    assert watcher.settle(PATIENCE)
    assert found == [True]


def test_a_trace_of_one_shows_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    def look() -> None:
        try:
            raise ConnectionError("postgresql://me:sesame@h/db is away")
        except ConnectionError as error:
            raise RuntimeError("\x1b[2Jthe page is gone") from error

    watcher = Watcher(look, most=2)
    watcher.show(WatcherCall(3, ()))
    assert watcher.settle(PATIENCE)
    assert "postgresql://me:******@h/db is away" in caplog.text
    assert r"RuntimeError: \x1b[2Jthe page is gone" in caplog.text
