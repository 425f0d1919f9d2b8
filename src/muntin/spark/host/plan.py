"""Builds the DataFrame that an operator's shards emit, from the operator and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.engine.operator import REJECTED, RESULTS
from muntin.model.joins import JoinSpec
from muntin.model.spec import WindowSpec
from muntin.spark.host.packed import ShardProcessor
from muntin.spark.host.processor import EMITTED, ShardSteps, unpack_rows
from muntin.spark.host.task import ROW_SCHEMA, ShuffleTask, Stage
from muntin.spark.sources.inputs import WALL, OperatorInput, make_ticks

if TYPE_CHECKING:
    from muntin.spark.host.chain import SparkUpstream


def build_output(stage: Stage, sources: tuple[OperatorInput, ...], period: int | None) -> DataFrame:
    """Return the output of an operator's shards: blobs of rows by kind, and progress."""
    parts = []
    for source in sources:
        reader, read = source.read
        is_streaming = source.input.frame.isStreaming
        ahead = source.input.ahead if source.follows else None
        task = ShuffleTask(
            stage, source.name, reader, source.time, source.used, is_streaming, ahead
        )
        parts.append(read.mapInArrow(task, ROW_SCHEMA))
    rows = reduce(DataFrame.unionByName, parts).withColumn(WALL, F.lit(None).cast("long"))
    streams = rows.isStreaming
    if streams and period is not None:
        beats = make_ticks(rows.sparkSession, stage.slots, period)
        rows = rows.unionByName(beats, allowMissingColumns=True)
    processor = ShardProcessor(ShardSteps(stage, final=not streams))
    return rows.groupBy("slot").transformWithState(
        processor, EMITTED, outputMode="append", timeMode="None"
    )


@dataclass(frozen=True)
class Plan:
    """The finished pipeline of windows or of a join.

    Attributes:
        stage: The description of the operator that both sides of the shuffle use.
        period: How often something is due by the clock alone, microseconds; ``None`` is never.
        keys: The columns that identify a result together with its window; ``None`` where none do.
        rebuild: Builds the plan with a shard count for every operator that didn't ask for one.
        build_lean: Builds the plan without rejected messages, where that sends fewer columns.
    """

    spec: WindowSpec | JoinSpec
    stage: Stage
    sources: tuple[OperatorInput, ...]
    period: int | None
    keys: tuple[str, ...] | None
    requested_shards: int | None
    rebuild: Callable[[int], Plan]
    build_lean: Callable[[], Plan] | None = None

    @property
    def spark(self) -> SparkSession:
        """The session of the inputs."""
        return self.sources[0].input.frame.sparkSession

    @property
    def reads_streams(self) -> bool:
        """True if the inputs are streams."""
        return self.sources[0].input.frame.isStreaming

    @property
    def needs_ticks(self) -> bool:
        """True if an operator of the chain needs ticks, since something is due by the clock."""
        return self.period is not None or any(
            upstream.plan.needs_ticks for upstream in self.upstreams
        )

    @property
    def is_join(self) -> bool:
        """True if the operator is a join."""
        return isinstance(self.spec, JoinSpec)

    @property
    def upstreams(self) -> tuple[SparkUpstream, ...]:
        """The upstream operators among its inputs."""
        candidates = (source.input.upstream for source in self.sources)
        return tuple(one for one in candidates if one is not None)

    @property
    def specs(self) -> tuple[WindowSpec | JoinSpec, ...]:
        """The queries of this operator and all upstream ones, as Spark numbers them."""
        return (self.spec, *(spec for upstream in self.upstreams for spec in upstream.plan.specs))

    @property
    def results_schema(self) -> StructType:
        """The columns of results."""
        return self.stage.schemas[RESULTS]

    @property
    def rejection_schema(self) -> StructType:
        """The columns of rejected messages."""
        return self.stage.schemas[REJECTED]

    @property
    def shards(self) -> int:
        """The number of shards of this operator."""
        return len(self.stage.slots)

    @property
    def shard_counts(self) -> tuple[tuple[int, int | None], ...]:
        """The shard count of each operator, actual and asked for; this operator is last."""
        before = (one for upstream in self.upstreams for one in upstream.plan.shard_counts)
        return (*before, (self.shards, self.requested_shards))

    def with_shards(self, count: int) -> Plan:
        """Return the plan with a shard count for every operator that didn't ask for one."""
        if all(asked is not None or now == count for now, asked in self.shard_counts):
            return self
        return self.rebuild(count)

    def feeding(self) -> Plan:
        """Return the plan for a chain, in which other operators compute with its results."""
        if not self.is_join:
            return self
        # The next operator may compute with any column of a pair.
        sources = tuple(replace(one, used=frozenset(one.schema)) for one in self.sources)
        return replace(self, sources=sources, rebuild=lambda count: self.rebuild(count).feeding())

    @property
    def columnar(self) -> bool:
        """True if the workers read the files of all inputs themselves."""
        return all(source.columnar for source in self.sources)

    @cached_property
    def output(self) -> DataFrame:
        """The output of the shards: blobs and progress."""
        return build_output(self.stage, self.sources, self.period)

    @cached_property
    def lean_output(self) -> DataFrame:
        """The output of the shards when rejected messages are only counted."""
        return self.output if self.build_lean is None else self.build_lean().output

    def unpack_kind(self, kind: str) -> DataFrame:
        """Return the rows of results or of rejected messages."""
        output = self.lean_output if kind == RESULTS else self.output
        return unpack_rows(output, kind, self.stage.schemas[kind])
