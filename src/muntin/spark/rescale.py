"""A checkpoint written anew with another number of buckets, in its place or beside it.

Spark fixes the number of a query's state partitions when its checkpoint begins. So the state of one
batch is split anew and loaded by a query of one batch into a new checkpoint, which then gets the
old one's name, its place in the sources and the number of its last batch, by which sinks know what
they have. Nothing of it goes through the driver but manifests.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from muntin.engine.joins.division import JoinDivision
from muntin.engine.windows.division import WindowDivision
from muntin.model.errors import MuntinError, OptionError
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.internals.checkpoints import is_there, next_home, renumber, take_place
from muntin.spark.host.internals.hadoop_path import HadoopPath
from muntin.spark.host.internals.jvm import is_connected
from muntin.spark.host.packed import ShardProcessor
from muntin.spark.host.shards import partitioned, slots
from muntin.spark.host.state import MANIFEST, SparkBlobs
from muntin.state.blobs import missing_blob_error
from muntin.state.manifest import Manifest
from muntin.state.rescale import Division, build_manifests, split_blob
from muntin.tables.division import TableDivision

Divide = Callable[[Sequence[Manifest]], Division]
"""Makes the division of a kind of query out of the manifests of its shards."""
_DIVISIONS: dict[str, Divide] = {
    "windows": WindowDivision,
    "join": JoinDivision,
    "tables": TableDivision,
}
_LOG = logging.getLogger(__name__)
_MOVED = "old long, bucket int, number long, rows long, blob binary"
_LOADED = "operator int, slot int, number long, blob binary"


def _loaded(operator: int, blobs: SparkBlobs, key: Any, rows: Iterator[Any]) -> Iterator[Any]:
    """Write the blobs of one operator into the state of their bucket, and pass on the others."""
    for row in rows:
        if row["operator"] != operator:
            yield row
        elif row["number"] == MANIFEST:
            blobs.save(bytes(row["blob"]).decode())
        else:
            blobs.put(row["number"], bytes(row["blob"]))


def rescale(
    spark: SparkSession,
    checkpoint: str,
    *,
    buckets: int,
    to: str,
    batch: int | None = None,
    more: Mapping[str, Divide] | None = None,
) -> Checkpoint:
    """Write a checkpoint from which a query goes on with another number of buckets.

    The old checkpoint stays as it is. Stop its query first: what it does after the batch that is
    taken isn't in the new one. A batch that was begun after the newest and not ended is repeated
    from the new checkpoint with the same input: sinks may have got it already.

    Args:
        spark: The session.
        checkpoint: The folder of a query, on a disk or in an object store.
        buckets: How many there are to be; a query that is started without
            ``buckets=`` takes it from there.
        to: A folder that isn't there yet.
        batch: The batch that is taken; the newest one where it isn't given.
        more: How the state of other kinds of queries than muntin's own is divided, by kind.

    Raises:
        OptionError: When the state can't be partitioned, or a folder can't be what is asked for.
    """
    if is_there(spark, to):
        raise OptionError("to", to, "is there already", "give a folder that isn't")
    return _write(Checkpoint(spark, checkpoint, batch), to, buckets, more)


def rescale_in_place(
    spark: SparkSession, checkpoint: str, buckets: int, more: Mapping[str, Divide] | None = None
) -> None:
    """Let a query that is stopped go on from the same folder with another number of buckets.

    Its state is written anew below the folder and read back; from one file on that counts, and the
    state that it had is deleted. Cut off before that file, nothing has changed.
    """
    began = time.monotonic()
    opened = Checkpoint(spark, checkpoint)
    _LOG.info("%s: moving %d shards into %d", checkpoint, len(opened.read), buckets)
    to = next_home(spark, checkpoint)
    _write(opened, to, buckets, more)
    take_place(spark, checkpoint, to)
    _LOG.info("%s: moved in %.1f s", checkpoint, time.monotonic() - began)


def fit_checkpoint(
    spark: SparkSession,
    checkpoint: str,
    known: int | None,
    buckets: int,
    more: Mapping[str, Divide] | None = None,
) -> None:
    """Give a checkpoint as many buckets as the query has that is to be started from it.

    Args:
        spark: The session.
        checkpoint: The folder of a query, that may not be there yet.
        known: How many partitions it has, as ``remembered`` says.
        buckets: How many the query has.
        more: As of ``rescale``.
    """
    # Over Spark Connect the query itself refuses another number.
    if known in (None, buckets) or is_connected(spark):
        return
    try:
        found = len(Checkpoint(spark, checkpoint).read)
    except MuntinError:
        return  # Its first batch isn't done, or it isn't ours: the query's start says so.
    # Partitions that aren't ours may be more, where the query was started as a DataFrame.
    if found != buckets:
        rescale_in_place(spark, checkpoint, buckets, more)


def _write(
    opened: Checkpoint, to: str, buckets: int, more: Mapping[str, Divide] | None
) -> Checkpoint:
    """Write a batch's state as a new checkpoint, and read it back."""
    if buckets < 1:
        raise OptionError("buckets", buckets, "is less than one", "give 1 or more")
    spark, operators = opened.spark, range(opened.operators)
    chain = [Checkpoint(spark, opened.given, opened.batch, number) for number in operators]
    divisions = [division_of(one.shards, more) for one in chain]
    waiting = f"{to}.moving"
    try:
        texts = [
            _part(one, division, waiting, buckets)
            for one, division in zip(chain, divisions, strict=True)
        ]
        _load(spark, waiting, to, buckets, len(chain))
        # What an older batch was followed by is to be planned anew.
        begun = [opened.batch + 1] if opened.batch == opened.newest else []
        renumber(spark, opened.path, to, opened.batch, begun, buckets)
        made = [Checkpoint(spark, to, operator=number) for number in operators]
        for one, written in zip(made, texts, strict=True):
            if one.batch != opened.batch or one.manifests != written:
                raise MuntinError("the new checkpoint doesn't read back as it was written")
            there = one.sizes()
            for slot, manifest in one.read.items():
                for blob in (blob for run in manifest.runs() for blob in run.blobs):
                    if blob not in there[slot]:
                        raise missing_blob_error(blob)
    except BaseException:
        HadoopPath(spark, to).delete()
        raise
    finally:
        HadoopPath(spark, waiting).delete()
    return made[0]


