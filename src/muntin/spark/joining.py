"""A join on Spark: the workers part both sides by key, and one shard a bucket joins them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StringType, StructField, StructType

from muntin.engine import columns
from muntin.engine.buckets import split
from muntin.engine.codec import decode, encode
from muntin.engine.joiner import SIDE, Arrived, Joiner
from muntin.engine.offsets import Offsets, greatest_of
from muntin.engine.operator import join_shard
from muntin.model.joins import SIDES, JoinSpec, SideName
from muntin.spark.combiner import (
    Reader,
    as_sent,
    identity,
    slots,
    speaks_of_nothing,
    summed,
    task_number,
    timed,
    to_batch,
)
from muntin.spark.inputs import OWN, WALL, Input, period_of, ticks
from muntin.spark.processor import (
    CACHE,
    REJECTED,
    RESULTS,
    TOLD,
    buckets_of,
    figures_of,
    rows_of,
    unpacked,
    wall_of,
)
from muntin.spark.schema import moment_type, polars_schema, to_blob
from muntin.spark.state import SparkBlobs
from muntin.spark.zones import zone_of

# What a task sends to a bucket: messages of one side.
_ROW = pa.schema(
    [
        ("slot", pa.int32()),
        ("side", pa.string()),
        ("header", pa.string()),
        ("messages", pa.binary()),
        ("rejected", pa.binary()),
    ]
)
ROW = from_arrow_schema(_ROW)


@dataclass(frozen=True)
class JoinStage:
    """What both sides of the shuffle know of a join; sent to the workers.

    Attributes:
        spec: The join.
        schemas: Polars types of the columns that reach Python, by side and name.
        times: The column that holds the event time as Spark sends it, by side.
        slots: The grouping key of each bucket.
        suffix: What tells the right side's columns from the left's.
        operator: The identity of this operator in this run.
        both_keys: Whether results have the keys of both sides.
    """

    spec: JoinSpec
    schemas: dict[SideName, dict[str, pl.DataType]]
    times: dict[SideName, str | None]
    slots: tuple[int, ...]
    suffix: str
    operator: str
    both_keys: bool = False

    def joiner(self) -> Joiner:
        """The join without its data."""
        timed_schemas = {
            side: pl.Schema({**schema, columns.TIME: pl.Int64()})
            for side, schema in self.schemas.items()
        }
        return Joiner(self.spec, timed_schemas, self.suffix, both_keys=self.both_keys)


class SideTask:
    """The function given to ``mapInArrow`` on one side.

    Args:
        stage: What both sides of the shuffle know.
        side: Which side.
        read: How messages come out of what Spark sends.
    """

    def __init__(self, stage: JoinStage, side: SideName, read: Reader = as_sent) -> None:
        self.stage = stage
        self.side = side
        self.read = read

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Part all messages of a task by the bucket of their key."""
        joiner, holder = self.stage.joiner(), self.stage.times[self.side]
        arrived, taken = [], Offsets()
        for read in self.read(batches):
            arrived.append(
                joiner.arrive(self.side, timed(read, holder, self.stage.schemas[self.side]), taken)
            )
            taken.add(arrived[-1].offsets)
        if not arrived and speaks_of_nothing():
            arrived.append(Arrived(joiner.no_messages(self.side), joiner.nothing_aside(self.side)))
        if arrived:
            yield self._rows(arrived)

    def _rows(self, arrived: Sequence[Arrived]) -> pa.RecordBatch:
        keys = list(self.stage.spec.side(self.side).keys)
        messages = pl.concat([a.messages for a in arrived])
        parts = split(messages, keys, len(self.stage.slots))
        rejected = pl.concat([a.rejected for a in arrived])
        counts = summed(part.counts for part in arrived)
        header: dict[str, Any] = {
            "task": task_number(),
            "latest": max((a.latest for a in arrived if a.latest is not None), default=None),
            "clock": max((a.clock for a in arrived if a.clock is not None), default=None),
            "offsets": [stretch for a in arrived for stretch in a.offsets],
            "times": greatest_of(a.times for a in arrived),
            "clocks": greatest_of(a.clocks for a in arrived),
        }
        rows = []
        for bucket, slot in enumerate(self.stage.slots):
            # The task's rejected messages and counts go to one bucket, to be told once.
            mine = header | {"counts": {} if bucket else counts}
            part_of = parts.get(bucket)
            blob = None if part_of is None else encode(part_of)
            aside = encode(rejected) if bucket == 0 and len(rejected) else None
            rows.append((slot, self.side, json.dumps(mine), blob, aside))
        return to_batch(rows, _ROW)


