"""Tests of setting back the watermark of a query on Spark after messages far ahead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.feed import Feed, at, rows

import muntin as mt
from muntin.spark import rescale as rescaling

DAY = 86400


@pytest.mark.slow
def test_windows_after_windows_take_messages_again(spark: SparkSession, tmp_path: Path) -> None:
    feed, out = Feed(tmp_path / "source"), tmp_path / "out.duckdb"
    checkpoint = tmp_path / "checkpoint"

    def run() -> dict[str, int]:
        frame: Any = feed.stream(spark)
        inner: Any = mt.windowed(frame, key="key", time="at", lateness="2 s", shards=2)
        inner = inner.tumbling("10 seconds").agg(n=mt.count())
        outer: Any = mt.windowed(inner, key="key", time="window_start", lateness="0 s", shards=2)
        outer = outer.tumbling("20 seconds").agg(n=mt.sum("n"))
        results = mt.to_duckdb(str(out), "windows", history="history")
        query = outer.start(checkpoint=str(checkpoint), results=results, available_now=True)
        assert query.await_end(240)
        assert query.progress.adds_up()
        return query.progress.inner.counts

    feed.add(*((f"key {s % 5}", at(s), s) for s in range(0, 40)))
    feed.add(("key 0", at(DAY), 0))
    feed.add(*((f"key {s % 5}", at(s), s) for s in range(40, 60)))
    assert run()["late"] == 20
    with pytest.raises(mt.OptionError, match="isn't before a watermark of the query"):
        mt.reset_watermark(checkpoint, to=at(DAY), spark=spark)

    def fail(*_: Any) -> None:
        raise RuntimeError("the power failed")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rescaling, "replace_home", fail)
        with pytest.raises(RuntimeError, match="the power failed"):
            mt.reset_watermark(checkpoint, to=at(60), spark=spark)
    assert mt.open_state(str(checkpoint), operator=1).watermark == at(DAY - 2)
    assert mt.reset_watermark(checkpoint, to=at(60), spark=spark).whole_from[0] == at(80)
    states = [mt.open_state(str(checkpoint), operator=n) for n in range(2)]
    # The outer windows' watermark is below that, and stays.
    assert [state.watermark for state in states] == [at(30), at(60)]
    feed.add(*((f"key {s % 5}", at(s), s) for s in range(60, 100)))
    feed.add(*((f"key {s % 5}", at(s), s) for s in range(100, 150)))
    assert run()["late"] == 20
    select = "SELECT epoch(window_start), n FROM windows WHERE key = 'key 1' ORDER BY ALL"
    zero = int(at(0).timestamp())
    # The outer window of seconds 40 to 59 had only late messages.
    assert [(int(start) - zero, n) for start, n in rows(out, select)] == [
        (0, 4), (20, 4), (60, 4), (80, 4), (100, 4),
    ]  # fmt: skip
