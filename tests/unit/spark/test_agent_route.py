"""What a task makes of events that no agent can read."""

from __future__ import annotations

import json
from collections import Counter

import polars as pl
import pyarrow as pa
import pytest

from muntin.engine.codec import decode
from muntin.spark.agent_route import AgentStage, Arrival, Route, RouteTask
from muntin.tables import App
from muntin.tables.record import Keying


@pytest.mark.parametrize("field", ["at", None])
def test_an_event_whose_key_is_a_time_that_python_cant_hold_is_rejected(field: str | None) -> None:
    app = App("app")
    app.topic("events")
    schema = {"page": pl.String(), "at": pl.Datetime("us", "UTC")}
    key = Keying("at", field, None if field else (lambda value: value["at"]))
    arrival = Arrival(schema, "at", key, None)
    routes = (Route("events", None, (), True),)
    stage = AgentStage(app, routes, {"events": arrival}, "operator", (0,), frozenset(), {})
    times = pa.array([1, 2**63 - 1, -(2**62), None], pa.timestamp("us", "UTC"))
    batch = pa.record_batch({"page": ["a", "b", "c", "d"], "at": times})
    (told,) = RouteTask(stage, "events")(iter([batch]))
    rejected = pl.concat(decode(row["rejected"]) for row in told.to_pylist() if row["rejected"])
    assert Counter(rejected["reason"]) == {"malformed": 2, "null_time": 1}
    (header,) = {row["header"] for row in told.to_pylist() if row["rejected"]}
    assert json.loads(header)["counts"] == {"seen": 4, "taken": 1, "malformed": 2, "null_time": 1}
