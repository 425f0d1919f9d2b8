"""The shards of an operator in this process, which stay open from batch to batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import polars as pl

from muntin.engine.operator import (
    Operator,
    Part,
    ShardState,
    Step,
    StepOutput,
    Task,
    TaskWatermark,
)
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache

# Size of the cached frames of all shards of an operator, bytes.
_CACHE_BYTES = 512 << 20


class OperatorShards:
    """Runs the tasks and the shards of an operator.

    No other process writes the stores, so each shard is opened once and keeps its state in memory.
    After a step that fails, open the shards again.

    Args:
        operator: The operator.
        stores: The store of each shard.
        identity: The identity of the operator in this run of its query.
        pool: The pool in which shards run in parallel; without it they run in sequence.

    Attributes:
        steps: The open shards.

    Raises:
        SpecChangedError: When a store was written by another spec.
        StateCorruptedError: When a store can't be read.
    """

    def __init__(
        self,
        operator: Operator,
        stores: Sequence[Blobs],
        identity: str = "",
        pool: ThreadPoolExecutor | None = None,
    ) -> None:
        self._operator = operator
        self._pool = pool if len(stores) > 1 else None
        cache_bytes = _CACHE_BYTES // len(stores)
        self.steps: list[Step] = [
            operator.open(ShardState(identity, number, store, FrameCache(cache_bytes)))
            for number, store in enumerate(stores)
        ]

    def prepare(
        self,
        messages: Iterable[pl.DataFrame],
        name: str = "",
        *,
        reached: int | None = None,
        backlog: Mapping[str, bool] | None = None,
        finished: bool = False,
    ) -> list[Part]:
        """Prepare the messages of an input in one task.

        Args:
            messages: The messages.
            name: The name of the input.
            reached: The watermark of the upstream operator, if it is known.
            backlog: Whether each partition has more messages, if clocks are by partition.
            finished: Whether the source is finite and ends with this batch.
        """
        watermark = self.steps[0].task_watermark or TaskWatermark(False, None)
        task = Task(
            name, 0, len(self.steps), lambda: watermark, lambda: reached, lambda: backlog or {},
            finished,
        )  # fmt: skip
        return self._operator.prepare(messages, task)

    def run(
        self,
        parts: Sequence[Part],
        wall: int | None,
        *,
        final: bool = False,
        ends_run: bool = False,
    ) -> list[StepOutput]:
        """Run a step of each shard, as `Step.run` describes it; return their outputs in order."""

        def run_shard(shard: int) -> StepOutput:
            own = [part for part in parts if part.shard == shard]
            return self.steps[shard].run(own, wall, final=final, ends_run=ends_run)

        numbers = range(len(self.steps))
        return [*(map if self._pool is None else self._pool.map)(run_shard, numbers)]
