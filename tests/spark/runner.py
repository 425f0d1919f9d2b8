"""Runs windows on Spark: each step is a file, and the messages carry the clock."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.runners import Batch, make_sort_key
from tests.spark.groups import spark_can_run

from muntin.model.axis import parse_time
from muntin.model.kinds import Kind
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec
from muntin.spark.host.chain import find_upstream
from muntin.spark.host.plan import Plan
from muntin.spark.sources.inputs import Input
from muntin.spark.window_plan import build_windows
from muntin.spark.windowed import WindowedAggregate
from muntin.testing.oracle import OracleStep
from muntin.testing.oracle.stepping import OUTCOMES

_CLOCK, _TAKE = "at_wall", "take"
_TYPES = {"string": pa.string(), "long": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}


@dataclass(frozen=True)
class SparkRunner:
    """A streaming query over one file a step, or a batch frame where the first step is the last.

    Every step has one more row, which ``where`` leaves out: it carries the clock of a step
    without messages.
    """

    spark: SparkSession
    name: str = "spark"
    tells_watermark: bool = True

    def runs(self, spec: WindowSpec, steps: Sequence[Batch]) -> bool:
        return spark_can_run(steps)

    def run(self, spec: WindowSpec, steps: Sequence[Batch]) -> list[OracleStep]:
        return self.run_all([(spec, steps)])[0]

    def run_all(
        self, cases: Sequence[tuple[WindowSpec, Sequence[Batch]]]
    ) -> list[list[OracleStep]]:
        """Run some cases in one query: all of them streams, or all of them batch frames.

        A query has costs of its own, which some cases share. Shorter ones get steps of nothing.
        """
        with tempfile.TemporaryDirectory() as folder:
            plans = self._plans(cases, Path(folder))
            batches = _batches(plans, cases[0][1][-1], folder)
        outputs = []
        for number, (plan, (spec, steps)) in enumerate(zip(plans, cases, strict=True)):
            totals: dict[str, int] = {}
            case_batches = [[row for row in rows if row["number"] == number] for rows in batches]
            final = steps[-1].final
            outputs.append(
                [_step(plan, rows, spec, totals, final) for rows in case_batches[: len(steps)]]
            )
        return outputs

    def run_chains(
        self, cases: Sequence[tuple[WindowSpec, Sequence[Batch], WindowSpec]]
    ) -> list[list[list[dict[str, Any]]]]:
        """Return the firings of the second query of each case over the first one's full firings."""
        with tempfile.TemporaryDirectory() as folder:
            inner = self._plans([(spec, steps) for spec, steps, _ in cases], Path(folder))
            plans = []
            for plan, (*_, spec) in zip(inner, cases, strict=True):
                full = WindowedAggregate(plan).full
                outer_input = Input(full, spec.time, upstream=find_upstream(full))
                plans.append(build_windows(outer_input, spec.key_columns, replace(spec, types={})))
            batches = _batches(plans, cases[0][1][-1], folder)
        outputs = []
        for number, (_, steps, spec) in enumerate(cases):
            case_batches = [[row for row in rows if row["number"] == number] for rows in batches]
            outputs.append([_firings(rows, spec) for rows in case_batches[: len(steps)]])
        return outputs

    def _plans(
        self, cases: Sequence[tuple[WindowSpec, Sequence[Batch]]], folder: Path
    ) -> list[Plan]:
        longest, plans = max(len(steps) for _, steps in cases), []
        for number, (spec, steps) in enumerate(cases):
            rest = [Batch(wall=steps[-1].wall)] * (longest - len(steps))
            frame = self._write_steps(folder / f"source-{number}", spec, [*steps, *rest])
            plans.append(self._plan(spec, frame))
        return plans

    def _write_steps(self, source: Path, spec: WindowSpec, steps: Sequence[Batch]) -> DataFrame:
        """Write the steps as files, and return the frame that reads them."""
        source.mkdir()
        times = [m[spec.time] for step in steps for m in step.messages if spec.time]
        text = any(isinstance(time, str) for time in times)
        for number, step in enumerate(steps):
            path = source / f"{number:04d}.parquet"
            pq.write_table(_table(spec, step, text), path)
            os.utime(path, (1_000_000 + number, 1_000_000 + number))
        frame = self.spark.read.parquet(str(source))
        if steps[-1].final:
            return frame
        reader = self.spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(source))

    def _plan(self, spec: WindowSpec, frame: DataFrame) -> Plan:
        bare = replace(spec, types={}, windows=_with_intervals(spec.windows))
        # A clock that nothing reads is refused.
        clock = _CLOCK if spec.reads_clock else None
        read = Input(frame, spec.time, _TAKE, clock, spec.limits, spec.offset)
        return build_windows(read, spec.key_columns, bare)


