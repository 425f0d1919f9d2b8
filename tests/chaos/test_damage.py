"""A damaged checkpoint is reported, or fixed by Spark; it never leads to a wrong table."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.feed import Feed, at, emitted

import muntin as mt

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SECONDS = [[1, 4, 2, 9], [12, 8, 31], [7, 29, 33, 30], [64, 35, 36], [62, 70, 40]]


def run(spark: SparkSession, feed: Feed, folder: Path) -> None:
    query = (
        mt.windowed(feed.stream(spark), key="key", time="at", lateness="40 seconds")
        .hopping("10 seconds", slide="4 seconds")
        .early(each=True)
        .agg(n=mt.count(), total=mt.sum("value"), most=mt.max("value"))
        .start(
            checkpoint=f"{folder}/checkpoint",
            results=mt.to_duckdb(f"{folder}/out.duckdb", "windows"),
            available_now=True,
        )
    )
    assert query.await_end(timeout=240)


def add(feed: Feed, numbers: range) -> None:
    for number in numbers:
        feed.add(*(("ab"[second % 2], at(second), second) for second in SECONDS[number]))


def truncate(content: bytes, dice: random.Random) -> bytes:
    return content[: len(content) // 2]


def empty(content: bytes, dice: random.Random) -> bytes:
    return b""


def flip_bits(content: bytes, dice: random.Random) -> bytes:
    """Flip about one bit of every hundred bytes, but none of the header."""
    damaged = bytearray(content)
    for _ in range(1 + len(damaged) // 100):
        damaged[dice.randrange(len(damaged) // 4, len(damaged))] ^= 1 << dice.randrange(8)
    return bytes(damaged)


@pytest.fixture(scope="module")
def intact_checkpoint(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an undamaged checkpoint of three batches."""
    folder = tmp_path_factory.mktemp("whole")
    feed = Feed(folder / "source")
    add(feed, range(3))
    run(spark, feed, folder)
    return folder


@pytest.mark.parametrize("files", ["state/*/*/3_*.changelog", "offsets/2", "commits/2"])
@pytest.mark.parametrize(
    ("damage", "keeps_checksums"),
    # A checksum finds each kind of damage in the same way.
    [(truncate, False), (empty, False), (flip_bits, False), (flip_bits, True)],
)
def test_damage_is_never_silent(
    spark: SparkSession,
    intact_checkpoint: Path,
    tmp_path: Path,
    files: str,
    damage,
    keeps_checksums: bool,
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(intact_checkpoint, folder)
    damaged_files = [
        path for path in (folder / "checkpoint").glob(files) if path.stat().st_size > 0
    ]
    assert damaged_files
    for path in damaged_files:
        path.write_bytes(damage(path.read_bytes(), random.Random(3)))
        if not keeps_checksums:
            for sidecar in path.parent.glob(f"*{path.name}*crc*"):
                sidecar.unlink()
    feed = Feed(folder / "source")
    feed.files, feed.ids = 3, sum(map(len, SECONDS[:3]))
    add(feed, range(3, 5))
    try:
        run(spark, feed, folder)
    except (mt.MuntinError, PySparkException) as error:
        assert len(str(error)) > 20  # noqa: PT017
    else:
        assert emitted(folder / "out.duckdb") == feed.windows(10, 4)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder whose checkpoint has a small disk of its own."""
    folder = tmp_path / "small"
    (folder / "checkpoint").mkdir(parents=True)
    if os.getuid() != 0 or mount(folder, "size=160k"):
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", folder / "checkpoint"], check=True)


def mount(folder: Path, options: str) -> int:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder / "checkpoint")]
    return subprocess.run(command, capture_output=True).returncode


def test_a_full_disk_is_told_and_nothing_is_half_done(spark: SparkSession, small: Path) -> None:
    feed = Feed(small / "source")
    add(feed, range(5))
    for number in range(5, 15):
        feed.add(*((f"key {n}", at(70 + number), n) for n in range(200)))
    with pytest.raises(
        mt.OptionError, match=r"^checkpoint=.* can't be written: No space left on dev"
    ):
        run(spark, feed, small)
    assert mount(small, "remount,size=64m") == 0
    run(spark, feed, small)
    assert emitted(small / "out.duckdb") == feed.windows(10, 4)
