"""Tests that a query continues from a checkpoint with another number of shards."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.moved_queries import COLUMNS
from tests.services.machine import wait_until
from tests.spark.drivers import VICTIM, fill, kill, start, wait_for_batch
from tests.spark.feed import Feed, at, emitted, rows

import muntin as mt
from muntin.spark import rescale as rescaling
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.internals.checkpoints import find_home
from muntin.spark.rescale import rescale
from muntin.state.manifest import sum_sizes

AGGREGATES = {"n": mt.count(), "total": mt.sum("value"), "most": mt.max("value")}
SECONDS = [[1, 4, 2, 9, 12], [8, 31, 7, 29], [33, 30, 64, 35], [36, 62, 70]]


def query(feed: Feed, spark: SparkSession, checkpoint: Path, shards: int, out: Path) -> int:
    windows = (
        mt.windowed(feed.stream(spark), key="key", time="at", lateness="2 seconds", shards=shards)
        .hopping("10 seconds", slide="4 seconds")
        .early(each=True)
        .late(grace="1 minute", each=True)
        .agg(**AGGREGATES)
    )
    results = mt.to_duckdb(str(out), "windows", history="history")
    running = windows.start(checkpoint=str(checkpoint), results=results, available_now=True)
    assert running.await_end(240)
    assert running.progress.counts["seen"] == feed.ids
    return running.progress.batch


@pytest.mark.slow
def test_windows_go_on_in_other_shards(spark: SparkSession, tmp_path: Path) -> None:
    feed, out = Feed(tmp_path / "source"), tmp_path / "out.duckdb"

    def add(numbers: list[int]) -> None:
        feed.add(*((f"key {s % 5}", at(s), s) for s in numbers))

    def measure(folder: Path) -> list[int | None]:
        checkpoint = Checkpoint(spark, str(folder))
        sizes = {slot: sum(blobs.values()) for slot, blobs in checkpoint.measure_blobs().items()}
        manifests = checkpoint.manifest_by_shard.items()
        listed = {slot: sum_sizes(manifest.runs()) for slot, manifest in manifests}
        assert listed == sizes
        return [*listed.values()]

    for numbers in SECONDS[:2]:
        add(numbers)
    old, new = tmp_path / "old", tmp_path / "new"
    assert query(feed, spark, old, 2, out) == 1
    rescaled = rescale(spark, str(old), shards=3, to=str(new))
    assert (rescaled.batch, len(rescaled.manifests)) == (1, 3)
    assert (len(measure(old)), len(measure(new))) == (2, 3)
    before, after = (mt.open_state(str(path)) for path in (old, new))
    assert before.fetch().equals(after.fetch())  # type: ignore[call-arg]
    for numbers in SECONDS[2:]:
        add(numbers)
    assert query(feed, spark, new, 3, out) == 3
    assert emitted(out) == feed.windows(10, 4)
    repeated = "SELECT key, window_start, revision FROM history GROUP BY ALL HAVING count(*) > 1"
    assert rows(out, repeated) == []
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"

    with pytest.raises(mt.OptionError, match="exists already; give a new folder"):
        rescale(spark, str(old), shards=3, to=str(new))
    with pytest.raises(mt.OptionError, match="shards=0 is less than one"):
        rescale(spark, str(old), shards=0, to=str(tmp_path / "none"))


@pytest.mark.slow
def test_a_batch_that_was_begun_is_done_with_the_same_input(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The sink has the batch already: with more input, a session might have another start."""
    feed, out = Feed(tmp_path / "source"), tmp_path / "out.duckdb"

    def run(checkpoint: Path, shards: int, files: int) -> mt.WindowedQuery:
        frame = spark.readStream.schema("id long, key string, at timestamp, value long")
        frame = frame.option("maxFilesPerTrigger", files).parquet(str(feed.folder))
        sessions = (
            mt.windowed(frame, key="key", time="at", lateness="1 minute", shards=shards)
            .session("5 seconds")
            .early(each=True)
            .agg(n=mt.count())
        )
        results = mt.to_duckdb(str(out), "sessions", history="history")
        query = sessions.start(checkpoint=str(checkpoint), results=results, available_now=True)
        assert query.await_end(240)
        return query

    feed.add(("a", at(1), 0), ("b", at(2), 0))
    feed.add(("a", at(20), 0), ("b", at(3), 0))
    old, new = tmp_path / "old", tmp_path / "new"
    assert run(old, 2, 1).progress.batch == 1
    for path in (old / "commits").glob("*1*"):
        path.unlink()
    feed.add(("a", at(16), 0), ("b", at(30), 0))
    assert rescale(spark, str(old), shards=3, to=str(new)).batch == 0
    query = run(new, 3, 10)
    assert query.progress.batch == 2
    assert query.progress.counts["seen"] == feed.ids
    select = "SELECT key, epoch_us(window_start), n FROM sessions WHERE emission <> 'retract'"
    expected = [("a", 1, 1), ("a", 16, 2), ("b", 2, 2), ("b", 30, 1)]
    assert rows(out, f"{select} ORDER BY ALL") == [
        (key, round(at(start).timestamp() * 1_000_000), n) for key, start, n in expected
    ]
    batches = "SELECT DISTINCT batch FROM history ORDER BY ALL"
    assert rows(out, batches) == [(0,), (1,), (2,)]


