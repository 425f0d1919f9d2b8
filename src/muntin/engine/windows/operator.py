"""The operator of windows, which combines before the shuffle, and keeps and emits after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.admission import find_examples
from muntin.engine.arrival import AheadMessage, Received, make_parts, measure_load
from muntin.engine.fills import check_fills
from muntin.engine.firing import check_conditions
from muntin.engine.function_times import FUNCTION_TIMES, collect_function_times, sum_function_times
from muntin.engine.operator import (
    REJECTED,
    RESULTS,
    STATE_SIZE,
    Part,
    ShardState,
    StepOutput,
    Task,
    TaskWatermark,
)
from muntin.engine.output import Shard, ShardOutput
from muntin.engine.sessions.combine import SessionCombiner
from muntin.engine.sessions.cut_shard import CutSessionShard
from muntin.engine.sessions.shard import SessionShard
from muntin.engine.windows.by_count import ArrivalShard
from muntin.engine.windows.combine import Combined, Combiner
from muntin.engine.windows.dedup import DedupShard, PartitionedShard, each_of, step_each
from muntin.engine.windows.each import EachShard
from muntin.engine.windows.filling import FillingShard, InterpolatingShard
from muntin.engine.windows.sliding import SlidingShard
from muntin.engine.windows.trailing import TrailingShard
from muntin.engine.windows.zoned import ZonedCombiner, ZonedShard
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import WindowSpec
from muntin.model.trailing import Trailing
from muntin.model.zones import ZonedWindows
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.hashing import split_by_shard
from muntin.state.offsets import TakenOffsets

# Frames of a part: a row per key and pane, and messages that only the shard can classify.
_CELLS, _RAW = "cells", "raw"
# Combiners and shards of other windows than those over panes.
_COMBINERS: dict[type, type[Combiner]] = {
    Sessions: SessionCombiner,
    ZonedWindows: ZonedCombiner,
}
_SHARDS: dict[type, Callable[..., Shard]] = {
    Sessions: SessionShard,
    Sliding: SlidingShard,
    Trailing: TrailingShard,
}


class WindowOperator:
    """The operator of a query's windows."""

    def __init__(self, spec: WindowSpec, schema: Mapping[str, pl.DataType]) -> None:
        self.combiner = make_combiner(spec, pl.Schema({**schema, columns.TIME: pl.Int64()}))

    def prepare(self, messages: Iterable[pl.DataFrame], task: Task) -> list[Part]:
        with collect_function_times() as times:
            parts = self._prepare(messages, task)
        if times:
            parts[0].header[FUNCTION_TIMES] = times
        return parts

    def _prepare(self, messages: Iterable[pl.DataFrame], task: Task) -> list[Part]:
        combiner, judged = self.combiner, task.load_watermark()
        parts: list[Combined] = []
        taken_offsets = TakenOffsets() if judged.taken is None else judged.taken.copy()
        ahead = AheadMessage(list_example_columns(combiner.spec))
        for frame in ahead.watch(messages):
            if judged.is_known or combiner.forwards:
                parts.append(combiner.combine(frame, judged.watermark, taken_offsets))
                taken_offsets.add(parts[-1].offsets)
            else:
                parts.append(combiner.defer(frame))
        parts = parts or [Combined(combiner.no_cells, rejected=combiner.nothing_rejected)]
        cells = combiner.combine_cells([part.cells for part in parts])
        frames = {_CELLS: split_by_shard(cells, combiner.keys, task.shards)}
        raw = [part.raw for part in parts if part.raw is not None]
        if raw:
            frames[_RAW] = split_by_shard(_concatenate(raw), combiner.message_keys, task.shards)
        sent_parts = make_parts(parts, frames, task)
        for part in sent_parts:
            part.header |= {"known": judged.is_known, "judged": judged.watermark}
        ahead.add_to(sent_parts[0])
        return sent_parts

    def open(self, state: ShardState) -> WindowStep:
        return WindowStep(self.combiner, state)