def _with_intervals(windows: Kind) -> Kind:
    """Return windows whose gaps from messages are intervals, as Spark needs them."""
    if not isinstance(windows, Sessions) or windows.by is None:
        return windows
    seconds = f"CAST({windows.by} AS DECIMAL(18, 0)) / 1000000"
    return replace(windows, by=F.expr(f"make_dt_interval(0, 0, 0, {seconds})"))


def numbered(number: int, plan: Any) -> DataFrame:
    """Return the output of a plan with the number of its case."""
    return plan.output.withColumn("number", F.lit(number))


def _batches(plans: Sequence[Plan], last: Batch, folder: str) -> list[list[Any]]:
    """Run all plans in one query, and return its output by batch."""
    emitted = reduce(DataFrame.union, map(numbered, count(), plans))
    return [emitted.collect()] if last.final else batches_of(emitted, folder)


def batches_of(emitted: DataFrame, folder: str) -> list[list[Any]]:
    """Return the rows of each batch."""
    batches: list[list[Any]] = []

    def collect(frame: DataFrame, number: int) -> None:
        assert number == len(batches)
        batches.append(frame.collect())

    writer = emitted.writeStream.foreachBatch(collect).trigger(availableNow=True)
    writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
    return batches


def _table(spec: WindowSpec, step: Batch, text: bool) -> pa.Table:
    """Return a step's messages, and the row that only carries the clock."""
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
    moment = datetime(1970, 1, 1) + timedelta(microseconds=time)
    return moment.isoformat(sep=" ", timespec="microseconds")


def _step(
    plan: Plan, rows: list[Any], spec: WindowSpec, totals: dict[str, int], final: bool
) -> OracleStep:
    firings = _firings(rows, spec)
    rejected = [row for blob in blobs(rows, "rejected") for row in rows_of(blob)]
    progress = [json.loads(row["progress"]) for row in rows if row["progress"]]
    assert len(progress) == plan.shards
    counts: dict[str, int] = {}
    for shard in progress:
        for name, n in shard["counts"].items():
            counts[name] = counts.get(name, 0) + n
    new = {name: n - totals.get(name, 0) for name, n in counts.items()}
    totals.update(counts)
    new["seen"] = new.get("seen", 0) - new.pop("filtered", 0)
    marks = {shard["watermark"] for shard in progress}
    assert len(marks) == 1
    zeros = dict.fromkeys(OUTCOMES, 0)
    for row in rejected:
        for column in (_CLOCK, _TAKE):
            del row[column]
        if spec.time:
            row[spec.time] = _micros(row[spec.time])
    ends = final and spec.axis == "time"
    return OracleStep(firings, rejected, zeros | new, math.inf if ends else marks.pop())


def _firings(rows: list[Any], spec: WindowSpec) -> list[dict[str, Any]]:
    firings = [row for blob in blobs(rows, "results") for row in rows_of(blob)]
    return sorted(firings, key=lambda row: make_sort_key(row, spec))


def blobs(rows: list[Any], kind: str) -> list[pa.Table]:
    return [pa.ipc.open_stream(row["blob"]).read_all() for row in rows if row["kind"] == kind]


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows with every timestamp as microseconds."""
    columns = {
        name: column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pa.table(columns).to_pylist()


def _micros(time: int | str | None) -> int | str | None:
    """Parse a time that went through Spark as text; other text stays as it is."""
    try:
        return parse_time("time", time) if isinstance(time, str) else time
    except ValueError:
        return time
