"""A cluster that changes under a query: executors come and go, tasks run twice, drivers move."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.cluster.driver import run
from tests.services.cluster import Cluster
from tests.spark.drivers import batches, fill, kill, wait_for_batch
from tests.spark.feed import Feed, at, emitted, rows

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
GAPS = """SELECT key, window_start, list(revision ORDER BY revision) AS revisions FROM history
          GROUP BY ALL HAVING revisions != range(len(revisions)::BIGINT)"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.remove()


def await_that(happens: Callable[[], bool], driver: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 90
    while not happens():
        said = log.read_text()[-3000:]
        assert driver.poll() is None, f"the driver has ended:\n{said}"
        assert time.monotonic() < deadline, f"it doesn't happen:\n{said}"
        time.sleep(0.1)


def test_executors_come_and_go(cluster: Cluster, tmp_path: Path) -> None:
    """Each time none is left: what comes next is computed by executors that know nothing yet."""
    feed, checkpoint = Feed(tmp_path / "source"), tmp_path / "checkpoint"
    elastic = {
        f"spark.dynamicAllocation.{name}": value
        for name, value in {
            "enabled": "true",
            "shuffleTracking.enabled": "true",
            "shuffleTracking.timeout": "1s",
            "executorIdleTimeout": "1s",
            "cachedExecutorIdleTimeout": "1s",
            "schedulerBacklogTimeout": "1s",
            "minExecutors": "0",
            "initialExecutors": "0",
            "maxExecutors": "2",
        }.items()
    }
    seen: set[int] = set()
    feed.add(("a", at(0), 1))
    given, log = {"shards": "default", "ends": "no"}, tmp_path / "log"
    driver = run(cluster, "pipeline.py", tmp_path, elastic, given=given)
    try:
        for number in range(1, 5):
            done = partial(lambda goal: batches(checkpoint, "commits") >= goal, number)
            await_that(done, driver, log)
            seen |= set(cluster.executors())
            await_that(lambda: not cluster.executors(), driver, log)
            feed.add(*((key, at(40 * number + second), 3) for key in "abc" for second in (1, 25)))
        await_that(lambda: batches(checkpoint, "commits") >= 5, driver, log)
    finally:
        kill(driver)
    assert len(seen) >= 4
    assert emitted(tmp_path / "out.duckdb") == feed.windows(30, 10)
    assert rows(tmp_path / "out.duckdb", GAPS) == []


def test_shards_are_computed_twice_at_once(cluster: Cluster, tmp_path: Path) -> None:
    """Spark tries a slow task on another machine, and takes whichever attempt is done first."""
    feed = Feed(tmp_path / "source")
    fill(feed, random.Random(3), 6, 40)
    speculative = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.2",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "200ms",
    }
    driver = run(cluster, "straggler.py", tmp_path, speculative)
    try:
        assert driver.wait(timeout=600) == 0, (tmp_path / "log").read_text()[-3000:]
    finally:
        kill(driver)
    assert list(tmp_path.glob("second-*"))
    assert emitted(tmp_path / "out.duckdb") == feed.windows(30, 10)
    assert rows(tmp_path / "out.duckdb", GAPS) == []


def test_a_driver_comes_back_elsewhere(cluster: Cluster, tmp_path: Path) -> None:
    """On another address, with other local disks, and with the other half of the cluster gone."""
    feed, checkpoint = Feed(tmp_path / "source"), tmp_path / "checkpoint"
    fill(feed, random.Random(5), 10, 40)
    driver = run(cluster, "pipeline.py", tmp_path)
    try:
        wait_for_batch(checkpoint, 3, driver)
    finally:
        kill(driver)
    kill(cluster.workers.pop(0))
    again = {"spark.local.dir": str(tmp_path / "elsewhere")}
    driver = run(cluster, "pipeline.py", tmp_path, again, host="127.0.0.9")
    try:
        assert driver.wait(timeout=600) == 0, (tmp_path / "log").read_text()[-3000:]
    finally:
        kill(driver)
    assert emitted(tmp_path / "out.duckdb") == feed.windows(30, 10)
    assert rows(tmp_path / "out.duckdb", GAPS) == []
