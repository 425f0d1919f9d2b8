"""Tests of a task's knowledge of the watermark of the operator before it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from muntin.engine.arrival import make_parts
from muntin.engine.operator import Part, Task
from muntin.engine.windows.combine import Combined
from muntin.hosts.progress import INNER, STAGE
from muntin.spark.host.messages import BLOB, KIND, PROGRESS, read_frames
from muntin.spark.host.task import ShuffleTask, Stage

HERE, BEFORE = {STAGE: INNER}, {STAGE: f"{INNER}/{INNER}"}


class RecordingOperator:
    """Records the upstream watermark of each task, once its messages were read."""

    def __init__(self) -> None:
        self.watermarks: list[int | None] = []

    def prepare(self, messages: Iterable[pl.DataFrame], task: Task) -> list[Part]:
        assert sum(map(len, messages)) == 1
        self.watermarks.append(task.reached())
        return []


def make_batch(*figures: dict[str, Any]) -> pa.RecordBatch:
    rows = [{"at": None, KIND: "progress", BLOB: None, PROGRESS: json.dumps(f)} for f in figures]
    rows.append({"at": 5, KIND: None, BLOB: None, PROGRESS: None})
    schema = {"at": pa.int64(), KIND: pa.string(), BLOB: pa.binary(), PROGRESS: pa.string()}
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(schema))


@pytest.mark.parametrize(
    ("figures", "ahead", "reached"),
    [
        ([{"watermark": 10} | HERE, {"watermark": 10} | HERE], 1, 11),
        ([{"watermark": 10} | HERE], 0, 10),
        ([{"watermark": 10} | HERE], -999, -989),
        ([{"watermark": 10} | HERE], None, None),
        ([{"watermark": None} | HERE], 1, None),
        ([], 1, None),
        # Operators further upstream have another time.
        ([{"watermark": 99} | BEFORE, {"watermark": 10} | HERE], 1, 11),
        ([{"watermark": 99} | BEFORE], 1, None),
    ],
)
def test_how_far_the_operator_before_has_come(
    figures: list[dict[str, Any]], ahead: int | None, reached: int | None
) -> None:
    operator = RecordingOperator()
    stage = Stage(lambda: operator, (0,), {}, "", is_reused=False)  # type: ignore[arg-type,return-value]
    task = ShuffleTask(stage, "", read_frames, "at", frozenset(), streams=True, ahead=ahead)
    assert list(task(iter([make_batch(*figures)]))) == []
    assert operator.watermarks == [reached]


@pytest.mark.parametrize(
    ("latest", "reached"), [(None, None), (5, None), (None, 0), (5, 9), (9, 5)]
)
def test_each_shard_learns_how_far_the_task_and_its_input_are(
    latest: int | None, reached: int | None
) -> None:
    nothing = pl.DataFrame({"reason": []})
    arrived = Combined(nothing, rejected=nothing, latest=latest)
    parts = make_parts([arrived], {}, Task("", 0, 2, reached=lambda: reached))
    headers = [
        (part.header["arrival"]["latest"], part.header["arrival"]["reached"]) for part in parts
    ]
    assert headers == [(latest, reached)] * 2
