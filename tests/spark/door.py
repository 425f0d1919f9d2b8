"""The door through Spark: each step is a file, and the messages carry the clock."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from tests.doors import Batch, in_order

from muntin.engine.oracle import Step
from muntin.engine.oracle.stepping import COUNTS
from muntin.model.axis import instant
from muntin.model.spec import WindowSpec
from muntin.spark.inputs import Input
from muntin.spark.plan import Plan, Request, build

_CLOCK, _TAKE = "at_wall", "take"
_TYPES = {"string": pa.string(), "long": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}


@dataclass(frozen=True)
class SparkDoor:
    """A streaming query over one file a step, or a batch frame where the first step is the last.

    Every step has one more row, which ``where`` leaves out: it carries the clock of a step
    without messages.
    """

    spark: SparkSession
    name: str = "spark"
    tells_watermark: bool = True

    def runs(self, spec: WindowSpec, steps: Sequence[Batch]) -> bool:
        """A stream doesn't end; a batch frame is one step."""
        return len(steps) == 1 or not any(step.final for step in steps)

    def run(self, spec: WindowSpec, steps: Sequence[Batch]) -> list[Step]:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "source"
            source.mkdir()
            times = [m[spec.time] for step in steps for m in step.messages if spec.time]
            text = any(isinstance(time, str) for time in times)
            for number, step in enumerate(steps):
                path = source / f"{number:04d}.parquet"
                pq.write_table(_table(spec, step, text), path)
                os.utime(path, (1_000_000 + number, 1_000_000 + number))
            if steps[-1].final:
                plan = self._plan(spec, self.spark.read.parquet(str(source)))
                return [_step(plan, plan.told, spec, {}, final=True)]
            schema = self.spark.read.parquet(str(source)).schema
            reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
            return self._stream(self._plan(spec, reader.parquet(str(source))), folder, spec)

    def _plan(self, spec: WindowSpec, frame: DataFrame) -> Plan:
        bare = replace(spec, types={})
        read = Input(frame, spec.time, _TAKE, _CLOCK, spec.max_ahead, spec.offset)
        return build(Request(read, spec.keys, bare))

    def _stream(self, plan: Plan, folder: str, spec: WindowSpec) -> list[Step]:
        told: list[Step] = []
        totals: dict[str, int] = {}

        def collect(frame: DataFrame, number: int) -> None:
            assert number == len(told)
            told.append(_step(plan, frame, spec, totals))

        writer = plan.told.writeStream.foreachBatch(collect).trigger(availableNow=True)
        writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
        return told


def _table(spec: WindowSpec, step: Batch, text: bool) -> pa.Table:
    """A step's messages and the row that only carries the clock."""
    stamp = pa.timestamp("us", tz="UTC")
    types = {n: _TYPES[t] for n, t in spec.types.items() if n != spec.time}
    if spec.time:
        types[spec.time] = pa.string() if text else stamp
    types |= {_CLOCK: stamp, _TAKE: pa.bool_()}
    rows = [{**m, _CLOCK: step.wall, _TAKE: True} for m in step.messages]
    if text:
        for row in rows:
            row[spec.time] = _text(row[spec.time])
    rows.append({**dict.fromkeys(types), _CLOCK: step.wall, _TAKE: False})
    arrays = [pa.array([row[name] for row in rows], kind) for name, kind in types.items()]
    return pa.table(arrays, names=list(types))


def _text(time: int | str | None) -> str | None:
    if not isinstance(time, int):
        return time
    seconds, micros = divmod(time, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, _UTC):%Y-%m-%d %H:%M:%S}.{micros:06d}"


_UTC = datetime.fromisoformat("2000-01-01T00:00:00+00:00").tzinfo


def _step(
    plan: Plan, frame: DataFrame, spec: WindowSpec, totals: dict[str, int], final: bool = False
) -> Step:
    rows = frame.collect()
    firings = [row for blob in blobs(rows, "results") for row in rows_of(blob)]
    rejected = [row for blob in blobs(rows, "rejected") for row in rows_of(blob)]
    figures = [json.loads(row["figures"]) for row in rows if row["figures"]]
    assert len(figures) == plan.buckets
    firings.sort(key=lambda row: in_order(row, spec))
    counts: dict[str, int] = {}
    for shard in figures:
        for name, n in shard["counts"].items():
            counts[name] = counts.get(name, 0) + n
    new = {name: n - totals.get(name, 0) for name, n in counts.items()}
    totals.update(counts)
    new["seen"] = new.get("seen", 0) - new.pop("filtered", 0)
    marks = {shard["watermark"] for shard in figures}
    assert len(marks) == 1
    zeros = dict.fromkeys(COUNTS, 0)
    for row in rejected:
        for column in (_CLOCK, _TAKE):
            del row[column]
        if spec.time:
            row[spec.time] = _micros(row[spec.time])
    ends = final and spec.axis == "time"
    return Step(firings, rejected, zeros | new, math.inf if ends else marks.pop())


def blobs(rows: list[Any], kind: str) -> list[pa.Table]:
    return [pa.ipc.open_stream(row["blob"]).read_all() for row in rows if row["kind"] == kind]


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with every timestamp as microseconds."""
    columns = {
        name: column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pa.table(columns).to_pylist()


def _micros(time: int | str | None) -> int | str | None:
    """A time that went through Spark as text, read back where it is one."""
    try:
        return instant("time", time) if isinstance(time, str) else time
    except ValueError:
        return time
