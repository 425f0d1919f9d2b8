"""Begins a query on Spark from the seed of one that the local host has run.

The seed's state is written as that of the batch which the local host committed last, in a folder
below the checkpoint, and read back. It counts when one file marks it as complete, and the seed is
then deleted. A crash before that file leaves the seed, and a start after it finds the state.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muntin.hosts.local.log_contents import PlannedBatch
from muntin.hosts.progress import Progress
from muntin.hosts.seed import BLOBS, FACTS, FOLDER, Seed, parse_seed
from muntin.model.errors import OptionError, SpecChangedError, StateCorruptedError
from muntin.model.facts import STORED_SHARDS
from muntin.sources.source import SourceOffsets
from muntin.spark.checkpoint_files import CheckedSpec, ProgressRecord
from muntin.spark.host.heartbeat import TICK_SOURCE as TICKS
from muntin.spark.host.heartbeat import make_tick_offset
from muntin.spark.host.internals.checkpoints import (
    FilesRead,
    begin_at,
    find_newest_batch,
    next_home,
    replace_home,
    write_files_read,
)
from muntin.spark.host.internals.hadoop_path import HadoopPath
from muntin.spark.host.internals.plans import list_streams
from muntin.spark.query_end import describe_changed_chain
from muntin.spark.rescale import write_state
from muntin.spark.sources.kafka_rows import KAFKA_SOURCE as KAFKA
from muntin.state.manifest import Manifest, parse_manifest

_LOG = logging.getLogger(__name__)
# The names of Spark's own sources in its plans: of the Kafka connector and of files.
_CONNECTOR, _FILES = "kafka", "FileSource["


def has_seed(spark: SparkSession, checkpoint: str) -> bool:
    """Return whether a checkpoint has a seed, which no query was started from."""
    return HadoopPath(spark, f"{checkpoint}/{FOLDER}").exists()


def refuse_seed(spark: SparkSession, checkpoint: str) -> None:
    """Refuse a checkpoint of windows or a join that was moved, for a query of another kind."""
    if has_seed(spark, checkpoint):
        raise SpecChangedError(
            f"{checkpoint} has windows or a join that was moved from the local host: start that "
            "query from it, or give this one a folder of its own"
        )


def plant_seed(
    spark: SparkSession,
    checkpoint: str,
    emitted: DataFrame,
    specs: Sequence[CheckedSpec],
    partitions: int,
) -> None:
    """Write the state of a checkpoint's seed, if it has one, and delete the seed.

    ``emitted`` is the output of the shards of the query that starts from it, ``specs`` are those of
    its operators, as Spark numbers them. A query with another spec or other sources is refused.
    """
    if not has_seed(spark, checkpoint):
        return
    folder = HadoopPath(spark, f"{checkpoint}/{FOLDER}")
    # The state counts already if a start was interrupted before it deleted the seed.
    if find_newest_batch(spark, checkpoint) is None:
        if not (folder / FACTS).exists():
            raise StateCorruptedError(
                f"{checkpoint}/{FOLDER} has no {FACTS}: copy the whole folder, or move the query "
                "again"
            )
        seed = parse_seed((folder / FACTS).read(), checkpoint)
        _check_specs(seed, specs)
        _plant(spark, checkpoint, seed, Streams.of(emitted, seed), specs, partitions)
    folder.delete()


def _check_specs(seed: Seed, specs: Sequence[CheckedSpec]) -> None:
    shards = seed.committed.shards
    if len(shards) != len(specs):
        raise describe_changed_chain(len(shards), len(specs))
    for operator, spec in enumerate(specs):
        written = parse_manifest(seed.committed.manifests[operator, 0]).spec
        spec.check_same({**written, STORED_SHARDS: spec.to_dict().get(STORED_SHARDS)})


def _plant(
    spark: SparkSession,
    checkpoint: str,
    seed: Seed,
    streams: Streams,
    specs: Sequence[CheckedSpec],
    partitions: int,
) -> None:
    batch, planned = seed.committed.number, seed.planned
    _LOG.info("%s: writing the state of batch %d, which was moved", checkpoint, batch)
    to = next_home(spark, checkpoint)
    path = f"{checkpoint}/{FOLDER}/{BLOBS}"
    chain = [SeededOperator(spark, path, n, seed) for n in range(len(seed.committed.shards))]
    counts = [spec.to_dict().get(STORED_SHARDS) or 1 for spec in specs]
    clock = max((m.wall for one in chain for m in one.shards if m.wall is not None), default=0)
    batches = [PlannedBatch(batch, clock, seed.committed.ends)]
    if planned is not None:
        # A tick that doesn't pass the last one wouldn't be in the batch.
        wall = max(clock + 1, planned.now if planned.wall is None else planned.wall)
        batches.append(replace(planned, wall=wall))

    def give_progress() -> None:
        ends = {
            one.number: (one.now, streams.lines(batches[: count + 1]))
            for count, one in enumerate(batches)
        }
        begin_at(spark, to, seed.identity, batch, ends)
        streams.write_files(spark, to, batches)

    write_state(spark, chain, to, counts, partitions, batch, give_progress)
    # Written first, the figures count only together with the state.
    ProgressRecord(spark, checkpoint, specs).write(Progress.from_dict(seed.committed.progress))
    replace_home(spark, checkpoint, to)


@dataclass(frozen=True)
class SeededOperator:
    """The state of one operator in a seed; implements `OperatorState`.

    Attributes:
        path: The file of blobs.
        operator: The number of the operator, counted from the last one.
    """

    spark: SparkSession
    path: str
    operator: int
    seed: Seed

    @property
    def shards(self) -> list[Manifest]:
        """The manifests in the order of the shards."""
        done = self.seed.committed
        shards = range(done.shards[self.operator])
        return [parse_manifest(done.manifests[self.operator, shard]) for shard in shards]

    def state(self) -> DataFrame:
        """Return the numbers and blobs of the whole state."""
        rows = self.spark.read.parquet(self.path).where(F.col("operator") == self.operator)
        return rows.select("number", "blob")


@dataclass(frozen=True)
class Streams:
    """The streams that a query on Spark reads, beside the sources of the query that was moved.

    Attributes:
        names: The name and the number of each stream, in the order of Spark's offsets.
        sources: By position of a stream, the position of its source; ticks have none.
    """

    names: Sequence[tuple[str, int]]
    sources: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, emitted: DataFrame, seed: Seed) -> Streams:
        """Match the streams of a query with the sources of a seed, in their order."""
        names, ends = list_streams(emitted), seed.committed.ends
        own = [position for position, (name, _) in enumerate(names) if name != TICKS]
        if len(own) != len(ends):
            raise SpecChangedError(
                f"the query that was moved reads {len(ends)} sources, and this query reads "
                f"{len(own)}: start the query that was moved"
            )
        for position, (source, end) in zip(own, enumerate(ends, 1), strict=True):
            name = names[position][0]
            reads_files = name.startswith(_FILES)
            if not reads_files and not (name == _CONNECTOR or name.startswith(KAFKA)):
                hint = "read topics of Kafka or files"
                problem = "can't continue from the offsets of a source that was moved"
                raise OptionError("source", name, problem, hint)
            if reads_files != ("recent" in end):
                was = "files" if "recent" in end else "Kafka"
                raise SpecChangedError(
                    f"source {source} of the query that was moved reads {was}, and that of this "
                    f"query is {name}: start the query that was moved"
                )
        return cls(names, {position: n for n, position in enumerate(own)})

    def lines(self, batches: Sequence[PlannedBatch]) -> list[str]:
        """Return the end offsets of the last of some batches, as Spark stores them."""
        batch, lines = batches[-1], []
        for position, (name, _) in enumerate(self.names):
            if position not in self.sources:
                tick = batch.now if batch.wall is None else batch.wall
                lines.append(json.dumps(make_tick_offset(tick, ends_run=batch.ends_run)))
            elif name.startswith(_FILES):
                logs = _list_files_read(batches, self.sources[position])
                lines.append(json.dumps({"logOffset": len(logs) - 1}) if logs else "-")
            else:
                end = batch.ends[self.sources[position]]
                # The first range of the local host also has its start.
                own = {n: value for n, value in end.items() if n != "from"} | {"now": batch.now}
                lines.append(json.dumps(end["ends"] if name == _CONNECTOR else own))
        return lines

    def write_files(self, spark: SparkSession, home: str, batches: Sequence[PlannedBatch]) -> None:
        """Write the logs of the files that were read, in Spark's own files of the query."""
        for position, (name, number) in enumerate(self.names):
            if name.startswith(_FILES):
                logs = _list_files_read(batches, self.sources[position])
                write_files_read(spark, home, number, logs)


def _list_files_read(batches: Sequence[PlannedBatch], source: int) -> list[FilesRead]:
    """Return the files that batches have read of a source, for each batch that has read some."""
    logs: list[FilesRead] = []
    before: dict[str, Any] = {}
    for batch in batches:
        files: SourceOffsets = batch.ends[source]["recent"]
        new = [(path, files[path][0] // 1_000_000) for path in files.keys() - before.keys()]
        if new:
            logs.append(sorted(new))
        before = {**before, **files}
    return logs
