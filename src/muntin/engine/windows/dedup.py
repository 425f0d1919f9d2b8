"""Shards that accept every source offset once, even if messages are delivered again.

Such a shard stores the offsets that were taken, and wraps a shard that keeps the windows. On the
time axis there is one inner shard; on the rows axis there is one for each partition, which is an
axis of its own.

Source: the Samza SQL window operator design (exactly-once message store; tuple-based windows).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from muntin.engine import admission, columns
from muntin.engine.arrival import select_new
from muntin.engine.output import Shard, ShardOutput
from muntin.engine.results import build_values, no_results
from muntin.engine.state import State
from muntin.engine.windows.combine import Combined, Combiner
from muntin.engine.windows.each import EachShard
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.rows import drop_columns, stack_rows

MakeShard = Callable[[Combiner, Blobs, FrameCache], Shard]
"""A function that opens an inner shard."""


class DedupShard:
    """Windows on the time axis over messages with offsets, each of which is taken once."""

    def __init__(
        self, combiner: Combiner, blobs: Blobs, cache: FrameCache, make: MakeShard
    ) -> None:
        self.combiner = combiner
        self.inner = make(combiner, blobs, cache)
        self.state: State = self.inner.state

    def step(self, combined: Sequence[Combined], wall: int, *, final: bool = False) -> ShardOutput:
        classified, _ = self.classify(combined)
        return self.inner.step(classified, wall, final=final)

    def classify(self, combined: Sequence[Combined]) -> tuple[list[Combined], pl.DataFrame | None]:
        """Drop repeated messages, and return the classified batch and its new messages."""
        new = _drop_repeated(combined, self.state, self.combiner)
        classified = [replace(new, raw=None)]
        if new.raw is not None:
            classified.append(self.combiner.judge(new.raw, self.state.judging))
            # The watermark and the clock follow the whole batch, not this shard's part of it.
            classified[1].latest = classified[1].clock = None
            classified[1].partitions = ()
        return classified, new.raw

    def snapshot(
        self, start: int | None, end: int | None, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        return self.inner.snapshot(start, end, only)


class DividedShard:
    """Windows on several axes, such as the partitions of a source, with an inner shard for each."""

    def __init__(
        self, combiner: Combiner, blobs: Blobs, cache: FrameCache, make: MakeShard
    ) -> None:
        self.combiner = combiner
        self.spec = combiner.spec
        self.make = make
        self.state = State(blobs, cache, self.spec)

    def snapshot(
        self, start: int | None, end: int | None, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        frames = [build_values(self.combiner.no_windows, self.combiner)]
        shards = map(self._open_part, self.state.partitions)
        frames += [shard.snapshot(start, end, only) for shard in shards]
        return stack_rows(frames).sort(self._order, maintain_order=True)

    @property
    def _order(self) -> list[str]:
        return [columns.WINDOW_START, *self.spec.keys, columns.WINDOW_END]

    def _open_part(self, part: Any) -> Shard:
        """Open the inner shard of an axis as of its last step."""
        return self.make(self.combiner, self.state.partition(part), self.state.cache)

    def _begin_part(self, part: Any, watermark: int | None) -> Shard:
        """Open the inner shard of an axis for a step.

        It may be new, or idle for some batches, while its axis and the clock have advanced.
        """
        inner = self._open_part(part)
        inner.state.watermark, inner.state.wall = watermark, self.state.wall
        inner.state.ends_run = self.state.ends_run
        return inner


class PartitionedShard(DividedShard):
    """Windows over source offsets, with each partition as an axis of its own."""

    def step(self, combined: Sequence[Combined], wall: int, *, final: bool = False) -> ShardOutput:
        state = self.state
        ends_before = state.offsets.ends
        batch = _drop_repeated(combined, state, self.combiner)
        wall = state.clock([batch], wall)
        rejected_messages = self.combiner.nothing_rejected
        parts: dict[Any, pl.DataFrame] = {}
        if batch.raw is not None:
            accepted, rejected = self.combiner.part(batch.raw, None)
            rejected_messages = self.combiner.set_aside(rejected)
            counts = admission.count_messages(batch.raw, accepted, rejected)
            # Accepted messages are counted by their partition's shard, which may still reject them.
            counts.pop("counted")
            state.count(counts)
            parts = self._split_by_partition(accepted)
        outputs = [
            self._step_partition(
                partition, parts.get(partition), ends_before.get(partition), wall, final
            )
            for partition in self._select_partitions(parts, ends_before, final)
        ]
        state.wall = wall
        state.save()
        no_output, counts = no_results(self.combiner), dict(state.counts)
        output = ShardOutput.combine(outputs, no_output, [rejected_messages], counts)
        if len(output.results):
            output.results = output.results.sort(self._order, maintain_order=True)
        return output

    def _split_by_partition(self, accepted: pl.DataFrame) -> dict[Any, pl.DataFrame]:
        assert self.spec.offset is not None
        partition, offset = self.spec.offset
        flags = [c for c in (columns.KEEP, *columns.TIME_FLAGS) if c in accepted.columns]
        positioned = drop_columns(accepted, *flags).with_columns(
            pl.col(offset).cast(pl.Int64).alias(columns.TIME)
        )
        parts = positioned.partition_by(partition, as_dict=True, maintain_order=True)
        return {key[0]: part for key, part in parts.items()}

    def _select_partitions(
        self, parts: dict[Any, pl.DataFrame], before: dict[Any, int], final: bool
    ) -> list[Any]:
        """Return the partitions that need a step."""
        partitions = dict.fromkeys([*self.state.partitions, *parts])
        if final or self.spec.fires_by_clock:
            return list(partitions)
        after = self.state.offsets.ends
        return [p for p in partitions if p in parts or after.get(p) != before.get(p)]

    def _step_partition(
        self,
        partition: Any,
        messages: pl.DataFrame | None,
        before: int | None,
        wall: int,
        final: bool,
    ) -> ShardOutput:
        inner = self._begin_part(partition, before)
        if messages is None:
            classified = Combined(self.combiner.no_cells, rejected=self.combiner.nothing_rejected)
        else:
            classified = self.combiner.judge(messages, inner.state.watermark)
            del classified.counts["seen"]
        classified.latest, classified.clock = self.state.offsets.next_offset(partition), None
        counts_before = dict(inner.state.counts)
        output = inner.step([classified], wall, final=final)
        new_counts = {name: n - counts_before.get(name, 0) for name, n in output.counts.items()}
        self.state.count({name: n for name, n in new_counts.items() if n})
        return output


def each_of(shard: Shard) -> EachShard | None:
    """Return the inner shard that can process single messages in one step, if there is one."""
    inner = shard.inner if isinstance(shard, DedupShard) else shard
    return inner if isinstance(inner, EachShard) else None


def step_each(shard: Shard, messages: pl.DataFrame, wall: int) -> ShardOutput:
    """Process single messages in one step, as ``EachShard.step_each`` does."""
    inner = each_of(shard)
    assert inner is not None
    combiner, watermark = inner.combiner, shard.state.watermark
    classified = [combiner.combine(messages, watermark, shard.state.offsets)]
    new_messages: pl.DataFrame | None = messages
    if isinstance(shard, DedupShard):
        classified, new_messages = shard.classify(classified)
    if new_messages is None:
        new_messages = messages.clear()
    accepted = combiner.select_accepted(new_messages, watermark)
    return inner.step_each(classified, accepted, wall)


def _drop_repeated(combined: Sequence[Combined], state: State, combiner: Combiner) -> Combined:
    """Return the new messages of a batch, unchanged, with the batch's summary."""
    sent, offset = [part.raw for part in combined], combiner.spec.offset
    new_messages, summary = select_new(combined, sent, offset, state.offsets, state.count)
    return Combined(
        combiner.no_cells,
        stack_rows(new_messages) if new_messages else None,
        rejected=combiner.nothing_rejected,
        **summary,
    )
