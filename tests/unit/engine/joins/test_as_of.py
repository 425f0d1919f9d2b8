"""Tests of the messages that as-of joins keep and delete."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from muntin.engine import columns
from muntin.engine.joins.joiner import Joiner
from muntin.engine.joins.reading import AxisRange, read_join_messages
from muntin.engine.joins.shard import JoinShard
from muntin.model.bounds import AsOf, SideName
from muntin.model.joins import SIDES, JoinSpec, Side
from muntin.model.policies import Each, Firing
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache

Rows = list[tuple[Any, ...]]
SCHEMA = pl.Schema({"key": pl.String, "id": pl.Int64, columns.TIME: pl.Int64})


class Run:
    """A join of keys, numbers and times, which opens its shard again at each step."""

    def __init__(self, most: int | None = None, grace: int = 0, **options: Any) -> None:
        firing = Firing(Each(), Each(), grace=grace, retention=grace)
        side = Side(("key",), "time", firing=firing)
        self.spec = JoinSpec(side, side, AsOf(most), **options)
        self.joiner = Joiner(self.spec, dict.fromkeys(SIDES, SCHEMA))
        self.store = MemoryBlobs()

    def open_shard(self) -> JoinShard:
        return JoinShard(self.joiner, self.store, FrameCache())

    def step(self, left: Rows = [], right: Rows = [], **options: Any) -> Rows:  # noqa: B006
        frames = {"left": left, "right": right}
        arrived = {
            side: [self.joiner.arrive(side, pl.DataFrame(frames[side], SCHEMA, orient="row"))]
            for side in SIDES
        }
        return self.open_shard().step(arrived, 0, **options).results.rows()

    def read_stored_ids(self, side: SideName) -> list[int]:
        return (
            read_join_messages(self.open_shard(), side, AxisRange(None, None))["id"]
            .sort()
            .to_list()
        )


def test_of_old_versions_the_newest_of_each_key_stays():
    run = Run()
    for turn in range(40):
        run.step(left=[("z", 0, turn)], right=[("a", turn, turn), ("b", 100 + turn, turn)])
    # Before both watermarks there is one version of each key; the rows at 39 are not before.
    assert run.read_stored_ids("right") == [38, 39, 138, 139]
    assert run.open_shard().strategy.rows < 60
    assert run.step(left=[("a", 1, 39)], final=True)[-1][:3] == ("a", 1, 39)


def test_an_age_lets_even_the_newest_go():
    run = Run(most=5)
    run.step(left=[("z", 0, 10)], right=[("a", 1, 10), ("b", 2, 10)])
    run.step(left=[("z", 0, 30)], right=[("b", 3, 29)])
    assert run.read_stored_ids("right") == [3]
    for turn in range(31, 60):
        run.step(left=[("z", 0, turn)], right=[("b", turn, turn)])
    assert run.open_shard().strategy.rows < 20


def test_left_messages_go_when_they_have_their_version():
    run = Run(how="left")
    assert run.step(left=[("a", 1, 5), ("b", 2, 6)]) == []
    assert run.read_stored_ids("left") == [1, 2]
    assert [row[1] for row in run.step(right=[("a", 9, 6)])] == [1]
    assert run.read_stored_ids("left") == [2]
    assert run.step(right=[("c", 9, 7)]) == [("b", 2, None, "full")]
    assert run.read_stored_ids("left") == []


def test_grace_of_the_left_side_keeps_versions_for_it():
    run = Run(grace=20)
    run.step(right=[("a", 1, 1), ("a", 2, 15), ("a", 3, 40)], left=[("z", 0, 40)])
    for _ in range(20):
        run.step(left=[("z", 0, 40)], right=[("y", 0, 40)])
    assert run.step(left=[("a", 7, 20)]) == [("a", 7, 2, "late")]


@pytest.mark.parametrize("how", ["right", "full", "semi", "anti"])
def test_other_joins_have_no_versions(how):
    with pytest.raises(ValueError, match="isn't for as_of joins"):
        Run(how=how)
