"""Tests of how long a join keeps its messages."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from muntin.engine import columns
from muntin.engine.joins.joiner import Joiner
from muntin.engine.joins.shard import JoinShard
from muntin.model.bounds import SideName, Within
from muntin.model.joins import SIDES, How, JoinSpec, Side
from muntin.model.policies import Each, Every, Firing
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache

SCHEMA = pl.Schema({"key": pl.String(), "id": pl.Int64(), columns.TIME: pl.Int64()})


def make_shard(how: How = "inner", **firing: Any) -> JoinShard:
    side = Side(("key",), "time", firing=Firing(**{"early": Each(), "late": Each(), **firing}))
    spec = JoinSpec(side, side, Within(100, 100), how)
    joiner = Joiner(spec, dict.fromkeys(SIDES, SCHEMA))
    return JoinShard(joiner, MemoryBlobs(), FrameCache())


def messages(*times: int) -> pl.DataFrame:
    rows = [("a", number, time) for number, time in enumerate(times)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def step(shard: JoinShard, left: pl.DataFrame, right: pl.DataFrame, wall: int = 0) -> Any:
    frames: dict[SideName, pl.DataFrame] = {"left": left, "right": right}
    return shard.step({side: [shard.joiner.arrive(side, frames[side])] for side in SIDES}, wall)


def test_a_message_is_stored_while_the_other_side_may_have_a_partner() -> None:
    shard = make_shard()
    assert step(shard, messages(0, 50), messages()).rows == 2
    assert step(shard, messages(), messages(100)).rows == 3
    assert step(shard, messages(), messages(151)).rows == 2
    assert step(shard, messages(900), messages(900)).rows == 2


def test_a_silent_side_retains_the_others_messages_unless_their_own_clock_expires_them() -> None:
    assert step(make_shard(), messages(0, 5_000), messages()).rows == 2
    assert step(make_shard(retention=1_000), messages(0, 5_000), messages()).rows == 1


def test_the_oldest_are_emitted_and_deleted_where_there_are_too_many() -> None:
    shard = make_shard("left", rows=2)
    emitted = step(shard, messages(10, 20, 30, 40), messages())
    assert emitted.rows == 2
    assert sorted(emitted.results["id"]) == [0, 1]
    assert emitted.results["emission"].unique().to_list() == ["full"]
    later = step(shard, messages(), messages(35))
    assert sorted(later.results["id"]) == [2, 3]


@pytest.mark.parametrize("how", ["inner", "full"])
def test_an_expired_message_is_stored_while_its_partner_waits(how: How) -> None:
    shard = make_shard(how, early=Every(60), late=Every(60))
    step(shard, messages(0, 40), messages(), wall=1)
    assert len(step(shard, messages(), messages(), wall=60).results) == 0
    # The right side's time is so late that no left message is kept for future partners.
    emitted = step(shard, messages(), messages(100, 300), wall=70)
    assert (emitted.pending, emitted.rows, len(emitted.results)) == (2, 4, 0)
    reopened = JoinShard(shard.joiner, shard.state.blobs, FrameCache())
    emitted = step(reopened, messages(), messages(), wall=120)
    assert emitted.results.select("id", "id_right").rows() == [(0, 0), (1, 0)]
    assert (emitted.pending, emitted.rows) == (0, 2)