class JoinProcessor(StatefulProcessor):
    """Runs a join's shard on the rows of one bucket.

    Args:
        stage: What both sides of the shuffle know.
        results: The columns of results.
        rejected: The columns of rejected messages.
        final: Whether the input ends with this batch (batch frames).
    """

    def __init__(
        self, stage: JoinStage, results: StructType, rejected: StructType, final: bool
    ) -> None:
        self.stage = stage
        self.results = results
        self.rejected = rejected
        self.final = final

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self.blobs = SparkBlobs(handle)
        self.joiner = self.stage.joiner()

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """One step of one shard."""
        waiting = list(rows)
        CACHE.turn_to((self.stage.operator, key[0]))
        shard = join_shard(self.joiner, self.blobs, CACHE)
        CACHE.keep(shard.state.numbers())
        arrived = received(self.joiner, waiting)
        told = shard.step(arrived, wall_of(waiting, shard.state.wall), final=self.final)
        yield from rows_of(told.results, self.results)
        if len(told.rejected):
            yield Row(kind=REJECTED, blob=to_blob(told.rejected, self.rejected), figures=None)
        yield figures_of(self.stage.slots.index(key[0]), told)

    def close(self) -> None:
        """Nothing is held."""


def received(joiner: Joiner, rows: Sequence[Any]) -> dict[SideName, list[Arrived]]:
    """What a shard got from the tasks, in the tasks' order; ticks have no header."""
    arrived: dict[SideName, list[Arrived]] = {side: [] for side in SIDES}
    headed = [(json.loads(row["header"]), row) for row in rows if row["header"] is not None]
    for header, row in sorted(headed, key=lambda pair: pair[0]["task"]):
        side: SideName = row["side"]
        messages = joiner.no_messages(side)
        if row["messages"] is not None:
            messages = decode(bytes(row["messages"]))
        rejected = joiner.nothing_aside(side)
        if row["rejected"] is not None:
            rejected = decode(bytes(row["rejected"]))
        names = ("counts", "latest", "clock", "offsets", "times", "clocks")
        told = {name: header[name] for name in names}
        arrived[side].append(Arrived(messages, rejected, **told))
    return arrived


@dataclass(frozen=True)
class JoinPlan:
    """The finished pipeline of a join; see ``muntin.spark.plan.Plan``.

    Attributes:
        spec: The join, complete.
        told: What the shards tell: blobs and figures.
        results: The columns of results.
        rejected: The columns of rejected messages.
        buckets: How many shards.
        keys: None: a pair has no identity but its batch.
        columnar: Whether the workers read the inputs' files themselves, by side.
    """

    spec: JoinSpec
    told: DataFrame
    results: StructType
    rejected: StructType
    buckets: int
    columnar: dict[SideName, bool]
    keys: tuple[str, ...] | None = None

    def unpacked(self, kind: str) -> DataFrame:
        """The rows of results or of rejected messages."""
        return unpacked(self.told, kind, self.results if kind == RESULTS else self.rejected)


