"""Reads a checkpoint of Spark after one committed batch: the manifests and blobs of its shards.

It only uses Spark's own readers of state (``state-metadata`` and ``statestore``). So it doesn't
disturb a running query, and works on every file system that Spark supports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BooleanType, StructField, StructType

from muntin.engine.state_reader import StateReader
from muntin.hosts.inspect.snapshot import ShardBlobs, StateSnapshot, StateView
from muntin.hosts.leases import FILE
from muntin.model.errors import OptionError
from muntin.spark.host.internals.checkpoints import find_home
from muntin.spark.host.internals.hadoop_path import HadoopPath
from muntin.spark.host.internals.jvm import is_connected
from muntin.spark.host.internals.versions import enable_state_readers, make_arrow_schema
from muntin.spark.host.schema import result_schema, to_batch
from muntin.spark.host.shards import slots
from muntin.spark.host.state import MANIFEST
from muntin.state.blobs import missing_blob_error
from muntin.state.manifest import Manifest, parse_manifest

VARIABLE = "blobs"
"""The state variable in which operators keep their blobs."""
_OPERATOR = "transformWithState"
_COLUMNS = ("key.slot", "user_map_key.number", "user_map_value.blob")
_START_HINT = "give the folder that start(checkpoint=…) got, after its first batch"
_NAME_HINT = (
    "; Spark can't read state in a folder with a space or % in its name: copy it to another folder"
)


class Checkpoint(StateSnapshot):
    """A query's checkpoint on Spark at one batch.

    Args:
        path: The folder of the query, which may be running.
        batch: The number of a committed batch; by default the newest one.
        operator: The number of an operator with state, counted from the last one.

    Raises:
        OptionError: When the folder isn't a checkpoint of muntin, or the batch isn't kept.

    Attributes:
        path: The folder with Spark's own files, which isn't the checkpoint of a rescaled query.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str | PathLike[str],
        batch: int | None = None,
        operator: int = 0,
    ) -> None:
        path = fspath(path)
        enable_state_readers(spark)
        self.spark = spark
        self.operator = operator
        self.folder = path
        self.path = find_home(spark, path if "://" in path else str(PurePath(path)))
        self.operators, self.oldest, self.newest = self._read_metadata()
        if not 0 <= operator < self.operators:
            problem = f"isn't one of the {self.operators} operators that keep state in this query"
            raise OptionError("operator", operator, problem, "count from the last one, which is 0")
        self.batch = self.newest if batch is None else self.check_batch("batch", batch)

    def _read_metadata(self) -> tuple[int, int, int]:
        try:
            rows = self.spark.read.format("state-metadata").load(self.path).collect()
        except PySparkException as error:
            raise self._make_error(_first_line(error)) from error
        state_rows = [row for row in rows if row["operatorName"].startswith(_OPERATOR)]
        operators = [
            row for row in state_rows if f'"{VARIABLE}"' in (row["operatorProperties"] or "")
        ]
        if not operators:
            problem = "no state at all" if not rows else "no state of muntin's"
            raise self._make_error(problem)
        oldest, newest = operators[0]["minBatchId"], operators[0]["maxBatchId"]
        if newest is None or newest < 0:
            raise self._make_error("no batch has been committed")
        return len(operators), max(0, oldest), newest

    def _make_error(self, problem: str) -> OptionError:
        # Spark's reader of state looks for such a folder under its URL-encoded name.
        hint = _START_HINT + _NAME_HINT if {" ", "%"} & {*self.path} else _START_HINT
        return OptionError("CHECKPOINT", self.folder, f"holds no windows ({problem})", hint)

    def check_batch(self, option: str, batch: int) -> int:
        if not self.oldest <= batch <= self.newest:
            problem = f"isn't kept: there are batches {self.oldest} to {self.newest}"
            hint = "give one of them; spark.sql.streaming.minBatchesToRetain says how many are kept"
            raise OptionError(option, batch, problem, hint)
        return batch

    def _load(self, **options: Any) -> DataFrame:
        reader = self.spark.read.format("statestore").options(**options)
        reader = reader.options(stateVarName=VARIABLE, operatorId=self.operator)
        return reader.load(self.path).select(*_COLUMNS)

    def state(self, batch: int | None = None) -> DataFrame:
        """Return the slots, numbers and blobs of the whole state."""
        try:
            return self._load(batchId=self.batch if batch is None else batch)
        except PySparkException as error:
            raise self._make_error(_first_line(error)) from error

    def read_manifests(self, batch: int | None = None) -> dict[int, str]:
        try:
            rows = self.state(batch).where(F.col("number") == MANIFEST).collect()
        except PySparkException as error:
            chosen = self.batch if batch is None else batch
            problem = f"can't be read any more ({_first_line(error)})"
            raise OptionError("batch", chosen, problem, "give a later one") from error
        if not rows:
            raise self._make_error("its first batch isn't done")
        return {row["slot"]: bytes(row["blob"]).decode() for row in rows}

    @property
    def shards(self) -> list[Manifest]:
        """The manifests in the order of the shards."""
        slots_in_order = slots(len(self.manifest_by_shard))
        if set(slots_in_order) != self.manifest_by_shard.keys():
            hint = "wait until its first batch is done"
            raise OptionError("CHECKPOINT", self.folder, "isn't whole yet", hint)
        return [self.manifest_by_shard[slot] for slot in slots_in_order]

    def read_blobs(
        self, wanted: Mapping[int, Sequence[int]], batch: int | None = None
    ) -> ShardBlobs:
        blobs_by_slot: ShardBlobs = {slot: {} for slot in wanted}
        numbers_wanted = [n for numbers in wanted.values() for n in numbers]
        if not numbers_wanted:
            return blobs_by_slot
        is_wanted_slot = F.col("slot").isin([s for s, n in wanted.items() if n])
        # Numbers are drawn at random, so each belongs to one slot.
        for row in (
            self.state(batch).where(is_wanted_slot & F.col("number").isin(numbers_wanted)).collect()
        ):
            blobs_by_slot[row["slot"]][row["number"]] = bytes(row["blob"])
        for slot, numbers in wanted.items():
            for number in set(numbers) - blobs_by_slot[slot].keys():
                raise missing_blob_error(number)
        return blobs_by_slot

    def read_lease(self) -> str | None:
        if is_connected(self.spark):
            return None
        lease = HadoopPath(self.spark, self.folder) / FILE
        return lease.read() if lease.exists() else None

    def measure_blobs(self) -> dict[int, dict[int, int]]:
        sizes_by_slot: dict[int, dict[int, int]] = {slot: {} for slot in self.manifest_by_shard}
        size = F.length("blob").alias("size")
        written = self.state().where(F.col("number") != MANIFEST)
        for row in written.select("slot", "number", size).collect():
            sizes_by_slot[row["slot"]][row["number"]] = row["size"]
        return sizes_by_slot

    def read_written_since(self, since: int) -> dict[int, list[bytes]]:
        blobs_by_slot: dict[int, list[bytes]] = {}
        until = {"changeStartBatchId": since + 1, "changeEndBatchId": self.batch}
        try:
            frame = self._load(readChangeFeed=True, **until)
            written = frame.where((F.col("number") != MANIFEST) & F.col("blob").isNotNull())
            for row in written.collect():
                blobs_by_slot.setdefault(row["slot"], []).append(bytes(row["blob"]))
        except PySparkException as error:
            hint = "start the query with changelog checkpointing, as muntin.session() does"
            problem = f"has no change feed ({_first_line(error)})"
            raise OptionError("CHECKPOINT", self.folder, problem, hint) from error
        return blobs_by_slot

    def number_shards(self, count: int) -> Sequence[int]:
        return slots(count)

    def window_schema(self, reader: StateReader) -> StructType:
        empty = pl.DataFrame(schema=reader.types)
        whole = result_schema(from_arrow_schema(empty.to_arrow().schema), reader.combiner)
        return StructType(whole.fields[:-2])

    def message_schema(self, types: Mapping[str, pl.DataType], flag: str) -> StructType:
        fields = from_arrow_schema(pl.DataFrame(schema=types).to_arrow().schema).fields
        return StructType([*fields, StructField(flag, BooleanType(), False)])

    def fit_to_schema(self, rows: pl.DataFrame, schema: StructType) -> pl.DataFrame:
        frame = pl.from_arrow(_to_arrow(rows, schema))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def frame(self, view: StateView) -> DataFrame:
        texts, schema = self.select_manifests(view), view.schema
        numbers = [n for text in texts.values() for n in view.list_blobs(parse_manifest(text))]
        wanted = F.col("slot").isin(list(texts)) & F.col("number").isin([MANIFEST, *numbers])

        def rows_of(table: pa.Table) -> pa.Table:
            rows = zip(table["number"].to_pylist(), table["blob"].to_pylist(), strict=True)
            blobs = dict(rows)
            return _to_arrow(view.read_rows(blobs.pop(MANIFEST).decode(), blobs), schema)

        return self.state().where(wanted).groupBy("slot").applyInArrow(rows_of, schema)


def _to_arrow(rows: pl.DataFrame, schema: StructType) -> pa.Table:
    return pa.Table.from_batches([to_batch(rows, make_arrow_schema(schema))])


def _first_line(error: PySparkException) -> str:
    return str(error).strip().splitlines()[0][:120]
