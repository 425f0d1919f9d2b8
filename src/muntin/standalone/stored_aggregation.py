"""The stored windows of an aggregating operator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.operator import REJECTED, RESULTS
from muntin.engine.results import no_results
from muntin.engine.windows.operator import WindowOperator, WindowStep
from muntin.model.axis import MAX_POSITION, MIN_POSITION
from muntin.model.errors import OptionError
from muntin.model.spec import WindowSpec
from muntin.standalone.cuts import emits_early_per_message, emits_late_per_message, split_steps
from muntin.standalone.frame_builder import UNREAD_COLUMN, WATERMARK_COLUMN, FrameBuilder
from muntin.standalone.input_fields import InputFields
from muntin.standalone.retained_messages import RetainedMessages
from muntin.standalone.stored_windows import StepRows, StoredWindows, cast_bounds
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache

_ROW = "__muntin_row"


class StoredAggregation(StoredWindows):
    """The windows of one operator."""

    def __init__(self, spec: WindowSpec, blobs: Blobs, messages: Blobs | None = None) -> None:
        if messages is not None and spec.by_arrival:
            hint = 'give offset=("partition", "offset"), or leave keep_messages away'
            raise OptionError("keep_messages", True, "needs a position for each message", hint)
        named = [*spec.keys, columns.WINDOW_START, columns.WINDOW_END, *spec.aggregates]
        results = [*named, columns.EMISSION, columns.REVISION]
        super().__init__(blobs, results, [columns.REASON, columns.WATERMARK])
        self.spec = spec
        self._messages = messages
        self._retained: RetainedMessages | None = None

    def open(self, builder: FrameBuilder) -> None:
        """Open the stored state, once the types of all columns are known."""
        assert builder.columns is not None
        schema = dict(builder.schema)
        gap = self.spec.windows.own_gap
        read = [*self.spec.key_columns]
        read += [c for aggregate in self.spec.aggregates.values() for c in aggregate.columns]
        read += [] if gap is None else [gap]
        spec = replace(self.spec, types={name: str(schema[name]) for name in read})
        self._visible = list(builder.columns)
        self._time_type = builder.time_type
        self._bound_type = pl.Int64() if self.spec.axis == "rows" else self._time_type
        if self._messages is not None:
            schema[_ROW] = pl.Int64()
            horizon = InputFields.of_query(spec).reach + spec.firing.retention
            self._retained = RetainedMessages(spec, self._messages, FrameCache(), horizon)
        step = self._open_shard(WindowOperator(spec, schema))
        assert isinstance(step, WindowStep)
        self.window_step, self.combiner, self.shard = step, step.combiner, step.shard
        rejected = self.combiner.nothing_rejected.with_columns(columns.number(columns.WATERMARK))
        nothing = {RESULTS: no_results(self.combiner), REJECTED: rejected}
        self._finish_opening(self.shard.state, nothing)

    @property
    def next_offsets(self) -> dict[Any, int]:
        """The offset after the last one taken, by partition."""
        return self.shard.state.offsets.ends if self.is_open else {}

    def process_batch(self, messages: pl.DataFrame, *, final: bool = False) -> list[StepRows]:
        """Process a batch in one step."""
        return [self._step(messages, final=final)]

    def process_each(self, messages: pl.DataFrame) -> list[StepRows]:
        """Process single messages as if each were a batch of its own."""
        # Of several clocks the slowest may let the watermark pass many windows.
        wall = self.clock.read(self.shard.state)
        together = not self.spec.clocks and self.window_step.takes_each(wall)
        steps = split_steps(messages, self.combiner, self.shard, together=together)
        return [self._step(part, each=emits_each) for part, emits_each in steps]

    def advance(self, watermark: int) -> list[StepRows]:
        """Advance the watermark without a message."""
        return [self._step(reached=watermark + self.spec.lateness)]

    def find_quiet_range(self) -> tuple[int, int]:
        """Return the range of times in which a single message emits nothing by itself.

        A message before the first time, or at or after the second, may make a window emit.
        """
        spec, watermark = self.spec, self.watermark
        moving = spec.axis == "rows" or spec.windows.moves or bool(spec.clocks)
        if moving or watermark is None or emits_early_per_message(spec, self.combiner):
            return MAX_POSITION, MIN_POSITION
        windows = spec.uniform_windows
        first = windows.last_end(watermark) if emits_late_per_message(spec) else MIN_POSITION
        return first, windows.next_edge(watermark, spec.firing.grace) + spec.lateness

    def get_windows(
        self, start: int | None, end: int | None, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """Return the windows that overlap a range; see ``Shard.snapshot``."""
        if not self.is_open:
            return self.empty[RESULTS].drop(columns.EMISSION, columns.REVISION)
        if only is not None:
            named = zip(self.spec.keys, self.combiner.message_keys, strict=False)
            types = {key: self.combiner.schema[name] for key, name in named}
            only = only.cast(types).rename(dict(zip(types, self.combiner.keys, strict=True)))  # type: ignore[arg-type]
        return cast_bounds(self.shard.snapshot(start, end, only), self._bound_type)

    def get_messages(self, start: int | None, end: int | None) -> pl.DataFrame:
        """Return the kept messages between two positions, included, by position and offset."""
        if not self.is_open:
            return pl.DataFrame()
        if self._retained is None:
            hint = "make the operator with keep_messages=True"
            raise OptionError("keep_messages", False, "keeps no messages to get", hint)
        self._retained.expire(self._find_edges)
        nothing = pl.DataFrame(schema=self.combiner.schema).select(*self._visible, columns.TIME)
        messages = self._retained.select_between(start, end, nothing)
        order = [columns.TIME, *(self.spec.offset or ())[::-1]]
        return messages.sort(order, maintain_order=True).select(self._visible)

    def _step(
        self,
        messages: pl.DataFrame | None = None,
        *,
        final: bool = False,
        each: bool = False,
        reached: int | None = None,
    ) -> StepRows:
        if messages is None:
            messages = pl.DataFrame(schema=self.combiner.schema)
        elif self._retained is not None:
            messages = messages.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(_ROW))
        new = self._select_new(messages)
        if each:
            rows = self.window_step.run_each(messages, self.clock.read(self.shard.state)).rows
        else:
            rows = self._run({"": messages}, {} if reached is None else {"": reached}, final=final)
        if self._retained is not None:
            self._retain(self._retained, new, rows[REJECTED], final)
        return self._to_step_rows(rows)

    def _select_new(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Return the messages that weren't taken before; all, unless messages are kept."""
        if self._retained is None or self.spec.offset is None:
            return messages
        return messages.filter(~self.shard.state.offsets.find_repeated(messages, *self.spec.offset))

    def _retain(
        self, retained: RetainedMessages, new: pl.DataFrame, rejected: pl.DataFrame, final: bool
    ) -> None:
        if final:
            retained.clear()
        else:
            taken = new.join(rejected.select(_ROW), on=_ROW, how="anti")
            if self.spec.axis == "rows":
                assert self.spec.offset is not None
                offset = pl.col(self.spec.offset[1]).cast(pl.Int64)
                taken = taken.with_columns(offset.alias(columns.TIME))
            retained.add(taken.select(*self._visible, columns.TIME))
            retained.expire(self._find_edges, self._find_retention_start)
        retained.save()

    def _find_edges(self, partition: Any) -> tuple[int, int] | None:
        """Return the first positions that windows within retention, and within grace, depend on."""
        past = self._find_retention_start(partition)
        windows, firing = self.spec.uniform_windows, self.spec.firing
        if past is None:
            return None
        open_from = past + firing.retention - firing.grace
        if windows.is_numbered:
            numbered = self.combiner.numbered_windows
            first, opened = (numbered.start(numbered.last_ended(p) + 1) for p in (past, open_from))
            return first, opened
        held = self.shard.snapshot(None, None)
        if partition is not None:
            held = held.filter(pl.col(self.spec.keys[0]) == partition)
        alive = windows.last_ended(open_from) + windows.gap
        still_open = held.filter(pl.col(columns.WINDOW_END) > alive)
        first, opened = windows.last_ended(past) + 1, windows.last_ended(open_from) + 1
        return (
            min([first, *held[columns.WINDOW_START].head(1)]),
            min([opened, *still_open[columns.WINDOW_START].head(1)]),
        )

    def _find_retention_start(self, partition: Any) -> int | None:
        """Return the start of the retention, on the axis."""
        position = self.watermark
        if self.spec.axis == "rows":
            position = self.shard.state.offsets.next_offset(partition)
        return None if position is None else position - self.spec.firing.retention

    def _to_step_rows(self, rows: StepRows) -> StepRows:
        watermark = pl.coalesce(WATERMARK_COLUMN, columns.WATERMARK).cast(self._time_type)
        rejected = rows[REJECTED].select(
            *self._visible,
            columns.REASON,
            watermark.alias(columns.WATERMARK),
            pl.col(UNREAD_COLUMN).alias("unread"),
        )
        return {RESULTS: cast_bounds(rows[RESULTS], self._bound_type), REJECTED: rejected}
