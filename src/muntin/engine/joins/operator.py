"""The operator of joins, which partitions both sides by key and joins them in the shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import polars as pl

from muntin.engine import columns
from muntin.engine.admission import find_examples
from muntin.engine.arrival import AheadMessage, Received, make_parts, measure_load
from muntin.engine.joins.joiner import LATE, Joiner, SideArrival
from muntin.engine.joins.partitioned import PartitionedJoinShard
from muntin.engine.joins.reading import get_side_windows
from muntin.engine.joins.shard import JoinShard
from muntin.engine.operator import REJECTED, RESULTS, STATE_SIZE, Part, ShardState, StepOutput, Task
from muntin.engine.output import EnteringMessages
from muntin.engine.windows.panes import in_columns, pane_of, window_end, window_start
from muntin.model.bounds import SideName
from muntin.model.joins import SIDES, JoinSpec
from muntin.model.kinds import Paned, is_paned
from muntin.model.pipeline import WINDOW_BOUNDS
from muntin.model.policies import Every
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.hashing import split_by_shard
from muntin.state.offsets import TakenOffsets
from muntin.state.rows import stack_rows

_MESSAGES = "messages"
WindowOutputs = Mapping[SideName, Sequence[str]]
"""The columns of the sides whose windows emit messages of their own, besides the pairs."""


class JoinOperator:
    """The operator of a join, with the sides as its inputs.

    Attributes:
        window_outputs: The sides whose windows emit, as rows of a kind with the side's name.
    """

    def __init__(
        self,
        spec: JoinSpec,
        schemas: Mapping[SideName, Mapping[str, pl.DataType]],
        suffix: str,
        *,
        both_keys: bool = False,
        window_outputs: WindowOutputs | None = None,
    ) -> None:
        timed = {
            side: pl.Schema({**schema, columns.TIME: pl.Int64()})
            for side, schema in schemas.items()
        }
        self.joiner = Joiner(spec, timed, suffix, both_keys=both_keys)
        self.window_outputs = window_outputs or {}

    def prepare(self, messages: Iterable[pl.DataFrame], task: Task) -> list[Part]:
        joiner, side = self.joiner, cast(SideName, task.input)
        arrived, taken = [], TakenOffsets()
        own = joiner.spec.side(side)
        ahead = AheadMessage((*(own.offset or ()), *own.keys))
        for frame in ahead.watch(messages):
            arrived.append(joiner.arrive(side, frame, taken))
            taken.add(arrived[-1].offsets)
        if not arrived:
            arrived.append(
                SideArrival(joiner.no_messages[side], rejected=joiner.no_side_rejected[side])
            )
        messages_of_task = stack_rows([part.messages for part in arrived])
        frames = {_MESSAGES: split_by_shard(messages_of_task, list(own.keys), task.shards)}
        parts = make_parts(arrived, frames, task)
        ahead.add_to(parts[0])
        return parts

    def open(self, state: ShardState) -> JoinStep:
        return JoinStep(self.joiner, state, self.window_outputs)


class JoinStep:
    """A shard of a join; see `Step`."""

    task_watermark = None

    def __init__(
        self, joiner: Joiner, state: ShardState, window_outputs: WindowOutputs | None = None
    ) -> None:
        self.joiner = joiner
        self.window_outputs = window_outputs or {}
        self.shard = open_join_shard(joiner, state.blobs, state.cache)
        state.cache.retain(self.shard.state.list_blobs())

    def run(
        self, parts: Sequence[Part], wall: int | None, *, final: bool, ends_run: bool = False
    ) -> StepOutput:
        self.shard.state.ends_run = ends_run
        arrived: dict[SideName, list[SideArrival]] = {side: [] for side in SIDES}
        for part in parts:
            side = cast(SideName, part.input)
            messages = part.frames.get(_MESSAGES, self.joiner.no_messages[side])
            rejected = part.frames.get(REJECTED, self.joiner.no_side_rejected[side])
            arrived[side].append(SideArrival(messages, rejected=rejected, **part.header["arrival"]))
        clock = self.shard.state.wall or 0 if wall is None else wall
        output = self.shard.step(arrived, clock, final=final)
        rows = {RESULTS: output.results, REJECTED: output.rejected}
        for side, names in self.window_outputs.items():
            rows[side] = build_window_output(self.joiner, side, names, output.entering[side])
        examples = find_examples(output.rejected, self.joiner.example_columns)
        received = [
            Received(messages.messages, self.joiner.spec.side(side).keys)
            for side, those in arrived.items()
            for messages in those
        ]
        examples.update(AheadMessage.find_examples(parts))
        shown: dict[str, Any] = {"examples": examples} if examples else {}
        shown[STATE_SIZE] = self.shard.state.size
        return StepOutput(rows, output.progress | shown | measure_load(received))


def open_join_shard(
    joiner: Joiner, blobs: Blobs, cache: FrameCache
) -> JoinShard | PartitionedJoinShard:
    """Open a shard of a join over its store as of the last commit."""
    if joiner.spec.axis == "rows":
        return PartitionedJoinShard(joiner, blobs, cache)
    return JoinShard(joiner, blobs, cache)


def build_window_output(
    joiner: Joiner, side: SideName, names: Sequence[str], entering: Sequence[EnteringMessages]
) -> pl.DataFrame:
    """Return the output of a side's windows: each message once, when it enters the join.

    Source: the Samza SQL window operator design (the outputs of join windows).

    Returns:
        ``window_start`` and ``window_end`` of the first window that includes the message, if
        windows are on a grid; the side's columns ``names``; and ``emission``.

    Raises:
        OptionError: When a name is one of the added columns.
    """
    kind = get_side_windows(joiner.spec, side)
    has_period = isinstance(joiner.spec.side(side).firing.early, Every)
    grid = kind if is_paned(kind) else None
    added = [columns.EMISSION, *(WINDOW_BOUNDS if grid is not None else ())]
    for name in names:
        if name in added:
            raise columns.make_clash_error(side, name, "window outputs")
    empty = joiner.no_messages[side].with_columns(pl.lit(False).alias(LATE))
    no_messages = EnteringMessages(empty, None, False)
    return stack_rows(
        _build_part(names, grid, has_period, part) for part in (no_messages, *entering)
    )


def _build_part(
    names: Sequence[str], kind: Paned | None, has_period: bool, part: EnteringMessages
) -> pl.DataFrame:
    messages, bounds, is_full = part.messages, [], pl.lit(part.final)
    if kind is not None:
        find_first = in_columns(kind.first_window)(pane_of(pl.col(columns.TIME), kind))
        first_window = messages.select(find_first).to_series()
        messages = messages.with_columns(
            window_start(first_window, kind).alias(columns.WINDOW_START),
            window_end(first_window, kind).alias(columns.WINDOW_END),
        )
        bounds = [pl.col(WINDOW_BOUNDS) + part.start]
        # A message that waited may enter because its window has ended.
        if has_period and part.watermark is not None:
            is_full = is_full | (~pl.col(LATE) & (pl.col(columns.WINDOW_END) <= part.watermark))
    late = pl.when(LATE).then(pl.lit("late")).otherwise(pl.lit("early"))
    emission = pl.when(is_full).then(pl.lit("full")).otherwise(late)
    return messages.select(*bounds, *names, emission.alias(columns.EMISSION))
