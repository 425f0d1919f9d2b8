"""Tests of changed windows that wait for a number of messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.unit.engine.queries import CountingBlobs, batch, combiner

from muntin.engine import columns
from muntin.engine.output import ShardOutput
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.operator import open_shard
from muntin.engine.windows.paned import PanedShard
from muntin.model.policies import Each, Every, EveryRows, Firing, FirstThen, RowsOrEvery
from muntin.model.sliding import Sliding
from muntin.model.windows import Windows
from muntin.state import runs
from muntin.state.frames import FrameCache

FIRING = Firing(early=EveryRows(3), late=EveryRows(2), grace=40, retention=40)


class Run:
    """A query of one shard, which is opened again for each step."""

    def __init__(self, windows: Any, firing: Firing) -> None:
        self.store, self.cache, self.watermark = CountingBlobs(), FrameCache(), None
        self.windows = windows
        self.query = self.make_query(firing)

    def make_query(self, firing: Firing) -> Combiner:
        return combiner(self.windows, firing=firing, types={"key": "String"}, shards=1)

    def open_shard(self) -> PanedShard:
        shard = open_shard(self.query, self.store, self.cache)
        assert isinstance(shard, PanedShard)
        return shard

    def step(self, *rows: tuple[Any, ...], **options: Any) -> ShardOutput:
        shard = self.open_shard()
        return shard.step(batch(self.query, shard.state.watermark, *rows), 0, **options)


def count_waiting_windows(shard: PanedShard) -> int:
    """Return how many windows wait, by reading the whole state."""
    count = 0
    for table, find_last_window in (
        (shard.early, shard.windows.last_ended),
        (shard.late, make_last_closed(shard)),
    ):
        frames = table.table.read()
        if frames and shard.state.watermark is not None:
            identity = [columns.WINDOW, *shard.keys]
            counts = pl.concat(frames, how="diagonal").group_by(identity).agg(pl.col("n").sum())
            is_open = pl.col(columns.WINDOW) > find_last_window(shard.state.watermark)
            count += len(counts.filter(is_open, pl.col("n") > 0))
    return count


def make_last_closed(shard: PanedShard) -> Any:
    return lambda watermark: shard.windows.last_ended(watermark - shard.spec.firing.grace)


@pytest.mark.parametrize("windows", [Windows(10, 10), Windows(10, 4), Sliding(9)], ids=str)
@pytest.mark.parametrize("accumulate", [True, False])
def test_pending_is_how_many_windows_wait(
    windows: Any, accumulate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MAX_RUNS", 2)
    run = Run(windows, replace(FIRING, accumulate=accumulate))
    random, seen = np.random.default_rng(7), set()
    for n in range(18):
        rows = [("abc"[int(k)], 2 * n - int(t), 1) for k, t in random.integers(0, (3, 50), (4, 2))]
        emitted = run.step(*rows)
        assert emitted.pending == count_waiting_windows(run.open_shard()), n
        seen.add(emitted.pending)
    assert len(seen) > 5
    assert run.step(final=True).pending == 0
    assert run.store.blobs == {}


@pytest.mark.parametrize("windows", [Windows(100, 100), Sliding(90)], ids=str)
@pytest.mark.parametrize("late", [False, True])
def test_the_cost_of_a_batch_does_not_depend_on_the_windows_that_wait(
    windows: Any, late: bool
) -> None:
    costs = []
    for keys in (10, 3_000):
        firing = Firing(EveryRows(4), EveryRows(4), grace=5_000, retention=5_000)
        run = Run(windows, firing)
        if late:
            run.step(("", 3_000, 1))
        run.step(*((f"key {n}", 50, 1) for n in range(keys)))
        emitted = []
        run.store.calls.clear()
        run.store.written = 0
        for _ in range(4):
            emitted += run.step(("key 1", 50, 1)).results["emission"].to_list()
            run.step()
        # Blobs are compressed, so their length varies a little.
        costs.append((dict(run.store.calls), run.store.written // 5_000, emitted))
    assert costs[0] == costs[1]
    assert costs[0][2] == ["late" if late else "early"] * len(costs[0][2]) != []


def test_the_cost_of_a_batch_does_not_depend_on_the_windows_that_wait_for_the_clock() -> None:
    costs = []
    for keys in (10, 3_000):
        run = Run(Windows(100, 100), Firing(early=FirstThen(Each(), Every(10**9))))
        for _ in range(2):
            run.step(*((f"key {n}", 50, 1) for n in range(keys)))
        run.store.calls.clear()
        run.store.written = 0
        results = []
        for n in range(4):
            emitted = run.step(("key 1", 50, 1), (f"new {n}", 50, 1))
            results += emitted.results.select("key", "revision").rows()
            assert emitted.pending == count_waiting_windows(run.open_shard()) == keys
        costs.append((dict(run.store.calls), run.store.written // 5_000))
    assert costs[0] == costs[1]
    assert results == [(f"new {n}", 0) for n in range(4)]


@pytest.mark.parametrize("accumulate", [True, False])
def test_rows_or_the_clock_whichever_comes_first(accumulate: bool) -> None:
    early = RowsOrEvery(3, 10)
    run = Run(Windows(100, 100), replace(FIRING, early=early, accumulate=accumulate))
    results = []
    for wall, *keys in ((5, "a", "b"), (6, "a"), (8, "a"), (12,), (13, "b"), (20, "c"), (30,)):
        shard = run.open_shard()
        rows = [(key, 1, 1) for key in keys]
        emitted = shard.step(batch(run.query, shard.state.watermark, *rows), wall)
        results += [(wall, *row) for row in emitted.results.select("key", "n", "revision").rows()]
        assert emitted.pending == count_waiting_windows(run.open_shard())
    assert results == [
        (8, "a", 3, 0), (12, "b", 1, 0), (20, "b", 2 if accumulate else 1, 1), (20, "c", 1, 0),
    ]  # fmt: skip


def test_an_emission_is_not_repeated() -> None:
    run = Run(Windows(10, 10), FIRING)
    results = []
    for n in range(9):
        emitted = run.step(("a", 1, 1), ("b", 2, 1))
        results += [(n, *row) for row in emitted.results.select("key", "n", "revision").rows()]
    assert results == [
        (2, "a", 3, 0), (2, "b", 3, 0), (5, "a", 6, 1), (5, "b", 6, 1), (8, "a", 9, 2),
        (8, "b", 9, 2),
    ]  # fmt: skip


def test_late_windows_emit_once_when_they_close() -> None:
    # The row of window 0 is in one run with that of a window that continues to wait.
    run = Run(Windows(10, 10), replace(FIRING, early=None))
    run.step(("a", 1, 1), ("a", 31, 1))
    assert run.step(("a", 2, 1), ("a", 25, 1)).pending == 2
    emitted = run.step(("a", 51, 1))
    late = emitted.results.filter(pl.col("emission") == "late")
    assert (late["window_start"].to_list(), emitted.pending) == ([0], 1)
    for _ in range(3):
        emitted = run.step(("b", 51, 1))
        assert (len(emitted.results), emitted.pending) == (0, 1)


@pytest.mark.parametrize("late", [Each(), Every(10**9)], ids=str)
def test_another_policy_emits_only_windows_that_still_wait(late: Any) -> None:
    run = Run(Windows(10, 10), replace(FIRING, early=None))
    run.step(("a", 1, 1), ("a", 31, 1))
    run.step(("a", 2, 1), ("a", 25, 1))
    run.step(("a", 51, 1))
    run.query = run.make_query(replace(FIRING, early=None, late=late))
    emitted = run.step(("a", 71, 1))
    starts = emitted.results.filter(pl.col("emission") == "late")["window_start"].to_list()
    assert starts == [20]


def test_fewer_rows_than_before_are_enough_at_once() -> None:
    run = Run(Windows(10, 10), FIRING)
    run.step(("a", 1, 1), ("a", 2, 1), ("b", 1, 1))
    run.query = run.make_query(replace(FIRING, early=EveryRows(2)))
    emitted = run.step()
    assert (emitted.results["key"].to_list(), emitted.pending) == (["a"], 1)
    assert run.step(("b", 1, 1)).pending == 0


def test_waiting_windows_of_an_earlier_version_are_counted_first() -> None:
    run = Run(Windows(10, 10), FIRING)
    run.step(("a", 1, 1), ("b", 1, 1))
    assert run.store.manifest is not None
    run.store.manifest = run.store.manifest.replace('"waits"', '"of others"')
    assert run.step(("a", 2, 1)).pending == 2
    assert run.step(("a", 3, 1)).pending == 1
