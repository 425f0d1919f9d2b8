"""What is inside an aggregating operator: one shard of the engine over one store.

Messages come as frames and results leave as frames, in the types of the messages. Nothing in here
knows what is done with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.output import Output, Shard
from muntin.engine.results import no_results
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.dedup import each_of, step_each
from muntin.engine.windows.operator import combiner, shard
from muntin.model.errors import OptionError
from muntin.model.joins import SideName
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec
from muntin.standalone.cuts import cuts, early_by_message, late_by_message
from muntin.standalone.frame_builder import JUDGED, UNREAD, FrameBuilder
from muntin.standalone.input_fields import InputFields
from muntin.standalone.manual_clock import ManualClock
from muntin.standalone.message_buffer import ALWAYS, NEVER
from muntin.standalone.retained_messages import RetainedMessages
from muntin.state.blobs import Blobs
from muntin.state.runs import FrameCache

_ROW = "__muntin_row"


@dataclass(frozen=True)
class StepRows:
    """What a step emits; of a join, with what its sides' windows send on where that is asked."""

    results: pl.DataFrame
    rejected: pl.DataFrame
    sides: Mapping[SideName, pl.DataFrame] = field(default_factory=dict)


class StoredAggregation:
    """The windows of one operator."""

    def __init__(self, spec: WindowSpec, blobs: Blobs, messages: Blobs | None = None) -> None:
        if messages is not None and spec.by_arrival:
            hint = 'give offset=("partition", "offset"), or leave keep_messages away'
            raise OptionError("keep_messages", True, "needs a position for each message", hint)
        self.spec = spec
        self.blobs = blobs
        self.clock = ManualClock()
        self._messages = messages
        self._cache = FrameCache()
        self._kept: RetainedMessages | None = None

    def open(self, builder: FrameBuilder) -> None:
        """Open what was stored, now that the types of all columns are known.

        Raises:
            OptionError: When a column has a type that can't be taken.
            SpecChangedError: When the store was written by another query.
        """
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
        if self._messages is not None:
            schema[_ROW] = pl.Int64()
            horizon = InputFields.of_query(spec).reach + spec.firing.retention
            self._kept = RetainedMessages(spec, self._messages, self._cache, horizon)
        self.combiner: Combiner = combiner(spec, pl.Schema(schema))
        self.shard: Shard = shard(self.combiner, self.blobs, self._cache)
        self.clock.resume(self.shard.state)
        nothing = Output(no_results(self.combiner), self.combiner.nothing_rejected, None, None)
        self.empty = self._rows(nothing)

    @property
    def watermark(self) -> int | None:
        """The watermark in force, microseconds."""
        return self.shard.state.watermark

    @property
    def counts(self) -> dict[str, int]:
        """Messages so far, by what became of them."""
        return dict(self.shard.state.counts)

    @property
    def reached(self) -> dict[Any, int]:
        """For each partition the offset behind the last one taken."""
        return self.shard.state.offsets.ends

    def take(self, messages: pl.DataFrame, *, final: bool = False) -> list[StepRows]:
        """Take a batch: one step."""
        return [self._step(messages, final)]

    def take_each(self, messages: pl.DataFrame) -> list[StepRows]:
        """Take single messages: as if each were a batch of its own."""
        each = each_of(self.shard)
        wall = self.clock.read(self.shard.state)
        together = each is not None and each.takes_each(wall)
        found = cuts(messages, self.combiner, self.shard, together=together)
        if found.judged is not None:
            messages = messages.with_columns(found.judged.alias(JUDGED))
        ends = [*found.starts[1:], len(messages)]
        return [
            self._step(messages[start:end], False, each=found.each and end - start > 1)
            for start, end in zip(found.starts, ends, strict=True)
        ]

    def tick(self, wall: int) -> list[StepRows]:
        """Let the clock emit what is due; it never goes back."""
        self.clock.advance(wall)
        self.clock.note_active(self.shard.state)
        return [self._step(None, False)]

    def advance(self, mark: int) -> list[StepRows]:
        """Move the watermark without a message."""
        return [self._step(None, False, latest=mark + self.spec.lateness)]

    def due(self) -> tuple[int, int]:
        """Which single messages make something due at once: those outside of two times.

        Returns:
            A message before the first time, or at or after the second, may let a window emit.
        """
        spec, watermark = self.spec, self.watermark
        moving = spec.axis == "rows" or spec.windows.moves
        if moving or watermark is None or early_by_message(spec, self.combiner):
            return NEVER, ALWAYS
        windows = spec.windows
        first = windows.last_end(watermark) if late_by_message(spec) else ALWAYS
        return first, windows.next_edge(watermark, spec.firing.grace) + spec.lateness

    def snapshot(
        self, start: int | None, end: int | None, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """What the windows hold that reach into a stretch; see ``Shard.snapshot``."""
        if only is not None:
            named = zip(self.spec.keys, self.combiner.message_keys, strict=False)
            types = {key: self.combiner.schema[name] for key, name in named}
            only = only.cast(types).rename(dict(zip(types, self.combiner.keys, strict=True)))  # type: ignore[arg-type]
        return self._timed(self.shard.snapshot(start, end, only))

    def messages(self, start: int | None, end: int | None) -> pl.DataFrame:
        """The kept messages from a position to another, both included, by position and offset."""
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
        messages: pl.DataFrame | None,
        final: bool,
        *,
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
                combined.latest = latest
            made = self.shard.step([combined], wall, final=final)
        if self._kept is not None:
            self._keep(new, made, final)
        return self._rows(made)

    def _new(self, messages: pl.DataFrame) -> pl.DataFrame:
        """The messages that weren't here before; looked for only where messages are kept."""
        if self._kept is None or self.spec.offset is None:
            return messages
        return messages.filter(~self.shard.state.offsets.known(messages, *self.spec.offset))

    def _keep(self, new: pl.DataFrame, made: Output, final: bool) -> None:
        assert self._kept is not None
        if final:
            self._kept.clear()
        else:
            taken = new.join(made.rejected.select(_ROW), on=_ROW, how="anti")
            if self.spec.axis == "rows":
                assert self.spec.offset is not None
                at = pl.col(self.spec.offset[1]).cast(pl.Int64)
                taken = taken.with_columns(at.alias(columns.TIME))
            self._kept.add(taken.select(*self._visible, columns.TIME))
            self._kept.expire(self._edges, self._past)
        self._kept.save()

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
        return StepRows(self._timed(made.results), self._rejected(made))

    def _timed(self, results: pl.DataFrame) -> pl.DataFrame:
        """Window bounds in the type of the messages' times."""
        if self.spec.axis == "rows" or self._moment.is_integer():
            return results
        bounds = (columns.WINDOW_START, columns.WINDOW_END)
        return results.with_columns(self._as_moment(pl.col(*bounds)))

    def _as_moment(self, micros: pl.Expr) -> pl.Expr:
        return micros.cast(self._moment)

    def _rejected(self, made: Output) -> pl.DataFrame:
        frame, time = made.rejected, self.spec.time
        if time is not None and len(frame) and (frame[columns.REASON] == "overflow").any():
            # Rows that stand for windows have only the engine's own time.
            moment = self._as_moment(pl.col(columns.TIME)).cast(frame.schema[time])
            frame = frame.with_columns(pl.coalesce(time, moment).alias(time))
        watermark = pl.coalesce(JUDGED, pl.lit(made.judged, dtype=pl.Int64))
        return frame.select(
            *self._visible,
            columns.REASON,
            self._as_moment(watermark).alias(columns.WATERMARK),
            pl.col(UNREAD).alias("unread"),
        )
