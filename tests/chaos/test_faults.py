"""Random faults of all kinds under load: no message is lost, and none counts twice.

``MUNTIN_CHAOS_FAULTS`` is the number of faults (default 4), ``MUNTIN_CHAOS_SEED`` their seed.
``MUNTIN_CHAOS_RECORD`` is the file for a record of the run, which the simulator can replay.
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
from tests.chaos.traffic import BURST, BURST_SECONDS, PARTITIONS, Traffic, get_reason
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
    """The program under test, which is restarted whenever it has died, as by a supervisor."""

    def __init__(self, folder: Path, kafka: Kafka, topic: str, dsn: str) -> None:
        self.checkpoint, self.log = folder / "checkpoint", folder / "log"
        self.topic, self.dsn = topic, dsn
        self._command = [sys.executable, str(SURVIVOR), str(folder), kafka.servers, topic]
        self.processes: Victims = []
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self.processes.append(start(self._command, self.log, {"SURVIVOR_DSN": self.dsn}))
        return self.processes[-1]

    def revive(self) -> None:
        """Start the program again if it has died."""
        if self.process.poll() is not None:
            kill(self.process)
            self.process = self._start()

    def wait_for_batches(self, target: int = 2) -> None:
        """Wait for more batches, and restart the program if necessary."""
        target += batches(self.checkpoint, "commits")
        deadline = time.monotonic() + 180
        while batches(self.checkpoint, "commits") < target:
            assert time.monotonic() < deadline, f"no progress:\n{self.log.read_text()[-3000:]}"
            self.revive()
            time.sleep(0.05)

    def finish(self) -> None:
        """Wait until the program has ended, and restart it if necessary."""
        deadline = time.monotonic() + 300
        while self.process.poll() != 0:
            assert time.monotonic() < deadline, f"no end:\n{self.log.read_text()[-3000:]}"
            self.revive()
            time.sleep(0.1)


@pytest.fixture
def driver(tmp_path: Path, kafka: Kafka, postgres: Postgres) -> Iterator[Driver]:
    program = Driver(tmp_path, kafka, kafka.topic(PARTITIONS), postgres.database())
    yield program
    for process in program.processes:
        kill(process)


def make_faults(
    driver: Driver, kafka: Kafka, postgres: Postgres, traffic: Traffic, dice: random.Random
) -> dict[str, Callable[[], None]]:
    """Return all faults, by name."""

    def kill_python_worker() -> None:
        processes = members(driver.process, "muntin.spark.host.daemon")
        # The first process is the daemon, which forks the others.
        strike(dice.choice(processes[1:] or processes))

    def interrupt_server(server: Kafka | Postgres) -> None:
        server.kill()
        time.sleep(dice.uniform(0, 3))
        server.start()

    def send_burst() -> None:
        traffic.per_turn *= BURST
        time.sleep(BURST_SECONDS)
        traffic.per_turn //= BURST

    return {
        "driver killed": lambda: kill(driver.process),
        "JVM killed": lambda: strike(members(driver.process, "java")[0]),
        "Python worker killed": kill_python_worker,
        "Python daemon killed": lambda: strike(
            members(driver.process, "muntin.spark.host.daemon")[0]
        ),
        "broker crashed": lambda: interrupt_server(kafka),
        "database crashed": lambda: interrupt_server(postgres),
        "ten times the load": send_burst,
    }


def test_faults_lose_nothing_and_double_nothing(
    driver: Driver, tmp_path: Path, kafka: Kafka, postgres: Postgres
) -> None:
    dice = random.Random(SEED)
    traffic = Traffic(kafka, driver.topic, random.Random(SEED))
    driver.wait_for_batches(3)
    faults = make_faults(driver, kafka, postgres, traffic, dice)
    plan = [
        name
        for _ in range(1 + FAULTS // len(faults))
        for name in dice.sample([*faults], len(faults))
    ]
    recorder = Recorder(driver.checkpoint)
    for name in plan[:FAULTS]:
        time.sleep(dice.uniform(0, 1))
        recorder.strike(name, faults[name])
        driver.wait_for_batches()
    traffic.end()
    (tmp_path / "sent").touch()
    driver.finish()

    messages = kafka.read(driver.topic)
    rejected = [(m.partition(), m.offset(), cause) for m in messages if (cause := get_reason(m))]
    rejected_query = 'SELECT "partition", "offset", reason FROM rejected ORDER BY 1, 2'
    assert rows(driver.dsn, rejected_query) == sorted(rejected)
    assert read_windows(driver.dsn) == compute_windows(
        [m for m in messages if not get_reason(m)], tmp_path
    )
    gaps_query = """SELECT key, window_start FROM history GROUP BY 1, 2
              HAVING count(*) <> max(revision) + 1 OR count(DISTINCT revision) <> count(*)"""
    assert rows(driver.dsn, gaps_query) == []
    progress = json.loads((tmp_path / "figures.json").read_text())
    reasons = Counter(cause for *_, cause in rejected)
    counted = len(messages) - len(rejected)
    assert progress["counts"] == {"seen": len(messages), "counted": counted, **reasons}
    assert progress["adds_up"]
    # The size of the state depends on the open windows, not on the messages.
    assert 0 < progress["state_rows"] < len(messages) / 5
    assert {"late", "future", "malformed"} <= reasons.keys()
    if RECORD:
        recorder.write(Path(RECORD), progress["counts"])
    print(f"{FAULTS} faults, {len(messages)} messages, nothing lost: {Counter(plan[:FAULTS])}")


def read_windows(dsn: str) -> list[tuple]:
    """Read the key, start, count, sum and maximum of each window from the database."""
    emitted = """SELECT key, (extract(epoch FROM window_start) * 1000000)::bigint,
                     n, total::bigint, most FROM windows"""
    return sorted(rows(dsn, emitted))


def compute_windows(messages: list, folder: Path) -> list[tuple]:
    """Compute the same windows from the messages of the topic by DuckDB."""
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
