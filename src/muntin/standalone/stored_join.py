"""What is inside a joining operator: see ``StoredWindows``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.joins import reading as join_reading
from muntin.engine.joins.joiner import SIDE, Arrived, Joiner
from muntin.engine.joins.operator import join_shard
from muntin.engine.joins.partitioned import PartitionedJoinShard
from muntin.engine.joins.reading import AxisRange
from muntin.engine.joins.shard import JoinShard
from muntin.engine.joins.strategy import SideFrames
from muntin.engine.joins.window_output import window_output
from muntin.engine.output import LetIn
from muntin.model.joins import SIDES, JoinSpec, SideName
from muntin.standalone.frame_builder import JUDGED, UNREAD, FrameBuilder
from muntin.standalone.join_cuts import steps_of_sides
from muntin.standalone.stored_windows import StepRows, StoredWindows, timed
from muntin.state.blobs import Blobs
from muntin.state.runs import FrameCache


@dataclass(frozen=True)
class PendingMessages:
    """Messages that wait for the windows.

    Attributes:
        messages: By side.
        order: The number of the side of each, in their order, where they came one by one.
        final: Whether the input ends with them.
    """

    messages: SideFrames
    order: bytes | None = None
    final: bool = False


class StoredJoin(StoredWindows):
    """The windows of one join.

    Args:
        spec: The join.
        suffix: What is put behind the right side's column names that the left has too.
        blobs: Where its state is kept.
        outputs: The sides of which steps also give what their windows send on by themselves.
    """

    def __init__(
        self, spec: JoinSpec, suffix: str, blobs: Blobs, outputs: Sequence[SideName] = ()
    ) -> None:
        results = [*spec.left.keys, columns.EMISSION]
        super().__init__(blobs, results, [SIDE, columns.REASON, columns.WATERMARK])
        self.spec = spec
        self.suffix = suffix
        self.outputs = outputs

    def open(self, builders: Mapping[SideName, FrameBuilder]) -> None:
        """Open what was stored, now that the types of all columns are known."""
        spec = self.spec
        self._moments = {side: builders[side].moment for side in SIDES}
        self._visible: dict[SideName, list[str]] = {}
        for side in SIDES:
            known = builders[side].columns
            assert known is not None
            self._visible[side] = list(known)
            types = {name: str(kind) for name, kind in known.items()}
            spec = spec.with_side(side, replace(spec.side(side), types=types))
        self.joiner = Joiner(spec, {s: builders[s].schema for s in SIDES}, self.suffix)
        self.shard: JoinShard | PartitionedJoinShard = join_shard(
            self.joiner, self.blobs, FrameCache()
        )
        results, rejected = self.joiner.nothing_emitted(), self.joiner.nothing_rejected
        sides = {side: self._sent(side, []) for side in self.outputs}
        step = StepRows(self._shown(results), self._aside(rejected), sides)
        self._opened(self.shard.state, step)

    @property
    def watermarks(self) -> dict[SideName, int | None]:
        """The watermark of each side; ``None`` on the rows axis."""
        return dict(self.shard.marks) if self.is_open else dict.fromkeys(SIDES)

    @property
    def counts(self) -> dict[str, int]:
        """See ``StoredWindows``; partitions count for themselves."""
        return self.shard.counts if self.is_open else {}

    @property
    def reached(self) -> dict[Any, Any]:
        """See ``StoredWindows``."""
        return {side: self.shard.state.taken[side].ends for side in SIDES} if self.is_open else {}

    def take(self, pending: PendingMessages) -> list[StepRows]:
        """Take messages: a batch in one step, single ones as if each were a batch of its own."""
        if pending.order is None:
            return [self._step(pending.messages, pending.final)]
        so_far = self.shard.marks, self.shard.state.taken
        steps = steps_of_sides(pending.messages, pending.order, self.spec, *so_far)
        return [self._step(messages) for messages in steps]

    def advance(self, mark: int, sides: Sequence[SideName]) -> list[StepRows]:
        """Move the watermarks of some sides without a message."""
        return [self._step(latest={s: mark + self.spec.side(s).lateness for s in sides})]

    def messages(
        self, side: SideName, between: AxisRange, only: Sequence[pl.DataFrame]
    ) -> pl.DataFrame:
        """The messages of a side that are held, with their position in ``columns.TIME``."""
        wanted = [self._typed(side, keys) for keys in only]
        found = join_reading.messages(self.shard, side, between, *wanted[:1])
        for keys in wanted[1:]:
            found = found.join(keys, on=keys.columns, how="semi")
        return found.select(*self._visible[side], columns.TIME)

    def windows(
        self, side: SideName, between: AxisRange, only: pl.DataFrame | None
    ) -> pl.DataFrame:
        """The windows of a side that hold messages; see ``join_reading.windows``."""
        if not self.is_open:
            return pl.DataFrame()
        keys = None if only is None else self._typed(side, only)
        return self._timed(side, join_reading.windows(self.shard, side, between, keys))

    def sessions(self, between: AxisRange, only: pl.DataFrame | None) -> pl.DataFrame:
        """The sessions of both sides; see ``join_reading.sessions``."""
        if not self.is_open:
            return pl.DataFrame()
        assert isinstance(self.shard, JoinShard)
        keys = None if only is None else self._typed("left", only)
        return self._timed("left", join_reading.sessions(self.shard, between, keys))

    def _step(
        self,
        messages: SideFrames | None = None,
        final: bool = False,
        latest: Mapping[SideName, int] | None = None,
    ) -> StepRows:
        wall = self.clock.read(self.shard.state)
        arrived: dict[SideName, list[Arrived]] = {side: [] for side in SIDES}
        for side, frame in (messages or {}).items():
            arrived[side] = [self.joiner.arrive(side, frame)]
        for side, moment in (latest or {}).items():
            nothing = self.joiner.no_messages(side)
            aside = self.joiner.nothing_aside(side)
            arrived[side] = [Arrived(nothing, rejected=aside, reached=moment)]
        made = self.shard.step(arrived, wall, final=final)
        sides = {side: self._sent(side, made.let_in[side]) for side in self.outputs}
        return StepRows(self._shown(made.results), self._aside(made.rejected), sides)

    def _sent(self, side: SideName, let_in: Sequence[LetIn]) -> pl.DataFrame:
        """What a side's windows send on."""
        sent = window_output(self.joiner, side, self._visible[side], let_in)
        return self._timed(side, sent)

    def _typed(self, side: SideName, keys: pl.DataFrame) -> pl.DataFrame:
        kinds = self.joiner.schemas[side]
        return keys.cast({name: kinds[name] for name in keys.columns}).unique()

    def _shown(self, results: pl.DataFrame) -> pl.DataFrame:
        """Results without what only travels along."""
        names = self.joiner.names
        hidden = {names[s][n] for s in SIDES for n in (UNREAD, JUDGED) if n in names[s]}
        return results.drop(hidden)

    def _aside(self, rejected: pl.DataFrame) -> pl.DataFrame:
        outs = dict.fromkeys(
            self.joiner.aside[side][name] for side in SIDES for name in self._visible[side]
        )
        watermark = pl.coalesce(JUDGED, columns.WATERMARK)
        kinds = set(self._moments.values())
        if self.spec.axis == "time" and len(kinds) == 1:
            watermark = watermark.cast(kinds.pop())
        return rejected.select(
            SIDE,
            *outs,
            columns.REASON,
            watermark.alias(columns.WATERMARK),
            pl.col(UNREAD).alias("unread"),
        )

    def _timed(self, side: SideName, found: pl.DataFrame) -> pl.DataFrame:
        return found if self.spec.axis == "rows" else timed(found, self._moments[side])