class WindowStep:
    """A shard of windows; see `Step`."""

    def __init__(self, combiner: Combiner, state: ShardState) -> None:
        self.combiner = combiner
        self.shard = open_shard(combiner, state.blobs, state.cache)
        state.cache.retain(self.shard.state.list_blobs())

    @property
    def task_watermark(self) -> TaskWatermark:
        state = self.shard.state
        return TaskWatermark(True, state.judging, state.offsets)

    def run(
        self, parts: Sequence[Part], wall: int | None, *, final: bool, ends_run: bool = False
    ) -> StepOutput:
        state = self.shard.state
        state.ends_run = ends_run
        with collect_function_times() as times:
            combined = receive_parts(self.combiner, parts, state.judging)
            clock = state.wall or 0 if wall is None else wall
            output = self.shard.step(combined, clock, final=final)
        times = sum_function_times(
            [times, *(part.header.get(FUNCTION_TIMES, {}) for part in parts)]
        )
        load = measure_load(self._list_received(parts))
        functions = {FUNCTION_TIMES: times} if times else {}
        return self._to_output(output, {**load, **functions}, AheadMessage.find_examples(parts))

    def _list_received(self, parts: Sequence[Part]) -> list[Received]:
        combiner = self.combiner
        names = {_CELLS: combiner.keys, _RAW: combiner.message_keys}
        has_keys = bool(combiner.spec.key_columns)
        return [
            Received(part.frames[name], keys if has_keys else (), name == _CELLS)
            for part in parts
            for name, keys in names.items()
            if name in part.frames
        ]

    def takes_each(self, wall: int) -> bool:
        """Return whether ``run_each`` is possible with the policies and the waiting windows."""
        inner = each_of(self.shard)
        return inner is not None and inner.takes_each(wall)

    def run_each(self, messages: pl.DataFrame, wall: int) -> StepOutput:
        """Process single messages with one step, which emits as a step for each would."""
        return self._to_output(step_each(self.shard, messages, wall))

    def _to_output(
        self,
        output: ShardOutput,
        load: Mapping[str, Any] = MappingProxyType({}),
        ahead: Mapping[str, str] = MappingProxyType({}),
    ) -> StepOutput:
        watermark, rejected = pl.Series([output.judged], dtype=pl.Int64), output.rejected
        judged = watermark.new_from_index(0, len(rejected)).alias(columns.WATERMARK)
        rows = {RESULTS: output.results, REJECTED: rejected.hstack([judged])}
        examples = find_examples(output.rejected, list_example_columns(self.combiner.spec))
        examples.update(ahead)
        shown = {"examples": examples} if examples else {}
        stored = {STATE_SIZE: self.shard.state.size}
        return StepOutput(rows, {**output.progress, **stored, **shown, **load})


def list_example_columns(spec: WindowSpec) -> tuple[str, ...]:
    """Return the columns by which a message is recognised: its position, and its key."""
    return (*(spec.offset or ()), *spec.key_columns)


def receive_parts(
    combiner: Combiner, parts: Sequence[Part], watermark: int | None
) -> list[Combined]:
    """Return a shard's parts as batches; messages that a task passed on are combined here."""
    combined = []
    for part in parts:
        header, raw = part.header, part.frames.get(_RAW)
        if header["known"] and not combiner.forwards and header["judged"] != watermark:
            raise RuntimeError(
                f"a task judged by watermark {header['judged']}, the state has {watermark}"
            )
        cells = part.frames.get(_CELLS, combiner.no_cells)
        rejected = part.frames.get(REJECTED, combiner.nothing_rejected)
        passed_on = raw if header["known"] or combiner.forwards else None
        batch = Combined(cells, passed_on, rejected=rejected, **header["arrival"])
        combined.append(batch)
        if raw is not None and passed_on is None:
            deferred = combiner.combine(raw, watermark)
            for name in ("seen", "filtered"):
                deferred.counts.pop(name, None)
            combined.append(deferred)
    return combined


def _concatenate(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate frames, only some of which may have the flag for malformed messages."""
    messages = pl.concat(frames, how="diagonal")
    if columns.MALFORMED in messages.columns and messages[columns.MALFORMED].null_count():
        messages = messages.with_columns(pl.col(columns.MALFORMED).fill_null(False))
    return messages


def make_combiner(spec: WindowSpec, schema: pl.Schema) -> Combiner:
    """Return the combiner of a query."""
    combiner = _COMBINERS.get(type(spec.windows), Combiner)(spec, schema)
    check_conditions(combiner)
    check_fills(combiner)
    return combiner


def open_shard(combiner: Combiner, blobs: Blobs, cache: FrameCache) -> Shard:
    """Open a shard over its store as of the last commit."""
    if combiner.spec.by_arrival:
        return ArrivalShard(combiner, blobs, cache)
    if combiner.forwards:
        shard_class = PartitionedShard if combiner.spec.axis == "rows" else DedupShard
        return shard_class(combiner, blobs, cache, _open_inner)
    return _open_inner(combiner, blobs, cache)


def _open_inner(combiner: Combiner, blobs: Blobs, cache: FrameCache) -> Shard:
    """Open the shard for messages that come once, each with its position."""
    windows = combiner.spec.windows
    if windows.zone_column is not None and combiner.zone is None:
        return ZonedShard(combiner, blobs, cache, _open_inner)
    shard_class = _SHARDS.get(type(windows), EachShard)
    fill = combiner.spec.firing.fill
    if fill is not None:
        shard_class = InterpolatingShard if fill.waits else FillingShard
    if windows.is_cut:
        shard_class = CutSessionShard
    return shard_class(combiner, blobs, cache)
