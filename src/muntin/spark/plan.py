"""From a DataFrame and a spec to the DataFrame of what the shards tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.model.accepted import check
from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError
from muntin.model.spec import WindowSpec
from muntin.spark.combiner import ROW, CombineTask, Reader, Stage, as_sent, identity, slots
from muntin.spark.inputs import OWN, WALL, Input, period_of, ticks
from muntin.spark.kafka_ranges import KafkaRows
from muntin.spark.onward import Fed
from muntin.spark.processor import (
    REJECTED,
    RESULTS,
    TOLD,
    ShardProcessor,
    buckets_of,
    unpacked,
)
from muntin.spark.schema import polars_schema, rejected_schema, result_schema, shape_of
from muntin.spark.zones import zone_of


@dataclass(frozen=True)
class Request:
    """What the user asked for, still with Spark columns in it.

    Attributes:
        input: What is read.
        keys: Key columns, by name or as expressions.
        spec: The query; its keys and columns are filled in here.
        buckets: How many shards; ``None``: one a shuffle partition.
        fed: The join or the windows whose results the input is, if it is such.
    """

    input: Input
    keys: tuple[Column | str, ...]
    spec: WindowSpec
    buckets: int | None = None
    fed: Fed | None = None


@dataclass(frozen=True)
class Plan:
    """The finished pipeline.

    Attributes:
        stage: What both sides of the shuffle know of the query.
        input: What is read.
        messages: All that is sent of it.
        results: The columns of results.
        rejected: The columns of rejected messages.
        fed: The join or the windows whose results the input is, if it is such.
    """

    stage: Stage
    input: Input
    messages: DataFrame
    results: StructType
    rejected: StructType
    fed: Fed | None = None

    @property
    def spec(self) -> WindowSpec:
        """The query, complete."""
        return self.stage.spec

    @property
    def buckets(self) -> int:
        """How many shards there are."""
        return len(self.stage.slots)

    @property
    def clock(self) -> str | None:
        """The column that says when a message arrived."""
        return self.input.clock

    @property
    def keys(self) -> tuple[str, ...] | None:
        """What identifies a window, beside its bounds."""
        return self.spec.keys

    @property
    def columnar(self) -> bool:
        """Whether the workers read the input's files themselves."""
        return self._read[0] is not as_sent

    @cached_property
    def told(self) -> DataFrame:
        """What the shards tell: blobs and figures."""
        return self._told(self.stage, *self._read, self.rejected)

    def unpacked(self, kind: str) -> DataFrame:
        """The rows of results or of rejected messages."""
        if kind == RESULTS:
            return unpacked(self._told_of_results, kind, self.results)
        return unpacked(self.told, kind, self.rejected)

    @cached_property
    def _read(self) -> tuple[Reader, DataFrame | KafkaRows]:
        return self._reading(self.stage, self.messages)

    @cached_property
    def _told_of_results(self) -> DataFrame:
        """The same without rejected messages, whose other columns need not travel then."""
        needed = {*self.spec.types, self.clock, *(self.input.offset or ())}
        rest = [name for name in self.input.frame.columns if name not in needed]
        # Rows without any column couldn't be counted.
        rest = rest if len(rest) < len(self.messages.columns) else rest[1:]
        schema = {n: t for n, t in self.stage.schema.items() if n not in rest}
        stage = replace(self.stage, schema=schema, operator=identity())
        return self._told(stage, *self._reading(stage, self.messages.drop(*rest)), None)

    def _reading(self, stage: Stage, messages: DataFrame) -> tuple[Reader, DataFrame | KafkaRows]:
        ordered = self.spec.by_arrival
        return self.input.read(messages, stage.schema, stage.time, ordered=ordered)

    def _told(
        self,
        stage: Stage,
        reader: Reader,
        read: DataFrame | KafkaRows,
        rejected: StructType | None,
    ) -> DataFrame:
        streams, firing = self.input.frame.isStreaming, self.spec.firing
        rows = read.mapInArrow(CombineTask(stage, reader), ROW)
        rows = rows.withColumn(WALL, F.lit(None).cast("long"))
        if streams and firing.on_wall_clock and self.clock is None:
            period = period_of((firing.early, firing.late))
            beats = ticks(rows.sparkSession, stage.slots, period)
            rows = rows.unionByName(beats, allowMissingColumns=True)
        beside = None if self.fed is None else self.fed.beside()
        processor = ShardProcessor(stage, self.results, rejected, beside, final=not streams)
        return rows.groupBy("slot").transformWithState(
            processor, TOLD, outputMode="append", timeMode="None"
        )


def build(request: Request) -> Plan:
    """Check everything that can be checked before anything runs, and build the pipeline.

    Raises:
        OptionError: Naming the option, its value and the cure.
    """
    given = request.input
    frame, time = given.frame, given.time
    sent = given.columns()
    keys = _named(frame, request.keys, sent)
    aggregates = _with_columns(frame, request.spec, sent)
    holder = given.flag(sent)
    messages = given.select(sent)
    shapes = {field.name: shape_of(field.dataType) for field in messages.schema.fields}
    for name, aggregate in aggregates.items():
        check(aggregate, shapes, said=f"{name}={request.spec.aggregates[name]}")
    schema = polars_schema(messages.schema)
    read = _columns(keys, aggregates) if time is None else [*_columns(keys, aggregates), time]
    typed = {c: str(schema[c]) for c in read}
    buckets = buckets_of(frame.sparkSession, request.buckets)
    # What a join or other windows depend on is theirs.
    zone = zone_of(messages, time, whole=request.fed is None)
    whole = replace(request.spec, keys=keys, time=time, aggregates=aggregates, types=typed)
    spec = replace(whole, buckets=buckets, zone=zone)
    visible = {n: t for n, t in schema.items() if n not in OWN}
    stage = Stage(spec, visible, identity(), slots(buckets), holder)
    results = result_schema(messages.schema, stage.combiner())
    fed = request.fed
    rejected = fed.rejected if fed else rejected_schema(frame.schema, time)
    return Plan(stage, given, messages, results, rejected, fed)


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
        if set("`.") & set(name) and name not in frame.columns:
            hint = 'name it: .alias("…"), without dots and backticks'
            raise OptionError("key", name, "can't be the name of a column", hint)
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
                if not column.isidentifier():
                    cure += f", or an expression: F.expr({column!r})"
                raise OptionError("agg", f"{name}={aggregate}", "reads no such column", cure)
        for part in ("column", "by"):
            column = getattr(aggregate, part)
            if column is None or isinstance(column, str):
                continue
            changes[part] = f"__muntin_{part}_{i}"
            sent[changes[part]] = column
        found[name] = replace(aggregate, **changes)
    return found


def _columns(keys: tuple[str, ...], aggregates: dict[str, Aggregate]) -> list[str]:
    return [*keys, *(str(c) for a in aggregates.values() for c in a.columns)]


__all__ = ["REJECTED", "RESULTS", "Plan", "Request", "build"]
