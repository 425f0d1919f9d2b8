"""Rescales checkpoints of Spark: writes their state into another number of shards.

Spark fixes the number of a query's state partitions when its checkpoint begins. So the state of one
batch is split by the new shards, and a query of one batch loads it into a new checkpoint. That
checkpoint then gets the old one's identity, source offsets and batch number, by which sinks
recognize repeated batches. Only manifests go through the driver.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muntin.hosts.local.rescale import DIVISIONS
from muntin.model.errors import MuntinError, OptionError
from muntin.model.option_types import check_shards
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.internals.checkpoints import next_home, path_exists, renumber, replace_home
from muntin.spark.host.internals.hadoop_path import HadoopPath
from muntin.spark.host.internals.jvm import is_connected
from muntin.spark.host.packed import ShardProcessor
from muntin.spark.host.shards import slots, use_partitions
from muntin.spark.host.state import MANIFEST, SparkBlobs
from muntin.state.blobs import missing_blob_error
from muntin.state.manifest import Manifest
from muntin.state.rescale import Division, build_manifests, split_blob
from muntin.tables.division import TableDivision

_DIVISIONS = {**DIVISIONS, "tables": TableDivision}
_LOG = logging.getLogger(__name__)
_SPLIT_SCHEMA = "old long, shard int, number long, rows long, size long, blob binary"
_LOAD_SCHEMA = "operator int, slot int, number long, blob binary"


def _load_blobs(operator: int, blobs: SparkBlobs, key: Any, rows: Iterator[Any]) -> Iterator[Any]:
    """Write the blobs of one operator into the state of their shard, and yield all other rows."""
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
    shards: int,
    to: str,
    batch: int | None = None,
) -> Checkpoint:
    """Write a checkpoint from which a query continues with another number of shards.

    The old checkpoint stays unchanged. Stop its query first: the new checkpoint has the state as of
    ``batch``, the newest by default, and nothing of later batches. A batch that began and didn't
    end is repeated from the new checkpoint with the same input, since sinks may already have it.
    The folder ``to`` must not exist.
    """
    if path_exists(spark, to):
        raise OptionError("to", to, "exists already", "give a new folder")
    return _write(_open_chain(Checkpoint(spark, checkpoint, batch)), to, shards)


def rescale_in_place(spark: SparkSession, checkpoint: str, shards: int) -> None:
    """Change the number of shards of a stopped query, in its own folder.

    The new state is written below the folder and read back. Then one file marks it as complete, and
    the old state is deleted. An interruption before that file is written changes nothing.
    """
    opened = Checkpoint(spark, checkpoint)
    _LOG.info("%s: moving %d shards into %d", checkpoint, len(opened.manifest_by_shard), shards)
    rewrite_in_place(_open_chain(opened), shards)


def rewrite_in_place(chain: Sequence[Checkpoint], shards: int) -> None:
    """Write the state of a stopped query into new shards, and have the query continue from it.

    ``chain`` has the state of each operator at the newest batch, the last one first.
    """
    began = time.monotonic()
    spark, checkpoint = chain[0].spark, chain[0].folder
    to = next_home(spark, checkpoint)
    _write(chain, to, shards)
    replace_home(spark, checkpoint, to)
    _LOG.info("%s: moved in %.1f s", checkpoint, time.monotonic() - began)


def fit_checkpoint(
    spark: SparkSession, checkpoint: str, stored_shards: int | None, shards: int
) -> None:
    """Rescale a checkpoint if the query that starts from it has another number of shards.

    ``stored_shards`` is the result of ``read_stored_shards``.
    """
    # Over Spark Connect the query itself refuses another number.
    if stored_shards in (None, shards) or is_connected(spark):
        return
    try:
        state_shards = len(Checkpoint(spark, checkpoint).manifest_by_shard)
    except MuntinError:
        return  # It has no batch yet, or isn't of muntin: the start of the query reports that.
    # A query that was started as a DataFrame may have more partitions of Spark than shards.
    if state_shards != shards:
        rescale_in_place(spark, checkpoint, shards)


def _open_chain(opened: Checkpoint) -> list[Checkpoint]:
    """Open the operators of a query at one batch."""
    operators = range(opened.operators)
    return [Checkpoint(opened.spark, opened.folder, opened.batch, number) for number in operators]


def _write(chain: Sequence[Checkpoint], to: str, shards: int) -> Checkpoint:
    """Write a batch's state as a new checkpoint, and read it back."""
    check_shards(shards)
    opened, spark = chain[0], chain[0].spark
    # From an older batch on, the following batches are planned again, not repeated.
    repeated_batches = [opened.batch + 1] if opened.batch == opened.newest else []

    def write_progress() -> None:
        renumber(spark, opened.path, to, opened.batch, repeated_batches, shards)

    counts = [shards] * len(chain)
    return write_state(spark, chain, to, counts, shards, opened.batch, write_progress)


class OperatorState(Protocol):
    """The state of one operator of a query, wherever it is stored."""

    @property
    def operator(self) -> int:
        """The number of the operator, counted from the last one."""

    @property
    def shards(self) -> list[Manifest]:
        """The manifests in the order of the shards."""

    def state(self) -> DataFrame:
        """Return the numbers and blobs of the whole state; the manifest may be among them."""


