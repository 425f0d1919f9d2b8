"""From a DataFrame and a spec to the DataFrame of what the shards tell."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType, TimestampNTZType, TimestampType

from muntin.engine import columns
from muntin.model.aggregates import Aggregate
from muntin.model.axis import SECOND
from muntin.model.errors import OptionError
from muntin.model.policies import Every
from muntin.model.spec import WindowSpec
from muntin.spark.combiner import ROW, CombineTask, Reader, Stage, as_sent, slots
from muntin.spark.heartbeat import NAME, Heartbeat
from muntin.spark.parquet import ParquetReader, files
from muntin.spark.processor import REJECTED, RESULTS, TOLD, WALL, ShardProcessor, unpack
from muntin.spark.schema import polars_schema, rejected_schema, result_schema

_PARSED = "__muntin_parsed"


@dataclass(frozen=True)
class Request:
    """What the user asked for, still with Spark columns in it.

    Attributes:
        frame: The input.
        keys: Key columns, by name or as expressions.
        time: The event-time column's name, if there is one.
        where: Which messages to take at all.
        clock: The column that says when a message arrived, in place of the machine's clock.
        spec: The query; its keys and columns are filled in here.
        buckets: How many shards; ``None``: one a shuffle partition.
    """

    frame: DataFrame
    keys: tuple[Column | str, ...]
    time: str | None
    where: Column | str | None
    clock: str | None
    spec: WindowSpec
    buckets: int | None = None


@dataclass(frozen=True)
class Plan:
    """The finished pipeline.

    Attributes:
        spec: The query, complete.
        told: What the shards tell: blobs and figures.
        results: The columns of results.
        rejected: The columns of rejected messages.
        buckets: How many shards.
        columnar: Whether the workers read the input's files themselves.
    """

    spec: WindowSpec
    told: DataFrame
    results: StructType
    rejected: StructType
    buckets: int
    columnar: bool

    def unpacked(self, kind: str) -> DataFrame:
        """The rows of results or of rejected messages."""
        return unpacked(self.told, kind, self.results if kind == RESULTS else self.rejected)


def unpacked(told: DataFrame, kind: str, schema: StructType) -> DataFrame:
    """The rows of one kind out of what the shards told."""
    return told.where(F.col("kind") == kind).select("blob").mapInArrow(unpack, schema)


def build(request: Request) -> Plan:
    """Check everything that can be checked before anything runs, and build the pipeline.

    Raises:
        OptionError: Naming the option, its value and the cure.
    """
    frame, time = request.frame, request.time
    spark = frame.sparkSession
    sent = {name: F.col(f"`{name}`") for name in frame.columns}
    if time is not None:
        _check_time(frame, "time", time)
    _check_offset(frame, request.spec)
    keys = _named(frame, request.keys, sent)
    aggregates = _with_columns(frame, request.spec, sent)
    holder = _add_flags(request, sent)
    messages = frame.select(*(column.alias(name) for name, column in sent.items()))
    schema = polars_schema(messages.schema)
    own = {columns.KEEP, columns.MALFORMED, columns.FUTURE, columns.CLOCK, _PARSED}
    typed = {c: str(schema[c]) for c in _read(keys, aggregates)}
    buckets = request.buckets or int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    spec = replace(
        request.spec, keys=keys, time=time, aggregates=aggregates, types=typed, buckets=buckets
    )
    visible = {n: t for n, t in schema.items() if n not in own}
    stage = Stage(spec, visible, uuid.uuid4().hex[:12], slots(buckets), holder)
    combiner = stage.combiner()
    results = result_schema(messages.schema, combiner)
    rejected = rejected_schema(frame.schema, time)
    reader, rows = _source(request, messages, stage)
    rows = rows.mapInArrow(CombineTask(stage, reader), ROW)
    rows = rows.withColumn(WALL, F.lit(None).cast("long"))
    if frame.isStreaming and spec.firing.on_wall_clock and request.clock is None:
        rows = rows.unionByName(_ticks(spark, stage, _period(spec)), allowMissingColumns=True)
    processor = ShardProcessor(stage, results, rejected, final=not frame.isStreaming)
    told = rows.groupBy("slot").transformWithState(
        processor, TOLD, outputMode="append", timeMode="None"
    )
    return Plan(spec, told, results, rejected, buckets, columnar=reader is not as_sent)


def _source(request: Request, messages: DataFrame, stage: Stage) -> tuple[Reader, DataFrame]:
    """How messages reach the workers: as rows, or as the files that hold them."""
    names = request.frame.columns
    derived = set(messages.columns) - {*names, columns.CLOCK, columns.FUTURE}
    time = request.time
    zoneless = time and isinstance(request.frame.schema[time].dataType, TimestampNTZType)
    # Spark writes a moment into the code that it generates, and then compiles that in every batch.
    asked = request.spec.max_ahead is not None and request.clock is None
    now = _batch_clock(bool(zoneless)) if asked else F.lit(0).cast("long")
    # Parts of a file would mix up the order of arrival.
    rest = derived or request.spec.by_arrival
    found = None if rest else files(request.frame, now)
    if found is None:
        return as_sent, messages
    listed, root = found
    schema = {name: stage.schema[name] for name in names}
    spec = request.spec
    return ParquetReader(schema, root, stage.time, request.clock, spec.max_ahead), listed


def _batch_clock(zoneless: bool) -> Column:
    """The batch's wall clock in microseconds; the same when the batch is repeated.

    Args:
        zoneless: Whether local time is meant, as ``timestamp_ntz`` has it.
    """
    now = F.current_timestamp()
    return F.unix_micros(F.from_utc_timestamp(now, F.current_timezone()) if zoneless else now)


def _check_offset(frame: DataFrame, spec: WindowSpec) -> None:
    whole = ("tinyint", "smallint", "int", "bigint")
    for column, kinds in zip(spec.offset or (), ((*whole, "string"), whole), strict=False):
        if column not in frame.columns:
            cure = f"give two of {', '.join(frame.columns)}"
            raise OptionError("offset", column, "isn't a column", cure)
        kind = frame.schema[column].dataType.simpleString()
        if kind not in kinds:
            cure = f"cast it to one of {', '.join(kinds)}"
            raise OptionError("offset", column, f"has type {kind}", cure)


def _check_time(frame: DataFrame, option: str, time: str) -> None:
    if time not in frame.columns:
        cure = f"give one of {', '.join(frame.columns)}"
        raise OptionError(option, time, "isn't a column", cure)
    kind = frame.schema[time].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType | StringType):
        cure = "cast it first, for example with timestamp_seconds(), timestamp_millis() or cast()"
        raise OptionError(option, time, f"has type {kind.simpleString()}, not timestamp", cure)


def _named(
    frame: DataFrame, keys: tuple[Column | str, ...], sent: dict[str, Column]
) -> tuple[str, ...]:
    """The names of the key columns; expressions are added to what is sent."""
    names = []
    for key in keys:
        if isinstance(key, str):
            if key not in frame.columns:
                cure = f"give some of {', '.join(frame.columns)}"
                raise OptionError("key", key, "isn't a column", cure)
            names.append(key)
            continue
        name = frame.select(key).columns[0]
        sent.setdefault(name, key)
        names.append(name)
    return tuple(names)


def _with_columns(
    frame: DataFrame, spec: WindowSpec, sent: dict[str, Column]
) -> dict[str, Aggregate]:
    """The aggregates over named columns; expressions are added to what is sent."""
    found = {}
    for i, (name, aggregate) in enumerate(spec.aggregates.items()):
        changes: dict[str, Any] = {}
        for column in aggregate.columns:
            if isinstance(column, str) and column not in frame.columns:
                cure = f"give one of {', '.join(frame.columns)}"
                raise OptionError("agg", f"{name}={aggregate}", "reads no such column", cure)
        for part in ("column", "by"):
            column = getattr(aggregate, part)
            if column is None or isinstance(column, str):
                continue
            changes[part] = f"__muntin_{part}_{i}"
            sent[changes[part]] = column
        found[name] = replace(aggregate, **changes)
    return found


def _add_flags(request: Request, sent: dict[str, Column]) -> str | None:
    """Add what Spark decides about each message; returns the column that holds its time."""
    time, spec = request.time, request.spec
    if request.where is not None:
        where = request.where
        sent[columns.KEEP] = F.expr(where) if isinstance(where, str) else where
    if request.clock is not None:
        _check_time(request.frame, "clock", request.clock)
        sent[columns.CLOCK] = sent[request.clock]
    if time is None:
        return None
    holder, kind = time, request.frame.schema[time].dataType
    moment = sent[time]
    if isinstance(kind, StringType):
        holder = _PARSED
        moment = F.try_to_timestamp(sent[time])
        sent[_PARSED] = moment
        sent[columns.MALFORMED] = sent[time].isNotNull() & moment.isNull()
    wall = F.localtimestamp() if isinstance(kind, TimestampNTZType) else F.current_timestamp()
    if request.clock is not None:
        wall = sent[request.clock]
    if spec.max_ahead is not None:
        ahead = F.expr(f"make_dt_interval(0, 0, 0, {spec.max_ahead / SECOND:.6f})")
        # A message without an arrival time isn't thereby from the future.
        sent[columns.FUTURE] = F.coalesce(moment > wall + ahead, F.lit(False))
    return holder


def _read(keys: tuple[str, ...], aggregates: dict[str, Aggregate]) -> list[str]:
    return [*keys, *(str(c) for a in aggregates.values() for c in a.columns)]


def _period(spec: WindowSpec) -> int:
    """How often a tick is needed: the shortest period of a policy, at most a second apart."""
    policies = (spec.firing.early, spec.firing.late)
    return min([SECOND, *(p.period for p in policies if isinstance(p, Every))])


def _ticks(spark: SparkSession, stage: Stage, period: int) -> DataFrame:
    spark.dataSource.register(Heartbeat)
    ticks = spark.readStream.format(NAME).option("period", str(period)).load()
    every = F.array(*(F.lit(slot) for slot in stage.slots))
    wall = (F.col("tick") * period).alias(WALL)
    return ticks.select(F.explode(every).alias("slot"), wall)


__all__ = ["REJECTED", "RESULTS", "Plan", "Request", "build", "unpacked"]