@pytest.mark.long
def test_a_join_goes_on_in_more_and_in_fewer_shards(spark: SparkSession, tmp_path: Path) -> None:
    """No pair is repeated or missing, and messages without a partner are emitted once."""
    feed, random = Feed(tmp_path / "source"), Random(3)

    def run(checkpoint: Path, shards: int, out: Path) -> None:
        frame = feed.stream(spark)
        sides = [
            mt.windowed(frame.where(f"value % 2 = {odd}"), time="at", lateness="4 seconds").late(
                grace="5 seconds", each=True
            )
            for odd in (0, 1)
        ]
        joined = mt.join(*sides, on="key", within="5 seconds", how="full", shards=shards)
        results = mt.to_duckdb(str(out), "pairs")
        query = joined.start(checkpoint=str(checkpoint), results=results, available_now=True)
        assert query.await_end(240)
        assert query.progress.counts["seen"] == feed.ids

    at_end, names = tmp_path / "whole", ("old", "more", "fewer")
    for number, name in enumerate(names):
        for batch in (2 * number, 2 * number + 1):
            low = max(0, 9 * batch - 9)
            feed.add(
                *(
                    (f"key {random.randrange(3 if n % 4 < 2 else 30)}", at(second), n)
                    for n in range(20)
                    for second in [random.randrange(low, 9 * batch + 9)]
                )
            )
        if number:
            before, shards = tmp_path / names[number - 1], (2, 3, 1)[number]
            rescale(spark, str(before), shards=shards, to=str(tmp_path / name))
        run(tmp_path / name, (2, 3, 1)[number], tmp_path / "moved.duckdb")
    run(at_end, 2, tmp_path / "whole.duckdb")
    select = "SELECT id, id_right, emission FROM pairs ORDER BY ALL"
    pairs = rows(tmp_path / "moved.duckdb", select)
    assert pairs == rows(tmp_path / "whole.duckdb", select)
    assert {emission for *_, emission in pairs} == {"early", "late", "full"}


@pytest.mark.slow
def test_a_chain_goes_on_in_other_shards(spark: SparkSession, tmp_path: Path) -> None:
    """Each of its operators keeps its state, and the local host says the same in one go."""
    feed = Feed(tmp_path / "source")

    def run(messages: Any, checkpoint: Path, shards: int, out: Path) -> None:
        options: dict[str, Any] = {"key": "key", "shards": shards}
        inner = mt.windowed(messages, time="at", lateness="2 seconds", **options)
        short = inner.tumbling("5 seconds").agg(n=mt.count(), total=mt.sum("value"))
        outer = mt.windowed(short, time="window_end", **options).tumbling("20 seconds")
        whole = outer.early(each=True).agg(n=mt.sum("n"), total=mt.sum("total"), windows=mt.count())
        results = mt.to_duckdb(str(out), "windows")
        query = whole.start(checkpoint=str(checkpoint), results=results, available_now=True)
        assert query.await_end(240)

    def add(numbers: list[int]) -> None:
        feed.add(*((f"key {s % 5}", at(s), s) for s in numbers))

    old, new = tmp_path / "old", tmp_path / "new"
    for numbers in SECONDS[:2]:
        add(numbers)
    run(feed.stream(spark), old, 2, tmp_path / "moved.duckdb")
    rescale(spark, str(old), shards=3, to=str(new))
    for numbers in SECONDS[2:]:
        add(numbers)
    run(feed.stream(spark), new, 3, tmp_path / "moved.duckdb")
    files = mt.files(feed.folder / "*.parquet", columns=COLUMNS, files_per_batch=1)
    run(files, tmp_path / "alone", 2, tmp_path / "alone.duckdb")
    select = "SELECT key, epoch_us(window_start), n, total, windows FROM windows ORDER BY ALL"
    stored = rows(tmp_path / "moved.duckdb", select)
    assert stored == rows(tmp_path / "alone.duckdb", select)
    assert stored


def shards_of(spark: SparkSession, checkpoint: Path) -> int:
    return len(Checkpoint(spark, str(checkpoint)).manifests)


def find_revision_gaps(out: Path) -> list[Any]:
    """Return the windows of which a revision was repeated or left out."""
    return rows(
        out,
        """SELECT key, window_start, list(revision ORDER BY revision) AS revisions FROM history
           GROUP BY ALL HAVING revisions != range(len(revisions)::BIGINT)""",
    )


