"""Tests that agents use the clock of the batch, also when a batch is repeated."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.feed import DAY, STAMP, Feed

import muntin as mt
from muntin.engine.admission import NOW
from muntin.spark.host.messages import read_frames
from muntin.spark.host.task import ShuffleTask, Stage
from muntin.tables import App
from muntin.tables.route import AgentStage, Route, TopicFormat
from muntin.tables.step import AgentOperator

CLICK = pa.schema([("page", pa.string()), ("at", STAMP)])
COLUMNS = "page string, at timestamp"


def make_app(*, by_clock: bool) -> App:
    """Return an app that counts pages by second, and yields each event."""
    app = App("shop", max_ahead="1 day" if by_clock else None)
    views = app.Table("views", default=int).tumbling("1 second", expires="1 day")
    counts = views.relative_to_now() if by_clock else views

    @app.agent(app.topic("clicks"))
    async def count(clicks: Any) -> Any:
        async for click in clicks:
            counts[click["page"]] += 1
            yield click["page"]

    return app


@pytest.mark.slow
@pytest.mark.parametrize(("of_files", "by_clock"), [(True, False), (False, True)])
def test_a_batch_that_is_done_again_has_the_same_times(
    spark: SparkSession, tmp_path: Path, of_files: bool, by_clock: bool
) -> None:
    """The driver dies between the sinks and the commit."""
    feed = Feed(tmp_path / "source", CLICK)
    feed.add_table(pa.table([["a", "b", "a"], [DAY] * 3], schema=CLICK))
    frame = spark.readStream.schema(COLUMNS).parquet(str(feed.folder)).select("page")
    frame = frame if of_files else frame.where("page <> 'c'")

    def run() -> list[Any]:
        emitted: list[Any] = []

        def collect(frame: DataFrame, number: int) -> None:
            emitted.extend(sorted(map(tuple, frame.collect())))

        app = make_app(by_clock=by_clock)
        query = mt.on_spark(app, {"clicks": mt.source(frame, key="page")}).start(
            checkpoint=f"{tmp_path}/checkpoint",
            tables={"views": collect},
            results={"count": collect},
            available_now=True,
        )
        assert query.await_end(timeout=240)
        return emitted

    first = run()
    assert len(first) == 5
    for path in (tmp_path / "checkpoint/commits").glob("*0*"):
        path.unlink()
    assert run() == first


def read_header(stamps: list[int] | None, time_column: str) -> dict[str, Any]:
    """Return the header of the row that a task sends to the shards."""
    app = make_app(by_clock=False)
    schema = {"page": pl.String(), "at": pl.Datetime("us", "UTC")}
    stage = AgentStage(
        app,
        (Route("clicks", None, ("count",), True),),
        {"clicks": TopicFormat(schema, None, None)},
        frozenset(),
        {},
    )
    columns = {"page": ["a", "b"], "at": pa.array([DAY, DAY], STAMP)}
    if stamps is not None:
        columns[NOW] = pa.array(stamps, pa.int64())
    operator_stage = Stage(partial(AgentOperator, stage), (0,), {}, "operator", is_reused=False)
    task = ShuffleTask(operator_stage, "clicks", read_frames, time_column, frozenset(schema))
    (batch,) = task(iter([pa.RecordBatch.from_pydict(columns)]))
    header: dict[str, Any] = json.loads(batch.to_pylist()[0]["header"])
    route = header["header"].pop("route")
    assert route == 0
    task, topic, *_ = header["order"]
    return {"task": task, "topic": topic, **header["header"]}


def test_a_task_has_no_clock_of_its_own() -> None:
    assert read_header([1_000_000] * 2, NOW) | {"counts": 0} == {
        "task": 0, "topic": "clicks", "latest": {"clicks": 1_000_000}, "wall": 1_000_000,
        "counts": 0,
    }  # fmt: skip
    with_times = read_header([1_000_000] * 2, "at")
    assert with_times["wall"] == 1_000_000
    assert with_times["latest"]["clicks"] == DAY.timestamp() * 1_000_000
    assert read_header(None, "at")["wall"] is None
