"""The operator of joins, which partitions both sides by key and joins them in the shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import polars as pl

from muntin.engine import columns
from muntin.engine.arrival import make_parts
from muntin.engine.examples import find_examples
from muntin.engine.joins.joiner import Joiner, SideArrival
from muntin.engine.joins.partitioned import PartitionedJoinShard
from muntin.engine.joins.shard import JoinShard
from muntin.engine.operator import REJECTED, RESULTS, Part, ShardState, StepOutput, Task
from muntin.model.joins import SIDES, JoinSpec, SideName
from muntin.state.blobs import Blobs
from muntin.state.offsets import TakenOffsets
from muntin.state.runs import FrameCache
from muntin.state.shards import split_by_shard

_MESSAGES = "messages"


class JoinOperator:
    """The operator of a join, with the sides as its inputs."""

    def __init__(
        self,
        spec: JoinSpec,
        schemas: Mapping[SideName, Mapping[str, pl.DataType]],
        suffix: str,
        *,
        both_keys: bool,
    ) -> None:
        timed = {
            side: pl.Schema({**schema, columns.TIME: pl.Int64()})
            for side, schema in schemas.items()
        }
        self.joiner = Joiner(spec, timed, suffix, both_keys=both_keys)

    def prepare(self, messages: Iterable[pl.DataFrame], task: Task) -> list[Part]:
        joiner, side = self.joiner, cast(SideName, task.input)
        arrived, taken = [], TakenOffsets()
        for frame in messages:
            arrived.append(joiner.arrive(side, frame, taken))
            taken.add(arrived[-1].offsets)
        if not arrived:
            arrived.append(
                SideArrival(
                    joiner.make_empty_messages(side), rejected=joiner.make_empty_rejected(side)
                )
            )
        messages_of_task = pl.concat([part.messages for part in arrived])
        keys = list(joiner.spec.side(side).keys)
        return make_parts(
            arrived, {_MESSAGES: split_by_shard(messages_of_task, keys, task.shards)}, task
        )

    def open(self, state: ShardState) -> JoinStep:
        return JoinStep(self.joiner, state)


class JoinStep:
    """A shard of a join, opened for one batch."""

    def __init__(self, joiner: Joiner, state: ShardState) -> None:
        self.joiner = joiner
        self.shard = open_join_shard(joiner, state.blobs, state.cache)
        self.shard.state.ends_run = state.ends_run
        state.cache.retain(self.shard.state.list_blobs())

    def run(self, parts: Sequence[Part], wall: int | None, *, final: bool) -> StepOutput:
        arrived: dict[SideName, list[SideArrival]] = {side: [] for side in SIDES}
        for part in parts:
            side = cast(SideName, part.input)
            messages = part.frames.get(_MESSAGES, self.joiner.make_empty_messages(side))
            rejected = part.frames.get(REJECTED, self.joiner.make_empty_rejected(side))
            arrived[side].append(SideArrival(messages, rejected=rejected, **part.header["arrival"]))
        clock = self.shard.state.wall or 0 if wall is None else wall
        output = self.shard.step(arrived, clock, final=final)
        examples = find_examples(output.rejected, self.joiner.example_columns)
        rows = {RESULTS: output.results, REJECTED: output.rejected}
        return StepOutput(rows, output.progress | examples)


def open_join_shard(
    joiner: Joiner, blobs: Blobs, cache: FrameCache
) -> JoinShard | PartitionedJoinShard:
    """Open a shard of a join over its store as of the last commit."""
    if joiner.spec.axis == "rows":
        return PartitionedJoinShard(joiner, blobs, cache)
    return JoinShard(joiner, blobs, cache)
