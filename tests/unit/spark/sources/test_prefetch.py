"""Tests of frames of the next batch: used when they are stored, otherwise read again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
import pyarrow as pa
import pytest

from muntin.engine.admission import Flags
from muntin.spark.sources import prefetch
from muntin.spark.sources.kafka_task import RANGES, RangeReader
from muntin.spark.sources.prefetch import PrefetchFolder

RANGE = ["run", ["orders", 0, 0, 30]]


class Source:
    """Frames of ten rows, of which only the first ones may be readable."""

    def __init__(self, frames: int = 3, readable: int = 3) -> None:
        self.frames, self.readable, self.reads = frames, readable, 0
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self) -> Iterator[pl.DataFrame]:
        self.reads += 1
        for number in range(self.frames):
            if number == self.readable:
                assert self.may_end.wait(10)
                raise OSError("the broker is away")
            yield pl.DataFrame({"row": range(10 * number, 10 * number + 10), "text": "é"})


@pytest.fixture
def folder(tmp_path: Path) -> PrefetchFolder:
    return PrefetchFolder(tmp_path / "frames")


def list_rows(frames: Iterator[pl.DataFrame]) -> list[int]:
    return [row for frame in frames for row in frame["row"]]


def wait_until_stored(folder: PrefetchFolder) -> None:
    deadline = time.monotonic() + 10
    while any(map(prefetch._is_locked, folder.folder.iterdir())):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_task_takes_stored_frames(folder: PrefetchFolder) -> None:
    before, task = Source(), Source()
    folder.begin(RANGE, before)
    assert list_rows(folder.take(RANGE, task)) == [*range(30)]
    assert (before.reads, task.reads) == (1, 0)
    assert not [*folder.folder.iterdir()]


def test_a_task_reads_what_nobody_has_stored(folder: PrefetchFolder) -> None:
    folder.begin(RANGE, Source())
    task = Source()
    assert list_rows(folder.take(["run", ["orders", 0, 30, 60]], task)) == [*range(30)]
    assert task.reads == 1


def test_a_task_reads_on_where_a_worker_has_failed(folder: PrefetchFolder) -> None:
    folder.begin(RANGE, Source(readable=2))
    task = Source()
    assert list_rows(folder.take(RANGE, task)) == [*range(30)]
    assert task.reads == 1


def test_an_error_of_the_source_is_raised_by_the_task(folder: PrefetchFolder) -> None:
    folder.begin(RANGE, Source(readable=1))
    with pytest.raises(OSError, match="the broker is away"):
        list_rows(folder.take(RANGE, Source(readable=1)))


def test_a_task_reads_on_where_a_worker_is_stuck(folder: PrefetchFolder) -> None:
    stuck, task = Source(readable=1), Source()
    stuck.may_end.clear()
    folder.begin(RANGE, stuck)
    with mock.patch.object(prefetch, "_PATIENCE", 0.05):
        assert list_rows(folder.take(RANGE, task)) == [*range(30)]
    stuck.may_end.set()
    assert task.reads == 1


def test_two_copies_of_a_task_both_get_all_rows(folder: PrefetchFolder) -> None:
    folder.begin(RANGE, Source())
    wait_until_stored(folder)
    first, second = folder.take(RANGE, Source()), folder.take(RANGE, Source())
    rows: list[list[int]] = [[], []]
    for _ in range(3):
        for copy, frames in enumerate((first, second)):
            rows[copy] += list_rows(iter([next(frames, pl.DataFrame({"row": []}))]))
    for copy, frames in enumerate((first, second)):
        rows[copy] += list_rows(frames)
    assert rows == [[*range(30)], [*range(30)]]


def test_a_folder_that_cant_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = PrefetchFolder(tmp_path / "file")
    folder.begin(RANGE, Source())
    assert list_rows(folder.take(RANGE, Source())) == [*range(30)]


def test_frames_that_nobody_takes_are_deleted(folder: PrefetchFolder) -> None:
    folder.begin(RANGE, Source())
    wait_until_stored(folder)
    (path,) = folder.folder.iterdir()
    folder.begin(["run", ["orders", 0, 30, 60]], Source())
    assert path.exists()
    os.utime(path, (0, 0))
    folder.begin(["run", ["orders", 0, 60, 90]], Source())
    assert not path.exists()


class Columns:
    """Reads rows with the offsets of ranges, as a `KafkaReader` does."""

    flags = Flags(None, None, stamped=True)
    client, patience, has_partition_names = {"bootstrap.servers": "h:1"}, 1.0, True

    def __init__(self) -> None:
        self.reads: list[int] = []

    def read(self, ranges: Sequence[Any], watch: Any) -> Iterator[pl.DataFrame]:
        for each in ranges:
            self.reads.append(each.start)
            yield pl.DataFrame({"offset": range(each.start, each.end)})


def make_task(*ranges: tuple[int, int, bool]) -> Iterator[pa.RecordBatch]:
    """Return a task's rows: the start and end of ranges, and whether the next batch has them."""
    rows = [("orders", 0, start, end, 7, None, True, "run", later) for start, end, later in ranges]
    arrays = [pa.array(v, f.type) for v, f in zip(zip(*rows, strict=True), RANGES, strict=True)]
    return iter([pa.RecordBatch.from_arrays(arrays, schema=RANGES)])


def test_a_worker_reads_the_next_batch_after_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    before, after = Columns(), Columns()
    (frame,) = RangeReader(before)(make_task((0, 5, False), (5, 9, True)))  # type: ignore[arg-type]
    assert frame["offset"].to_list() == [*range(5)]
    wait_until_stored(PrefetchFolder(tmp_path / "muntin-prefetch"))
    assert before.reads == [0, 5]
    (frame,) = RangeReader(after)(make_task((5, 9, False)))  # type: ignore[arg-type]
    assert (frame["offset"].to_list(), frame["__muntin_now"].to_list()) == ([5, 6, 7, 8], [7] * 4)
    assert not after.reads


def test_ranges_of_the_next_batch_are_no_backlog_of_this_one() -> None:
    (batch,) = make_task((0, 5, False), (5, 9, True))
    assert RangeReader(Columns()).backlog(batch) == {"orders[0]": True}  # type: ignore[arg-type]