def build_join(
    inputs: dict[SideName, Input],
    spec: JoinSpec,
    suffix: str,
    buckets: int | None,
    *,
    both_keys: bool = False,
) -> JoinPlan:
    """Check everything that can be checked before anything runs, and build the pipeline.

    Args:
        inputs: The messages of each side.
        spec: The join.
        suffix: What is put behind the right side's column names that the left has too.
        buckets: In how many shards the keys are kept.
        both_keys: Whether results have the keys of both sides.

    Raises:
        OptionError: Naming the option, its value and the cure.
    """
    frame = inputs["left"].frame
    spark = frame.sparkSession
    count = buckets_of(spark, buckets)
    messages: dict[SideName, DataFrame] = {}
    times: dict[SideName, str | None] = {}
    schemas: dict[SideName, dict[str, pl.DataType]] = {}
    for side in SIDES:
        sent = inputs[side].columns()
        times[side] = inputs[side].flag(sent)
        messages[side] = inputs[side].frame.select(*(c.alias(n) for n, c in sent.items()))
        schema = polars_schema(messages[side].schema)
        schemas[side] = {n: t for n, t in schema.items() if n not in OWN}
        typed = {n: str(t) for n, t in schemas[side].items()}
        zone = zone_of(messages[side], inputs[side].time)
        own = replace(spec.side(side), types=typed, zone=zone)
        spec = replace(spec, buckets=count).with_side(side, own)
    stage = JoinStage(spec, schemas, times, slots(count), suffix, identity(), both_keys)
    joiner = stage.joiner()
    results, rejected = _results(joiner, inputs), _rejected(joiner, inputs)
    parts, columnar = [], {}
    for side in SIDES:
        rows_axis = spec.axis == "rows"
        reader, rows = inputs[side].read(messages[side], schemas[side], times[side], rows_axis)
        parts.append(rows.mapInArrow(SideTask(stage, side, reader), ROW))
        columnar[side] = reader is not as_sent
    rows = parts[0].unionByName(parts[1]).withColumn(WALL, F.lit(None).cast("long"))
    if frame.isStreaming and _on_clock(spec, inputs):
        policies = [p for s in SIDES for p in _policies(spec, s)]
        beats = ticks(spark, stage.slots, period_of(policies))
        rows = rows.unionByName(beats, allowMissingColumns=True)
    processor = JoinProcessor(stage, results, rejected, final=not frame.isStreaming)
    told = rows.groupBy("slot").transformWithState(
        processor, TOLD, outputMode="append", timeMode="None"
    )
    return JoinPlan(spec, told, results, rejected, count, columnar)


def _policies(spec: JoinSpec, side: SideName) -> list[Any]:
    firing = spec.side(side).firing
    return [firing.early, firing.late]


def _on_clock(spec: JoinSpec, inputs: dict[SideName, Input]) -> bool:
    """Whether something is due though no input arrives."""
    return any(
        hasattr(policy, "period") and inputs[side].clock is None
        for side in SIDES
        for policy in _policies(spec, side)
    )


def _results(joiner: Joiner, inputs: dict[SideName, Input]) -> StructType:
    """The columns of results: the left side's, the right side's, and how the row came about."""
    fields = [
        StructField(out, inputs[side].frame.schema[name].dataType)
        for side in SIDES
        for name, out in joiner.names[side].items()
    ]
    return StructType([*fields, StructField(columns.EMISSION, StringType(), False)])


def _rejected(joiner: Joiner, inputs: dict[SideName, Input]) -> StructType:
    """The columns of rejected messages: which side, its columns, the reason, its watermark."""
    kinds = {}
    for side in SIDES:
        for name, out in joiner.aside[side].items():
            kinds[out] = inputs[side].frame.schema[name].dataType
    left = inputs["left"]
    return StructType(
        [
            StructField(SIDE, StringType(), False),
            *(StructField(name, kind) for name, kind in kinds.items()),
            StructField(columns.REASON, StringType(), False),
            StructField(columns.WATERMARK, moment_type(left.frame.schema, left.time)),
        ]
    )
