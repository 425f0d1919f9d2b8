"""A shard of sessions: merged as messages come, emitted at their end, retracted as they merge.

Two tables are looked up by key or by place. **sessions** holds every version of every session; of
versions with the same key and first place the newest counts, and one without messages says that the
session has vanished. **ends** says where sessions end, so that those which the watermark passes are
found without looking at the others; **waiting** says which ones have something to emit. Both may
name sessions that have changed since, which the table of sessions then denies.

Source: KIP-94; retractions as the window model has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.conditions import marked, unmarked
from muntin.engine.firing import BatchClock, due, due_by_clock
from muntin.engine.output import Output
from muntin.engine.results import described
from muntin.engine.sessions.combine import SessionCombiner, grouped, merged
from muntin.engine.windows.combine import Combined
from muntin.engine.windows.shard import WindowShard
from muntin.model.axis import HOUR
from muntin.model.sessions import Sessions
from muntin.state.blobs import Blobs
from muntin.state.lookup import matched
from muntin.state.runs import FrameCache, each_once, segment_length

FIRED, UNEMITTED = "fired", "unemitted"
# Of a session that is part of another now: whether it is no longer the same, and where that begins.
_VANISHED, _INTO = "vanished", "into"


class SessionShard(WindowShard):
    """The sessions of some keys; see ``Shard``."""

    combiner: SessionCombiner
    windows: Sessions

    def __init__(self, combiner: SessionCombiner, blobs: Blobs, cache: FrameCache) -> None:
        super().__init__(combiner, combiner.sessions, blobs, cache)
        table, last = self.state.table, columns.LAST
        self._identity = [*self.keys, columns.FIRST]
        self._bounds = [*self._identity, last]
        self.sessions = table("sessions", last, None, self._newest, self.keys, combiner.complete)
        wait = combiner.patience + self.spec.lateness
        width = segment_length(wait if self.windows.by is None else wait + HOUR)
        self.ends = table("ends", last, width, each_once)
        self.waiting = table("waiting", last, width, each_once)
        # Of a session that had expired an old version may be left, beside one that lives on.
        self._retain(last, width)

    def step(self, combined: Sequence[Combined], wall: int, *, final: bool = False) -> Output:
        begun = self._begin(combined, wall, final)
        moment, stored = begun.moment, self.sessions
        self.kept.learn(lambda: [self._newest(stored.read())], self.kept.floor)
        changed, absorbed, late = self._take(combined, moment)
        passed = self._passed(absorbed, moment)
        ready = self._woken(absorbed, moment)
        silent = pl.concat([passed, ready], how="diagonal")
        emitted, rows, still = self._emit(changed, silent, moment)
        replaced = absorbed.filter(pl.col(_VANISHED) & (pl.col(FIRED) > 0))
        emitted = pl.concat([self._retracted(replaced), emitted], how="diagonal")
        if final:
            self.state.clear()
        else:
            self._keep(rows, still, absorbed, moment)
        pending, rows_kept = self.waiting.rows, self.sessions.rows
        return self._output(begun, combined, emitted, [late], pending=pending, rows=rows_kept)

    def snapshot(
        self, start: int | None, end: int | None, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        frames = self.sessions.read(only=only)
        wanted = [pl.col(columns.MESSAGES) > 0]
        whole = self._first_whole
        if whole is not None:
            wanted.append(pl.col(columns.LAST) >= whole)
        if start is not None:
            wanted.append(pl.col(columns.LAST) + self.windows.gap > start)
        if end is not None:
            wanted.append(pl.col(columns.FIRST) <= end)
        return described(self._newest(frames).filter(*wanted), self.combiner)

    def _take(
        self, combined: Sequence[Combined], moment: BatchClock
    ) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Merge new messages into sessions.

        What comes back are the sessions that have new messages, the stored ones that are part of
        those, and the late messages.
        """
        raw = [c.raw for c in combined if c.raw is not None]
        doubtful = pl.concat(raw) if raw else None
        fresh = [c.cells for c in combined if len(c.cells)]
        if doubtful is not None:
            fresh.append(self.combiner.lift(doubtful))
        if not fresh:
            nothing = self._no_sessions()
            absorbed = nothing.with_columns(pl.lit(False).alias(_VANISHED), columns.number(_INTO))
            return nothing, absorbed, self.combiner.nothing_rejected
        new = pl.concat(fresh, how="diagonal").with_columns(
            columns.number(FIRED), pl.col(columns.MESSAGES).alias(UNEMITTED)
        )
        old = self._open(new.select(self.keys).unique(), moment)
        rows, group = grouped(
            [old.with_columns(old=True), new.with_columns(old=False)], self.combiner
        )
        return self._merged(rows, group, doubtful, moment)

    def _merged(
        self,
        rows: pl.DataFrame,
        group: NDArray[np.int64],
        doubtful: pl.DataFrame | None,
        moment: BatchClock,
    ) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        was = rows["old"].to_numpy()
        begins = np.flatnonzero(np.diff(group, prepend=-1))
        olds = np.add.reduceat(was.astype(np.int64), begins)
        news = np.diff(np.append(begins, len(rows))) - olds
        whole = merged(rows.drop("old", FIRED, UNEMITTED), group, self.combiner)
        begin = whole[columns.FIRST].to_numpy()
        sums = [np.add.reduceat(rows[c].to_numpy(), begins) for c in (FIRED, UNEMITTED)]
        lost = (whole[columns.LAST].to_numpy() <= moment.closed_before) & (olds == 0)
        taken = (news > 0) & ~lost
        # One old session in it, and no place is new: the session is still the same one.
        firsts = np.minimum.reduceat(np.where(was, rows[columns.FIRST].to_numpy(), 2**62), begins)
        lasts = np.maximum.reduceat(np.where(was, rows[columns.LAST].to_numpy(), -(2**62)), begins)
        same = (olds == 1) & (begin == firsts)
        same &= whole[columns.LAST].to_numpy() == lasts
        unemitted = np.where(same, sums[1], whole[columns.MESSAGES].to_numpy())
        whole = whole.with_columns(
            pl.Series(FIRED, np.where(same, sums[0], 0)), pl.Series(UNEMITTED, unemitted)
        )
        became = pl.Series(_VANISHED, ~same[group]), pl.Series(_INTO, begin[group])
        absorbed = rows.with_columns(*became).filter(pl.Series(was & taken[group])).drop("old")
        late = self._rejected(rows, group, lost, doubtful)
        changed = whole.filter(pl.Series(taken))
        self.kept.add(changed)
        self.kept.add(absorbed, -1)
        return changed, absorbed, late

    def _rejected(
        self,
        rows: pl.DataFrame,
        group: NDArray[np.int64],
        lost: NDArray[np.bool_],
        doubtful: pl.DataFrame | None,
    ) -> pl.DataFrame:
        """The late messages among the doubtful ones; the others are counted."""
        if doubtful is None:
            return self.combiner.nothing_rejected
        bounds = rows.select(
            *(pl.col(key).alias(name) for name, key in self.combiner.named.items()),
            pl.col(columns.FIRST).alias("__first"),
            pl.col(columns.LAST).alias("__last"),
        ).filter(pl.Series(lost[group]))
        numbered = doubtful.with_row_index("__row")
        # What each message reaches isn't a place of its session any more.
        ends: Any = "both" if self.windows.by is None else "left"
        inside = pl.col(columns.TIME).is_between("__first", "__last", closed=ends)
        within = matched(numbered, bounds, self.combiner.message_keys, "inner")
        late = within.filter(inside)["__row"]
        aside = doubtful[late.unique().sort()].with_columns(pl.lit("late").alias(columns.REASON))
        self.state.count({"late": len(aside), "counted": len(doubtful) - len(aside)})
        return self.combiner.set_aside([aside])

    def _passed(self, absorbed: pl.DataFrame, moment: BatchClock) -> pl.DataFrame:
        """Sessions without new messages that the watermark has just passed."""
        ended = self.ends.read(None, moment.after)
        return self._asked(ended, moment.before + 1, moment.after, absorbed)

    def _woken(self, absorbed: pl.DataFrame, moment: BatchClock) -> pl.DataFrame:
        """Sessions without new messages whose changes are due by the clock, or by closing."""
        low = self.waiting.low
        if low is None:
            return self._no_sessions()
        # Of a closed session an old version may be all that is left, which hasn't emitted.
        opened = moment.closed_before + 1
        if self._clock_due(moment):
            waiting = self.waiting.read()
            ahead = self._asked(waiting, moment.after + 1, None, absorbed)
            past = self._asked(waiting, opened, moment.before, absorbed)
            return pl.concat([past, ahead], how="diagonal")
        if low <= moment.closed_after:
            high = min(moment.closed_after, moment.before)
            return self._asked(self.waiting.read(opened, high), opened, high, absorbed)
        return self._no_sessions()

    def _asked(
        self, named: Sequence[pl.DataFrame], low: int | None, high: int | None, but: pl.DataFrame
    ) -> pl.DataFrame:
        """Sessions that some rows name, as they are now, but for those absorbed in this batch."""
        frames = [frame.select(self._bounds) for frame in named]
        if not frames:
            return self._no_sessions()
        last = pl.col(columns.LAST)
        asked = pl.concat(frames)
        if low is not None:
            asked = asked.filter(last >= low)
        if high is not None:
            asked = asked.filter(last <= high)
        asked = matched(asked.unique(), but, self._identity, "anti")
        if not len(asked):
            return self._no_sessions()
        there = self._newest(self.sessions.read(only=asked.select(self.keys).unique()))
        there = matched(there, asked, self._bounds, "semi")
        return there.filter(pl.col(columns.MESSAGES) > 0)

    def _emit(
        self, changed: pl.DataFrame, silent: pl.DataFrame, moment: BatchClock
    ) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """What is emitted of sessions, the sessions to be stored anew, and the others."""
        last, unemitted = pl.col(columns.LAST), pl.col(UNEMITTED) > 0
        full = (last > moment.before) & (last <= moment.after)
        if not self.spec.firing.repeat:
            full &= unemitted | (pl.col(FIRED) == 0)
        late = (last <= moment.before) & unemitted & self._late(moment)
        early = pl.lit(False)
        if self.spec.firing.early is not None:
            early = (
                (last > moment.after) & unemitted & due(self.spec.firing.early, moment, UNEMITTED)
            )
        emission = (
            pl.when(full)
            .then(pl.lit("full"))
            .when(late)
            .then(pl.lit("late"))
            .when(early)
            .then(pl.lit("early"))
            .alias(columns.EMISSION)
        )
        emits = pl.col(columns.EMISSION).is_not_null()
        policies = (self.spec.firing.early, self.spec.firing.late)
        changed, silent = (
            unmarked(marked(rows, policies, self.combiner).with_columns(emission), policies)
            for rows in (changed, silent)
        )
        rows = pl.concat([changed, silent.filter(emits)], how="diagonal")
        emitted = rows.filter(emits).with_columns(pl.col(FIRED).alias(columns.REVISION))
        once = emits.cast(pl.Int64)
        rows = rows.with_columns(pl.col(FIRED) + once, pl.col(UNEMITTED) * (1 - once))
        return emitted, rows.drop(columns.EMISSION), silent.filter(~emits)

    def _late(self, moment: BatchClock) -> pl.Expr:
        closes = pl.col(columns.LAST) <= moment.closed_after
        return closes | due(self.spec.firing.late, moment, UNEMITTED)

    def _clock_due(self, moment: BatchClock) -> bool:
        policies = [self.spec.firing.early, self.spec.firing.late]
        return any(due_by_clock(policy, moment) for policy in policies)

    def _retracted(self, replaced: pl.DataFrame) -> pl.DataFrame:
        """What is emitted of sessions that had emitted and are no more."""
        return replaced.select(
            *self._bounds,
            pl.lit("retract").alias(columns.EMISSION),
            pl.col(FIRED).alias(columns.REVISION),
        )

    def _keep(
        self, rows: pl.DataFrame, still: pl.DataFrame, absorbed: pl.DataFrame, moment: BatchClock
    ) -> None:
        """Store the sessions of this batch, and drop what has expired."""
        last = pl.col(columns.LAST)
        edge = self._edge(moment)
        replaced = absorbed.filter(pl.col(columns.FIRST) != pl.col(_INTO)).drop(_VANISHED, _INTO)
        # Most sessions of a large batch begin and end within it.
        gone = replaced.with_columns(columns.number(columns.MESSAGES))
        self.sessions.append(pl.concat([gone, rows.filter(last >= edge)], how="diagonal"))
        self.ends.append(rows.filter(last > moment.after).select(self._bounds))
        if self.spec.firing.on_wall_clock or self.spec.firing.grace:
            pending = [rows.select(*self._bounds, UNEMITTED)]
            if self._clock_due(moment):
                # All that waits was asked, so the table is written anew.
                self.waiting.drop_before(None)
                pending.append(still.select(*self._bounds, UNEMITTED))
            waits = (pl.col(UNEMITTED) > 0) & (last > moment.closed_after)
            self.waiting.append(pl.concat(pending).filter(waits).select(self._bounds))
            self.waiting.drop_before(moment.closed_after + 1)
        self.sessions.drop_before(edge)
        self._save_kept()
        self.ends.drop_before(moment.after + 1)

    def _edge(self, moment: BatchClock) -> int:
        """The least last place of the sessions that are kept."""
        if self.state.watermark is None:
            return moment.closed_after
        kept = self.state.watermark - self.spec.firing.retention
        expired = self.windows.ended(kept) + 1
        first = self.kept.first(moment.closed_after + 1, expired)
        return expired if first is None else first

    def _open(self, only: pl.DataFrame, moment: BatchClock) -> pl.DataFrame:
        """The sessions of some keys that may still change."""
        there = self._newest(self.sessions.read(only=only))
        alive = (pl.col(columns.MESSAGES) > 0) & (pl.col(columns.LAST) > moment.closed_before)
        return there.filter(alive)

    def _newest(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Of several versions of a session the last."""
        if not frames:
            return self._no_sessions()
        rows = pl.concat(frames, how="diagonal")
        return rows.unique(self._identity, keep="last", maintain_order=True)

    def _no_sessions(self) -> pl.DataFrame:
        none = columns.number(FIRED), columns.number(UNEMITTED)
        return self.combiner.no_windows.with_columns(none)
