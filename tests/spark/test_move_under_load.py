"""Tests of moves of a query while a broker gets messages, and while drivers are killed."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.moved_queries import COLUMNS, Folders, hopping, read_tables, run
from tests.services.kafka import Kafka
from tests.spark.drivers import kill, start
from tests.spark.feed import rows

import muntin as mt
from muntin.hosts.seed import FOLDER
from muntin.sources.kafka import Reader

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
_START = datetime(2026, 1, 1, tzinfo=UTC)
_MESSAGES, _PARTITIONS, _RATE = 6_000, 3, 300
# The number of messages that are sent after all moves.
_LAST = 750
_VICTIM = """
import sys
import muntin as mt
from pathlib import Path
from tests.moved_queries import COLUMNS, hopping, run

spark = mt.session("victim", master="local[2]")
reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
source, checkpoint, out = map(Path, sys.argv[1:])
run(hopping(lambda name: reader.parquet(str(source / name))), checkpoint, out)
"""


class Traffic:
    """Messages that a thread sends at a steady rate, a little out of order, until `finish`."""

    def __init__(self, kafka: Kafka) -> None:
        chance = Random(7)
        self.topic = kafka.topic(_PARTITIONS)
        self.expected: Counter[tuple[str, int]] = Counter()
        self.sent = 0
        self._ends = threading.Event()
        self._messages = []
        for number in range(_MESSAGES):
            second = number // 40 + chance.randrange(3)
            key = f"key {chance.randrange(20)}"
            self.expected[key, second // 10] += 1
            stamp = (_START + timedelta(seconds=second)).isoformat()
            payload = json.dumps({"id": number, "key": key, "at": stamp, "value": 1}).encode()
            self._messages.append((number % _PARTITIONS, None, payload))
        self._kafka = kafka
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self) -> None:
        for first in range(0, _MESSAGES, _RATE // 2):
            if first >= _MESSAGES - _LAST:
                self._ends.wait()
            part = self._messages[first : first + _RATE // 2]
            self._kafka.send(self.topic, part)
            self.sent = first + len(part)
            time.sleep(0.5)

    def finish(self) -> None:
        """Send the last messages, and wait until everything was sent."""
        self._ends.set()
        self._thread.join(300)
        assert self.sent == _MESSAGES


def _tumbling(messages: Any) -> Any:
    windows = mt.windowed(messages, key="key", time="at", lateness="10 seconds")
    return windows.tumbling("10 seconds").early(each=True).agg(n=mt.count())


def _wait_until(condition: Callable[[], bool], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("reader", ["columns", pytest.param("spark", marks=pytest.mark.long)])
def test_a_query_moves_under_load_and_back(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, reader: Reader
) -> None:
    traffic, out = Traffic(kafka), tmp_path / "out.duckdb"
    steps = [tmp_path / step for step in ("first", "second", "third")]
    results = mt.to_duckdb(out, "results", history="history")
    local_source = mt.kafka(kafka.servers, traffic.topic, columns=COLUMNS, per_batch=700)
    spark_source = mt.kafka(
        kafka.servers, traffic.topic, columns=COLUMNS, per_batch=2000, reader=reader
    )

    first = _tumbling(local_source).start(checkpoint=steps[0], results=results)
    _wait_until(lambda: first.progress.received > 700)
    first.stop()
    mt.move(steps[0], steps[1], to="spark")
    second = _tumbling(spark_source.stream(spark)).start(checkpoint=str(steps[1]), results=results)
    seen = first.progress.received
    _wait_until(lambda: second.progress.received > seen + 700)
    second.stop()
    assert traffic.sent < _MESSAGES
    mt.move(steps[1], steps[2], to="local", spark=spark)
    third = _tumbling(local_source).start(checkpoint=steps[2], results=results)
    traffic.finish()
    _wait_until(lambda: third.progress.received == _MESSAGES)
    third.stop()
    assert third.progress.counts == {"seen": _MESSAGES, "counted": _MESSAGES}

    select = "SELECT key, epoch_us(window_start) // 10000000, n FROM results"
    first_window = round(_START.timestamp()) // 10
    counts = {(key, window - first_window): n for key, window, n in rows(out, select)}
    assert counts == dict(traffic.expected)
    repeated = "SELECT key, window_start, revision FROM history GROUP BY ALL HAVING count(*) > 1"
    assert rows(out, repeated) == []


@pytest.fixture
def victims() -> Iterator[list[subprocess.Popen[bytes]]]:
    drivers: list[subprocess.Popen[bytes]] = []
    yield drivers
    for driver in drivers:
        kill(driver)


def test_drivers_are_killed_while_they_take_a_query_over(
    tmp_path: Path, victims: list[subprocess.Popen[bytes]]
) -> None:
    folders, out, new = Folders(tmp_path / "in"), tmp_path / "out.duckdb", tmp_path / "new"
    folders.add(3)
    run(hopping(folders.read), tmp_path / "old", out)
    mt.move(tmp_path / "old", new, to="spark")
    folders.add(3)
    command = [sys.executable, "-c", _VICTIM, str(folders.root), str(new), str(out)]
    moved = new / "moved"
    for mark in ("1.moving", "1/offsets/2"):
        victims.append(start(command, tmp_path / "log"))
        _wait_until(lambda mark=mark: (moved / mark).exists())  # type: ignore[misc]
        kill(victims[-1])
    victims.append(start(command, tmp_path / "log"))
    assert victims[-1].wait(timeout=300) == 0, (tmp_path / "log").read_text()[-3000:]
    assert not (new / FOLDER).exists()
    run(hopping(folders.read), tmp_path / "whole", tmp_path / "expected.duckdb")
    assert read_tables(out) == read_tables(tmp_path / "expected.duckdb")
