"""Tests of waiting for servers that don't answer: retries, the list of waits, and log lines."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path

import pytest

from muntin.model import patience
from muntin.model.patience import (
    WAITS_VARIABLE,
    AwayError,
    Patience,
    WatchedCall,
    list_waits,
    watch_call,
)

IN_A_PROCESS = """
import sys
from muntin.model.patience import AwayError, Patience

waiting = Patience("Kafka at h:9092", 60)
waiting.note_failure(AwayError("refused"))
waiting.note_failure(AwayError("refused"))
print("waits", flush=True)
sys.stdin.readline()
waiting.note_answer()
print("answered", flush=True)
sys.stdin.readline()
"""


SILENT_IN_A_PROCESS = """
import sys, threading
from muntin.model import patience

patience._SILENCE = -1.0
with patience.watch_call("Kafka at h:9092", "its batch"):
    patience._CALLS[threading.get_ident()].look()
    print("waits", flush=True)
    sys.stdin.readline()
print("answered", flush=True)
sys.stdin.readline()
"""

SINK = "the sink of results (PostgreSQL h:5432/db, table views)"


def count_retries() -> dict[str, int]:
    return {name: wait.retries for name, wait in list_waits().items()}


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> WatchedCall:
    """Return a call of this thread that began eleven seconds ago."""
    monkeypatch.setattr(patience, "_LAST_TIMES", {})
    call = WatchedCall(SINK, "batch 7", threading.get_ident())
    call.begin()
    call._begun -= 11
    monkeypatch.setattr(patience, "_CALLS", {call.thread: call})
    return call


def test_a_call_that_doesnt_return_logs_two_lines_and_is_listed(
    call: WatchedCall, caplog: pytest.LogCaptureFixture
) -> None:
    assert list_waits() == {}
    call.look()
    call.look()
    wait = list_waits()[SINK]
    assert wait.is_silent
    assert wait.since == call.since
    call.note_answer()
    silent, back = caplog.messages
    clock = r"\d\d:\d\d:\d\d[+-]\d{4}"
    assert re.fullmatch(
        re.escape(SINK) + rf" hasn't answered since {clock}; batch 7 waits for it", silent
    )
    assert back == f"{SINK} answers again, after 11 s"


@pytest.mark.parametrize(("times", "is_wait"), [((20, 5), False), ((20, 3), True), ((4,), False)])
def test_a_call_that_always_takes_long_is_no_wait(
    call: WatchedCall, times: tuple[float, ...], is_wait: bool
) -> None:
    patience._LAST_TIMES[SINK] = deque(times)
    call.look()
    assert call.is_silent == is_wait


def test_a_call_that_retries_is_logged_once(
    call: WatchedCall, caplog: pytest.LogCaptureFixture
) -> None:
    """The line of the retries is logged, and the call is timed again from the server's answer."""
    waiting = Patience("PostgreSQL at h:5432/db", 60)
    waiting.note_failure(AwayError("refused"))
    call.look()
    assert [*list_waits()] == ["PostgreSQL at h:5432/db"]
    waiting.note_answer()
    call.look()
    assert list_waits() == {}
    assert [*map(len, (caplog.messages, patience._LAST_TIMES))] == [2, 0]


def test_a_call_that_raises_is_no_longer_a_wait(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        with watch_call(SINK, "batch 7"), watch_call("inner", "batch 7"):
            patience._CALLS[threading.get_ident()].is_silent = True
            assert [*list_waits()] == ["inner"]
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list_waits() == {}
    assert caplog.messages == []


def test_a_server_forges_no_line(caplog: pytest.LogCaptureFixture) -> None:
    waiting = Patience("Kafka at h:9092", 60)
    waiting.note_failure(AwayError("\x1b[2J503\nERROR forged"))
    waiting.end()
    assert r"(\x1b[2J503\nERROR forged)" in caplog.messages[0]


def test_an_absence_logs_two_lines_and_is_listed(caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([AwayError("refused: password=sesame"), AwayError("refused"), 7])
    waits = []

    def attempt() -> int:
        waits.append(count_retries())
        answer = next(answers)
        if isinstance(answer, AwayError):
            raise answer
        return answer

    with caplog.at_level(logging.WARNING):
        assert Patience("Kafka at h:9092", 60, first_pause=0.001).run(attempt) == 7
    assert waits == [{}, {"Kafka at h:9092": 1}, {"Kafka at h:9092": 2}]
    assert list_waits() == {}
    away, back = caplog.messages
    assert away.startswith("Kafka at h:9092 doesn't answer (refused: password=")
    assert away.endswith("retrying for 60 s")
    assert "sesame" not in away
    assert back == "Kafka at h:9092 answers again, after 0 s"


def test_a_server_that_stays_away_is_given_up() -> None:
    def attempt() -> None:
        raise AwayError("refused")

    with pytest.raises(AwayError, match="refused"):
        Patience("Kafka at h:9092", 0.01, first_pause=0.001).run(attempt)
    assert list_waits() == {}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(WAITS_VARIABLE, f"{os.getpid()}:{tmp_path}")
    return tmp_path


@pytest.mark.parametrize(
    ("program", "retries"), [(IN_A_PROCESS, 2), (SILENT_IN_A_PROCESS, 0)], ids=["away", "silent"]
)
def test_waits_of_sparks_processes_are_listed(folder: Path, program: str, retries: int) -> None:
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        wait = list_waits()["Kafka at h:9092"]
        assert (wait.retries, wait.is_silent) == (retries, not retries)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "answered\n"
        assert list_waits() == {}
        process.communicate("\n")
    # A process that was killed leaves its file.
    (folder / f"{process.pid}-1").write_text("3 1767225600.0 Kafka at h:9092")
    assert list_waits() == {}
