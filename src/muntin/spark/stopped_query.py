"""Reads a stopped query on Spark whole, so that it can move to the local host."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from muntin.hosts.local.log_contents import BlobKey, Commit, PlannedBatch
from muntin.hosts.local.move import refuse_kind
from muntin.hosts.seed import FOLDER, Seed
from muntin.model.errors import OptionError
from muntin.sources.source import SourceOffsets
from muntin.spark.checkpoint_files import ProgressRecord, acquire
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.heartbeat import parse_tick
from muntin.spark.host.internals.checkpoints import (
    find_home,
    read_files_read,
    read_offset_lines,
    read_query_id,
)
from muntin.spark.host.internals.hadoop_path import path_of
from muntin.spark.host.internals.jvm import is_connected
from muntin.spark.host.shards import slots
from muntin.spark.seeding import has_seed

_HINT = "read topics of Kafka or files of this machine, or begin there with a new checkpoint"


@contextmanager
def read_query(
    spark: SparkSession, folder: str
) -> Iterator[tuple[Seed, Iterator[tuple[BlobKey, bytes]]]]:
    """Read a stopped query on Spark, which can't start inside the context."""
    with open_stopped(spark, folder, "FROM", "move the checkpoint that it came from") as chain:
        for one in chain:
            refuse_kind(folder, one.any_manifest.kind)
        yield _read_seed(spark, folder, chain), _read_blobs(chain)


@contextmanager
def open_stopped(
    spark: SparkSession, folder: str, option: str, seed_hint: str
) -> Iterator[list[Checkpoint]]:
    """Open the operators of a stopped query, which can't start inside the context.

    ``option`` named the folder, for errors. ``seed_hint`` is the advice for a query that was moved
    to Spark and not started there.
    """
    if is_connected(spark):
        hint = "use a session with a JVM of its own"
        raise OptionError("spark", "Spark Connect", "can't read the files of a checkpoint", hint)
    if has_seed(spark, folder):
        problem = f"was moved to Spark and not started there (it has {FOLDER})"
        raise OptionError(option, folder, problem, seed_hint)
    newest = Checkpoint(spark, folder)
    lease = acquire(spark, folder)
    try:
        # A query may have ended meanwhile.
        newest = Checkpoint(spark, folder)
        yield [Checkpoint(spark, folder, newest.batch, n) for n in range(newest.operators)]
    finally:
        lease.release()


def _read_seed(spark: SparkSession, folder: str, chain: Sequence[Checkpoint]) -> Seed:
    batch = chain[0].batch
    planned_batch = _parse_batch(spark, folder, batch)
    manifests = {
        (number, shard): one.manifests[slot]
        for number, one in enumerate(chain)
        for shard, slot in enumerate(slots(len(one.shards)))
    }
    shards = tuple(len(one.shards) for one in chain)
    progress = ProgressRecord(spark, folder).progress_of(batch).to_dict()
    commit = Commit(batch, planned_batch.ends, False, progress, shards, manifests)
    is_planned = read_offset_lines(spark, folder, batch + 1)
    planned = _parse_batch(spark, folder, batch + 1, planned_batch.ends) if is_planned else None
    return Seed(read_query_id(spark, folder), commit, planned)


def _read_blobs(chain: Sequence[Checkpoint]) -> Iterator[tuple[BlobKey, bytes]]:
    """Yield the blobs that the manifests name, one shard after another."""
    for number, one in enumerate(chain):
        for shard, slot in enumerate(slots(len(one.shards))):
            numbers = [blob for run in one.manifest_by_shard[slot].runs() for blob in run.blobs]
            for blob_number, blob in one.read_blobs({slot: numbers})[slot].items():
                yield (number, shard, blob_number), blob


def _parse_batch(
    spark: SparkSession, folder: str, batch: int, before: Sequence[SourceOffsets] = ()
) -> PlannedBatch:
    """Return a batch that Spark has planned, as the local host stores it.

    ``before`` has the end offset of each source in the batch before, if its files matter.
    """
    _, head, *lines = read_offset_lines(spark, folder, batch)
    ticks = [tick for tick in map(parse_tick, lines) if tick is not None]
    own = [(n, line) for n, line in enumerate(lines) if parse_tick(line) is None]
    sources = [_Line(spark, folder, number, line) for number, line in own]
    ends = [one.parse(before[position] if before else None) for position, one in enumerate(sources)]
    stamps = [end.pop("now", 0) for end in ends]
    now = max(stamps, default=0) or int(json.loads(head)["batchTimestampMs"]) * 1000
    return PlannedBatch(
        batch,
        now,
        tuple(ends),
        ends_run=any(last for _, last in ticks),
        wall=max((tick for tick, _ in ticks), default=None),
    )


@dataclass(frozen=True)
class _Line:
    """The offset of a source in a checkpoint of Spark.

    Attributes:
        number: The number of the source.
    """

    spark: SparkSession
    folder: str
    number: int
    text: str

    def parse(self, before: SourceOffsets | None) -> dict[str, Any]:
        """Return the offset as the local host stores it; one of Kafka's also has its clock."""
        # A source of files without any file has no offset yet.
        offset = {"logOffset": -1} if self.text == "-" else json.loads(self.text)
        if isinstance(offset, dict) and "ends" in offset and "newest" in offset:
            return dict(offset)
        if isinstance(offset, dict) and "ends" in offset:
            return {**offset, "newest": offset["ends"]}
        if isinstance(offset, dict) and offset.keys() == {"logOffset"}:
            return self._parse_files(int(offset["logOffset"]), before)
        if isinstance(offset, dict) and offset and all(map(_has_partitions, offset.values())):
            return {"ends": offset, "ids": {}, "newest": offset}
        problem = f"reads a source that the local host doesn't have (with offset {self.text[:60]})"
        raise OptionError("FROM", self.folder, problem, _HINT)

    def _parse_files(self, last: int, before: SourceOffsets | None) -> dict[str, Any]:
        """Return the offset of a source of files, by the log of those that it has read."""
        files = read_files_read(self.spark, find_home(self.spark, self.folder), self.number)
        read = [(url, time) for number, url, time in files if number <= last]
        if last >= 0 and not read:
            problem = f"reads a source without a log of files (with offset {self.text[:60]})"
            raise OptionError("FROM", self.folder, problem, _HINT)
        recent = {}
        for url, time in read:
            path = path_of(self.spark, url)
            if path is None:
                problem = f"reads {url}, which isn't a file of this machine"
                raise OptionError("FROM", self.folder, problem, _HINT)
            recent[path] = _stat_file(path, time)
        new = [] if before is None else sorted(recent.keys() - before["recent"].keys())
        batch = [[path, recent[path][1]] for path in new]
        return {"oldest": [0, ""], "recent": recent, "batch": batch}


def _has_partitions(value: object) -> bool:
    """Return whether a value is a topic's partitions with their offsets."""
    return isinstance(value, dict) and all(
        name.isdigit() and isinstance(offset, int) for name, offset in value.items()
    )


def _stat_file(path: str, time: int) -> list[int]:
    """Return the time of modification, nanoseconds, and the size of a file that may be deleted."""
    try:
        status = os.stat(path)
    except OSError:
        return [time * 1_000_000, 0]
    return [status.st_mtime_ns, status.st_size]
