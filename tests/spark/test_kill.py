"""A driver that is killed at any moment loses nothing and tells nothing twice."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from tests.spark.drivers import batches, fill, kill, start, wait_for_batch
from tests.spark.feed import Feed, rows, told

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
    too_late = fill(feed, chance, FILES, MESSAGES)
    checkpoint = tmp_path / "checkpoint"
    command = [sys.executable, str(VICTIM), str(tmp_path)]
    within_a_batch = 0
    for _ in range(KILLS):
        victims.append(start(command, tmp_path / "log"))
        goal = batches(checkpoint, "offsets") + chance.randint(1, 2)
        wait_for_batch(checkpoint, goal, victims[-1])
        time.sleep(chance.uniform(0, 0.3))
        kill(victims[-1])
        within_a_batch += batches(checkpoint, "offsets") > batches(checkpoint, "commits")
    assert within_a_batch >= KILLS // 2
    victims.append(start(command, tmp_path / "log"))
    assert victims[-1].wait(timeout=600) == 0, (tmp_path / "log").read_text()

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
