"""Tests of the limit of windows that wait to emit (``over=``)."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from tests.runners import Batch, EngineRunner, OracleRunner

from muntin.engine import columns
from muntin.engine.windows.operator import make_combiner, open_shard
from muntin.hosts.chain import emits_again
from muntin.model.aggregates import count, sum
from muntin.model.axis import rows
from muntin.model.errors import OptionError, SpecChangedError, WaitingWindowsError
from muntin.model.policies import Every, EveryRows, FirstThen
from muntin.model.spec import WindowSpec
from muntin.standalone import windowed
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache

SECOND = 1_000_000
TENS = windowed(key="key", time="time", lateness="1 minute").tumbling("10 seconds")


def step(spec: WindowSpec, blobs: MemoryBlobs, *messages: tuple[str, int]) -> list[tuple]:
    combiner = make_combiner(spec, pl.Schema({"key": pl.String(), columns.TIME: pl.Int64()}))
    shard = open_shard(combiner, blobs, FrameCache())
    frame = pl.DataFrame(messages, schema=combiner.schema, orient="row")
    frame = frame.with_columns(pl.col(columns.TIME) * SECOND)
    emitted = shard.step([combiner.combine(frame, shard.state.watermark, None)], 0)
    return emitted.results.select("key", pl.col("window_start") // SECOND, "emission").rows()


@pytest.mark.parametrize("seed", range(4))
def test_random_batches_emit_as_the_oracle_does(seed: int) -> None:
    draw = random.Random(seed)
    policies = (None, EveryRows(3), Every(20 * SECOND), FirstThen(EveryRows(1), EveryRows(4)))
    windows = windowed(key="key", time="time", lateness="40 seconds")
    windows = draw.choice(
        (windows.tumbling("10 seconds"), windows.hopping("20 seconds", "8 seconds"))
    )
    spec = (
        windows.early(over=draw.randrange(1, 6))
        .late(grace="20 seconds")
        .agg(n=count(), sum=sum("value"))
    )
    firing = replace(spec.firing, early=draw.choice(policies) or spec.firing.early)
    firing = replace(firing, accumulate=draw.random() < 0.5, repeat=draw.random() < 0.5)
    types = {"key": "string", "value": "long"}
    spec = replace(spec, firing=firing, types=types, shards=1)
    clock, steps = 0, []
    for _ in range(12):
        clock += draw.randrange(30)
        messages = [
            {
                "key": draw.choice("abc"),
                "time": (clock + draw.randrange(-50, 10)) * SECOND,
                "value": draw.randrange(9),
            }
            for _ in range(draw.randrange(6))
        ]
        steps.append(Batch(messages, clock * SECOND))
    steps.append(Batch([], clock * SECOND, final=True))
    expected = [output.firings for output in OracleRunner().run(spec, steps)]
    assert any(row["emission"] == "early" for rows in expected for row in rows)
    for runner in (EngineRunner(1), EngineRunner(1, restart=True), EngineRunner(1, repeat=True)):
        assert [output.firings for output in runner.run(spec, steps)] == expected


def test_a_shard_has_its_part_of_the_limit() -> None:
    spec = replace(TENS.early(over=3).agg(n=count()), shards=2)
    assert step(spec, MemoryBlobs(), ("a", 1), ("b", 2), ("c", 13)) == [("a", 0, "early")]


def test_a_limit_that_stops_stores_nothing_of_the_batch() -> None:
    blobs = MemoryBlobs()
    spec = TENS.early(over=2, stop=True).agg(n=count())
    assert step(spec, blobs, ("a", 1), ("b", 12)) == []
    for _ in range(2):
        with pytest.raises(WaitingWindowsError, match=r"over=2: 3 changed .* Raise over= of early"):
            step(spec, blobs, ("c", 1))
    wider_spec = TENS.early(over=3, stop=True).agg(n=count())
    assert step(wider_spec, blobs, ("c", 1)) == []
    emitting_spec = TENS.early(over=1).agg(n=count())
    assert step(emitting_spec, blobs, ("c", 2)) == [("a", 0, "early"), ("c", 0, "early")]


def test_a_limit_may_be_added_and_removed_beside_a_policy() -> None:
    blobs = MemoryBlobs()
    plain, limited = (TENS.early(every="1 hour", over=over).agg(n=count()) for over in (None, 1))
    assert step(plain, blobs, ("a", 1), ("b", 1), ("c", 1)) == []
    assert step(limited, blobs, ("a", 2)) == [("a", 0, "early"), ("b", 0, "early")]
    assert step(plain, blobs, ("a", 2)) == []
    with pytest.raises(SpecChangedError):
        step(TENS.agg(n=count()), blobs, ("a", 3))


def test_windows_that_only_stop_emit_once() -> None:
    stops, emits = (TENS.early(over=2, stop=stop).agg(n=count()) for stop in (True, False))
    assert not emits_again(stops, full=False, streams=True)
    assert emits_again(emits, full=False, streams=True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"over": 0}, "over=0 is less than one window"),
        ({"over": True}, "over=True isn't a whole number"),
        ({"each": True, "over": 2}, "over=2 limits nothing"),
        ({"every": "1 minute", "stop": True}, "stop=True stops at no limit; give over=N"),
    ],
)
def test_limits_of_nothing_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        TENS.early(**options).agg(n=count())


@pytest.mark.parametrize(
    ("kind", "size"), [("session", "1 minute"), ("sliding", "1 minute"), ("tumbling", rows(3))]
)
def test_windows_that_wait_in_another_order_have_no_limit(kind: str, size: Any) -> None:
    windows = getattr(windowed(key="key", time="time"), kind)(size).early(rows=3, over=2)
    with pytest.raises(OptionError, match="over=2 isn't for "):
        windows.agg(n=count())
