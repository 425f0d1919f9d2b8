"""The base class of window shards, which begins and ends their steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from muntin.engine import columns
from muntin.engine.firing import BatchClock, update_first_whole
from muntin.engine.output import ShardOutput
from muntin.engine.results import build_results, no_results, reject_overflows
from muntin.engine.retention import ENDED, RetentionCounter, divide_limit, find_first_whole
from muntin.engine.state import State
from muntin.engine.windows.combine import Combined, Combiner
from muntin.model.kinds import Uniform
from muntin.model.spec import WindowSpec
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.manifest import Reopened, drop_reopened

_RETENTION = "kept"


@dataclass(frozen=True)
class StepContext:
    """A step in progress.

    Attributes:
        judged: The watermark that decided which of its messages are late.
        clock: The watermark and the wall clock, before and after the batch.
        final: Whether the input ends with this step.
    """

    judged: int | None
    clock: BatchClock
    final: bool


class WindowShard:
    """The windows of a shard's keys; subclasses define their tables."""

    windows: Uniform

    def __init__(
        self, combiner: Combiner, windows: Uniform, blobs: Blobs, cache: FrameCache
    ) -> None:
        self.combiner = combiner
        self.spec: WindowSpec = combiner.spec
        self.keys = combiner.keys
        self.windows = windows
        self.state = State(blobs, cache, self.spec)

    def _retain(self, axis: str, span: int) -> None:
        """Load the retention: the first whole window, and the counts for a limit of rows."""
        self._floor = update_first_whole(self.state, self.spec, self.windows)
        most = divide_limit(self.spec.firing.rows, self.spec.shards)
        self.retained = RetentionCounter(axis, span, most, self.state.extra.get(_RETENTION))

    @cached_property
    def _no_results(self) -> pl.DataFrame:
        return no_results(self.combiner)

    @property
    def _first_whole(self) -> int | None:
        watermark, limit = self.state.watermark, self.retained.floor
        return find_first_whole(self.spec, self.windows, watermark, self._floor, limit)

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

    def _begin(self, combined: Sequence[Combined], wall: int, final: bool) -> StepContext:
        """Advance the wall clock and the watermark."""
        state, judged = self.state, self.state.watermark
        wall = state.clock(combined, wall)
        if not self.spec.by_arrival:
            state.watermark = state.follow(judged, combined, self.spec, wall, final=final)
        marks, walls = (judged, state.watermark), (state.wall, wall)
        grace, ends_run = self.spec.firing.grace, state.ends_run
        reopened = Reopened.read(state.extra)
        clock = BatchClock.of(self.windows, grace, marks, walls, final, ends_run, reopened)
        return StepContext(judged, clock, final)

    def _save_retained(self) -> None:
        if self.retained.most is not None or _RETENTION in self.state.extra:
            self.state.extra[_RETENTION] = self.retained.entries()

    def _raise_revisions(self, emitted: pl.DataFrame) -> pl.DataFrame:
        """Raise the revisions of windows that had ended when the watermark was set back."""
        state, grace = self.state, self.spec.firing.grace
        reopened = Reopened.read(state.extra)
        if reopened is None:
            return emitted
        assert state.watermark is not None
        if state.watermark - grace >= reopened.before:
            drop_reopened(state.extra)
        if not len(emitted):
            return emitted
        had_ended = pl.col(self.combiner.number) <= self.windows.last_ended(reopened.before)
        raised = pl.col(columns.REVISION) + had_ended.cast(pl.Int64) * reopened.revision
        return emitted.with_columns(raised.alias(columns.REVISION))

    def _output(
        self,
        context: StepContext,
        combined: Sequence[Combined],
        emitted: pl.DataFrame,
        rejected: Sequence[pl.DataFrame] = (),
        *,
        pending: int,
        rows: int,
        order: Sequence[str] = (),
    ) -> ShardOutput:
        """Save the state, and return the output of the step.

        Args:
            context: The step.
            combined: The batch.
            emitted: The partials of the windows that emit.
            rejected: Messages that the step itself rejected.
            pending: Number of changed windows that wait for their policy.
            rows: Number of rows in the state.
            order: The columns that results are sorted by. Default: window, then key.
        """
        state, results = self.state, self._no_results
        for part in combined:
            state.count(part.counts)
        rejected = [one for one in (*(c.rejected for c in combined), *rejected) if len(one)]
        state.wall = context.clock.wall
        raised = self._raise_revisions(emitted)
        if len(emitted):
            rejected.append(reject_overflows(emitted, self.combiner))
            results = build_results(raised, self.combiner, order)
        state.save()
        return ShardOutput(
            results,
            pl.concat([self.combiner.nothing_rejected, *rejected], how="diagonal"),
            context.judged,
            state.watermark,
            dict(state.counts),
            pending,
            rows,
            clocks=state.describe_clocks(self.spec.idle, context.clock.wall),
        )
