"""From an operator and its inputs to the DataFrame of what its shards emit."""

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
from muntin.spark.host.processor import EMITTED, ShardSteps, unpacked
from muntin.spark.host.task import ROW, ShuffleTask, Stage
from muntin.spark.sources.inputs import WALL, OperatorInput, ticks

if TYPE_CHECKING:
    from muntin.spark.host.chain import Upstream


def emitted(stage: Stage, sources: tuple[OperatorInput, ...], period: int | None) -> DataFrame:
    """What an operator's shards emit: blobs of rows by kind, and progress."""
    parts = []
    for source in sources:
        reader, read = source.read
        going = source.input.frame.isStreaming
        ahead = source.input.ahead if source.follows else None
        task = ShuffleTask(stage, source.name, reader, source.time, source.used, going, ahead)
        parts.append(read.mapInArrow(task, ROW))
    rows = reduce(DataFrame.unionByName, parts).withColumn(WALL, F.lit(None).cast("long"))
    streams = rows.isStreaming
    if streams and period is not None:
        beats = ticks(rows.sparkSession, stage.slots, period)
        rows = rows.unionByName(beats, allowMissingColumns=True)
    processor = ShardProcessor(ShardSteps(stage, final=not streams))
    return rows.groupBy("slot").transformWithState(
        processor, EMITTED, outputMode="append", timeMode="None"
    )


@dataclass(frozen=True)
class Plan:
    """The finished pipeline of windows or of a join.

    Attributes:
        spec: The query, complete.
        stage: What both sides of the shuffle know of it.
        sources: What is read.
        period: How often something is due though no input comes, microseconds; ``None`` is never.
        keys: What identifies a result beside its window; ``None`` where nothing does.
        asked: How many shards were asked for, if a number was.
        again: Builds the same in so many shards, wherever no number was asked for.
        lean: Builds the same without rejected messages, if less is sent then.
    """

    spec: WindowSpec | JoinSpec
    stage: Stage
    sources: tuple[OperatorInput, ...]
    period: int | None
    keys: tuple[str, ...] | None
    asked: int | None
    again: Callable[[int], Plan]
    lean: Callable[[], Plan] | None = None

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self.sources[0].input.frame.sparkSession

    @property
    def streams(self) -> bool:
        """Whether the input goes on."""
        return self.sources[0].input.frame.isStreaming

    @property
    def ticks(self) -> bool:
        """Whether something in the chain is due by the clock."""
        return self.period is not None or any(fed.plan.ticks for fed in self.fed)

    @property
    def joins(self) -> bool:
        """Whether it is a join."""
        return isinstance(self.spec, JoinSpec)

    @property
    def fed(self) -> tuple[Upstream, ...]:
        """The operators whose results are among what is read."""
        given = (source.input.fed for source in self.sources)
        return tuple(one for one in given if one is not None)

    @property
    def specs(self) -> tuple[WindowSpec | JoinSpec, ...]:
        """This query and those before it in its chain, as Spark numbers their operators."""
        return (self.spec, *(spec for fed in self.fed for spec in fed.plan.specs))

    @property
    def results(self) -> StructType:
        """The columns of results."""
        return self.stage.schemas[RESULTS]

    @property
    def rejected(self) -> StructType:
        """The columns of rejected messages."""
        return self.stage.schemas[REJECTED]

    @property
    def buckets(self) -> int:
        """How many shards there are."""
        return len(self.stage.slots)

    @property
    def shards(self) -> tuple[tuple[int, int | None], ...]:
        """How many shards each operator has, and how many were asked for; this one is last."""
        before = (one for fed in self.fed for one in fed.plan.shards)
        return (*before, (self.buckets, self.asked))

    def with_shards(self, count: int) -> Plan:
        """The same in so many shards, wherever no number was asked for."""
        if all(asked is not None or now == count for now, asked in self.shards):
            return self
        return self.again(count)

    def feeding(self) -> Plan:
        """The same, where other operators compute with its results."""
        if not self.joins:
            return self
        # Any column of a pair may be computed with.
        sources = tuple(replace(one, used=frozenset(one.schema)) for one in self.sources)
        return replace(self, sources=sources, again=lambda count: self.again(count).feeding())

    @property
    def columnar(self) -> bool:
        """Whether the workers read all inputs' files themselves."""
        return all(source.columnar for source in self.sources)

    @cached_property
    def emitted(self) -> DataFrame:
        """What the shards emit: blobs and progress."""
        return emitted(self.stage, self.sources, self.period)

    @cached_property
    def counting(self) -> DataFrame:
        """What the shards emit where rejected messages are counted, and not given out."""
        return self.emitted if self.lean is None else self.lean().emitted

    def unpacked(self, kind: str) -> DataFrame:
        """The rows of results or of rejected messages."""
        found = self.counting if kind == RESULTS else self.emitted
        return unpacked(found, kind, self.stage.schemas[kind])