def division_of(
    manifests: Sequence[Manifest], more: Mapping[str, Divide] | None = None
) -> Division:
    """How the state of a query is divided."""
    kind, known = manifests[0].kind, {**_DIVISIONS, **(more or {})}
    if kind not in known:
        hint = "write muntin rescale, which knows how to"
        raise OptionError("CHECKPOINT", kind, "isn't divided here", hint)
    return known[kind](manifests)


def _part(opened: Checkpoint, division: Division, waiting: str, buckets: int) -> dict[int, str]:
    """Write all blobs partitioned anew, and the new manifests; returns those by slot."""
    manifests = opened.shards

    def by_shard(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = zip(batch["number"].to_pylist(), batch["blob"].to_pylist(), strict=True)
            for old, blob in rows:
                for bucket, count, part in split_blob(old, blob, division, buckets):
                    yield _row(old, bucket, secrets.randbits(62), count, part)

    runs = opened.state().where(F.col("number") != MANIFEST).select("number", "blob")
    spark, blobs = opened.spark, f"{waiting}/parts-{opened.operator}"
    runs.mapInArrow(by_shard, _MOVED).write.parquet(blobs)
    moved: dict[int, dict[int, tuple[int, int]]] = {}
    parts_of = spark.read.schema(_MOVED).parquet(blobs)
    for row in parts_of.drop("blob").collect():
        moved.setdefault(row["old"], {})[row["bucket"]] = (row["number"], row["rows"])
    texts = dict(
        zip(slots(buckets), build_manifests(manifests, moved, buckets, division), strict=True)
    )
    by_bucket = F.array(*(F.lit(slot) for slot in slots(buckets)))
    operator, slot = F.lit(opened.operator).alias("operator"), by_bucket[F.col("bucket")]
    loaded = parts_of.select(operator, slot.alias("slot"), "number", "blob")
    rows = [(opened.operator, to, MANIFEST, text.encode()) for to, text in texts.items()]
    whole = loaded.unionByName(spark.createDataFrame(rows, _LOADED))
    whole.write.mode("append").parquet(f"{waiting}/loaded")
    return texts


def _row(*values: Any) -> pa.RecordBatch:
    """One row of ``_MOVED``."""
    types = (pa.int64(), pa.int32(), pa.int64(), pa.int64(), pa.binary())
    arrays = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=["old", "bucket", "number", "rows", "blob"])


def _load(spark: SparkSession, waiting: str, folder: str, buckets: int, operators: int) -> None:
    """Let a query of one batch write the state, with a partition for each bucket."""
    with partitioned(spark, buckets):
        rows = spark.readStream.schema(_LOADED).parquet(f"{waiting}/loaded")
        # Spark counts the operators from the last.
        for operator in reversed(range(operators)):
            load = ShardProcessor(partial(_loaded, operator))
            rows = rows.groupBy("slot").transformWithState(
                load, _LOADED, outputMode="append", timeMode="None"
            )
        writer = rows.writeStream.format("noop").outputMode("append")
        writer = writer.option("checkpointLocation", folder).trigger(availableNow=True)
        query = writer.start()
    query.awaitTermination()
