"""Runs windows and joins on the operators of the local host."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from tests.join_oracle import JoinStep
from tests.join_runners import KINDS, Columns, JoinBatch
from tests.runners import Batch, make_sort_key

from muntin.engine import columns
from muntin.hosts.local.join_plan import plan_join
from muntin.hosts.local.plan import LocalInput, LocalPlan
from muntin.hosts.local.run import BatchOutput, OperatorRun, Remainder
from muntin.hosts.local.window_plan import plan_windows
from muntin.model.axis import parse_time
from muntin.model.bounds import SideName
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec
from muntin.model.kinds import Kind
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec
from muntin.sources.frames import FrameSource
from muntin.state.blobs import MemoryBlobs
from muntin.testing.oracle import OracleStep
from muntin.testing.oracle.stepping import OUTCOMES

_TYPES: dict[str, pl.DataType] = {
    "string": pl.String(),
    "long": pl.Int64(),
    "double": pl.Float64(),
    "boolean": pl.Boolean(),
}
_TIMESTAMP = pl.Datetime("us", "UTC")


@dataclass(frozen=True)
class LocalRunner:
    """Runs the plan of a frame, step by step.

    Attributes:
        shards: Number of shards.
        restart: Whether every step opens new operators over the stores.
    """

    shards: int = 1
    restart: bool = False
    tells_watermark: bool = True

    @property
    def name(self) -> str:
        return f"local-{self.shards}{'-restarted' * self.restart}"

    def runs(self, spec: WindowSpec, steps: Sequence[Batch]) -> bool:
        # Shards have parts of the limit each, and the oracle doesn't know the keys of each.
        is_divided = self.shards > 1 and spec.firing.over is not None
        return not is_divided and all(step.reached is None for step in steps)

    def run(self, spec: WindowSpec, steps: Sequence[Batch]) -> list[OracleStep]:
        plan, frames = window_plan(spec, steps, self.shards)
        results, totals = [], dict.fromkeys((*OUTCOMES, "filtered"), 0)
        with Run(plan, self.restart) as run:
            for step, frame in zip(steps, frames, strict=True):
                output = run.step([frame], step.wall, final=step.final, backlogs=[step.backlog])
                results.append(_window_step(output, spec, totals, final=step.final))
        return results


class Run:
    """The operators of a plan over stores in memory."""

    def __init__(self, plan: LocalPlan, restart: bool = False) -> None:
        self.plan = plan
        self.restart = restart
        self.stores: dict[tuple[int, int], MemoryBlobs] = {}
        self.pool = ThreadPoolExecutor(plan.shards)
        self.operators = self.open()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown()

    def open(self) -> OperatorRun:
        def store(operator: int, shard: int) -> MemoryBlobs:
            return self.stores.setdefault((operator, shard), MemoryBlobs())

        return OperatorRun(self.plan, store, self.pool)

    def step(
        self,
        frames: Sequence[pl.DataFrame],
        wall: int,
        *,
        final: bool,
        backlogs: Sequence[Mapping[str, bool]] = ({},),
    ) -> BatchOutput:
        if self.restart:
            self.operators = self.open()
        read = iter([[frame] for frame in frames])
        return self.operators.step(read, wall, wall, final=final, rest=map(Remainder, backlogs))


# The partition of a side's messages.
_PARTITION = "partition"


class PartitionedFrames(FrameSource):
    """Frames whose messages carry the name of their partition."""

    has_partitions = True


def window_plan(
    spec: WindowSpec, steps: Sequence[Batch], shards: int, where: pl.Expr | None = None
) -> tuple[LocalPlan, list[pl.DataFrame]]:
    """Return the plan of a query with a spec, and the frame of each step."""
    times = [m[spec.time] for step in steps for m in step.messages if spec.time]
    has_text_times = any(isinstance(time, str) for time in times)
    types = {n: _TYPES[kind] for n, kind in spec.types.items() if n != spec.time}
    if spec.time:
        types[spec.time] = pl.String() if has_text_times else _TIMESTAMP
    frames = [_frame(types, step.messages, spec.time if has_text_times else None) for step in steps]
    partitioned = any(step.backlog for step in steps)
    source_class = PartitionedFrames if partitioned else FrameSource
    if partitioned:
        frames = [f.with_columns(pl.col("partition").alias(columns.PARTITION)) for f in frames]
    source = source_class(_frame(types, [], None))
    local_input = LocalInput(source, spec.time, where, None, spec.limits, spec.offset)
    untyped_spec = replace(spec, types={}, windows=_with_durations(spec.windows))
    return plan_windows(local_input, spec.key_columns, untyped_spec, shards), frames


def _frame(
    types: dict[str, pl.DataType], messages: Sequence[dict[str, Any]], text_column: str | None
) -> pl.DataFrame:
    storage_types = {n: pl.Int64() if kind == _TIMESTAMP else kind for n, kind in types.items()}
    rows = [{n: message[n] for n in types} for message in messages]
    for row in rows:
        if text_column is not None:
            row[text_column] = _format_time(row[text_column])
    return pl.DataFrame(rows, schema=storage_types).with_columns(
        pl.col(n).cast(kind) for n, kind in types.items() if kind == _TIMESTAMP
    )


def _with_durations(windows: Kind) -> Kind:
    """Return windows whose own gaps of messages are durations."""
    if not isinstance(windows, Sessions) or windows.by is None:
        return windows
    return replace(windows, by=pl.col(windows.by).cast(pl.Duration("us")).alias("own_gap"))


def _format_time(time: int | str | None) -> str | None:
    if not isinstance(time, int):
        return time
    return str(pl.Series([time]).cast(pl.Datetime("us")).dt.strftime("%Y-%m-%d %H:%M:%S%.6f")[0])


def _window_step(
    output: BatchOutput, spec: WindowSpec, totals: dict[str, int], *, final: bool
) -> OracleStep:
    firings, rejected = window_rows(spec, output.results, output.rejected)
    counts = _count_outcomes(output, totals)
    assert counts.pop("filtered", 0) == 0
    watermarks = {shard["watermark"] for shard in output.progress}
    assert len(watermarks) == 1
    ends = final and spec.axis == "time"
    return OracleStep(firings, rejected, counts, math.inf if ends else watermarks.pop())


def window_rows(
    spec: WindowSpec, results: pl.DataFrame, rejected: pl.DataFrame
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the results and rejected messages of a batch in the oracle's form."""
    firings, rejected_rows = convert_rows(results), convert_rows(rejected)
    firings.sort(key=lambda row: make_sort_key(row, spec))
    for row in rejected_rows:
        if spec.time and isinstance(row[spec.time], str):
            text = row[spec.time]
            row[spec.time] = int(text) if text.lstrip("-").isdigit() else _parse_micros(text)
    return firings, rejected_rows


