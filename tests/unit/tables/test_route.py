"""Tests of a task's events that no agent can read."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from muntin.engine.operator import Task
from muntin.spark.host.messages import add_times, read_frames
from muntin.tables import App
from muntin.tables.record import Keying
from muntin.tables.route import WATERMARK_BEFORE, AgentStage, Route, RouteTask, TopicFormat


@pytest.mark.parametrize("field", ["at", None])
def test_an_event_whose_key_is_a_time_that_python_cant_hold_is_rejected(field: str | None) -> None:
    app = App("app")
    app.topic("events")
    schema = {"page": pl.String(), "at": pl.Datetime("us", "UTC")}
    key = Keying("at", field, None if field else (lambda value: value["at"]))
    arrival = TopicFormat(schema, key, None)
    routes = (Route("events", None, (), True),)
    stage = AgentStage(app, routes, {"events": arrival}, frozenset(), {})
    times = pa.array([1, 2**63 - 1, -(2**62), None], pa.timestamp("us", "UTC"))
    batch = pa.record_batch({"page": ["a", "b", "c", "d"], "at": times})
    frames = [add_times(frame, "at", schema) for frame in read_frames(iter([batch]))]
    emitted = RouteTask(stage, Task("events", 0, 1)).parts(frames)
    rejected = pl.concat(part.frames["rejected"] for part in emitted if "rejected" in part.frames)
    assert Counter(rejected["reason"]) == {"malformed": 2, "null_time": 1}
    (header,) = [part.header for part in emitted if "rejected" in part.frames]
    assert header["counts"] == {"seen": 4, "taken": 1, "malformed": 2, "null_time": 1}


@dataclass
class Visit:
    page: str
    at: datetime


@pytest.mark.parametrize("kind", [Visit, None])
@pytest.mark.parametrize("relative", [None, "at", "later"])
def test_a_malformed_event_moves_no_clock(kind: Any, relative: str | None) -> None:
    """Events without a page, which their type requires, or with a time that Python can't hold."""
    app = App("app", max_ahead=None)
    app.topic("events", value_type=kind)
    table = app.Table("visits", default=int).tumbling(10)
    if relative is not None:
        by = (lambda value: value.at) if kind else (lambda value: value["at"])
        table.relative_to_field("at" if relative == "at" else by)
    schema = {"page": pl.String(), "at": pl.Datetime("us", "UTC")}
    stage = AgentStage(
        app,
        (Route("events", None, (), True),),
        {"events": TopicFormat(schema, None, None)},
        frozenset(),
        {},
    )
    pages = ["a", "b", None if kind else "c", "d"]
    times = [10, 1_767_225_600_000_000_000 if kind is None else 20, 99, 5]
    if kind is None:
        times[2] = 20
    batch = pa.record_batch({"page": pages, "at": pa.array(times, pa.timestamp("us", "UTC"))})
    frames = [add_times(frame, "at", schema) for frame in read_frames(iter([batch]))]
    parts = RouteTask(stage, Task("events", 0, 1)).parts(frames)
    (latest,) = {json.dumps(part.header["latest"]) for part in parts}
    assert set(json.loads(latest).values()) == {20}
    (events,) = (part.frames["messages"] for part in parts if "messages" in part.frames)
    watermark_columns = [name for name in events.columns if name.startswith(WATERMARK_BEFORE)]
    assert len(watermark_columns) == 1 + (relative is not None)
    for name in watermark_columns:
        assert events[name].to_list()[1:] == ([10, 20, 20] if kind else [10, 10, 20])
