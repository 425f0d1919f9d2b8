"""Calls to delete that are left in a folder, and their answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.unit.apps.windowing.test_report import progress
from typer.testing import CliRunner

import muntin as mt
from muntin.apps.windowing import Deletion, delete
from muntin.apps.windowing.calls import answer_calls
from muntin.cli.app import build


@contextmanager
def answering(folder: Path, *found: tuple[int, int]) -> Iterator[list[dict[str, Any]]]:
    """An application that takes calls, and gives these answers."""
    taken: list[dict[str, Any]] = []

    def run() -> None:
        for deleted, left in found:
            while not (calls := list(folder.glob("[!.]*.json"))):
                time.sleep(0.01)
            (one,) = calls
            call = json.loads(one.read_text())
            one.unlink()
            taken.append(call)
            answer_calls(str(folder), [progress(answers=[(call["id"], deleted, left)])])

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield taken
    thread.join(timeout=10)


def test_a_call_is_left_whole_and_its_answer_is_taken_away(tmp_path: Path) -> None:
    with answering(tmp_path, (30, 2)) as taken:
        done = delete(tmp_path, before=datetime(1970, 1, 1, 0, 0, 2), shardrows=7, most=15)
    assert done == Deletion(30, 2)
    (call,) = taken
    assert (call["before"], call["shardrows"], call["most"]) == (2000, 7, 15)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_shards_answer_together(tmp_path: Path) -> None:
    emitted = [progress(0, answers=[("a", 3, 1), ("b", 1, 0)]), progress(1, answers=[("a", 4, 0)])]
    for _ in range(2):  # as a batch that is repeated
        answer_calls(str(tmp_path), emitted)
    found = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("_answers/*")}
    assert found == {"a": {"deleted": 7, "left": 1}, "b": {"deleted": 1, "left": 0}}


def test_ages_are_by_this_machines_clock(tmp_path: Path) -> None:
    with answering(tmp_path, (1, 0)) as taken:
        now = datetime.now(UTC).timestamp() * 1000
        delete(tmp_path, historyseconds=5)
    assert -5000 <= taken[0]["before"] - now < 0
    assert taken[0]["shardrows"] is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "names no rows; give before, historyseconds or shardrows"),
        ({"most": 5}, "names no rows"),
        ({"historyseconds": -1}, "historyseconds=-1 is less than 0"),
        ({"shardrows": -1}, "shardrows=-1 is less than 0"),
        ({"shardrows": 1, "most": 0}, "most=0 is less than 1"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(mt.OptionError, match=said):
        delete(tmp_path, **given)
    with pytest.raises(mt.OptionError, match="isn't a folder; give the folder that"):
        delete(tmp_path / "none", shardrows=1)
    assert not list(tmp_path.iterdir())


def test_a_call_that_nobody_takes_stays(tmp_path: Path) -> None:
    with pytest.raises(mt.MuntinError, match=r"has taken the call within 0\.1 s: it stays in"):
        delete(tmp_path, shardrows=1, patience=0.1)
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_the_command_calls_and_says_what_went(tmp_path: Path) -> None:
    with answering(tmp_path, (1200, 3)) as taken:
        args = ["windowing", "delete", str(tmp_path), "--shardrows", "9", "--most", "600"]
        emitted = CliRunner().invoke(build(), args)
    assert (emitted.exit_code, emitted.stdout) == (
        0,
        "deleted 1,200 rows, 3 are left to delete\n",
    )
    assert (taken[0]["shardrows"], taken[0]["most"]) == (9, 600)


def test_the_command_goes_on_until_nobody_answers(tmp_path: Path) -> None:
    with answering(tmp_path, (10, 5), (5, 0)):
        args = ["windowing", "delete", str(tmp_path), "--historyseconds", "1"]
        emitted = CliRunner().invoke(build(), [*args, "--every", "0.01", "--patience", "1"])
    assert emitted.exit_code == 1
    assert [line.split(",")[0] for line in emitted.stdout.splitlines()] == [
        "deleted 10 rows",
        "deleted 5 rows",
    ]
    assert "no application has taken the call" in " ".join(emitted.stderr.split())