def _count_outcomes(output: BatchOutput, totals: dict[str, int]) -> dict[str, int]:
    """Return the counts of a step, by the outcome of messages."""
    sums: dict[str, int] = {}
    for shard in output.progress:
        for name, n in shard["counts"].items():
            sums[name] = sums.get(name, 0) + n
    new_counts = {name: sums.get(name, 0) - totals.get(name, 0) for name in {*totals, *sums}}
    totals.update(sums)
    return new_counts


def convert_rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows with times in microseconds."""
    time_columns = [n for n, kind in frame.schema.items() if isinstance(kind, pl.Datetime)]
    return frame.with_columns(pl.col(time_columns).cast(pl.Int64)).to_dicts()


def _parse_micros(time: str) -> int | str:
    try:
        return parse_time("time", time)
    except OptionError:
        return time


@dataclass(frozen=True)
class LocalJoinRunner:
    """Runs the plan of a join of two frames, step by step, with the options of `LocalRunner`."""

    shards: int = 1
    restart: bool = False
    tells_watermarks: bool = False

    @property
    def name(self) -> str:
        return f"local-{self.shards}{'-restarted' * self.restart}"

    def runs(self, spec: JoinSpec, steps: Sequence[JoinBatch]) -> bool:
        """Return whether these steps are supported: no bounded rows in shards, no text times."""
        bounded = any(spec.side(side).firing.rows for side in SIDES)
        times = (
            message.get(spec.side(side).time or "")
            for step in steps
            for side in SIDES
            for message in step.side(side)
        )
        return not (bounded and self.shards > 1) and not any(isinstance(t, str) for t in times)

    def run(self, spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]) -> list[JoinStep]:
        plan, frames = join_plan(spec, types, steps, self.shards)
        results, totals = [], dict.fromkeys(OUTCOMES, 0)
        with Run(plan, self.restart) as run:
            for number, step in enumerate(steps):
                side_frames = [frames[side][number] for side in SIDES]
                backlogs = [
                    {_PARTITION: step.backlog[side]} if side in step.backlog else {}
                    for side in SIDES
                ]
                output = run.step(side_frames, step.wall, final=step.final, backlogs=backlogs)
                result = JoinStep(convert_rows(output.results))
                result.rejected = [
                    format_rejected_message(types, row) for row in convert_rows(output.rejected)
                ]
                result.counts.update(_count_outcomes(output, totals))
                results.append(result)
        return results


def join_plan(
    spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch], shards: int
) -> tuple[LocalPlan, dict[SideName, list[pl.DataFrame]]]:
    """Return the plan of a join with a spec, and the frames of each side's steps."""
    inputs: dict[SideName, LocalInput] = {}
    frames: dict[SideName, list[pl.DataFrame]] = {}
    for side in SIDES:
        side_spec = spec.side(side)
        column_types = {
            n: _TIMESTAMP if n == side_spec.time else KINDS[t] for n, t in types[side].items()
        }
        frames[side] = [_frame(column_types, step.side(side), None) for step in steps]
        source_class = FrameSource
        if any(side in step.backlog for step in steps):
            source_class = PartitionedFrames
            partition = pl.lit(_PARTITION).alias(columns.PARTITION)
            frames[side] = [frame.with_columns(partition) for frame in frames[side]]
        source = source_class(_frame(column_types, [], None))
        inputs[side] = LocalInput(
            source, side_spec.time, None, None, side_spec.limits, side_spec.offset
        )
        spec = spec.with_side(side, replace(side_spec, types={}))
    return plan_join(inputs, spec, "_right", shards), frames


def format_rejected_message(
    types: Columns, row: dict[str, Any]
) -> tuple[SideName, dict[str, Any], str, Any]:
    """Return a rejected message of a join in the oracle's form."""
    message = {name: row[name] for name in types[row["side"]]}
    return row["side"], message, row["reason"], row["watermark"]


LOCAL_RUNNERS = [LocalRunner(), LocalRunner(2), LocalRunner(restart=True)]
LOCAL_JOIN_RUNNERS = [LocalJoinRunner(), LocalJoinRunner(2), LocalJoinRunner(restart=True)]
