"""Tests of watchers: they don't delay the query, and their errors are counted."""

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


def test_the_newest_batches_wait_for_a_slow_watcher_and_all_are_released() -> None:
    seen: list[int] = []
    released: list[int] = []
    began, may_go_on = threading.Event(), threading.Event()

    def look(n: int) -> None:
        began.set()
        assert may_go_on.wait(PATIENCE)
        seen.append(n)

    def show(n: int) -> None:
        frame = RefCounted(lambda: released.append(n))
        watcher.show(WatcherCall(n, (n,), frame))
        frame.done()  # the query releases a batch before the watchers do

    watcher = Watcher(look, most=2)
    show(0)
    assert began.wait(PATIENCE)
    for n in range(1, 10):
        show(n)
    assert not watcher.settle(0)
    assert released == list(range(1, 8))
    may_go_on.set()
    assert watcher.settle(PATIENCE)
    assert seen == [0, 8, 9]
    assert watcher.skipped == 7
    assert sorted(released) == list(range(10))


def test_errors_of_a_watcher_are_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    def look(n: int) -> None:
        if n < 2:
            raise RuntimeError("the page is gone")
        seen.append(n)

    def fail() -> None:
        raise RuntimeError("the session has ended")

    seen: list[int] = []
    watcher = Watcher(look, most=10)
    for n in range(4):
        frame = RefCounted(fail)
        watcher.show(WatcherCall(n, (n,), frame))
        frame._users -= 1
    assert watcher.settle(PATIENCE)
    assert (seen, watcher.failures) == ([2, 3], 2)
    assert "failed at batch 1" in caplog.text


def test_a_watcher_whose_thread_has_ended_gets_the_next_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


def test_a_watcher_that_stops_the_query_doesnt_wait_for_itself() -> None:
    settled: list[bool] = []
    watcher = Watcher(lambda: settled.append(watcher.settle(PATIENCE)), most=1)
    watcher.show(WatcherCall(0, ()))
    assert watcher.settle(PATIENCE)
    assert settled == [True]


def test_the_logged_error_of_a_watcher_shows_no_secret(caplog: pytest.LogCaptureFixture) -> None:
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
