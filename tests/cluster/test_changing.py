"""Tests of clusters that change: executors come and go, tasks run twice, drivers move."""

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
    new_cluster = Cluster(tmp_path)
    yield new_cluster
    new_cluster.remove()


def await_condition(
    condition: Callable[[], bool], driver: subprocess.Popen[bytes], log: Path
) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        tail = log.read_text()[-3000:]
        assert driver.poll() is None, f"the driver has ended:\n{tail}"
        assert time.monotonic() < deadline, f"it doesn't happen:\n{tail}"
        time.sleep(0.1)


def test_executors_come_and_go(cluster: Cluster, tmp_path: Path) -> None:
    """No executor remains between batches, so that each batch has new executors without state."""
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
    executors: set[int] = set()
    feed.add(("a", at(0), 1))
    variables, log = {"shards": "default", "ends": "no"}, tmp_path / "log"
    driver = run(cluster, "pipeline.py", tmp_path, elastic, variables=variables)
    try:
        for number in range(1, 5):
            done = partial(lambda goal: batches(checkpoint, "commits") >= goal, number)
            await_condition(done, driver, log)
            executors |= set(cluster.executors())
            await_condition(lambda: not cluster.executors(), driver, log)
            feed.add(*((key, at(40 * number + second), 3) for key in "abc" for second in (1, 25)))
        await_condition(lambda: batches(checkpoint, "commits") >= 5, driver, log)
    finally:
        kill(driver)
    assert len(executors) >= 4
    assert emitted(tmp_path / "out.duckdb") == feed.windows(30, 10)
    assert rows(tmp_path / "out.duckdb", GAPS) == []


def test_shards_are_computed_twice_at_once(cluster: Cluster, tmp_path: Path) -> None:
    """Spark runs a slow task on a second machine, too, and takes the attempt that ends first."""
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
    """The driver has another address and other local disks, and half of the cluster is gone."""
    feed, checkpoint = Feed(tmp_path / "source"), tmp_path / "checkpoint"
    fill(feed, random.Random(5), 10, 40)
    driver = run(cluster, "pipeline.py", tmp_path)
    try:
        wait_for_batch(checkpoint, 3, driver)
    finally:
        kill(driver)
    kill(cluster.workers.pop(0))
    settings = {"spark.local.dir": str(tmp_path / "elsewhere")}
    driver = run(cluster, "pipeline.py", tmp_path, settings, host="127.0.0.9")
    try:
        assert driver.wait(timeout=600) == 0, (tmp_path / "log").read_text()[-3000:]
    finally:
        kill(driver)
    assert emitted(tmp_path / "out.duckdb") == feed.windows(30, 10)
    assert rows(tmp_path / "out.duckdb", GAPS) == []
