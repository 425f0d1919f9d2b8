"""A query all of which is in a bucket: killed, cut off from it, and moved into other shards."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from tests.services.s3 import S3
from tests.spark.drivers import VICTIM, Victims, batches, fill, kill, start, wait_for_batch
from tests.spark.feed import Feed

FILES, MESSAGES = 26, 40
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def s3() -> Iterator[S3]:
    server = S3()
    yield server
    server.remove()


@pytest.fixture
def victims() -> Iterator[Victims]:
    started: Victims = []
    yield started
    for victim in started:
        kill(victim)


def test_a_query_in_a_bucket_is_killed_and_cut_off(
    s3: S3, victims: Victims, tmp_path: Path
) -> None:
    chance, bucket = random.Random(20260104), s3.folder / "bucket"
    feed = Feed(tmp_path / "source")
    too_late = fill(feed, chance, FILES, MESSAGES)
    s3.upload(feed.folder, "bucket/source")
    checkpoint, log, figures = bucket / "checkpoint", tmp_path / "log", tmp_path / "figures.json"
    settings = json.dumps(s3.settings)
    command = [sys.executable, str(VICTIM), "windows", "s3a://bucket", settings, str(figures)]

    for _ in range(2):
        victims.append(start(command, log))
        wait_for_batch(checkpoint, batches(checkpoint, "offsets") + 2, victims[-1])
        time.sleep(chance.uniform(0, 0.5))
        kill(victims[-1])
    # It goes on in three shards, in place of two.
    moved, begun = checkpoint / "moved" / "1", batches(checkpoint, "offsets")
    command.append("3")
    victims.append(start(command, log))
    wait_for_batch(moved, begun + 2, victims[-1])
    s3.kill()
    time.sleep(3)
    s3.start()
    if victims[-1].wait(timeout=600) != 0:
        # Hadoop's client tries most requests again for longer than this, but for reads of files.
        assert "Connection refused" in log.read_text()
        victims.append(start(command, log))
        assert victims[-1].wait(timeout=600) == 0, log.read_text()[-3000:]

    out = f"read_parquet('{bucket}/out/*/*.parquet')"
    newest = f"FROM {out} QUALIFY revision = max(revision) OVER (PARTITION BY key, window_start)"
    wanted = f"SELECT key, epoch_us(window_start), n, total, most {newest} ORDER BY ALL"
    assert duckdb.sql(wanted).fetchall() == feed.windows(30, 10, but=too_late)
    repeated = f"SELECT key FROM {out} GROUP BY key, window_start, revision HAVING count(*) > 1"
    assert duckdb.sql(repeated).fetchall() == []
    rejected = f"SELECT id FROM read_parquet('{bucket}/rejected/*/*.parquet') ORDER BY id"
    assert [row[0] for row in duckdb.sql(rejected).fetchall()] == too_late
    progress = json.loads(figures.read_text())
    assert progress["counts"]["seen"] == feed.ids
    assert progress["adds_up"]
    assert progress["held"]
