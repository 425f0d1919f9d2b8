"""A shard whose windows are unions of panes on the time axis: tumbling, hopping, cumulating, days.

Four tables are kept: **cells** (a row per key and pane), **marks** (how often a window emitted),
and the changes, **early** and **late**, that wait for their policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import polars as pl

from muntin.engine import columns, conditions
from muntin.engine.firing import BatchClock, Begun, whole_from
from muntin.engine.output import Output
from muntin.engine.results import described, overflows, results
from muntin.engine.retention import RetentionCounter, share
from muntin.engine.state import State
from muntin.engine.windows.combine import Combined, Combiner
from muntin.engine.windows.overlap import compose, in_windows
from muntin.engine.windows.panes import kept_from
from muntin.engine.windows.waiting import FIRST, Waiting
from muntin.model.policies import FirstThen, by_change
from muntin.model.spec import WindowSpec
from muntin.state.blobs import Blobs
from muntin.state.lookup import matched
from muntin.state.runs import FrameCache, Ranged, Runs, join_runs, ranged

_SEGMENTS = 8
_KEPT, _WAITS = "kept", "waits"
FIRED, LATE = "fired", "late"


class PanedShard:
    """The windows of some keys, out of panes; see ``Shard``."""

    def __init__(self, combiner: Combiner, blobs: Blobs, cache: FrameCache) -> None:
        self.combiner = combiner
        self.spec: WindowSpec = combiner.spec
        self.keys = combiner.keys
        self.blobs = blobs
        self.state = State(blobs, self.spec)
        self.windows = windows = combiner.numbered
        horizon = self.spec.lateness + self.spec.firing.retention
        panes = windows.panes_per_window + windows.pane_of(horizon) - windows.pane_of(0)
        span = max(1, panes // _SEGMENTS)
        self._identity = [columns.WINDOW, *self.keys]
        self._policies = {"early": self.spec.firing.early, "late": self.spec.firing.late}
        self._by_key = self.spec.firing.early is not None or self.spec.firing.grace > 0
        self.cells, self.marks, *changes = (
            self._table(name, span, cache) for name in ("cells", "marks", *self._policies)
        )
        additive, waits = self.spec.firing.accumulate, self._waits()
        self.early, self.late = (
            Waiting(table, policy, name == "late", self._identity, additive, waits.get(name))
            for table, (name, policy) in zip(changes, self._policies.items(), strict=True)
        )
        self._floor = whole_from(self.state, self.spec, windows)
        most = share(self.spec.firing.rows, self.spec.buckets)
        self.kept = RetentionCounter(columns.PANE, span, most, self.state.extra.get(_KEPT))

    def _table(self, name: str, span: int, cache: FrameCache) -> Runs:
        windows, merge = self.windows, self._merge_changes
        if name in ("cells", "marks"):
            merge = self.combiner.merge if name == "cells" else self._add_marks
            # Only windows that emit before or after their time are asked for by key.
            asked = self._by_key
        else:
            policy = self._policies[name]
            asked = by_change(policy)
        complete = self.combiner.complete if name == "cells" else None
        axis = columns.PANE
        if name != "cells":
            axis = columns.WINDOW
            span = max(1, windows.last_window(span) - windows.last_window(0))
        entries, keys = self.state.tables.get(name, ()), self.keys if asked else ()
        return Runs(axis, span, self.blobs, cache, merge, entries, keys, complete)

    def _tables(self) -> dict[str, Runs]:
        return {name: getattr(self, name) for name in ("cells", "marks", *self._policies)}

    def step(self, combined: Sequence[Combined], wall: int, *, final: bool = False) -> Output:
        begun = self._begin(combined, wall, final)
        moment = begun.moment
        fresh = [ranged(c.cells, columns.PANE) for c in combined if len(c.cells)]
        changes = self._changes(fresh, moment)
        full, silent = self._full(fresh, changes["early"], moment)
        marks = [self._marks(changes["late"], full, silent)]
        emitted = [full, *self._empty(begun, fresh, changes["late"], full, silent, marks)]
        emitted += [
            self._changed(emission, changes[emission], fresh, moment, marks)
            for emission in ("late", "early")
        ]
        frame = pl.concat([t for t in emitted if len(t)] or emitted[:1], how="diagonal")
        return self._end(begun, combined, fresh, frame, marks)

    def _begin(self, combined: Sequence[Combined], wall: int, final: bool) -> Begun:
        """Move the clock and the watermark."""
        state, judged = self.state, self.state.watermark
        wall = state.clock(combined, wall)
        state.advance(combined, self.spec.lateness, self.spec.idle, wall)
        marks, walls = (judged, state.watermark), (state.wall, wall)
        moment = BatchClock.of(self.windows, self.spec.firing.grace, marks, walls, final)
        return Begun(judged, moment, final)

    def _end(
        self,
        begun: Begun,
        combined: Sequence[Combined],
        fresh: list[Ranged],
        frame: pl.DataFrame,
        marks: list[pl.DataFrame],
        order: Sequence[str] = (),
    ) -> Output:
        """Store what the step leaves, and say what it emits."""
        state = self.state
        for part in combined:
            state.count(part.counts)
        overflowed = overflows(frame, self.combiner)
        self._keep(fresh, marks, begun.moment, begun.final)
        state.wall = begun.moment.wall
        counted = {"early": self.early.counted, "late": self.late.counted}
        state.extra[_WAITS] = {name: n for name, n in counted.items() if n is not None}
        state.save(self._tables())
        return Output(
            results(frame, self.combiner, order),
            pl.concat([*(c.rejected for c in combined), overflowed], how="diagonal"),
            begun.judged,
            state.watermark,
            dict(state.counts),
            self.early.pending + self.late.pending,
            self.cells.rows + self.marks.rows,
        )

    def snapshot(
        self, start: int | None, end: int | None, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        windows, earliest, latest = self.windows, self.cells.low, self.cells.high
        if earliest is None or latest is None:
            return described(self._no_windows(), self.combiner)
        if start is not None:
            earliest = max(earliest, windows.pane_of(start))
        if end is not None:
            latest = min(latest, windows.pane_of(end))
        low, high = windows.first_window(earliest), windows.last_window(latest)
        if self.state.watermark is not None:
            kept = windows.ended(self.state.watermark - self.spec.firing.retention) + 1
            low = max(low, kept)
        if self._floor is not None:
            low = max(low, self._floor)
        floor = self.kept.floor
        if floor is not None:  # a window that begins before it has lost messages
            low = max(low, windows.last_window(floor - 1) + 1)
        held = self._compose([], low, high, only if self._by_key else None)
        if only is not None and not self._by_key:
            held = matched(held, only, self.keys, "semi")
        return described(held, self.combiner)

    def _waits(self) -> dict[str, int]:
        """How many changed windows wait, as it was counted by the same policies."""
        same = self.state.written_by == self.spec.to_dict()
        found: dict[str, int] = self.state.extra.get(_WAITS, {}) if same else {}
        return found

    def _full(
        self, fresh: list[Ranged], changes: pl.DataFrame, moment: BatchClock
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The windows whose end the watermark has just passed, and those that are silent then."""
        composed = self._compose(fresh, moment.before + 1, moment.after)
        silent = composed.clear()
        if self.spec.firing.early is not None and len(composed):
            low, high = _bounds(composed, columns.WINDOW)
            if self._fulls_count_changes:
                known = self.early.read(low, high, changes.clear())
                waiting = self._merge_changes([known, changes])
                if not self.spec.firing.accumulate:
                    composed = self._only_new(composed, waiting)
            composed = self._with_marks(composed, low, high)
            if not self.spec.firing.repeat:
                same = matched(composed, waiting, self._identity, "anti")
                silent = same.filter(pl.col(FIRED) > 0)
                composed = matched(composed, silent, self._identity, "anti")
        else:
            composed = composed.with_columns(pl.lit(0, dtype=pl.Int64).alias(FIRED))
        full = composed.with_columns(
            pl.lit("full").alias(columns.EMISSION), pl.col(FIRED).alias(columns.REVISION)
        )
        return full, silent

    def _empty(self, begun: Begun, *changed: Any) -> list[pl.DataFrame]:
        return []  # see ``FillingShard``

    def _marks(self, late: pl.DataFrame, full: pl.DataFrame, silent: pl.DataFrame) -> pl.DataFrame:
        """What to remember of late changes and of windows whose time has come."""
        marks = late.select(*self._identity, pl.lit(0).alias(FIRED), late=columns.MESSAGES)
        if not len(silent) or not self.spec.firing.grace:
            return marks
        # Later the full firing is counted for all windows, of which these had none.
        none = silent.select(*self._identity, pl.lit(-1).alias(FIRED))
        return pl.concat([marks, none.with_columns(late=pl.lit(0))], how="vertical_relaxed")

    @property
    def _fulls_count_changes(self) -> bool:
        """Whether a full firing depends on what is new since the window emitted early."""
        return not (self.spec.firing.accumulate and self.spec.firing.repeat)

    def _changes(self, fresh: list[Ranged], moment: BatchClock) -> dict[str, pl.DataFrame]:
        """The windows that this batch changed, early and late, each once with its new messages."""
        firing = self.spec.firing
        late = self._touched(fresh, moment.closed_before + 1, moment.before)
        if firing.early is None:
            early = late.clear()
        else:
            since = moment.before if self._fulls_count_changes else moment.after
            early = self._touched(fresh, since + 1, None)
        return {"late": late, "early": early}

    def _touched(self, fresh: list[Ranged], low: int, high: int | None) -> pl.DataFrame:
        frames = [frame for frame, _, _ in fresh] or [self._no_cells()]
        if self.spec.firing.accumulate:
            frames = [f.select(*self.keys, columns.PANE, columns.MESSAGES) for f in frames]
        if high is not None and low > high:
            touched = in_windows(frames[0].clear(), None, None, self.combiner)
        else:
            touched = pl.concat(
                [in_windows(f, low, high, self.combiner) for f in frames], how="diagonal"
            )
        return self._merge_changes([touched.drop(columns.PANE)])

    def _changed(
        self,
        emission: str,
        changes: pl.DataFrame,
        fresh: list[Ranged],
        moment: BatchClock,
        marks: list[pl.DataFrame],
    ) -> pl.DataFrame:
        """The changed windows that are due, early or late; the others wait."""
        waiting = self.late if emission == "late" else self.early
        mark = partial(self._marked, emission, fresh, marks[0])
        emitting = waiting.take(changes, moment, mark)
        if not len(emitting):
            return self._no_windows()
        return self._emit(emission, emitting, fresh, marks)

    def _marked(
        self, emission: str, fresh: list[Ranged], late: pl.DataFrame, windows: pl.DataFrame
    ) -> pl.DataFrame:
        """Windows, and what their policy asks of them beside what is new; see ``Waiting.take``."""
        policy = self._policies[emission]
        if isinstance(policy, FirstThen):
            windows = self._with_first(emission, late, windows)
        names = conditions.holds(policy)
        if not names:
            return windows
        held = self._no_windows()
        if len(windows):
            low, high = _bounds(windows, columns.WINDOW)
            held = self._compose(fresh, low, high, windows.select(self.keys).unique())
            held = matched(held, windows, self._identity, "semi")
        known = conditions.marked(held, [policy], self.combiner).select(*self._identity, *names)
        return matched(windows, known, self._identity, "left").with_columns(
            pl.col(names).fill_null(False)
        )

    def _with_first(self, emission: str, late: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
        """Windows, and whether they haven't emitted yet, early or late."""
        if not len(windows):
            return windows.with_columns(pl.lit(True).alias(FIRST))
        extra, first = [late], pl.col(LATE) <= pl.col(columns.MESSAGES)  # all of them wait still
        if emission == "early":
            extra, first = [], pl.col(FIRED) == 0
        only, bounds = windows.select(self._identity), _bounds(windows, columns.WINDOW)
        return self._with_marks(windows, *bounds, extra, only).with_columns(first.alias(FIRST))

    def _emit(
        self,
        emission: str,
        emitting: pl.DataFrame,
        fresh: list[Ranged],
        marks: list[pl.DataFrame],
    ) -> pl.DataFrame:
        low, high = _bounds(emitting, columns.WINDOW)
        only = emitting.select(self._identity)
        composed = self._compose(fresh, low, high, only.select(self.keys).unique())
        composed = matched(composed, only, self._identity, "semi")
        whole = composed.select(*self._identity, columns.MESSAGES)
        if not self.spec.firing.accumulate:
            composed = self._only_new(composed, emitting)
        extra = [marks[0]] if emission == "late" else []
        composed = self._with_marks(composed, low, high, extra, only)
        if emission == "late":
            composed = self._count_full(composed, whole)
        marks.append(
            only.with_columns(
                pl.lit(1, dtype=pl.Int64).alias(FIRED), pl.lit(0, dtype=pl.Int64).alias(LATE)
            )
        )
        return composed.with_columns(
            pl.lit(emission).alias(columns.EMISSION), pl.col(FIRED).alias(columns.REVISION)
        )

    def _count_full(self, composed: pl.DataFrame, whole: pl.DataFrame) -> pl.DataFrame:
        """Count the full firing of late windows, of which no mark says anything.

        A window emitted in full if it held anything but late messages when its time came.
        """
        total = whole.rename({columns.MESSAGES: "total"})
        composed = matched(composed, total, self._identity, "left")
        in_full = (pl.col("total") > pl.col(LATE)).cast(pl.Int64)
        return composed.with_columns(pl.col(FIRED) + in_full)

    def _compose(
        self, fresh: list[Ranged], low: int, high: int, keys: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """Windows ``low`` to ``high`` out of the state and this batch, for some keys or all."""
        if low > high:
            return self._no_windows()
        first, last = self.windows.first_pane(low), self.windows.last_pane(high)
        new = [r for r in fresh if r[2] >= first and r[1] <= last]
        if keys is None:
            frames = self.cells.read(first, last) + new
        else:
            frames = self.cells.of(keys, first, last)
            frames += [(matched(f, keys, self.keys, "semi"), a, b) for f, a, b in new]
        if not frames:
            return self._no_windows()
        cells = join_runs(frames, columns.PANE, self.combiner.merge)
        return self._composed(cells, low, high)

    def _composed(self, cells: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
        return compose(cells, low, high, self.combiner)

    def _only_new(self, composed: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
        """The same windows, but only with what was new since they last emitted."""
        return matched(composed.select(self._identity), new, self._identity, "left")

    def _with_marks(
        self,
        composed: pl.DataFrame,
        low: int,
        high: int,
        extra: Sequence[pl.DataFrame] = (),
        only: pl.DataFrame | None = None,
    ) -> pl.DataFrame:
        """Add how often windows have emitted; ``only`` where only some keys' are asked for."""
        if only is None:
            found = self.marks.read(low, high)
        else:
            found = self.marks.of(only.select(self.keys).unique(), low, high)
        added = self._add_marks([self._no_marks(), *(frame for frame, _, _ in found), *extra])
        joined = matched(composed, added, self._identity, "left")
        return joined.with_columns(pl.col(FIRED, LATE).fill_null(0))

    def _keep(
        self, fresh: list[Ranged], marks: list[pl.DataFrame], moment: BatchClock, final: bool
    ) -> None:
        """Store what later steps may need, and drop what none can."""
        if final:
            for table in (self.cells, self.marks, self.early, self.late):
                table.drop_before(None)
            return
        expired = kept_from(self.windows, self.state.watermark, self.spec.firing.retention)
        self.kept.learn(self.cells.everything, self.kept.floor)
        if fresh:
            live = [
                (f.filter(pl.col(columns.PANE) >= expired), max(a, expired), b)
                if expired is not None and a < expired
                else (f, a, b)
                for f, a, b in fresh
                if expired is None or b >= expired
            ]
            if live:
                cells = join_runs(live, columns.PANE, self.combiner.merge)
                self.cells.append(cells)
                self.kept.add(cells)
        added = self._add_marks(marks)
        self.marks.append(added.filter(pl.col(columns.WINDOW) > moment.closed_after))
        first = self.kept.first(self.windows.first_pane(moment.closed_after + 1), expired)
        if first is not None:
            self.cells.drop_before(first)
        if self.kept.most is not None or _KEPT in self.state.extra:
            self.state.extra[_KEPT] = self.kept.entries()
        self.marks.drop_before(moment.closed_after + 1)
        self.late.drop_before(moment.closed_after + 1)
        self.early.drop_before(moment.after + 1)

    def _merge_changes(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        if self.spec.firing.accumulate:
            frame = pl.concat(frames, how="diagonal")
            whole = frame.group_by(self._identity).agg(pl.col(columns.MESSAGES).sum())
            return whole.filter(pl.col(columns.MESSAGES) != 0)
        return self.combiner.merge(frames, by=self._identity)

    def _add_marks(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return (
            pl.concat(frames, how="diagonal_relaxed")
            .group_by(self._identity)
            .agg(pl.col(FIRED, LATE).cast(pl.Int64).sum())
        )

    def _no_marks(self) -> pl.DataFrame:
        zeros = [pl.lit(0, dtype=pl.Int64).alias(c) for c in (FIRED, LATE)]
        return self._no_windows().select(*self._identity, *zeros)

    def _no_cells(self) -> pl.DataFrame:
        return self.combiner.no_cells

    def _no_windows(self) -> pl.DataFrame:
        return self.combiner.no_cells.rename({columns.PANE: columns.WINDOW})


def _bounds(frame: pl.DataFrame, column: str) -> tuple[int, int]:
    return int(frame[column].min()), int(frame[column].max())  # type: ignore[arg-type]
