"""The door of joins through Spark: each step is a file a side, and the messages carry the clock."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from tests.join_doors import Columns, JoinBatch
from tests.spark.door import blobs, rows_of

from muntin.engine.oracle.joins import JoinStep
from muntin.model.joins import SIDES, JoinSpec, SideName
from muntin.spark.inputs import Input
from muntin.spark.joining import JoinPlan, build_join

_CLOCK, _TAKE = "at_wall", "take"
_TYPES = {"string": pa.string(), "long": pa.int64(), "double": pa.float64()}
_OWN = [column + suffix for column in (_CLOCK, _TAKE) for suffix in ("", "_right")]


@dataclass(frozen=True)
class SparkJoinDoor:
    """A streaming query over one file a side and step, or batch frames where the first is the last.

    Every file has one more row, which ``where`` leaves out: it carries the clock of a step
    without messages, and makes a batch of it.
    """

    spark: SparkSession
    name: str = "spark"
    tells_watermarks: bool = False

    def runs(self, spec: JoinSpec, steps: Sequence[JoinBatch]) -> bool:
        """A stream doesn't end; a batch frame is one step."""
        return len(steps) == 1 or not any(step.final for step in steps)

    def run(self, spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]) -> list[JoinStep]:
        with tempfile.TemporaryDirectory() as folder:
            for side in SIDES:
                (Path(folder) / side).mkdir()
                for number, step in enumerate(steps):
                    path = Path(folder) / side / f"{number:04d}.parquet"
                    pq.write_table(_table(spec, side, types, step), path)
                    os.utime(path, (1_000_000 + number, 1_000_000 + number))
            frames = {side: self.spark.read.parquet(f"{folder}/{side}") for side in SIDES}
            if steps[-1].final:
                plan = self._plan(spec, frames)
                return [_step(types, plan, plan.told, {})]
            reader = self.spark.readStream.option("maxFilesPerTrigger", 1)
            streams = {
                side: reader.schema(frame.schema).parquet(f"{folder}/{side}")
                for side, frame in frames.items()
            }
            return self._stream(types, self._plan(spec, streams), folder)

    def _plan(self, spec: JoinSpec, frames: dict[SideName, DataFrame]) -> JoinPlan:
        inputs: dict[SideName, Input] = {}
        for side in SIDES:
            given = spec.side(side)
            inputs[side] = Input(
                frames[side], given.time, _TAKE, _CLOCK, given.max_ahead, given.offset
            )
            spec = spec.with_side(side, replace(given, types={}))
        return build_join(inputs, spec, "_right", None)

    def _stream(self, types: Columns, plan: JoinPlan, folder: str) -> list[JoinStep]:
        told: list[JoinStep] = []
        totals: dict[str, int] = {}

        def collect(frame: DataFrame, number: int) -> None:
            assert number == len(told)
            told.append(_step(types, plan, frame, totals))

        writer = plan.told.writeStream.foreachBatch(collect).trigger(availableNow=True)
        writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
        return told


def _table(spec: JoinSpec, side: SideName, types: Columns, step: JoinBatch) -> pa.Table:
    """A side's messages in a step, and the row that only carries the clock."""
    stamp, time = pa.timestamp("us", tz="UTC"), spec.side(side).time
    kinds = {n: stamp if n == time else _TYPES[kind] for n, kind in types[side].items()}
    kinds |= {_CLOCK: stamp, _TAKE: pa.bool_()}
    rows: list[dict[str, Any]] = [
        {**message, _CLOCK: step.wall, _TAKE: True} for message in step.side(side)
    ]
    rows.append({**dict.fromkeys(kinds), _CLOCK: step.wall, _TAKE: False})
    arrays = [pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()]
    return pa.table(arrays, names=list(kinds))


def _step(types: Columns, plan: JoinPlan, frame: DataFrame, totals: dict[str, int]) -> JoinStep:
    """What a batch told; its figures have one watermark for both sides."""
    told = frame.collect()
    results = [row for blob in blobs(told, "results") for row in rows_of(blob)]
    rejected = [row for blob in blobs(told, "rejected") for row in rows_of(blob)]
    figures = [json.loads(row["figures"]) for row in told if row["figures"]]
    assert len(figures) == plan.buckets
    for row in [*results, *rejected]:
        for column in _OWN:
            row.pop(column, None)
    step = JoinStep(results, [_rejected(types, row) for row in rejected])
    for name in {name for shard in figures for name in shard["counts"]}:
        total = sum(shard["counts"].get(name, 0) for shard in figures)
        step.counts[name] = total - totals.get(name, 0)
        totals[name] = total
    return step


def _rejected(types: Columns, row: dict[str, Any]) -> tuple[SideName, dict[str, Any], str, Any]:
    message = {name: row[name] for name in types[row["side"]]}
    return row["side"], message, row["reason"], row["watermark"]
