"""The base class of window shards, which begins and ends their steps."""

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
    """A step in progress.

    Attributes:
        judged: The watermark that decided which of its messages are late.
        moment: The watermark and the wall clock.
        final: Whether the input ends with this step.
    """

    judged: int | None
    moment: BatchClock
    final: bool


class WindowShard:
    """The windows of a shard's keys; subclasses define their tables."""

    windows: Kind

    def __init__(self, combiner: Combiner, windows: Kind, blobs: Blobs, cache: FrameCache) -> None:
        self.combiner = combiner
        self.spec: WindowSpec = combiner.spec
        self.keys = combiner.keys
        self.windows = windows
        self.state = State(blobs, cache, self.spec)

    def _retain(self, axis: str, span: int) -> None:
        """Load the retention: the first whole window, and the counts for a limit of rows."""
        self._floor = whole_from(self.state, self.spec, self.windows)
        most = share(self.spec.firing.rows, self.spec.shards)
        self.kept = RetentionCounter(axis, span, most, self.state.extra.get(_KEPT))

    @property
    def _first_whole(self) -> int | None:
        mark, limit = self.state.watermark, self.kept.floor
        return first_whole(self.spec, self.windows, mark, self._floor, limit)

    def _clear_at_end(self, final: bool) -> bool:
        """Clear the state when the input has ended, unless closed windows are kept.

        Returns:
            True if the state was cleared.
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
        """Advance the wall clock and the watermark."""
        state, judged = self.state, self.state.watermark
        wall = state.clock(combined, wall)
        if not self.spec.by_arrival:
            state.watermark = state.follow(judged, combined, self.spec, wall, final=final)
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
        """Save the state, and return the output of the step.

        Args:
            begun: The step.
            combined: The batch.
            emitted: The partials of the windows that emit.
            aside: Messages that the step itself rejected.
            pending: Number of changed windows that wait for their policy.
            rows: Number of rows in the state.
            order: The columns that results are sorted by. Default: window, then key.
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
            clocks=state.describe_clocks(self.spec.idle, begun.moment.wall),
        )
