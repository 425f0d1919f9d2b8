"""Runs the operators of a plan, and their shards, which stay open from batch to batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from muntin.engine.operator import (
    REJECTED,
    RESULTS,
    Operator,
    Part,
    ShardState,
    Step,
    StepOutput,
    Task,
    TaskWatermark,
)
from muntin.hosts.local.plan import LocalOperatorInput, LocalPlan, fit_own, fit_upstream
from muntin.hosts.progress import INNER, STAGE
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.rows import stack_rows

FrameStream = Iterable[pl.DataFrame]
Stores = Callable[[int, int], Blobs]
"""A function that opens the store of an operator's shard, by their numbers."""
# Size of the cached frames of all shards of an operator, bytes.
_CACHE_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class Remainder:
    """The rest of a source after a batch.

    Attributes:
        backlog: Whether each partition has more; empty for a source without partitions.
        finished: Whether no message can come after the batch.
    """

    backlog: Mapping[str, bool] = field(default_factory=dict)
    finished: bool = False


@dataclass
class BatchOutput:
    """The output of a batch.

    Attributes:
        results: The rows of the select list.
        rejected: The rejected messages.
        progress: The figures of each shard of each operator.
    """

    results: pl.DataFrame
    rejected: pl.DataFrame
    progress: list[dict[str, Any]] = field(default_factory=list)


class OperatorRun:
    """An operator with its shards and its upstream operators.

    Args:
        plan: The plan.
        stores: Opens the store of a shard.
        pool: The pool in which shards run in parallel; without it they run in sequence.
        number: The operator's number in its chain.

    Raises:
        SpecChangedError: When a store was written by another spec.
        StateCorruptedError: When a store can't be read.
    """

    def __init__(
        self,
        plan: LocalPlan,
        stores: Stores,
        pool: ThreadPoolExecutor | None = None,
        number: int = 0,
    ) -> None:
        self.plan = plan
        shard_stores = [stores(number, shard) for shard in range(plan.shards)]
        self._shards = OperatorShards(plan.operator, shard_stores, f"local-{number}", pool)
        self._upstream_runs: dict[str, OperatorRun] = {}
        number += 1
        for operator_input in plan.inputs:
            if (upstream := operator_input.upstream) is not None:
                run = OperatorRun(upstream.plan, stores, pool, number)
                self._upstream_runs[operator_input.name] = run
                number += len(upstream.plan.plans)

    def step(
        self,
        read: Iterator[FrameStream],
        now: int,
        wall: int | None,
        *,
        final: bool,
        ends_run: bool = False,
        rest: Iterator[Remainder] | None = None,
    ) -> BatchOutput:
        """Run a batch through the upstream operators, and through this one.

        Args:
            read: The rows of each source of the chain, in the order of `Plan.sources`.
            now: The clock of the machine for this batch, microseconds.
            wall: The clock of time-driven policies, microseconds; `None` where there are none.
            final: Whether the input ends with this batch.
            ends_run: Whether the run ends with this batch.
            rest: The remainder of each source after the batch, in that order.
        """
        rest = iter(()) if rest is None else rest
        parts: list[Part] = []
        upstream_rejected: list[pl.DataFrame] = []
        progress: list[dict[str, Any]] = []
        for operator_input in self.plan.inputs:
            rows: FrameStream = ()
            reached: int | None = None
            more = Remainder()
            if (upstream := operator_input.upstream) is not None:
                name = operator_input.name
                output = self._upstream_runs[name].step(
                    read, now, wall, final=final, ends_run=ends_run, rest=rest
                )
                upstream_rejected.append(fit_upstream(self.plan.layout, output.rejected, name))
                stage = name or ("join" if upstream.plan.is_join else INNER)
                reached = _find_event_time(output.progress, operator_input.ahead)
                progress += [_prefix_stage(shard, stage) for shard in output.progress]
                if len(output.results):
                    rows = [upstream.add_window_time(output.results)]
            else:
                rows, more = next(read), next(rest, more)
            parts += self._prepare(operator_input, rows, now, reached, more)
        outputs = self._shards.run(parts, wall, final=final, ends_run=ends_run)
        own_progress = [{"shard": shard, **out.progress} for shard, out in enumerate(outputs)]
        own_rejected = [out.rows[REJECTED] for out in outputs if len(out.rows[REJECTED])]
        fitted = [fit_own(self.plan.layout, rows) for rows in own_rejected]
        rejected = [rows for rows in (*upstream_rejected, *fitted) if len(rows)]
        return BatchOutput(
            self._select_results([out.rows[RESULTS] for out in outputs if len(out.rows[RESULTS])]),
            stack_rows(rejected or [self.plan.no_rejected]),
            [*own_progress, *progress],
        )

    def _prepare(
        self,
        operator_input: LocalOperatorInput,
        rows: FrameStream,
        now: int,
        reached: int | None,
        more: Remainder,
    ) -> list[Part]:
        def read_messages() -> Iterator[pl.DataFrame]:
            for frame in rows:
                if len(frame):
                    yield operator_input.reader.read(frame, now)

        return self._shards.prepare(
            read_messages(),
            operator_input.name,
            reached=reached,
            backlog=more.backlog if operator_input.reader.partitions else None,
            finished=more.finished,
        )

    def _select_results(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return the results of all shards through the select list."""
        if not frames:
            return self.plan.no_results
        rows, kinds = stack_rows(frames), self.plan.results
        if rows.columns != kinds.names() or rows.dtypes != kinds.dtypes():
            rows = rows.select(pl.col(name).cast(kind) for name, kind in kinds.items())
        return rows if self.plan.select_list is None else self.plan.select_list.apply(rows)


def _find_event_time(progress: Sequence[dict[str, Any]], ahead: int | None) -> int | None:
    """Return how far the event time of an operator's results has come, by its watermark."""
    if ahead is None:
        return None
    own = (shard["watermark"] for shard in progress if STAGE not in shard)
    watermarks = [watermark for watermark in own if watermark is not None]
    return min(watermarks) + ahead if watermarks else None


def _prefix_stage(shard: dict[str, Any], stage: str) -> dict[str, Any]:
    """Return a shard's figures with the path to its operator from the one downstream of it."""
    before = shard.get(STAGE)
    return {**shard, STAGE: f"{stage}/{before}" if before else stage}


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
