"""Tests of joins on the rows axis, where each partition is an axis of its own."""

from __future__ import annotations

from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.admission import flag_missing_offsets
from muntin.engine.joins.joiner import Joiner
from muntin.engine.joins.partitioned import PartitionedJoinShard
from muntin.engine.output import ShardOutput
from muntin.model.bounds import Within
from muntin.model.joins import SIDES, JoinSpec, Side
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache

OFFSET = ("lane", "offset")
SIDE = Side(("key",), None, offset=OFFSET)
SCHEMA = pl.Schema(
    {"key": pl.String(), "lane": pl.Int64(), "offset": pl.Int64(), columns.TIME: pl.Int64()}
)


def make_shard(how: Any = "inner") -> PartitionedJoinShard:
    joiner = Joiner(JoinSpec(SIDE, SIDE, Within(3, 3, "rows"), how), dict.fromkeys(SIDES, SCHEMA))
    return PartitionedJoinShard(joiner, MemoryBlobs(), FrameCache())


def step(shard: PartitionedJoinShard, left: list[Any], right: list[Any]) -> ShardOutput:
    arrived = {}
    for side, side_messages in zip(SIDES, (left, right), strict=True):
        rows = [(key, lane, offset, 0) for key, lane, offset in side_messages]
        messages = flag_missing_offsets(pl.DataFrame(rows, schema=SCHEMA, orient="row"), *OFFSET)
        arrived[side] = [shard.joiner.arrive(side, messages)]
    return shard.step(arrived, 0)


def test_a_message_without_a_position_is_rejected_once() -> None:
    shard = make_shard("full")
    emitted = step(shard, [("a", 0, 100), ("a", 0, None), ("b", None, 7), ("a", 5, None)], [])
    assert emitted.rejected.select("side", "lane", "offset", columns.REASON).rows() == [
        ("left", 0, None, "malformed"),
        ("left", None, 7, "malformed"),
        ("left", 5, None, "malformed"),
    ]
    assert emitted.counts == {"seen": 4, "counted": 1, "malformed": 3}
    emitted = step(shard, [], [("a", 0, 50), ("a", 0, None)])
    assert emitted.results.select("offset", "offset_right").rows() == [(100, 50)]
    assert emitted.counts == {"seen": 6, "counted": 2, "malformed": 4}


def test_messages_that_no_partner_can_reach_are_deleted() -> None:
    shard = make_shard()
    for number in range(20):
        emitted = step(shard, [("a", 0, 100 + number)], [("b", 0, 7 + number)])
    assert emitted.rows < 16
