"""What all shards of windows do alike: begin a step, and end it with what it stores and emits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from muntin.engine.firing import BatchClock, whole_from
from muntin.engine.output import Output
from muntin.engine.results import overflows, results
from muntin.engine.retention import ENDED, RetentionCounter, first_whole, share
from muntin.engine.state import State
from muntin.engine.windows.combine import Combined, Combiner
from muntin.model.kinds import Kind
from muntin.model.spec import WindowSpec
from muntin.state.blobs import Blobs
from muntin.state.runs import FrameCache

_KEPT = "kept"


@dataclass(frozen=True)
class Begun:
    """A step that has begun.

    Attributes:
        judged: The watermark that its messages were judged by.
        moment: Where the watermark and the clock are.
        final: Whether the input ends with it.
    """

    judged: int | None
    moment: BatchClock
    final: bool


class WindowShard:
    """The windows of some keys, in tables of their own; see ``Shard``."""

    windows: Kind

    def __init__(self, combiner: Combiner, windows: Kind, blobs: Blobs, cache: FrameCache) -> None:
        self.combiner = combiner
        self.spec: WindowSpec = combiner.spec
        self.keys = combiner.keys
        self.windows = windows
        self.state = State(blobs, cache, self.spec)

    def _retain(self, axis: str, span: int) -> None:
        """Find out what is kept of windows that take no more: where they lie, and how many."""
        self._floor = whole_from(self.state, self.spec, self.windows)
        most = share(self.spec.firing.rows, self.spec.buckets)
        self.kept = RetentionCounter(axis, span, most, self.state.extra.get(_KEPT))

    @property
    def _first_whole(self) -> int | None:
        mark, limit = self.state.watermark, self.kept.floor
        return first_whole(self.spec, self.windows, mark, self._floor, limit)

    def _clear_at_end(self, final: bool) -> bool:
        """Empty the state when the input has ended, unless closed windows are kept.

        Returns:
            Whether it is empty.
        """
        if not final:
            return False
        firing = self.spec.firing
        if firing.retention > firing.grace:
            self.state.extra[ENDED] = True
            return False
        self.state.clear()
        return True

    def _begin(self, combined: Sequence[Combined], wall: int, final: bool) -> Begun:
        """Move the clock and the watermark."""
        state, judged = self.state, self.state.watermark
        wall = state.clock(combined, wall)
        if not self.spec.by_arrival:
            state.advance(combined, self.spec.lateness, self.spec.idle, wall)
        marks, walls = (judged, state.watermark), (state.wall, wall)
        grace, ends_run = self.spec.firing.grace, state.ends_run
        moment = BatchClock.of(self.windows, grace, marks, walls, final, ends_run)
        return Begun(judged, moment, final)

    def _save_kept(self) -> None:
        if self.kept.most is not None or _KEPT in self.state.extra:
            self.state.extra[_KEPT] = self.kept.entries()

    def _output(
        self,
        begun: Begun,
        combined: Sequence[Combined],
        emitted: pl.DataFrame,
        aside: Sequence[pl.DataFrame] = (),
        *,
        pending: int,
        rows: int,
        order: Sequence[str] = (),
    ) -> Output:
        """Save what the step has stored, and say what it emits of the windows, which are partials.

        Messages that it has rejected by itself are set ``aside``.
        """
        state = self.state
        for part in combined:
            state.count(part.counts)
        aside = [*(part.rejected for part in combined), *aside, overflows(emitted, self.combiner)]
        state.wall = begun.moment.wall
        state.save()
        return Output(
            results(emitted, self.combiner, order),
            pl.concat(aside, how="diagonal"),
            begun.judged,
            state.watermark,
            dict(state.counts),
            pending,
            rows,
        )
