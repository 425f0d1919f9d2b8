"""The stored windows of a joining operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.joins import reading as join_reading
from muntin.engine.joins.joiner import SIDE
from muntin.engine.joins.operator import JoinOperator, JoinStep, build_window_output
from muntin.engine.joins.reading import AxisRange
from muntin.engine.joins.shard import JoinShard
from muntin.engine.joins.strategy import SideFrames
from muntin.engine.operator import REJECTED, RESULTS
from muntin.model.bounds import SideName
from muntin.model.joins import SIDES, JoinSpec
from muntin.standalone.frame_builder import UNREAD_COLUMN, WATERMARK_COLUMN, FrameBuilder
from muntin.standalone.join_cuts import split_join_steps
from muntin.standalone.stored_windows import StepRows, StoredWindows, cast_bounds
from muntin.state.blobs import Blobs


@dataclass(frozen=True)
class PendingMessages:
    """Messages that wait to be processed.

    Attributes:
        order: The side number of each message in order of arrival, if they arrived one by one.
        final: True if the input ends with them.
    """

    messages: SideFrames
    order: bytes | None = None
    final: bool = False


class StoredJoin(StoredWindows):
    """The windows of one join; steps also return those of the sides in ``outputs``."""

    def __init__(
        self, spec: JoinSpec, suffix: str, blobs: Blobs, outputs: Sequence[SideName] = ()
    ) -> None:
        results = [*spec.left.keys, columns.EMISSION]
        super().__init__(blobs, results, [SIDE, columns.REASON, columns.WATERMARK])
        self.spec = spec
        self.suffix = suffix
        self.outputs = outputs

    def open(self, builders: Mapping[SideName, FrameBuilder]) -> None:
        """Open the stored state, once the types of all columns are known."""
        spec = self.spec
        self._time_types = {side: builders[side].time_type for side in SIDES}
        self._visible: dict[SideName, list[str]] = {}
        for side in SIDES:
            schema = builders[side].columns
            assert schema is not None
            self._visible[side] = list(schema)
            types = {name: str(kind) for name, kind in schema.items()}
            spec = spec.with_side(side, replace(spec.side(side), types=types))
        schemas = {side: builders[side].schema for side in SIDES}
        outputs = {side: self._visible[side] for side in self.outputs}
        operator = JoinOperator(spec, schemas, self.suffix, window_outputs=outputs)
        step = self._open_shard(operator)
        assert isinstance(step, JoinStep)
        self.joiner, self.shard = step.joiner, step.shard
        nothing = {RESULTS: self.joiner.no_results, REJECTED: self.joiner.no_rejected}
        for side, names in outputs.items():
            nothing[side] = build_window_output(self.joiner, side, names, [])
        self._finish_opening(self.shard.state, nothing)

    @property
    def watermarks(self) -> dict[SideName, int | None]:
        """The watermark of each side; ``None`` on the rows axis."""
        return dict(self.shard.watermarks) if self.is_open else dict.fromkeys(SIDES)

    @property
    def counts(self) -> dict[str, int]:
        """Number of messages by outcome, summed over partitions."""
        return self.shard.counts if self.is_open else {}

    @property
    def next_offsets(self) -> dict[Any, Any]:
        """The offset after the last one taken, by side and partition."""
        return {side: self.shard.state.taken[side].ends for side in SIDES} if self.is_open else {}

    def process(self, pending: PendingMessages) -> list[StepRows]:
        """Process messages: a batch in one step, single ones as if each were a batch."""
        if pending.order is None:
            return [self._step(pending.messages, pending.final)]
        watermarks_and_offsets = self.shard.watermarks, self.shard.state.taken
        steps = split_join_steps(
            pending.messages, pending.order, self.spec, *watermarks_and_offsets
        )
        return [self._step(messages) for messages in steps]

    def advance(self, watermark: int, sides: Sequence[SideName]) -> list[StepRows]:
        """Advance the watermarks of some sides without a message."""
        return [self._step(reached={s: watermark + self.spec.side(s).lateness for s in sides})]

    def get_messages(
        self, side: SideName, between: AxisRange, only: Sequence[pl.DataFrame]
    ) -> pl.DataFrame:
        """Return the stored messages of a side, with their position in ``columns.TIME``."""
        wanted = [self._cast_keys(side, keys) for keys in only]
        messages = join_reading.read_join_messages(self.shard, side, between, *wanted[:1])
        for keys in wanted[1:]:
            messages = messages.join(keys, on=keys.columns, how="semi")
        return messages.select(*self._visible[side], columns.TIME)

    def get_windows(
        self, side: SideName, between: AxisRange, only: pl.DataFrame | None
    ) -> pl.DataFrame:
        """Return the windows of a side that have messages; see ``join_reading.windows``."""
        if not self.is_open:
            return pl.DataFrame()
        keys = None if only is None else self._cast_keys(side, only)
        return self._cast_bounds(
            side, join_reading.read_join_windows(self.shard, side, between, keys)
        )

    def get_sessions(self, between: AxisRange, only: pl.DataFrame | None) -> pl.DataFrame:
        """Return the sessions of both sides; see ``join_reading.sessions``."""
        if not self.is_open:
            return pl.DataFrame()
        assert isinstance(self.shard, JoinShard)
        keys = None if only is None else self._cast_keys("left", only)
        return self._cast_bounds("left", join_reading.read_join_sessions(self.shard, between, keys))

    def _step(
        self,
        messages: SideFrames | None = None,
        final: bool = False,
        reached: Mapping[SideName, int] | None = None,
    ) -> StepRows:
        return self._to_step_rows(self._run(messages or {}, reached, final=final))

    def _to_step_rows(self, rows: StepRows) -> StepRows:
        return {
            RESULTS: self._hide_columns(rows[RESULTS]),
            REJECTED: self._format_rejected(rows[REJECTED]),
            **{side: self._cast_bounds(side, rows[side]) for side in self.outputs},
        }

    def _cast_keys(self, side: SideName, keys: pl.DataFrame) -> pl.DataFrame:
        kinds = self.joiner.schemas[side]
        return keys.cast({name: kinds[name] for name in keys.columns}).unique()

    def _hide_columns(self, results: pl.DataFrame) -> pl.DataFrame:
        names = self.joiner.result_names
        hidden = {
            names[s][n] for s in SIDES for n in (UNREAD_COLUMN, WATERMARK_COLUMN) if n in names[s]
        }
        return results.drop(hidden)

    def _format_rejected(self, rejected: pl.DataFrame) -> pl.DataFrame:
        outs = dict.fromkeys(
            self.joiner.rejected_names[side][name] for side in SIDES for name in self._visible[side]
        )
        watermark = pl.coalesce(WATERMARK_COLUMN, columns.WATERMARK)
        kinds = set(self._time_types.values())
        if self.spec.axis == "time" and len(kinds) == 1:
            watermark = watermark.cast(kinds.pop())
        return rejected.select(
            SIDE,
            *outs,
            columns.REASON,
            watermark.alias(columns.WATERMARK),
            pl.col(UNREAD_COLUMN).alias("unread"),
        )

    def _cast_bounds(self, side: SideName, windows: pl.DataFrame) -> pl.DataFrame:
        return windows if self.spec.axis == "rows" else cast_bounds(windows, self._time_types[side])
