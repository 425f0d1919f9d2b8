"""Runs joins on Spark: each step is a file a side, and the messages carry the clock."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from tests.join_oracle import JoinStep
from tests.join_runners import Columns, JoinBatch
from tests.spark.groups import spark_can_run
from tests.spark.runner import batches_of, blobs, numbered, rows_of

from muntin.model.bounds import SideName
from muntin.model.joins import SIDES, JoinSpec
from muntin.spark.host.plan import Plan
from muntin.spark.join_plan import build_join
from muntin.spark.sources.inputs import Input

_CLOCK, _TAKE = "at_wall", "take"
_TYPES = {"string": pa.string(), "long": pa.int64(), "double": pa.float64()}
_OWN = [column + suffix for column in (_CLOCK, _TAKE) for suffix in ("", "_right")]


@dataclass(frozen=True)
class SparkJoinRunner:
    """A streaming query over one file a side and step, or batch frames where the first is the last.

    Every file has one more row, which ``where`` leaves out: it carries the clock of a step
    without messages, and makes a batch of it.
    """

    spark: SparkSession
    name: str = "spark"
    tells_watermarks: bool = False

    def runs(self, spec: JoinSpec, steps: Sequence[JoinBatch]) -> bool:
        return spark_can_run(steps)

    def run(self, spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]) -> list[JoinStep]:
        return self.run_all([(spec, types, steps)])[0]

    def run_all(
        self, cases: Sequence[tuple[JoinSpec, Columns, Sequence[JoinBatch]]]
    ) -> list[list[JoinStep]]:
        """Run some joins in one query; see ``SparkRunner.run_all``."""
        longest = max(len(steps) for _, _, steps in cases)
        with tempfile.TemporaryDirectory() as folder:
            plans = []
            for number, (spec, types, steps) in enumerate(cases):
                rest = [JoinBatch(wall=steps[-1].wall)] * (longest - len(steps))
                source = Path(folder) / f"source-{number}"
                plans.append(
                    self._plan(spec, self._write_steps(source, spec, types, [*steps, *rest]))
                )
            emitted = reduce(DataFrame.union, map(numbered, count(), plans))
            final = cases[0][2][-1].final
            batches = [emitted.collect()] if final else batches_of(emitted, folder)
        outputs = []
        for number, (plan, (_, types, steps)) in enumerate(zip(plans, cases, strict=True)):
            totals: dict[str, int] = {}
            case_batches = [[row for row in rows if row["number"] == number] for rows in batches]
            outputs.append(
                [_step(types, plan, rows, totals) for rows in case_batches[: len(steps)]]
            )
        return outputs

    def _write_steps(
        self, folder: Path, spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]
    ) -> dict[SideName, DataFrame]:
        """Write the steps as files of both sides, and return the frames that read them."""
        frames: dict[SideName, DataFrame] = {}
        for side in SIDES:
            (folder / side).mkdir(parents=True)
            for number, step in enumerate(steps):
                path = folder / side / f"{number:04d}.parquet"
                pq.write_table(_table(spec, side, types, step), path)
                os.utime(path, (1_000_000 + number, 1_000_000 + number))
            frames[side] = self.spark.read.parquet(str(folder / side))
            if not steps[-1].final:
                reader = self.spark.readStream.option("maxFilesPerTrigger", 1)
                frames[side] = reader.schema(frames[side].schema).parquet(str(folder / side))
        return frames

    def _plan(self, spec: JoinSpec, frames: dict[SideName, DataFrame]) -> Plan:
        inputs: dict[SideName, Input] = {}
        for side in SIDES:
            side_spec = spec.side(side)
            # A clock that nothing reads is refused.
            clock = _CLOCK if side_spec.reads_clock else None
            inputs[side] = Input(
                frames[side], side_spec.time, _TAKE, clock, side_spec.limits, side_spec.offset
            )
            spec = spec.with_side(side, replace(side_spec, types={}))
        return build_join(inputs, spec, "_right", None)


def _table(spec: JoinSpec, side: SideName, types: Columns, step: JoinBatch) -> pa.Table:
    """Return a side's messages in a step, and the row that only carries the clock."""
    stamp, time = pa.timestamp("us", tz="UTC"), spec.side(side).time
    kinds = {n: stamp if n == time else _TYPES[kind] for n, kind in types[side].items()}
    kinds |= {_CLOCK: stamp, _TAKE: pa.bool_()}
    rows: list[dict[str, Any]] = [
        {**message, _CLOCK: step.wall, _TAKE: True} for message in step.side(side)
    ]
    rows.append({**dict.fromkeys(kinds), _CLOCK: step.wall, _TAKE: False})
    arrays = [pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()]
    return pa.table(arrays, names=list(kinds))


def _step(types: Columns, plan: Plan, emitted: list[Any], totals: dict[str, int]) -> JoinStep:
    """Return the output of a batch; its progress has one watermark for both sides."""
    results = [row for blob in blobs(emitted, "results") for row in rows_of(blob)]
    rejected = [row for blob in blobs(emitted, "rejected") for row in rows_of(blob)]
    progress = [json.loads(row["progress"]) for row in emitted if row["progress"]]
    assert len(progress) == plan.shards
    for row in [*results, *rejected]:
        for column in _OWN:
            row.pop(column, None)
    step = JoinStep(results, [_describe_rejected(types, row) for row in rejected])
    for name in {name for shard in progress for name in shard["counts"]}:
        total = sum(shard["counts"].get(name, 0) for shard in progress)
        step.counts[name] = total - totals.get(name, 0)
        totals[name] = total
    # The rows that only carry the clock.
    step.counts["seen"] -= step.counts.pop("filtered", 0)
    return step


def _describe_rejected(
    types: Columns, row: dict[str, Any]
) -> tuple[SideName, dict[str, Any], str, Any]:
    message = {name: row[name] for name in types[row["side"]]}
    return row["side"], message, row["reason"], row["watermark"]
