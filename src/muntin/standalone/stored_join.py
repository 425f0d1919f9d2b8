"""What is inside a joining operator: one shard of the engine over one store.

Messages come as frames, by side, and rows leave as frames. Nothing in here knows what is done with
them.
"""

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
from muntin.standalone.join_cuts import JoinCuts, one_by_one
from muntin.standalone.manual_clock import ManualClock
from muntin.standalone.stored_aggregation import StepRows
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


class StoredJoin:
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
        self.spec = spec
        self.suffix = suffix
        self.blobs = blobs
        self.outputs = outputs
        self.clock = ManualClock()

    def open(self, builders: Mapping[SideName, FrameBuilder]) -> None:
        """Open what was stored, now that the types of all columns are known.

        Raises:
            OptionError: When keys can't be compared, or names clash.
            SpecChangedError: When the store was written by another join.
        """
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
        self.clock.resume(self.shard.state)
        results, rejected = self.joiner.nothing_emitted(), self.joiner.nothing_rejected
        sides = {side: self._sent(side, []) for side in self.outputs}
        self.empty = StepRows(self._shown(results), self._aside(rejected), sides)

    @property
    def watermark(self) -> int | None:
        """Up to where both sides are complete; ``None`` on the rows axis."""
        return self.shard.watermark

    @property
    def watermarks(self) -> dict[SideName, int | None]:
        """The watermark of each side; ``None`` on the rows axis."""
        return dict(self.shard.marks)

    @property
    def counts(self) -> dict[str, int]:
        """Messages so far, by what became of them."""
        return self.shard.counts

    @property
    def reached(self) -> dict[SideName, dict[Any, int]]:
        """For each side and partition the offset behind the last one taken."""
        return {side: self.shard.state.taken[side].ends for side in SIDES}

    def take(self, pending: PendingMessages) -> list[StepRows]:
        """Take messages: a batch in one step, single ones as if each were a batch of its own."""
        if pending.order is None:
            return [self._step(pending.messages, pending.final)]
        so_far = self.shard.marks, self.shard.state.taken
        steps = one_by_one(pending.messages, pending.order, self.spec, *so_far)
        return [self._step(part, False) for part in _parts(pending.messages, steps)]

    def tick(self, wall: int) -> list[StepRows]:
        """Let the clock emit what is due; it never goes back."""
        self.clock.advance(wall)
        self.clock.note_active(self.shard.state)
        return [self._step({}, False)]

    def advance(self, mark: int, sides: Sequence[SideName]) -> list[StepRows]:
        """Move the watermarks of some sides without a message."""
        latest = {side: mark + self.spec.side(side).lateness for side in sides}
        return [self._step({}, False, latest)]

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
        keys = None if only is None else self._typed(side, only)
        return self._timed(side, join_reading.windows(self.shard, side, between, keys))

    def sessions(self, between: AxisRange, only: pl.DataFrame | None) -> pl.DataFrame:
        """The sessions of both sides; see ``join_reading.sessions``."""
        assert isinstance(self.shard, JoinShard)
        keys = None if only is None else self._typed("left", only)
        return self._timed("left", join_reading.sessions(self.shard, between, keys))

    def _step(
        self, messages: SideFrames, final: bool, latest: Mapping[SideName, int] | None = None
    ) -> StepRows:
        wall = self.clock.read(self.shard.state)
        arrived = {
            side: [self.joiner.arrive(side, messages[side])] if side in messages else []
            for side in SIDES
        }
        for side, moment in (latest or {}).items():
            nothing = self.joiner.no_messages(side)
            aside = self.joiner.nothing_aside(side)
            arrived[side] = [Arrived(nothing, rejected=aside, latest=moment)]
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
        """Window bounds in the type of the side's times."""
        moment = self._moments[side]
        if self.spec.axis == "rows" or moment.is_integer():
            return found
        bounds = [c for c in (columns.WINDOW_START, columns.WINDOW_END) if c in found.columns]
        return found.with_columns(pl.col(bounds).cast(moment))


def _parts(messages: SideFrames, steps: JoinCuts) -> list[SideFrames]:
    """The messages of each step, with the watermark that each is judged by."""
    judged = {
        side: frame
        if side not in steps.judged
        else frame.with_columns(steps.judged[side].alias(JUDGED))
        for side, frame in messages.items()
    }
    return [
        {side: judged[side][a:b] for side, (a, b) in part.items() if b > a} for part in steps.parts
    ]
