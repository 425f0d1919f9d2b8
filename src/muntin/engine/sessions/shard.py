"""A shard of sessions, which merge as messages come and are retracted when they grow.

Three tables are kept:

- **sessions** has every version of every session. Among versions with the same key and first
  position the newest counts; one without messages means that the session has vanished.
- **ends** has the last positions of sessions, so that those that the watermark passes are found
  without a search through the others.
- **waiting** has the sessions with something to emit.

The last two may list sessions that have changed since; the table of sessions is then decisive.

Source: KIP-94; retractions follow the window model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.admission import split_rejected
from muntin.engine.firing import (
    MAX_WINDOW,
    SINCE,
    BatchClock,
    add_condition_columns,
    drop_condition_columns,
    is_due,
    is_due_by_clock,
    since_columns,
)
from muntin.engine.output import ShardOutput
from muntin.engine.results import build_values, share_empty
from muntin.engine.sessions.combine import SessionCombiner, group_rows, merge_groups
from muntin.engine.windows.combine import Combined
from muntin.engine.windows.shard import WindowShard
from muntin.model.axis import HOUR
from muntin.model.policies import FirstThen
from muntin.model.sessions import Sessions
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.lookup import join_null_safe
from muntin.state.rows import (
    add_constants,
    drop_columns,
    filter_rows,
    split_rows,
    stack_rows,
)
from muntin.state.runs import deduplicate, segment_length, select_between

FIRED, UNEMITTED = "fired", "unemitted"
# The number of a session's late emissions; only stored if the late policy needs it.
FIRED_LATE = "fired_late"
# The replaced sessions that are still to be retracted, with their revisions.
RETRACTS = "retracts"
# Whether another session has taken the place of a stored one.
REPLACED = "replaced"
_GROUP, _CLOSED_LAST = "__group", "__closed_last"


class SessionShard(WindowShard):
    """The sessions of a shard's keys."""

    combiner: SessionCombiner
    windows: Sessions

    def __init__(self, combiner: SessionCombiner, blobs: Blobs, cache: FrameCache) -> None:
        super().__init__(combiner, combiner.sessions, blobs, cache)
        table, last = self.state.table, columns.LAST
        self._identity = [*self.keys, columns.FIRST]
        self._bounds = [*self._identity, last]
        # Other sessions end a gap after their last position.
        self._ends = [columns.END] if self.windows.conditions else []
        replaced = dict.fromkeys([columns.FIRST, columns.LAST, FIRED, *self._ends], pl.Int64)
        owed = pl.List(pl.Struct(replaced))
        self._no_retracts = pl.lit(None, dtype=owed).alias(RETRACTS)
        self._without_retracts = pl.Series(RETRACTS, [None], dtype=owed)
        first = isinstance(self.spec.firing.late, FirstThen)
        self._counts = [FIRED, UNEMITTED, *([FIRED_LATE] if first else [])]
        self._times = since_columns(self.spec.firing.early, self.spec.firing.late)
        self.sessions = table("sessions", last, None, self._newest, self.keys, self._complete)
        wait = combiner.patience + self.spec.lateness
        width = segment_length(wait if self.windows.by is None else wait + HOUR)
        self.ends = table("ends", last, width, deduplicate)
        self.waiting = table("waiting", last, width, deduplicate)
        # An old version of an expired session may be left, beside a newer one that is kept.
        self._retain(last, width)

    def step(self, combined: Sequence[Combined], wall: int, *, final: bool = False) -> ShardOutput:
        begun = self._begin(combined, wall, final)
        clock, stored = begun.clock, self.sessions
        self.retained.count_stored(lambda: [self._newest(stored.read())], self.retained.floor)
        changed, absorbed, late = self._take(combined, clock)
        passed = self._select_ended(absorbed, clock)
        ready = self._select_due_by_clock(absorbed, clock)
        silent = pl.concat([passed, ready], how="diagonal")
        emitted, rows, still = self._emit(changed, silent, clock)
        if emitted[RETRACTS].null_count() < len(emitted):
            emitted = pl.concat([self._retractions(emitted), emitted], how="diagonal")
        if not self._clear_at_end(final):
            self._keep(rows, still, absorbed, clock)
        pending, rows_kept = self.waiting.rows, self.sessions.rows
        return self._output(begun, combined, emitted, late, pending=pending, rows=rows_kept)

    def snapshot(
        self, start: int | None, end: int | None, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        frames = self.sessions.read(only=only)
        wanted = [pl.col(columns.MESSAGES) > 0]
        whole = self._first_whole
        if whole is not None:
            wanted.append(pl.col(columns.LAST) >= whole)
        if start is not None:
            ends = pl.col(columns.END) if self._ends else pl.col(columns.LAST) + self.windows.gap
            wanted.append(ends > start)
        if end is not None:
            wanted.append(pl.col(columns.FIRST) <= end)
        return build_values(self._newest(frames).filter(*wanted), self.combiner)

    def _take(
        self, combined: Sequence[Combined], clock: BatchClock
    ) -> tuple[pl.DataFrame, pl.DataFrame, list[pl.DataFrame]]:
        """Return sessions with new messages, those that they replace, and late messages."""
        raw = [c.raw for c in combined if c.raw is not None and len(c.raw)]
        cells = [c.cells for c in combined if len(c.cells)]
        waiting = self._find_waiting_keys(clock)
        stored = self._read_stored([*cells, *waiting], raw)
        late = []
        doubtful = stack_rows(raw) if raw else None
        if doubtful is not None:
            doubtful, of_closed = self._split_closed(doubtful, stored, clock)
            cells += [self.combiner.lift(doubtful)] if len(doubtful) else []
            late.append(of_closed)
        if not cells and not waiting:
            return *self._nothing_changed(), late
        changed, absorbed, alone = self._place([*cells, *waiting], stored, doubtful, clock)
        return changed, absorbed, [*late, alone]

    def _find_waiting_keys(self, clock: BatchClock) -> list[pl.DataFrame]:
        """Return the keys that have to be placed without new messages, as rows of no cells."""
        return []

    def _nothing_changed(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return no changed sessions, and none that they replace."""
        nothing = self._no_sessions
        return nothing, nothing.with_columns(pl.lit(False).alias(REPLACED))

    def _place(
        self,
        cells: Sequence[pl.DataFrame],
        stored: pl.DataFrame,
        doubtful: pl.DataFrame | None,
        clock: BatchClock,
    ) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Merge cells with the stored sessions; the results are those of ``_take``."""
        new = pl.concat(cells, how="diagonal")
        zeros = {name: 0 for name in (*self._counts, *self._ends) if name != UNEMITTED}
        now = dict.fromkeys(self._times, clock.wall)
        unemitted = new[columns.MESSAGES].alias(UNEMITTED)
        new = add_constants(new, {**zeros, **now, "old": False})
        new = new.hstack([unemitted, self._without_retracts.new_from_index(0, len(new))])
        old = add_constants(self._select_open(stored, clock), {"old": True})
        rows, group = group_rows([old, new], self.combiner)
        return self._merge_groups(rows, group, doubtful, clock)

    def _read_stored(
        self, cells: Sequence[pl.DataFrame], raw: Sequence[pl.DataFrame]
    ) -> pl.DataFrame:
        """Read the stored sessions of a batch's keys, including closed and vanished ones."""
        of_messages = [pl.col(name).alias(key) for name, key in self.combiner.key_names.items()]
        keys = [c[self.keys] for c in cells] + [m.select(of_messages) for m in raw]
        if not keys:
            return self._no_sessions
        return self._newest(self.sessions.read(only=stack_rows(keys)))

    def _select_open(self, stored: pl.DataFrame, clock: BatchClock) -> pl.DataFrame:
        """Return the stored sessions that exist and are open."""
        is_open = stored[columns.LAST] > clock.closed_before
        return filter_rows(stored, (stored[columns.MESSAGES] > 0) & is_open)

    def _split_closed(
        self, doubtful: pl.DataFrame, stored: pl.DataFrame, clock: BatchClock
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Split off the messages that belong to a closed session.

        Sessions of a key never overlap. So every message before its latest closed session, or
        within the gap after that, is late.
        """
        last = pl.col(columns.LAST)
        remembered = clock.closed_before - self.windows.memory
        exists = pl.col(columns.MESSAGES) > 0
        closed = latest_closed(stored.filter(exists & (last > remembered)), self.keys, clock)
        if not len(closed):
            return doubtful, self.combiner.nothing_rejected
        by = [pl.col(key).alias(name) for name, key in self.combiner.key_names.items()]
        latest = closed.select(*by, last.alias(_CLOSED_LAST))
        with_closed = join_null_safe(doubtful, latest, self.combiner.message_keys, "left")
        is_late = pl.col(columns.TIME) - pl.col(_CLOSED_LAST) < self.windows.reach
        late = with_closed.select(is_late.fill_null(False)).to_series()
        accepted, rejected = split_rejected(doubtful, late, "late")
        self.state.count({"late": int(late.sum())})
        return accepted, self.combiner.set_aside(rejected)

    def _merge_groups(
        self,
        rows: pl.DataFrame,
        group: NDArray[np.int64],
        doubtful: pl.DataFrame | None,
        clock: BatchClock,
    ) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        is_old = rows["old"].to_numpy()
        begins = np.flatnonzero(np.diff(group, prepend=-1))
        olds = np.add.reduceat(is_old.astype(np.int64), begins)
        news = np.diff(np.append(begins, len(rows))) - olds
        own = ["old", RETRACTS, *self._counts, *self._times]
        sessions = merge_groups(drop_columns(rows, *own), group, self.combiner)
        begin = sessions[columns.FIRST].to_numpy()
        is_late = (sessions[columns.LAST].to_numpy() <= clock.closed_before) & (olds == 0)
        is_changed = (news > 0) & ~is_late
        # With one old session and unchanged bounds, the session is still the same.
        firsts = np.minimum.reduceat(
            np.where(is_old, rows[columns.FIRST].to_numpy(), 2**62), begins
        )
        lasts = np.maximum.reduceat(
            np.where(is_old, rows[columns.LAST].to_numpy(), -(2**62)), begins
        )
        is_unchanged = (olds == 1) & (begin == firsts)
        is_unchanged &= sessions[columns.LAST].to_numpy() == lasts
        counts = {c: np.add.reduceat(rows[c].to_numpy(), begins) for c in self._counts}
        counts[FIRED] = np.where(is_unchanged, counts[FIRED], 0)
        counts |= self._merge_times(rows, begins)
        sessions = sessions.hstack([pl.Series(c, count) for c, count in counts.items()])
        sessions = self._with_retracts(sessions, rows, group, is_old & ~is_unchanged[group])
        is_replaced = rows[columns.FIRST].to_numpy() != begin[group]
        absorbed = drop_columns(rows, "old").hstack([pl.Series(REPLACED, is_replaced)])
        absorbed = filter_rows(absorbed, pl.Series(is_old & is_changed[group]))
        late = self._reject_late(rows, group, is_late, doubtful)
        changed = filter_rows(sessions, pl.Series(is_changed))
        self.retained.add(changed)
        self.retained.add(absorbed, -1)
        return changed, absorbed, late

    def _merge_times(
        self, rows: pl.DataFrame, begins: NDArray[np.int64]
    ) -> dict[str, NDArray[np.int64]]:
        """Return when the first, or the last, unemitted message of each session came."""
        waits = rows[UNEMITTED].to_numpy() > 0
        merged_times = {}
        for name in self._times:
            times = rows[name].to_numpy()
            if name == SINCE["first"]:
                first = np.minimum.reduceat(np.where(waits, times, MAX_WINDOW), begins)
                merged_times[name] = first
            else:
                merged_times[name] = np.maximum.reduceat(
                    np.where(waits, times, -MAX_WINDOW), begins
                )
        return merged_times

    def _with_retracts(
        self,
        whole: pl.DataFrame,
        rows: pl.DataFrame,
        group: NDArray[np.int64],
        vanished: NDArray[np.bool_],
    ) -> pl.DataFrame:
        """Add to sessions those that they replace, directly or earlier, for retraction."""
        replaced = pl.Series(vanished) & (rows[FIRED] > 0)
        if not replaced.any() and rows[RETRACTS].null_count() == len(rows):
            return whole.hstack([self._without_retracts.new_from_index(0, len(whole))])
        of = pl.Series(_GROUP, group)
        bounds = [columns.FIRST, columns.LAST, FIRED, *self._ends]
        own = rows.with_columns(of).filter(replaced)
        lists = [own.select(_GROUP, pl.struct(bounds).alias(RETRACTS))]
        earlier = rows.select(of, RETRACTS).drop_nulls(RETRACTS)
        lists.append(earlier.explode(RETRACTS))
        owed = stack_rows(lists)
        by_group = owed.group_by(_GROUP).agg(pl.col(RETRACTS))
        numbers = pl.int_range(pl.len(), dtype=pl.Int64).alias(_GROUP)
        numbered = whole.with_columns(numbers)
        return numbered.join(by_group, on=_GROUP, how="left", maintain_order="left").drop(_GROUP)

    def _reject_late(
        self,
        rows: pl.DataFrame,
        group: NDArray[np.int64],
        is_late: NDArray[np.bool_],
        doubtful: pl.DataFrame | None,
    ) -> pl.DataFrame:
        """Return the late messages among the doubtful ones, and count both kinds."""
        if doubtful is None or not len(doubtful):
            return self.combiner.nothing_rejected
        bounds = rows.select(
            *(pl.col(key).alias(name) for name, key in self.combiner.key_names.items()),
            pl.col(columns.FIRST).alias("__first"),
            pl.col(columns.LAST).alias("__last"),
        ).filter(pl.Series(is_late[group]))
        numbered = doubtful.with_row_index("__row")
        # With gaps of messages, the last position of a session is after its messages.
        ends: Any = "both" if self.windows.by is None else "left"
        inside = pl.col(columns.TIME).is_between("__first", "__last", closed=ends)
        within = join_null_safe(numbered, bounds, self.combiner.message_keys, "inner")
        late = within.filter(inside)["__row"]
        rejected = doubtful[late.unique().sort()].with_columns(pl.lit("late").alias(columns.REASON))
        self.state.count({"late": len(rejected), "counted": len(doubtful) - len(rejected)})
        return self.combiner.set_aside([rejected])

    def _select_ended(self, absorbed: pl.DataFrame, clock: BatchClock) -> pl.DataFrame:
        """Return the sessions without new messages that the watermark has just passed."""
        ended = self.ends.read(None, clock.after)
        return self._read_listed(ended, clock.before + 1, clock.after, absorbed)

    def _select_due_by_clock(self, absorbed: pl.DataFrame, clock: BatchClock) -> pl.DataFrame:
        """Return sessions without new messages that are due by the clock or because they close."""
        low = self.waiting.low
        if low is None:
            return self._no_sessions
        # Closed sessions are excluded: the only version left may be an old one without emissions.
        opened = clock.closed_before + 1
        if self._clock_due(clock):
            waiting = self.waiting.read()
            ahead = self._read_listed(waiting, clock.after + 1, None, absorbed)
            past = self._read_listed(waiting, opened, clock.before, absorbed)
            return pl.concat([past, ahead], how="diagonal")
        if low <= clock.closed_after:
            high = min(clock.closed_after, clock.before)
            return self._read_listed(self.waiting.read(opened, high), opened, high, absorbed)
        return self._no_sessions

    def _read_listed(
        self,
        lists: Sequence[pl.DataFrame],
        low: int | None,
        high: int | None,
        excluded: pl.DataFrame,
    ) -> pl.DataFrame:
        """Return the current sessions that some rows list, except those absorbed in this batch."""
        frames = [frame[self._bounds] for frame in lists]
        if not frames:
            return self._no_sessions
        least, greatest = -MAX_WINDOW if low is None else low, MAX_WINDOW if high is None else high
        listed = select_between(stack_rows(frames), columns.LAST, least, greatest)
        listed = join_null_safe(listed, excluded, self._identity, "anti")
        if not len(listed):
            return self._no_sessions
        sessions = self._newest(self.sessions.read(only=listed[self.keys]))
        sessions = join_null_safe(sessions, listed, self._bounds, "semi")
        return filter_rows(sessions, sessions[columns.MESSAGES] > 0)

    def _emit(
        self, changed: pl.DataFrame, silent: pl.DataFrame, clock: BatchClock
    ) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Return the emissions, the sessions to store again, and the silent ones that wait."""
        last, unemitted = pl.col(columns.LAST), pl.col(UNEMITTED) > 0
        full = (last > clock.before) & (last <= clock.after)
        if not self.spec.firing.repeat:
            full &= unemitted | (pl.col(FIRED) == 0)
        late = (last <= clock.before) & unemitted & self._late(clock)
        early = pl.lit(False)
        if self.spec.firing.early is not None:
            first = (pl.col(FIRED) == 0) & pl.col(RETRACTS).is_null()
            early = is_due(self.spec.firing.early, clock, UNEMITTED, first)
            early = (last > clock.after) & unemitted & early
        emission = (
            pl.when(full)
            .then(pl.lit("full"))
            .when(late)
            .then(pl.lit("late"))
            .when(early)
            .then(pl.lit("early"))
            .alias(columns.EMISSION)
        )
        changed, silent = (self._label(rows, emission) for rows in (changed, silent))
        emits = pl.col(columns.EMISSION).is_not_null()
        silent, still = split_rows(silent, silent[columns.EMISSION].is_not_null())
        rows = pl.concat([changed, silent], how="diagonal")
        if rows[columns.EMISSION].null_count() == len(rows):
            nothing = rows.clear().with_columns(pl.col(FIRED).alias(columns.REVISION))
            return nothing, drop_columns(rows, columns.EMISSION), still
        emitted = rows.filter(emits).with_columns(pl.col(FIRED).alias(columns.REVISION))
        once = emits.cast(pl.Int64)
        again = (pl.col(columns.EMISSION) == "late").fill_null(False).cast(pl.Int64)
        added = [pl.col(FIRED) + once, pl.col(UNEMITTED) * (1 - once), pl.col(FIRED_LATE) + again]
        added = added[: len(self._counts)]  # the last one is optional
        no_retracts = pl.when(emits).then(self._no_retracts).otherwise(RETRACTS)
        rows = rows.with_columns(*added, no_retracts)
        return emitted, drop_columns(rows, columns.EMISSION), still

    def _label(self, sessions: pl.DataFrame, emission: pl.Expr) -> pl.DataFrame:
        """Add to sessions their emission, which is null for those that don't emit."""
        if not len(sessions):
            return sessions.hstack([pl.Series(columns.EMISSION, [], dtype=pl.String)])
        policies = (self.spec.firing.early, self.spec.firing.late)
        labelled = add_condition_columns(sessions, policies, self.combiner).with_columns(emission)
        return drop_condition_columns(labelled, policies)

    def _late(self, clock: BatchClock) -> pl.Expr:
        closes = pl.col(columns.LAST) <= clock.closed_after
        return closes | is_due(self.spec.firing.late, clock, UNEMITTED, pl.col(FIRED_LATE) == 0)

    def _clock_due(self, clock: BatchClock) -> bool:
        policies = [self.spec.firing.early, self.spec.firing.late]
        return any(is_due_by_clock(policy, clock) for policy in policies)

    def _retractions(self, emitted: pl.DataFrame) -> pl.DataFrame:
        """Return retractions of the sessions that the emitted ones have replaced."""
        owing = emitted.drop_nulls(RETRACTS).explode(RETRACTS)
        replaced = pl.col(RETRACTS).struct
        return owing.select(
            *self.keys,
            *(replaced.field(name) for name in (columns.FIRST, columns.LAST, *self._ends)),
            pl.lit("retract").alias(columns.EMISSION),
            replaced.field(FIRED).alias(columns.REVISION),
        )

    def _keep(
        self, rows: pl.DataFrame, still: pl.DataFrame, absorbed: pl.DataFrame, clock: BatchClock
    ) -> None:
        """Store the sessions of this batch, and drop the expired ones."""
        last, edge = rows[columns.LAST], self._find_first_stored(clock)
        # Most sessions of a large batch start and end within it.
        stored = filter_rows(rows, last >= edge)
        if absorbed[REPLACED].any():
            replaced = drop_columns(filter_rows(absorbed, absorbed[REPLACED]), REPLACED)
            gone = replaced.with_columns(columns.number(columns.MESSAGES))
            stored = pl.concat([gone, stored], how="diagonal")
        self.sessions.append(stored)
        self.ends.append(filter_rows(rows, last > clock.after)[self._bounds])
        if self.spec.fires_by_clock or self.spec.firing.grace:
            pending = [rows[[*self._bounds, UNEMITTED]]]
            if self._clock_due(clock):
                # All waiting sessions were read, so the table is rewritten.
                self.waiting.drop_before(None)
                pending.append(still[[*self._bounds, UNEMITTED]])
            waiting = stack_rows(pending)
            waits = (waiting[UNEMITTED] > 0) & (waiting[columns.LAST] > clock.closed_after)
            self.waiting.append(filter_rows(waiting, waits)[self._bounds])
            self.waiting.drop_before(clock.closed_after + 1)
        self.sessions.drop_before(edge)
        self._save_retained()
        self.ends.drop_before(clock.after + 1)

    def _find_first_stored(self, clock: BatchClock) -> int:
        """Return the least last position of the sessions that are stored.

        Closed sessions are kept for some time, so that their late messages don't open new sessions.
        """
        remembered = clock.closed_after - self.windows.memory + 1
        if self.state.watermark is None:
            return remembered
        retained_from = self.state.watermark - self.spec.firing.retention
        expired = self.windows.last_ended(retained_from) + 1
        first = self.retained.apply_limit(clock.closed_after + 1, expired)
        return min(remembered, expired if first is None else first)

    def _newest(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return the last version of each session."""
        if not frames:
            return self._no_sessions
        rows = pl.concat(frames, how="diagonal")
        return rows.unique(self._identity, keep="last", maintain_order=True)

    @cached_property
    def _no_sessions(self) -> pl.DataFrame:
        nothing = self.combiner.no_windows
        return share_empty(self.combiner, "sessions", lambda: nothing.with_columns(self._zeros()))

    def _zeros(self) -> list[pl.Expr]:
        numbers = [*self._counts, *self._times, *self._ends]
        return [*(columns.number(name) for name in numbers), self._no_retracts]

    def _complete(self, stored: pl.DataFrame) -> pl.DataFrame:
        """Complete stored sessions with the columns that were added since."""
        whole = self.combiner.complete(stored)
        if RETRACTS not in whole.columns:
            # Earlier versions retracted at once.
            whole = whole.with_columns(self._no_retracts)
        numbers = [*self._counts, *self._times]
        # These columns are missing if other policies wrote the state.
        optional = [name for name in (FIRED_LATE, *SINCE.values()) if name in numbers]
        if not optional:
            return whole
        absent = [columns.number(name) for name in optional if name not in stored.columns]
        return whole.with_columns(absent).with_columns(
            pl.col(name).fill_null(0).cast(pl.Int64) for name in optional
        )


def latest_closed(sessions: pl.DataFrame, keys: Sequence[str], clock: BatchClock) -> pl.DataFrame:
    """Return the last position of each key's latest session that has closed."""
    closed = sessions.filter(pl.col(columns.LAST) <= clock.closed_before)
    return closed.group_by(keys).agg(pl.col(columns.LAST).max())
