"""What is inside an aggregating operator: see ``StoredWindows``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.output import Output, Shard
from muntin.engine.results import no_results
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.dedup import each_of, step_each
from muntin.engine.windows.operator import combiner, shard
from muntin.model.errors import OptionError
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec
from muntin.standalone.cuts import early_by_message, late_by_message, steps
from muntin.standalone.frame_builder import JUDGED, UNREAD, FrameBuilder
from muntin.standalone.input_fields import InputFields
from muntin.standalone.input_stream import ALWAYS, NEVER
from muntin.standalone.retained_messages import RetainedMessages
from muntin.standalone.stored_windows import StepRows, StoredWindows, timed
from muntin.state.blobs import Blobs
from muntin.state.runs import FrameCache

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
        self._cache = FrameCache()
        self._kept: RetainedMessages | None = None

    def open(self, builder: FrameBuilder) -> None:
        """Open what was stored, now that the types of all columns are known."""
        assert builder.columns is not None
        schema = dict(builder.schema)
        read = [
            *self.spec.key_columns,
            *(c for a in self.spec.aggregates.values() for c in a.columns),
            *([] if self.spec.own_gap is None else [self.spec.own_gap]),
        ]
        spec = replace(self.spec, types={name: str(schema[name]) for name in read})
        self._visible = list(builder.columns)
        self._moment = builder.moment
        self._place = pl.Int64() if self.spec.axis == "rows" else self._moment
        if self._messages is not None:
            schema[_ROW] = pl.Int64()
            horizon = InputFields.of_query(spec).reach + spec.firing.retention
            self._kept = RetainedMessages(spec, self._messages, self._cache, horizon)
        self.combiner: Combiner = combiner(spec, pl.Schema(schema))
        self.shard: Shard = shard(self.combiner, self.blobs, self._cache)
        nothing = Output(no_results(self.combiner), self.combiner.nothing_rejected, None, None)
        self._opened(self.shard.state, self._rows(nothing))

    @property
    def reached(self) -> dict[Any, int]:
        """See ``StoredWindows``."""
        return self.shard.state.offsets.ends if self.is_open else {}

    def take(self, messages: pl.DataFrame, *, final: bool = False) -> list[StepRows]:
        """Take a batch: one step."""
        return [self._step(messages, final=final)]

    def take_each(self, messages: pl.DataFrame) -> list[StepRows]:
        """Take single messages: as if each were a batch of its own."""
        # Of several clocks the slowest may let the watermark pass many windows.
        each = None if self.spec.clocks else each_of(self.shard)
        together = each is not None and each.takes_each(self.clock.read(self.shard.state))
        found = steps(messages, self.combiner, self.shard, together=together)
        return [self._step(part, each=alike) for part, alike in found]

    def advance(self, mark: int) -> list[StepRows]:
        """Move the watermark without a message."""
        return [self._step(latest=mark + self.spec.lateness)]

    def due(self) -> tuple[int, int]:
        """Which single messages make something due at once: those outside of two times.

        One before the first time, or at or after the second, may let a window emit.
        """
        spec, watermark = self.spec, self.watermark
        moving = spec.axis == "rows" or spec.windows.moves or bool(spec.clocks)
        if moving or watermark is None or early_by_message(spec, self.combiner):
            return NEVER, ALWAYS
        windows = spec.windows
        first = windows.last_end(watermark) if late_by_message(spec) else ALWAYS
        return first, windows.next_edge(watermark, spec.firing.grace) + spec.lateness

    def snapshot(
        self, start: int | None, end: int | None, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """What the windows hold that reach into a stretch; see ``Shard.snapshot``."""
        if not self.is_open:
            return self.empty.results.drop(columns.EMISSION, columns.REVISION)
        if only is not None:
            named = zip(self.spec.keys, self.combiner.message_keys, strict=False)
            types = {key: self.combiner.schema[name] for key, name in named}
            only = only.cast(types).rename(dict(zip(types, self.combiner.keys, strict=True)))  # type: ignore[arg-type]
        return timed(self.shard.snapshot(start, end, only), self._place)

    def messages(self, start: int | None, end: int | None) -> pl.DataFrame:
        """The kept messages from a position to another, both included, by position and offset."""
        if not self.is_open:
            return pl.DataFrame()
        if self._kept is None:
            hint = "make the operator with keep_messages=True"
            raise OptionError("keep_messages", False, "keeps no messages to get", hint)
        self._kept.expire(self._edges)
        nothing = pl.DataFrame(schema=self.combiner.schema).select(*self._visible, columns.TIME)
        found = self._kept.between(start, end, nothing)
        order = [columns.TIME, *(self.spec.offset or ())[::-1]]
        return found.sort(order, maintain_order=True).select(self._visible)

    def _step(
        self,
        messages: pl.DataFrame | None = None,
        *,
        final: bool = False,
        each: bool = False,
        latest: int | None = None,
    ) -> StepRows:
        state = self.shard.state
        wall = self.clock.read(state)
        if messages is None:
            messages = pl.DataFrame(schema=self.combiner.schema)
        elif self._kept is not None:
            messages = messages.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(_ROW))
        new = self._new(messages)
        if each:
            made = step_each(self.shard, messages, wall)
        else:
            combined = self.combiner.combine(messages, state.watermark, state.offsets)
            if latest is not None:
                combined.reached = latest
            made = self.shard.step([combined], wall, final=final)
        if self._kept is not None:
            self._keep(self._kept, new, made, final)
        return self._rows(made)

    def _new(self, messages: pl.DataFrame) -> pl.DataFrame:
        """The messages that weren't here before; looked for only where messages are kept."""
        if self._kept is None or self.spec.offset is None:
            return messages
        return messages.filter(~self.shard.state.offsets.known(messages, *self.spec.offset))

    def _keep(self, kept: RetainedMessages, new: pl.DataFrame, made: Output, final: bool) -> None:
        if final:
            kept.clear()
        else:
            taken = new.join(made.rejected.select(_ROW), on=_ROW, how="anti")
            if self.spec.axis == "rows":
                assert self.spec.offset is not None
                at = pl.col(self.spec.offset[1]).cast(pl.Int64)
                taken = taken.with_columns(at.alias(columns.TIME))
            kept.add(taken.select(*self._visible, columns.TIME))
            kept.expire(self._edges, self._past)
        kept.save()

    def _edges(self, partition: Any) -> tuple[int, int] | None:
        """The first positions that windows within retention, and within grace, depend on."""
        past, windows, firing = self._past(partition), self.spec.windows, self.spec.firing
        if past is None:
            return None
        open_from = past + firing.retention - firing.grace
        if not isinstance(windows, Sessions):
            numbered = self.combiner.numbered
            first, opened = (numbered.start(numbered.ended(p) + 1) for p in (past, open_from))
            return first, opened
        held = self.shard.snapshot(None, None)
        if partition is not None:
            held = held.filter(pl.col(self.spec.keys[0]) == partition)
        alive = windows.ended(open_from) + windows.gap
        still_open = held.filter(pl.col(columns.WINDOW_END) > alive)
        first, opened = windows.ended(past) + 1, windows.ended(open_from) + 1
        return (
            min([first, *held[columns.WINDOW_START].head(1)]),
            min([opened, *still_open[columns.WINDOW_START].head(1)]),
        )

    def _past(self, partition: Any) -> int | None:
        """Where the retention begins, on the axis."""
        reached = self.watermark
        if self.spec.axis == "rows":
            reached = self.shard.state.offsets.reached(partition)
        return None if reached is None else reached - self.spec.firing.retention

    def _rows(self, made: Output) -> StepRows:
        watermark = pl.coalesce(JUDGED, pl.lit(made.judged, dtype=pl.Int64)).cast(self._moment)
        rejected = made.rejected.select(
            *self._visible,
            columns.REASON,
            watermark.alias(columns.WATERMARK),
            pl.col(UNREAD).alias("unread"),
        )
        return StepRows(timed(made.results, self._place), rejected)
