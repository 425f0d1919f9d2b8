"""Faults at random moments, all kinds mixed, under load: nothing is lost, nothing counts twice.

``MUNTIN_CHAOS_FAULTS`` says how many faults (4 where it isn't set), ``MUNTIN_CHAOS_SEED`` which.
``MUNTIN_CHAOS_RECORD`` is the file that a record of the run is written to, for the simulator.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from tests.chaos.recording import Recorder
from tests.chaos.survivor import SIZE, SLIDE
from tests.chaos.traffic import BURST, BURST_SECONDS, PARTITIONS, Traffic, reason
from tests.services.kafka import Kafka
from tests.services.postgres import Postgres, rows
from tests.spark.drivers import Victims, batches, kill, members, start, strike
from tests.spark.feed import MESSAGE, Feed

FAULTS = int(os.environ.get("MUNTIN_CHAOS_FAULTS", "4"))
RECORD = os.environ.get("MUNTIN_CHAOS_RECORD")
SEED = int(os.environ.get("MUNTIN_CHAOS_SEED", "20260104"))
SURVIVOR = Path(__file__).with_name("survivor.py")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 120 * FAULTS)]


class Driver:
    """The program under test, started again whenever it has died, as a supervisor does."""

    def __init__(self, folder: Path, kafka: Kafka, topic: str, dsn: str) -> None:
        self.checkpoint, self.log = folder / "checkpoint", folder / "log"
        self.topic, self.dsn = topic, dsn
        self._command = [sys.executable, str(SURVIVOR), str(folder), kafka.servers, topic]
        self.started: Victims = []
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self.started.append(start(self._command, self.log, {"SURVIVOR_DSN": self.dsn}))
        return self.started[-1]

    def revive(self) -> None:
        """Start it again if it isn't there."""
        if self.process.poll() is not None:
            kill(self.process)
            self.process = self._start()

    def go_on(self, goal: int = 2) -> None:
        """See that so many batches more are done, whatever has to be started for that."""
        goal += batches(self.checkpoint, "commits")
        deadline = time.monotonic() + 180
        while batches(self.checkpoint, "commits") < goal:
            assert time.monotonic() < deadline, f"no progress:\n{self.log.read_text()[-3000:]}"
            self.revive()
            time.sleep(0.05)

    def finish(self) -> None:
        """See it come to its end."""
        deadline = time.monotonic() + 300
        while self.process.poll() != 0:
            assert time.monotonic() < deadline, f"no end:\n{self.log.read_text()[-3000:]}"
            self.revive()
            time.sleep(0.1)


@pytest.fixture
def driver(tmp_path: Path, kafka: Kafka, postgres: Postgres) -> Iterator[Driver]:
    made = Driver(tmp_path, kafka, kafka.topic(PARTITIONS), postgres.database())
    yield made
    for process in made.started:
        kill(process)


def faults_of(
    driver: Driver, kafka: Kafka, postgres: Postgres, traffic: Traffic, chance: random.Random
) -> dict[str, Callable[[], None]]:
    """Everything that can happen, by name."""

    def python_worker() -> None:
        found = members(driver.process, "muntin.spark.host.daemon")
        # The first is the daemon, from which the others are forked.
        strike(chance.choice(found[1:] or found))

    def outage(server: Kafka | Postgres) -> None:
        server.kill()
        time.sleep(chance.uniform(0, 3))
        server.start()

    def burst() -> None:
        traffic.per_turn *= BURST
        time.sleep(BURST_SECONDS)
        traffic.per_turn //= BURST

    return {
        "driver killed": lambda: kill(driver.process),
        "JVM killed": lambda: strike(members(driver.process, "java")[0]),
        "Python worker killed": python_worker,
        "Python daemon killed": lambda: strike(
            members(driver.process, "muntin.spark.host.daemon")[0]
        ),
        "broker crashed": lambda: outage(kafka),
        "database crashed": lambda: outage(postgres),
        "ten times the load": burst,
    }


def test_faults_lose_nothing_and_double_nothing(
    driver: Driver, tmp_path: Path, kafka: Kafka, postgres: Postgres
) -> None:
    chance = random.Random(SEED)
    traffic = Traffic(kafka, driver.topic, random.Random(SEED))
    driver.go_on(3)
    kinds = faults_of(driver, kafka, postgres, traffic, chance)
    plan = [
        name
        for _ in range(1 + FAULTS // len(kinds))
        for name in chance.sample([*kinds], len(kinds))
    ]
    recorder = Recorder(driver.checkpoint)
    for name in plan[:FAULTS]:
        time.sleep(chance.uniform(0, 1))
        recorder.strike(name, kinds[name])
        driver.go_on()
    traffic.end()
    (tmp_path / "sent").touch()
    driver.finish()

    messages = kafka.read(driver.topic)
    rejected = [(m.partition(), m.offset(), why) for m in messages if (why := reason(m))]
    emitted = 'SELECT "partition", "offset", reason FROM rejected ORDER BY 1, 2'
    assert rows(driver.dsn, emitted) == sorted(rejected)
    assert table(driver.dsn) == wanted([m for m in messages if not reason(m)], tmp_path)
    gaps = """SELECT key, window_start FROM history GROUP BY 1, 2
              HAVING count(*) <> max(revision) + 1 OR count(DISTINCT revision) <> count(*)"""
    assert rows(driver.dsn, gaps) == []
    progress = json.loads((tmp_path / "figures.json").read_text())
    reasons = Counter(why for *_, why in rejected)
    counted = len(messages) - len(rejected)
    assert progress["counts"] == {"seen": len(messages), "counted": counted, **reasons}
    assert progress["adds_up"]
    # It follows the windows that may still change, not the messages.
    assert 0 < progress["state_rows"] < len(messages) / 5
    assert {"late", "future", "malformed"} <= reasons.keys()
    if RECORD:
        recorder.write(Path(RECORD), progress["counts"])
    print(f"{FAULTS} faults, {len(messages)} messages, nothing lost: {Counter(plan[:FAULTS])}")


def table(dsn: str) -> list[tuple]:
    """Key, start, count, sum and maximum of each window, as the database has them."""
    emitted = """SELECT key, (extract(epoch FROM window_start) * 1000000)::bigint,
                     n, total::bigint, most FROM windows"""
    return sorted(rows(dsn, emitted))


def wanted(messages: list, folder: Path) -> list[tuple]:
    """The same by DuckDB, out of what the topic holds."""
    bodies = [(json.loads(m.value()), m.key().decode()) for m in messages]
    columns = [
        [body["id"] for body, _ in bodies],
        [key for _, key in bodies],
        [datetime.fromisoformat(body["at"]) for body, _ in bodies],
        [body["value"] for body, _ in bodies],
    ]
    arrays = [pa.array(values, f.type) for values, f in zip(columns, MESSAGE, strict=True)]
    feed = Feed(folder / "truth")
    feed.add_table(pa.table(arrays, schema=MESSAGE))
    return sorted(feed.windows(SIZE, SLIDE))
