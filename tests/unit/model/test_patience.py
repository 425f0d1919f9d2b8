"""Servers that are away are waited for, listed meanwhile, and logged when they go and come back."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from muntin.model.patience import WAITS_VARIABLE, AwayError, Patience, list_waits

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


def test_an_absence_is_two_lines_and_listed_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([AwayError("refused: password=sesame"), AwayError("refused"), 7])
    waits = []

    def attempt() -> int:
        waits.append(list_waits())
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


def test_a_server_that_stays_away_is_waited_for_no_longer() -> None:
    def attempt() -> None:
        raise AwayError("refused")

    with pytest.raises(AwayError, match="refused"):
        Patience("Kafka at h:9092", 0.01, first_pause=0.001).run(attempt)
    assert list_waits() == {}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(WAITS_VARIABLE, f"{os.getpid()}:{tmp_path}")
    return tmp_path


def test_what_processes_of_spark_wait_for_is_listed_here(folder: Path) -> None:
    command = [sys.executable, "-c", IN_A_PROCESS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        assert list_waits() == {"Kafka at h:9092": 2}
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "answered\n"
        assert list_waits() == {}
        process.communicate("\n")
    # A process that was killed leaves its file.
    (folder / f"{process.pid}-1").write_text("3 Kafka at h:9092")
    assert list_waits() == {}
