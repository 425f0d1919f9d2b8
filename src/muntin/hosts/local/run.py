"""Runs the operators of a plan batch by batch, from messages to rows and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from muntin.engine.operator import (
    REJECTED,
    RESULTS,
    Part,
    ShardState,
    StepOutput,
    Task,
    TaskWatermark,
)
from muntin.hosts.local.plan import LocalOperatorInput, LocalPlan
from muntin.hosts.local.rejected import fit_own, fit_upstream
from muntin.hosts.progress import INNER, STAGE
from muntin.sources.source import Remainder
from muntin.state.blobs import Blobs
from muntin.state.manifest import parse_manifest
from muntin.state.offsets import TakenOffsets
from muntin.state.reopened import judge
from muntin.state.runs import FrameCache

# Size of the cached frames of all shards of an operator, bytes.
_CACHE_BYTES = 512 << 20

FrameStream = Iterable[pl.DataFrame]
Stores = Callable[[int, int], Blobs]
"""A function that opens the store of an operator's shard, by their numbers."""


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
        self._identity = f"local-{number}"
        self._pool = pool
        self._stores = [stores(number, shard) for shard in range(plan.shards)]
        self._caches = [FrameCache(_CACHE_BYTES // plan.shards) for _ in self._stores]
        for shard in range(plan.shards):
            # The shard compares the spec that wrote its store with its own.
            plan.operator.open(self._make_state(shard))
        self._judged = _read_watermark(self._stores[0])
        self._no_results = pl.DataFrame(schema=plan.output_schema)
        self._no_rejected = pl.DataFrame(schema=dict(plan.layout.kinds))
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
        outputs = self._run_shards(parts, wall, final, ends_run)
        own_progress = [{"shard": shard, **out.progress} for shard, out in enumerate(outputs)]
        own_rejected = [out.rows[REJECTED] for out in outputs if len(out.rows[REJECTED])]
        fitted = [fit_own(self.plan.layout, rows) for rows in own_rejected]
        rejected = [rows for rows in (*upstream_rejected, *fitted) if len(rows)]
        return BatchOutput(
            self._select_results([out.rows[RESULTS] for out in outputs if len(out.rows[RESULTS])]),
            _concatenate(rejected, self._no_rejected),
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
        judged, backlog = self._judged, more.backlog if operator_input.reader.partitions else {}
        task = Task(
            operator_input.name, 0, self.plan.shards, lambda: judged, lambda: reached,
            lambda: backlog, finished=more.finished,
        )  # fmt: skip

        def read_messages() -> Iterator[pl.DataFrame]:
            for frame in rows:
                if len(frame):
                    yield operator_input.reader.read(frame, now)

        return self.plan.operator.prepare(read_messages(), task)

    def _run_shards(
        self, parts: Sequence[Part], wall: int | None, final: bool, ends_run: bool
    ) -> list[StepOutput]:
        def run(shard: int) -> StepOutput:
            shard_parts = [part for part in parts if part.shard == shard]
            state = self._make_state(shard, ends_run)
            return self.plan.operator.open(state).run(shard_parts, wall, final=final)

        numbers = range(self.plan.shards)
        busy = self._pool is not None and self.plan.shards > 1
        outputs = [*self._pool.map(run, numbers)] if busy and self._pool else [*map(run, numbers)]
        self._judged = outputs[0].judged or self._judged
        return outputs

    def _make_state(self, shard: int, ends_run: bool = False) -> ShardState:
        cache = self._caches[shard]
        cache.set_owner((self._identity, shard))
        return ShardState(self._identity, shard, self._stores[shard], cache, ends_run)

    def _select_results(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return the results of all shards through the select list."""
        if not frames:
            return self._no_results
        rows = _concatenate(frames, self._no_results)
        results = rows.select(
            pl.col(name) if rows.schema[name] == kind else pl.col(name).cast(kind)
            for name, kind in self.plan.results.items()
        )
        return results if self.plan.select_list is None else self.plan.select_list.apply(results)


def _concatenate(frames: Sequence[pl.DataFrame], nothing: pl.DataFrame) -> pl.DataFrame:
    if len(frames) == 1:
        return frames[0]
    return pl.concat(frames) if frames else nothing


def _read_watermark(store: Blobs) -> TaskWatermark:
    """Return the watermark and source offsets of an operator from a shard's last manifest."""
    text = store.load()
    if text is None:
        return TaskWatermark(True, None, TakenOffsets())
    manifest = parse_manifest(text)
    judged = judge(manifest.watermark, manifest.extra)
    return TaskWatermark(True, judged, TakenOffsets(manifest.offsets.get("", ())))


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
