"""A driver that is killed at any moment loses nothing and tells nothing twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from tests.spark.feed import Feed, at, rows, told

KILLS, FILES, MESSAGES = 10, 64, 40
VICTIM = Path(__file__).with_name("victim.py")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def victims() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Drivers that end with the test, whatever comes."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for victim in started:
        kill(victim)


def test_kills(tmp_path: Path, victims: list[subprocess.Popen[bytes]]) -> None:
    chance = random.Random(20260101)
    feed = Feed(tmp_path / "source")
    too_late = fill(feed, chance)
    within_a_batch = 0
    for _ in range(KILLS):
        victim = start(tmp_path, victims)
        goal = batches(tmp_path, "offsets") + chance.randint(1, 2)
        wait_for_batch(tmp_path, goal, victim)
        time.sleep(chance.uniform(0, 0.3))
        kill(victim)
        within_a_batch += batches(tmp_path, "offsets") > batches(tmp_path, "commits")
    assert within_a_batch >= KILLS // 2
    last = start(tmp_path, victims)
    assert last.wait(timeout=600) == 0, (tmp_path / "log").read_text()

    out = tmp_path / "out.duckdb"
    assert told(out) == feed.windows(30, 10, but=too_late)
    gaps = """SELECT key, window_start, list(revision ORDER BY revision) AS revisions FROM history
              GROUP BY ALL HAVING revisions != range(len(revisions)::BIGINT)"""
    assert rows(out, gaps) == []
    newest = """SELECT * EXCLUDE batch FROM history
                QUALIFY revision = max(revision) OVER (PARTITION BY key, window_start)"""
    assert rows(out, f"({newest}) EXCEPT SELECT * FROM windows") == []
    files = f"{tmp_path}/rejected/*/*.parquet"
    rejected = f"SELECT id, reason FROM read_parquet('{files}') ORDER BY id"
    assert duckdb.sql(rejected).fetchall() == [(number, "late") for number in too_late]
    figures = json.loads((tmp_path / "figures.json").read_text())
    counted = feed.ids - len(too_late)
    assert figures["counts"] == {"seen": feed.ids, "counted": counted, "late": len(too_late)}
    assert figures["adds_up"]


def fill(feed: Feed, chance: random.Random) -> list[int]:
    """Add files a minute apart, out of order; returns the numbers of hopelessly late messages."""
    too_late = []
    for number in range(FILES):
        messages = []
        for _ in range(MESSAGES):
            hopeless = number > 20 and chance.random() < 0.02
            second = 60 * number + (-1200 if hopeless else chance.uniform(-90, 60))
            if hopeless:
                too_late.append(feed.ids + len(messages))
            messages.append((chance.choice("abcde"), at(second), chance.randrange(1000)))
        feed.add(*messages)
    return too_late


def start(folder: Path, victims: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a driver in a session of its own, so that all that it starts can be found."""
    with open(folder / "log", "ab") as log:
        victim = subprocess.Popen(
            [sys.executable, str(VICTIM), str(folder)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    victims.append(victim)
    return victim


def batches(folder: Path, kind: str) -> int:
    """How many batches have begun (``offsets``) or ended (``commits``)."""
    names = [path.name for path in (folder / "checkpoint" / kind).glob("[0-9]*")]
    return 1 + max(map(int, names), default=-1)


def wait_for_batch(folder: Path, goal: int, victim: subprocess.Popen[bytes]) -> None:
    """Wait until so many batches have begun, and one hasn't ended."""
    deadline = time.monotonic() + 300
    while not goal <= batches(folder, "offsets") > batches(folder, "commits"):
        assert victim.poll() is None, "the driver ended by itself"
        assert time.monotonic() < deadline, "the driver makes no progress"
        time.sleep(0.01)


def kill(victim: subprocess.Popen[bytes]) -> None:
    """Kill a driver, its JVM and its Python workers, and see them gone."""
    deadline = time.monotonic() + 60
    while members := [pid for pid in processes() if session(pid) == victim.pid]:
        assert time.monotonic() < deadline, f"{members} don't die"
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        victim.poll()
        time.sleep(0.1)
    victim.wait(timeout=60)


def processes() -> list[int]:
    return [int(pid) for pid in subprocess.check_output(["ps", "-A", "-o", "pid="]).split()]


def session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
