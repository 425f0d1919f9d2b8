"""Tests of a query whose files are all in a bucket: kills, disconnections, refused requests."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from tests.operations.test_first_lines import put
from tests.services.kafka import Kafka
from tests.services.registry import SchemaRegistry
from tests.services.s3 import S3
from tests.spark.drivers import VICTIM, Victims, batches, fill, kill, start, wait_for_batch
from tests.spark.feed import Feed, at

FILES, MESSAGES = 6, 40
EXAMPLE = Path(__file__).parents[2] / "examples" / "orders.sql"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    server = S3()
    yield server
    server.remove()


@pytest.fixture
def victims() -> Iterator[Victims]:
    drivers: Victims = []
    yield drivers
    for victim in drivers:
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

    victims.append(start(command, log))
    wait_for_batch(checkpoint, batches(checkpoint, "offsets") + 2, victims[-1])
    time.sleep(chance.uniform(0, 0.5))
    kill(victims[-1])
    # It continues in one shard instead of two.
    moved, batches_before = checkpoint / "moved" / "1", batches(checkpoint, "offsets")
    command.append("1")
    victims.append(start(command, log))
    wait_for_batch(moved, batches_before + 2, victims[-1])
    s3.kill()
    time.sleep(3)
    s3.start()
    if victims[-1].wait(timeout=600) != 0:
        # Hadoop's client tries most requests again for longer than this, but for reads of files.
        assert "Connection refused" in log.read_text()
        victims.append(start(command, log))
        assert victims[-1].wait(timeout=600) == 0, log.read_text()[-3000:]

    check(bucket, feed, too_late, figures)


def test_a_bucket_that_refuses_one_request_in_eight(victims: Victims, tmp_path: Path) -> None:
    busy = S3(refuses=0.125)
    try:
        feed, chance = Feed(tmp_path / "source"), random.Random(20260108)
        too_late = fill(feed, chance, 2, MESSAGES)
        busy.upload(feed.folder, "bucket/source")
        bucket, log, figures = busy.folder / "bucket", tmp_path / "log", tmp_path / "figures.json"
        # Hadoop waits half a second before it asks a busy server again.
        soon = {"spark__hadoop__fs__s3a__retry__throttle__interval": "20ms"}
        settings = json.dumps({**busy.settings, **soon})
        victims.append(start(
            [sys.executable, str(VICTIM), "windows", "s3a://bucket", settings, str(figures)], log
        ))  # fmt: skip
        assert victims[-1].wait(timeout=600) == 0, log.read_text()[-3000:]
        check(bucket, feed, too_late, figures)
        assert busy.gate is not None
        assert min(busy.gate.refused["SlowDown"], busy.gate.refused["InternalError"]) > 5
    finally:
        busy.remove()


def test_a_pipeline_from_a_topic_of_a_registry_into_a_bucket(
    s3: S3, kafka: Kafka, victims: Victims, tmp_path: Path
) -> None:
    """Run the example by the command line."""
    registry, topic = SchemaRegistry(), kafka.topic(2)
    number = registry.register(f"{topic}-value", {"type": "record", "name": "Order", "fields": [
        {"name": "shop", "type": "string"}, {"name": "amount", "type": ["null", "double"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]})  # fmt: skip
    kafka.send(topic, [
        (n % 2, None, registry.written(number, {"shop": "ab"[n % 2], "amount": n, "at": at(n)}))
        for n in range(200)
    ])  # fmt: skip
    kafka.send(topic, [(0, None, b"no order")])
    (tmp_path / "nothing").mkdir()
    s3.upload(tmp_path / "nothing", "lake/nothing")
    script = tmp_path / "orders.sql"
    script.write_text(EXAMPLE.read_text().replace("topic = 'orders'", f"topic = '{topic}'"))
    variables = {"servers": kafka.servers, "registry": registry.url, "lake": "s3a://lake"}
    conf = {name.replace("__", "."): value for name, value in s3.settings.items()}
    command = [sys.executable, "-c", "from muntin.cli.app import main; main()", "run", str(script)]
    for option, pairs in (("--set", variables), ("--conf", conf)):
        command += [f"{option}={name}={value}" for name, value in pairs.items()]
    log = tmp_path / "log"
    victims.append(start([*command, "--until-quiet"], log))
    assert victims[-1].wait(timeout=300) == 0, log.read_text()[-3000:]
    registry.close()
    lake = s3.folder / "lake"
    sums = "SELECT shop, sum(orders), sum(total)"
    totals = duckdb.sql(f"{sums} FROM '{lake}/totals/*/*.parquet' GROUP BY shop")
    # The last minute is open.
    assert sorted(totals.fetchall()) == [
        (shop, 90, sum(n for n in range(180) if "ab"[n % 2] == shop)) for shop in "ab"
    ]
    rejected = duckdb.sql(f"SELECT reason, malformed FROM '{lake}/rejected/*/*.parquet'")
    assert rejected.fetchall() == [("malformed", b"no order")]


def test_parts_that_are_deleted_from_a_bucket_are_named_at_the_start(
    s3: S3, victims: Victims, tmp_path: Path
) -> None:
    for name, minutes in (("0", -9), ("1", -5), ("late", -1)):
        put(tmp_path / "source", f"{name}.jsonl", minutes)
    s3.upload(tmp_path / "source", "deleted/source")
    folder, log = s3.folder / "deleted", tmp_path / "log"
    driver = Path(__file__).with_name("deleted_objects.py")
    address = "s3a://deleted"
    command = [sys.executable, str(driver), address, str(folder), json.dumps(s3.settings)]
    victims.append(start(command, log))
    assert victims[-1].wait(timeout=300) == 0, log.read_text()[-3000:]
    errors = json.loads((folder / "errors.json").read_text())
    lacks = "StateCorruptedError: s3a://deleted/checkpoint/{} lacks what batch {} wrote"
    for name, part in {
        "offsets": "offsets",
        "metadata": "metadata",
        "state": "state",
        "operator": "state/0/_metadata",
        "log of files": "sources",
    }.items():
        assert errors.pop(name).startswith(lacks.format(part, 1)), name
    assert errors.pop("commits").startswith(lacks.format("commits", 0))
    blob = errors.pop("blob")
    assert blob.startswith("StateCorruptedError: the state can't be read: ")
    assert "s3a://deleted/checkpoint/state/0/0/" in blob
    assert errors == {"nothing": "seen 3"}


def check(bucket: Path, feed: Feed, too_late: list[int], figures: Path) -> None:
    """Check that every window is right, that no row is repeated, and that counts add up."""
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