def write_state(
    spark: SparkSession,
    chain: Sequence[OperatorState],
    to: str,
    counts: Sequence[int],
    partitions: int,
    batch: int,
    write_progress: Callable[[], None],
) -> Checkpoint:
    """Write the state of a query as a new checkpoint of Spark, and read it back.

    ``chain`` and ``counts`` have the state and the shards of each operator, the last one first; all
    share Spark's ``partitions``. An error deletes the new folder ``to``. ``write_progress`` gives
    the checkpoint its identity, source offsets and batch number.
    """
    divisions = [choose_division(one.shards) for one in chain]
    staging = f"{to}.moving"
    try:
        texts = [
            _split_state(spark, one, division, staging, count)
            for one, division, count in zip(chain, divisions, counts, strict=True)
        ]
        _run_load(spark, staging, to, partitions, len(chain))
        write_progress()
        checkpoints = [Checkpoint(spark, to, operator=number) for number in range(len(chain))]
        for one, written in zip(checkpoints, texts, strict=True):
            _check_written(one, batch, written)
    except BaseException:
        HadoopPath(spark, to).delete()
        raise
    finally:
        HadoopPath(spark, staging).delete()
    return checkpoints[0]


def _check_written(opened: Checkpoint, batch: int, written: Mapping[int, str]) -> None:
    """Check that an operator's state reads back as it was written."""
    if opened.batch != batch or opened.manifests != written:
        raise MuntinError("the new checkpoint doesn't read back as it was written")
    sizes = opened.measure_blobs()
    for slot, manifest in opened.manifest_by_shard.items():
        for blob in (blob for run in manifest.runs() for blob in run.blobs):
            if blob not in sizes[slot]:
                raise missing_blob_error(blob)


def choose_division(manifests: Sequence[Manifest]) -> Division:
    """Return the division of a query's state, from the manifests of its shards."""
    kind = manifests[0].kind
    if kind not in _DIVISIONS:
        hint = "use the version that wrote it"
        raise OptionError(
            "CHECKPOINT", kind, "isn't a kind of state that this version divides", hint
        )
    return _DIVISIONS[kind](manifests)


def _split_state(
    spark: SparkSession, opened: OperatorState, division: Division, staging: str, shards: int
) -> dict[int, str]:
    """Write all blobs split by new shard, and the new manifests; return the manifests by slot."""
    manifests = opened.shards

    def by_shard(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = zip(batch["number"].to_pylist(), batch["blob"].to_pylist(), strict=True)
            for old, blob in rows:
                for shard, count, part in split_blob(old, blob, division, shards):
                    yield _to_batch(old, shard, secrets.randbits(62), count, len(part), part)

    runs = opened.state().where(F.col("number") != MANIFEST).select("number", "blob")
    blobs = f"{staging}/parts-{opened.operator}"
    runs.mapInArrow(by_shard, _SPLIT_SCHEMA).write.parquet(blobs)
    parts_by_blob: dict[int, dict[int, tuple[int, int, int]]] = {}
    parts_of = spark.read.schema(_SPLIT_SCHEMA).parquet(blobs)
    for row in parts_of.drop("blob").collect():
        part = row["number"], row["rows"], row["size"]
        parts_by_blob.setdefault(row["old"], {})[row["shard"]] = part
    texts = dict(
        zip(slots(shards), build_manifests(manifests, parts_by_blob, shards, division), strict=True)
    )
    new_slots = F.array(*(F.lit(slot) for slot in slots(shards)))
    operator, slot = F.lit(opened.operator).alias("operator"), new_slots[F.col("shard")]
    loaded = parts_of.select(operator, slot.alias("slot"), "number", "blob")
    rows = [(opened.operator, to, MANIFEST, text.encode()) for to, text in texts.items()]
    whole = loaded.unionByName(spark.createDataFrame(rows, _LOAD_SCHEMA))
    whole.write.mode("append").parquet(f"{staging}/loaded")
    return texts


def _to_batch(*values: Any) -> pa.RecordBatch:
    """Return a batch with one row of ``_SPLIT_SCHEMA``."""
    types = (pa.int64(), pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.binary())
    arrays = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
    return pa.RecordBatch.from_arrays(
        arrays, names=["old", "shard", "number", "rows", "size", "blob"]
    )


def _run_load(spark: SparkSession, staging: str, folder: str, shards: int, operators: int) -> None:
    """Run a query of one batch that writes the state, with a partition for each shard."""
    with use_partitions(spark, shards):
        rows = spark.readStream.schema(_LOAD_SCHEMA).parquet(f"{staging}/loaded")
        # Spark numbers operators from the last one.
        for operator in reversed(range(operators)):
            load = ShardProcessor(partial(_load_blobs, operator))
            rows = rows.groupBy("slot").transformWithState(
                load, _LOAD_SCHEMA, outputMode="append", timeMode="None"
            )
        writer = rows.writeStream.format("noop").outputMode("append")
        writer = writer.option("checkpointLocation", folder).trigger(availableNow=True)
        query = writer.start()
    query.awaitTermination()
