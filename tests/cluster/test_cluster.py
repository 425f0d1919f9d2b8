"""Tests of a cluster with two workers, some of which die in the middle of a batch."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.driver import run
from tests.services.cluster import Cluster
from tests.spark.drivers import batches, fill, kill, strike, wait_for_batch
from tests.spark.feed import Feed, emitted, rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    new_cluster = Cluster(tmp_path)
    yield new_cluster
    new_cluster.remove()


def test_workers_die_in_mid_batch(cluster: Cluster, tmp_path: Path) -> None:
    """First the Python workers die, then a worker with its executor, which is replaced later."""
    feed, checkpoint = Feed(tmp_path / "source"), tmp_path / "checkpoint"
    fill(feed, random.Random(7), 9, 40)
    log, driver = tmp_path / "log", run(cluster, "pipeline.py", tmp_path)
    try:
        wait_for_batch(checkpoint, 2, driver)
        workers = cluster.python_workers()
        assert workers
        for pid in workers:
            strike(pid)
        wait_for_batch(checkpoint, batches(checkpoint, "offsets") + 2, driver)
        kill(cluster.workers.pop())
        wait_for_batch(checkpoint, batches(checkpoint, "offsets") + 2, driver)
        cluster.workers.append(cluster.worker())
        assert driver.wait(timeout=600) == 0
    except (AssertionError, subprocess.TimeoutExpired) as failure:
        pytest.fail(f"{failure}\n{log.read_text()[-3000:]}")
    finally:
        kill(driver)
    assert emitted(tmp_path / "out.duckdb") == feed.windows(30, 10)
    assert rows(tmp_path / "rejected.duckdb", "SELECT id, reason FROM rejected") == []
    gaps = """SELECT key, window_start, list(revision ORDER BY revision) AS revisions FROM history
              GROUP BY ALL HAVING revisions != range(len(revisions)::BIGINT)"""
    assert rows(tmp_path / "out.duckdb", gaps) == []
