"""Tests of the rows that tasks send to shards, for large frames."""

from __future__ import annotations

import random

import polars as pl
import pytest

from muntin.engine.operator import Part, Task
from muntin.spark.host import task as tasks
from muntin.spark.host.task import Stage, read_parts
from muntin.state import frames


def rows_of(first: int, rows: int) -> pl.DataFrame:
    return pl.DataFrame({"n": range(first, first + rows), "text": ["some text"] * rows})


def test_large_frames_come_in_several_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_BLOB_BYTES", 400)
    monkeypatch.setattr(tasks, "_AT_ONCE", 2_000)
    stage = Stage(lambda: None, (10, 20), {}, "stage")  # type: ignore[arg-type, return-value]
    parts = {
        (number, shard): Part(
            shard,
            {"watermark": number},
            {"cells": rows_of(number, 200), "few": rows_of(5, 3), "none": rows_of(0, 0)},
            "left",
        )
        for number in (0, 1, 2)
        for shard in (0, 1)
    }
    rows = []
    for number in (2, 0, 1):
        task = Task("left", number, 2)
        task_rows = [*tasks._encode_parts(stage, task, [parts[number, shard] for shard in (0, 1)])]
        assert len(task_rows) > 4
        groups = [*tasks._group_rows(task_rows)]
        assert [row for group in groups for row in group] == task_rows
        assert all(sum(map(len, row[2])) <= 4_000 for row in task_rows)
        assert len(groups) > 1
        rows += task_rows
    random.Random(3).shuffle(rows)
    for shard, slot in enumerate(stage.slots):
        slot_rows = [
            dict(zip(tasks._ROW.names, row, strict=True)) for row in rows if row[0] == slot
        ]
        ticks = [{"slot": slot, "header": None, "frames": [], "passed": None}]
        received_parts = read_parts(shard, [*slot_rows, *ticks])
        assert [part.header["watermark"] for part in received_parts] == [0, 1, 2]
        for number, part in enumerate(received_parts):
            assert (part.shard, part.input, {*part.frames}) == (shard, "left", {"cells", "few"})
            for name, frame in part.frames.items():
                assert frame.equals(parts[number, shard].frames[name])