@pytest.mark.slow
def test_a_query_that_is_started_with_another_number_moves_its_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed, out, checkpoint = Feed(tmp_path / "source"), tmp_path / "out.duckdb", tmp_path / "state"
    for numbers, shards in zip(SECONDS, (2, 3, 1, 1), strict=True):
        feed.add(*((f"key {s % 5}", at(s), s) for s in numbers))
        query(feed, spark, checkpoint, shards, out)
        assert shards_of(spark, checkpoint) == shards
    assert emitted(out) == feed.windows(10, 4)
    assert find_revision_gaps(out) == []
    # Only the newest home has state.
    assert Path(find_home(spark, str(checkpoint))) == checkpoint / "moved" / "2"
    assert [path.parent for path in checkpoint.rglob("state")] == [checkpoint / "moved" / "2"]


class Running:
    """A running query with as many shards as cores, and a thread that waits for its end."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.feed, self.out = Feed(folder / "source"), folder / "out.duckdb"
        self.checkpoint = folder / "state"
        self.add(SECONDS[0])
        windows = mt.windowed(self.feed.stream(spark), key="key", time="at", lateness="2 seconds")
        windows = windows.hopping("10 seconds", slide="4 seconds").early(each=True)
        results = mt.to_duckdb(str(self.out), "windows", history="history")
        counted = windows.late(grace="1 minute", each=True).agg(**AGGREGATES)
        self.query = counted.start(checkpoint=str(self.checkpoint), results=results)
        assert self.query.await_idle(120)
        self.waiting = threading.Thread(target=self.query.await_end, daemon=True)
        self.waiting.start()

    def add(self, numbers: list[int]) -> None:
        self.feed.add(*((f"key {s % 5}", at(s), s) for s in numbers))


@pytest.mark.slow
def test_a_running_query_goes_on_in_other_shards(spark: SparkSession, tmp_path: Path) -> None:
    run = Running(spark, tmp_path)
    try:
        for numbers, shards in zip(SECONDS[1:], (3, 1, 2), strict=True):
            run.query.rescale(shards)
            run.add(numbers)
            assert run.query.await_idle(120)
            assert shards_of(spark, run.checkpoint) == shards
            assert run.query.is_active
            assert run.waiting.is_alive()
        assert run.query.progress.counts["seen"] == run.feed.ids
    finally:
        run.query.stop()
    run.waiting.join(60)
    assert not run.waiting.is_alive()
    with pytest.raises(mt.OptionError, match="is of a query that has ended"):
        run.query.rescale(2)
    assert emitted(run.out) == run.feed.windows(10, 4)
    assert find_revision_gaps(run.out) == []


@pytest.mark.slow
def test_a_move_that_fails_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Running(spark, tmp_path)

    def fail(*arguments: Any) -> None:
        raise OSError("no space left")

    try:
        with monkeypatch.context() as patched:
            patched.setattr(rescaling, "replace_home", fail)
            with pytest.raises(OSError, match="no space left"):
                run.query.rescale(3)
        for numbers in SECONDS[1:]:
            run.add(numbers)
        assert run.query.await_idle(120)
        assert shards_of(spark, run.checkpoint) == 2
        with pytest.raises(mt.OptionError, match="shards=0 is less than one"):
            run.query.rescale(0)
        # The files of the first attempt aren't read as state.
        run.query.rescale(3)
        assert shards_of(spark, run.checkpoint) == 3
    finally:
        run.query.stop()
    assert emitted(run.out) == run.feed.windows(10, 4)
    assert find_revision_gaps(run.out) == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_driver_is_killed_while_it_moves_the_state(tmp_path: Path) -> None:
    feed, checkpoint, log = Feed(tmp_path / "source"), tmp_path / "checkpoint", tmp_path / "log"
    too_late = fill(feed, Random(11), 12, 40)
    command = [sys.executable, str(VICTIM), "windows", str(tmp_path), "{}", f"{tmp_path}/figures"]
    victim = start(command, log)
    wait_for_batch(checkpoint, 3, victim)
    kill(victim)
    for part in ("1.moving", "1/state", "1/offsets"):
        victim = start([*command, "3"], log)
        wait_until((checkpoint / "moved" / part).exists, victim, log)
        kill(victim)
    victim = start([*command, "3"], log)
    assert victim.wait(timeout=300) == 0, log.read_text()[-3000:]
    assert emitted(tmp_path / "out.duckdb") == feed.windows(30, 10, but=too_late)
    assert find_revision_gaps(tmp_path / "out.duckdb") == []
    progress = json.loads((tmp_path / "figures").read_text())
    assert progress["counts"]["seen"] == feed.ids
    assert progress["adds_up"]


def test_who_asked_for_a_number_changes_it_there(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1))
    windows = mt.windowed(feed.stream(spark), key="key", time="at", shards=2)
    counted = windows.tumbling("10 seconds").agg(n=mt.count())
    running = counted.start(checkpoint=str(tmp_path / "state"))
    try:
        with pytest.raises(mt.OptionError, match=r"start it with another shards="):
            running.rescale(3)
        assert running.is_active
    finally:
        running.stop()
