"""Everything that a query rests on dies at random moments, and nothing is lost or doubled.

``MUNTIN_CHAOS_FAULTS`` says how many faults a test has (4), ``MUNTIN_CHAOS_SEED`` when.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.chaos.driver import SIZE, SLIDE
from tests.chaos.feeder import PARTITIONS, Feeder
from tests.services.kafka import Kafka
from tests.services.postgres import Postgres, rows
from tests.spark.drivers import batches, kill, members, start, strike

FAULTS = int(os.environ.get("MUNTIN_CHAOS_FAULTS", "4"))
SEED = int(os.environ.get("MUNTIN_CHAOS_SEED", "20261121"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900 + 120 * FAULTS),
]

TOLD = """SELECT key, (extract(epoch FROM window_start) * 1000000)::bigint, n, total::bigint, most
          FROM windows ORDER BY 1, 2"""
GAPS = """SELECT key, window_start FROM history GROUP BY 1, 2
          HAVING count(*) <> max(revision) + 1 OR count(DISTINCT revision) <> count(*)"""
REJECTED = "SELECT reason, count(*)::int FROM rejected GROUP BY 1 ORDER BY 1"


class Driver:
    """A driver that is started again whenever it has ended."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        program = Path(__file__).with_name("driver.py")
        self.folder, self.log = folder, folder / "log"
        self.command = [sys.executable, str(program), str(folder), *arguments]
        self.process = start(self.command, self.log)
        self.starts = 1

    def alive(self) -> None:
        """Have it run."""
        if self.process.poll() is not None:
            kill(self.process)
            self.process = start(self.command, self.log)
            self.starts += 1

    def committed(self) -> int:
        return batches(self.folder / "checkpoint", "commits")

    def figures(self) -> dict[str, int]:
        path = self.folder / "figures.json"
        return dict(json.loads(path.read_text())["counts"]) if path.exists() else {}


@pytest.fixture
def feeder(kafka: Kafka) -> Feeder:
    return Feeder(kafka, kafka.topic(PARTITIONS), random.Random(SEED))


@pytest.fixture
def dsn(postgres: Postgres) -> str:
    return postgres.database()


@pytest.fixture
def driver(tmp_path: Path, kafka: Kafka, feeder: Feeder, dsn: str) -> Iterator[Driver]:
    feeder.tick()
    made = Driver(tmp_path, kafka.servers, feeder.topic, dsn)
    yield made
    kill(made.process)


def wait(driver: Driver, done: Callable[[], bool], work: Callable[[], None]) -> None:
    """Work until something is so; whatever dies of a fault is started again."""
    deadline = time.monotonic() + 300
    while not done():
        assert time.monotonic() < deadline, driver.log.read_text()[-3000:]
        driver.alive()
        work()
        time.sleep(0.4)


@pytest.mark.parametrize(
    "struck", [("driver", "Python workers", "JVM"), ("PostgreSQL", "Kafka")], ids=["ours", "theirs"]
)
def test_faults_lose_and_double_nothing(
    struck: tuple[str, ...],
    driver: Driver,
    feeder: Feeder,
    kafka: Kafka,
    postgres: Postgres,
    dsn: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chance, done = random.Random(SEED), Counter[str]()

    def again(server: Kafka | Postgres) -> None:
        server.kill()
        server.start()

    def strike_all(named: str) -> None:
        for pid in members(driver.process, named):
            strike(pid)

    faults: dict[str, Callable[[], None]] = {
        "driver": lambda: kill(driver.process),
        "JVM": lambda: strike_all("java"),
        "Python workers": lambda: strike_all("muntin.spark.daemon"),
        "PostgreSQL": lambda: again(postgres),
        "Kafka": lambda: again(kafka),
    }
    for number in range(FAULTS):
        name = struck[number % len(struck)]
        goal = driver.committed() + chance.randint(1, 2)
        flood = number == 1
        wait(driver, lambda goal=goal: driver.committed() >= goal, lambda f=flood: feeder.tick(f))
        time.sleep(chance.uniform(0, 0.5))
        faults[name]()
        done[name] += 1
    everything = feeder.counts()
    seen = lambda: driver.figures().get("seen", 0) >= everything["seen"]  # noqa: E731
    wait(driver, seen, lambda: None)
    (tmp_path / "stop").touch()
    assert driver.process.wait(timeout=60) == 0, driver.log.read_text()[-3000:]

    assert driver.figures() == everything
    assert json.loads((tmp_path / "figures.json").read_text())["adds_up"]
    expected = feeder.windows(tmp_path / "accepted", SIZE, SLIDE)
    found = rows(dsn, TOLD)
    assert found == expected
    assert rows(dsn, GAPS) == []
    assert dict(rows(dsn, REJECTED)) == {
        reason: everything[reason] for reason in ("future", "malformed")
    }
    told = ", ".join(f"{n} {name}" for name, n in done.items())
    with capsys.disabled():
        print(
            f"\nchaos: {done.total()} faults ({told}), {driver.starts} starts, "
            f"{driver.committed()} batches, {everything['seen']} messages "
            f"({dict(feeder.sent)}), {len(found)} windows; lost 0, doubled 0"
        )
