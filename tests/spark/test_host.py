"""Tests that the host runs any operator that follows the protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from muntin.engine.operator import Operator, Part, ShardState, StepOutput, Task
from muntin.spark.host.messages import read_frames
from muntin.spark.host.plan import build_output
from muntin.spark.host.processor import PROGRESS, unpack_rows
from muntin.spark.host.schema import polars_schema
from muntin.spark.host.shards import slots
from muntin.spark.host.task import ROW_SCHEMA, ShuffleTask, Stage, read_parts
from muntin.spark.sources.inputs import Input, OperatorInput

TOTALS = "remainder long, total long"


def make_sums() -> Callable[..., Operator]:
    """Return an operator that sums numbers by remainder; workers get it by value."""

    class Sums:
        def __init__(self, by: int) -> None:
            self.by = by

        def prepare(self, messages: Iterable[pl.DataFrame], task: Task) -> list[Part]:
            numbers = pl.concat(
                [pl.DataFrame(schema={"n": pl.Int64}), *(f[["n"]] for f in messages)]
            )
            with_remainder = numbers.with_columns(remainder=pl.col("n") % self.by)
            return [
                Part(
                    s,
                    {"from": task.input},
                    {"mine": with_remainder.filter(pl.col("remainder") % task.shards == s)},
                )
                for s in range(task.shards)
            ]

        def open(self, state: ShardState) -> Any:
            class Step:
                task_watermark = None

                def run(
                    self,
                    parts: Sequence[Part],
                    wall: int | None,
                    *,
                    final: bool,
                    ends_run: bool = False,
                ) -> StepOutput:
                    assert (wall, final) == (None, True)
                    assert all(part.shard == state.shard for part in parts)
                    frames = [part.frames["mine"] for part in parts if part.frames]
                    rows = pl.concat(
                        [pl.DataFrame(schema={"n": pl.Int64, "remainder": pl.Int64}), *frames]
                    )
                    totals = rows.group_by("remainder").agg(total=pl.col("n").sum())
                    state.blobs.save(json.dumps(len(rows)))
                    seen = int(state.blobs.load() or 0)
                    inputs = sorted({part.header["from"] for part in parts})
                    progress = {"seen": seen, "inputs": inputs}
                    return StepOutput({"totals": totals, "unasked": rows}, progress)

            return Step()

    return Sums


def test_a_host_runs_any_operator(spark: SparkSession) -> None:
    frames = [spark.range(10).select(F.col("id").alias("n")) for _ in range(2)]
    totals = spark.createDataFrame([], TOTALS).schema
    make = partial(make_sums(), 3)
    stage = Stage(make, slots(2), {"totals": totals}, "sums", is_reused=False)
    inputs = zip(frames, "ab", strict=True)
    sources = [OperatorInput(Input(f, None), {"n": None}, name=name) for f, name in inputs]
    output = build_output(stage, tuple(sources), None).persist()
    rows = unpack_rows(output, "totals", totals).collect()
    assert sorted(map(tuple, rows)) == [(0, 36), (1, 24), (2, 30)]
    progress = [json.loads(row.progress) for row in output.where(f"kind = '{PROGRESS}'").collect()]
    assert sorted(report["shard"] for report in progress) == [0, 1]
    assert sum(report["seen"] for report in progress) == 20
    assert [report["inputs"] for report in progress] == [["a", "b"]] * 2
    assert {row.kind for row in output.collect()} == {"totals", PROGRESS}
    output.unpersist()


def test_what_a_task_sends_comes_back_as_it_was() -> None:
    class JsonDataclass:
        def prepare(self, messages: Iterable[pl.DataFrame], task: Task) -> list[Part]:
            task_watermark = task.load_watermark()
            assert (task_watermark.is_known, task_watermark.watermark) == (True, None)
            (frame,) = messages
            return [Part(0, {"a": [1, None]}, {"x": frame[["n"]], "none": frame.head(0)}), Part(1)]

        def open(self, state: ShardState) -> Any:
            raise AssertionError

    stage = Stage(JsonDataclass, (7, 9), {}, "plain", is_reused=False)
    task = ShuffleTask(stage, "side", read_frames, None, frozenset())
    (batch,) = task(iter([pa.record_batch({"n": [1, 2]})]))
    assert batch.schema.names == ROW_SCHEMA.names
    assert batch["slot"].to_pylist() == [7, 9]
    first, second = (read_parts(n, [row]) for n, row in enumerate(batch.to_pylist()))
    (part,) = first
    assert (part.shard, part.input, part.header) == (0, "side", {"a": [1, None]})
    assert {name: frame["n"].to_list() for name, frame in part.frames.items()} == {"x": [1, 2]}
    assert second == [Part(1, {}, {}, "side")]


def test_parts_come_in_the_order_of_tasks() -> None:
    def row(task: int) -> dict[str, Any]:
        header = {"order": [task, "", 0, 0], "frames": [], "header": {"n": task}}
        return {"header": json.dumps(header), "frames": []}

    rows = [row(2), row(10), {"header": None, "frames": None}, row(0)]
    assert [part.header["n"] for part in read_parts(0, rows)] == [0, 2, 10]


def test_a_process_keeps_an_operator_unless_it_holds_what_is_the_users() -> None:
    stage = Stage(object, (0,), {}, "kept")  # type: ignore[arg-type]
    assert stage.operator() is stage.operator()
    not_reused = Stage(object, (0,), {}, "fresh", is_reused=False)  # type: ignore[arg-type]
    assert not_reused.operator() is not not_reused.operator()
    assert polars_schema(ROW_SCHEMA)["header"] == pl.String
