"""Sessions that are cut from the messages of their keys.

A session ends a gap after its last message or, if it is **cut**, sooner: at its longest duration,
by a condition, or where a column changes. A late message may move all cuts behind it. So the
messages of open sessions are kept by time, combined into **cells** of one position, and the
sessions of a batch's keys are cut anew from them. Sessions that are never cut need no cells.

Where a condition begins sessions, messages may be outside of all of them. That is certain once the
watermark, less the grace, has passed them. Until then they are kept whole, in the table
**messages**, so that they can be rejected then.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.firing import MAX_WINDOW, SINCE, BatchClock
from muntin.engine.order import sort_rows
from muntin.engine.sessions.combine import SessionCombiner, merge_groups
from muntin.engine.sessions.cuts import Cuts, find_cuts
from muntin.engine.sessions.shard import (
    FIRED,
    FIRED_LATE,
    REPLACED,
    RETRACTS,
    UNEMITTED,
    SessionShard,
)
from muntin.engine.windows.combine import Combined
from muntin.model.spec import UNDECIDED
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.lookup import join_null_safe
from muntin.state.rows import stack_rows
from muntin.state.runs import segment_length

_IS_NEW, _OLD, _NUMBER = "__muntin_is_new", "__muntin_old", "__muntin_number"
_OPENED, _MESSAGE, _RETRACTED = "__muntin_opened", "message", "__muntin_retracted"
_LATEST = np.maximum, -MAX_WINDOW
# The number of cells that were left when those of closed sessions were last dropped.
_OPEN_CELLS = "open cells"
# Fewer cells aren't searched for those of closed sessions.
MIN_GARBAGE = 10_000


class CutSessionShard(SessionShard):
    """The sessions of a shard's keys, each of which may be cut."""

    def __init__(self, combiner: SessionCombiner, blobs: Blobs, cache: FrameCache) -> None:
        super().__init__(combiner, blobs, cache)
        self.longest = self.windows.longest
        length = self.windows.gap if self.longest is None else self.longest
        width = segment_length(length + combiner.patience + self.spec.lateness)
        self.cells = self.state.table(
            "cells", columns.PANE, width, combiner.merge, self.keys, combiner.complete
        )
        self.has_outside = self.windows.start is not None
        if self.has_outside:
            self.messages = self.state.table("messages", columns.PANE, width, pl.concat)
        # The columns that identify a session as it is emitted.
        self._window = [*self._identity, *(self._ends or [columns.LAST])]
        self._new_cells, self._new_messages = combiner.no_cells, pl.DataFrame()

    def _take(
        self, combined: Sequence[Combined], clock: BatchClock
    ) -> tuple[pl.DataFrame, pl.DataFrame, list[pl.DataFrame]]:
        self._new_cells, self._new_messages = self.combiner.no_cells, pl.DataFrame()
        return super()._take(combined, clock)

    def _find_waiting_keys(self, clock: BatchClock) -> list[pl.DataFrame]:
        """Return the keys with messages that the watermark has passed in this batch."""
        settled = self._read_settled(clock)
        return [settled[self.keys].unique()] if len(settled) else []

    def _read_settled(self, clock: BatchClock) -> pl.DataFrame:
        """Return the stored messages that the watermark has passed in this batch."""
        if not self.has_outside:
            return pl.DataFrame()
        low, high = (self._last_settled(m) for m in (clock.closed_before, clock.closed_after))
        frames = [f.filter(_is_within(low, high)) for f in self.messages.read(low + 1, high)]
        return stack_rows(frames) if frames else pl.DataFrame()

    def _last_settled(self, closed: int) -> int:
        """Return the last position whose messages are settled: each is in a session or in none.

        ``closed`` is the greatest last position of a session that has closed.
        """
        return closed + self.windows.reach - 1

    def _place(
        self,
        cells: Sequence[pl.DataFrame],
        stored: pl.DataFrame,
        doubtful: pl.DataFrame | None,
        clock: BatchClock,
    ) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Cut the sessions of some keys anew, and compare them with the stored ones."""
        new = [self.combiner.no_cells, *(frame for frame in cells if columns.PANE in frame.columns)]
        new_cells = self.combiner.merge(new, by=[*self.keys, columns.PANE])
        named = stack_rows([frame[self.keys] for frame in cells]).unique()
        # Late messages have keys, too, whose sessions they don't change.
        stored = join_null_safe(stored, named, self.keys, "semi")
        old = sort_rows(self._select_open(stored, clock), self._identity)
        both = [
            self._open_cells(named, old, clock).with_columns(pl.lit(False).alias(_IS_NEW)),
            new_cells.with_columns(pl.lit(True).alias(_IS_NEW)),
        ]
        rows = sort_rows(pl.concat(both, how="diagonal"), [*self.keys, columns.PANE])
        rows, cuts, closed = self._without_closed(rows, clock)
        taken, late = self._split_late(doubtful, closed)
        self._new_cells = rows.filter(_IS_NEW).drop(_IS_NEW)
        if self.has_outside:
            late = stack_rows([late, self._reject_outside(rows, cuts, taken, clock)])
        if not len(cuts.last):
            return *self._nothing_changed(), late
        vanished = self._find_vanished(stored, clock)
        changed, absorbed = self._compare(old, vanished, rows, cuts, clock)
        self.retained.add(changed)
        self.retained.add(absorbed, -1)
        return changed, absorbed, late

    def _find_vanished(self, stored: pl.DataFrame, clock: BatchClock) -> pl.DataFrame:
        """Return what sessions had emitted that don't exist any more, if it is remembered."""
        emitted = [pl.col(name).max() for name in self._counts if name != UNEMITTED]
        exists = pl.col(columns.MESSAGES) > 0
        remembered = pl.col(columns.LAST) > clock.closed_before - self.windows.memory
        earlier = stored.filter(~exists & (pl.col(FIRED) > 0) & remembered)
        vanished = join_null_safe(earlier, stored.filter(exists), self._window, "anti")
        return vanished.group_by(self._window).agg(emitted)

    def _open_cells(
        self, named: pl.DataFrame, old: pl.DataFrame, clock: BatchClock
    ) -> pl.DataFrame:
        """Return the stored cells of some keys that are in open sessions, or not settled."""
        low = self._first_open(clock.closed_before)
        cells = pl.concat(
            [self.combiner.no_cells, *self.cells.read(low, None, named)], how="diagonal"
        )
        cells = self._without_garbage(cells, old, clock.closed_before)
        return cells if low is None else cells.filter(pl.col(columns.PANE) >= low)

    def _without_garbage(
        self, cells: pl.DataFrame, sessions: pl.DataFrame, closed: int
    ) -> pl.DataFrame:
        """Drop the cells before the first open session of their key, as far as they are settled."""
        opened = sessions.group_by(self.keys).agg(pl.col(columns.FIRST).min().alias(_OPENED))
        cells = join_null_safe(cells, opened, self.keys, "left")
        is_open = (pl.col(columns.PANE) >= pl.col(_OPENED)).fill_null(False)
        is_open |= pl.col(columns.PANE) > self._last_settled(closed)
        return cells.filter(is_open).drop(_OPENED)

    def _first_open(self, closed: int) -> int | None:
        """Return the least position of an open session's first message; ``None`` for any.

        ``closed`` is the greatest last position of a session that has closed.
        """
        return None if self.longest is None else closed - self.longest + self.windows.gap + 1

    def _without_closed(
        self, rows: pl.DataFrame, clock: BatchClock
    ) -> tuple[pl.DataFrame, Cuts, pl.DataFrame]:
        """Take new messages out of sessions that would have closed, until none is in one.

        A message outside of sessions is late if a session that it alone makes, and ends, would be.
        The result is the other rows, their sessions, and the rows that were taken out.
        """
        taken_out = [rows.clear()]
        while True:
            cuts = find_cuts(rows, self.combiner)
            last = rows[columns.PANE].to_numpy() + (1 - self.windows.reach)
            last[cuts.is_inside] = cuts.last[cuts.number[cuts.is_inside]]
            late = pl.Series(last <= clock.closed_before) & rows[_IS_NEW]
            if not late.any():
                return rows, cuts, stack_rows(taken_out)
            taken_out.append(rows.filter(late))
            rows = rows.filter(~late)

    def _split_late(
        self, doubtful: pl.DataFrame | None, closed: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Split off the messages of rows that were taken out, and count both kinds."""
        if doubtful is None or not len(doubtful):
            return self.combiner.empty_messages, self.combiner.nothing_rejected
        late = self._find_messages(doubtful, closed)
        aside = doubtful.filter(late).with_columns(pl.lit("late").alias(columns.REASON))
        fate = UNDECIDED if self.has_outside else "counted"
        self.state.count({"late": len(aside), fate: len(doubtful) - len(aside)})
        return doubtful.filter(~late), self.combiner.set_aside([aside])

    def _find_messages(self, messages: pl.DataFrame, cells: pl.DataFrame) -> pl.Series:
        """Return the mask of messages that are in some cells."""
        at = cells.select(
            *(pl.col(key).alias(name) for name, key in self.combiner.key_names.items()),
            pl.col(columns.PANE).alias(columns.TIME),
        ).unique()
        by = [*self.combiner.message_keys, columns.TIME]
        numbered = messages.select(by).with_row_index(_NUMBER)
        is_inside = np.zeros(len(messages), dtype=np.bool_)
        is_inside[join_null_safe(numbered, at, by, "semi")[_NUMBER].to_numpy()] = True
        return pl.Series(is_inside)

    def _reject_outside(
        self, rows: pl.DataFrame, cuts: Cuts, taken: pl.DataFrame, clock: BatchClock
    ) -> pl.DataFrame:
        """Return the settled messages outside of sessions, and count them.

        ``cuts`` are the sessions of the cells ``rows``; ``taken`` are the new messages.
        """
        high = self._last_settled(clock.closed_after)
        self._new_messages = taken.filter(pl.col(columns.TIME) > high)
        settled = [taken.filter(pl.col(columns.TIME) <= high)]
        stored = self._read_settled(clock)
        if len(stored):
            settled.append(stored[_MESSAGE].struct.unnest())
        messages = pl.concat(settled, how="diagonal")
        outside = rows.filter(pl.Series(~cuts.is_inside) & (rows[columns.PANE] <= high))
        aside = messages.filter(self._find_messages(messages, outside))
        counted = len(messages) - len(aside)
        self.state.count({UNDECIDED: -len(messages), "outside": len(aside), "counted": counted})
        return self.combiner.set_aside(
            [aside.with_columns(pl.lit("outside").alias(columns.REASON))]
        )

    def _compare(
        self,
        old: pl.DataFrame,
        vanished: pl.DataFrame,
        rows: pl.DataFrame,
        cuts: Cuts,
        clock: BatchClock,
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the sessions that changed, and the old ones that they replace.

        ``old`` are the open sessions of some keys, ``cuts`` those of their cells ``rows``.
        ``vanished`` is what earlier sessions, which don't exist any more, had emitted.
        """
        inside = rows.filter(pl.Series(cuts.is_inside))
        group = cuts.number[cuts.is_inside]
        whole = merge_groups(inside.drop(_IS_NEW, columns.PANE), group, self.combiner)
        ends = [pl.Series(name, cuts.end) for name in self._ends]
        whole = whole.with_columns(pl.Series(columns.LAST, cuts.last), *ends)
        into, is_whole = self._find_successors(old, rows, cuts)
        same = np.bincount(into, minlength=len(whole))[into] == 1
        for name in self._window[len(self.keys) :]:
            same &= old[name].to_numpy() == whole[name].to_numpy()[into]
        is_kept = same & (old[columns.LAST].to_numpy() == whole[columns.LAST].to_numpy()[into])
        is_changed = np.ones(len(whole), dtype=np.bool_)
        is_changed[into[is_kept & is_whole]] = False
        is_changed |= np.bincount(group, inside[_IS_NEW].to_numpy(), len(whole)) > 0
        whole = self._add_counts(whole, old, into, same, is_whole, clock)
        whole = self._with_retracts(whole, old, into, ~same)
        if len(join_null_safe(vanished, whole, self._window, "semi")):
            whole, owed_less = self._revive(whole, vanished)
            is_changed[owed_less] = True
        absorbed = old.with_columns(pl.Series(REPLACED, ~is_kept)).filter(
            pl.Series(is_changed[into])
        )
        return whole.filter(pl.Series(is_changed)), absorbed

    def _add_counts(
        self,
        whole: pl.DataFrame,
        old: pl.DataFrame,
        into: NDArray[np.int64],
        same: NDArray[np.bool_],
        is_whole: NDArray[np.bool_],
        clock: BatchClock,
    ) -> pl.DataFrame:
        """Add to sessions what they have emitted, and since when they have more to emit.

        ``into`` is the number of the session that follows each stored one, ``same`` marks the
        stored sessions that emit with the same bounds, and ``is_whole`` those of which all messages
        follow.
        """
        count = len(whole)
        emitted = (old[columns.MESSAGES] - old[UNEMITTED]).to_numpy()
        emitted = _add(into, np.where(is_whole, emitted, 0), count)
        messages = whole[columns.MESSAGES].to_numpy()
        # If only the end of a session has changed, its messages have been emitted with another end.
        is_repeated = (emitted == messages) & (np.bincount(into[same], minlength=count) == 0)
        counts = {
            FIRED: _add(into, np.where(same, old[FIRED].to_numpy(), 0), count),
            UNEMITTED: messages - np.where(is_repeated, 0, emitted),
        }
        if FIRED_LATE in self._counts:
            counts[FIRED_LATE] = _add(into, old[FIRED_LATE].to_numpy(), count)
        counts |= self._times_of(old, into, is_whole, counts[UNEMITTED], clock.wall)
        return whole.with_columns(pl.Series(c, numbers) for c, numbers in counts.items())

    def _find_successors(
        self, old: pl.DataFrame, rows: pl.DataFrame, cuts: Cuts
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the session that has each old one's first message, and whether it has all."""
        starts = old.select(*self.keys, pl.col(columns.FIRST).alias(columns.PANE)).with_row_index(
            _OLD
        )
        stored = rows.with_columns(pl.Series(_NUMBER, cuts.number)).filter(~pl.col(_IS_NEW))
        matched = stored.join(
            starts,
            on=[*self.keys, columns.PANE],
            how="left",
            maintain_order="left",
            nulls_equal=True,
        ).with_columns(pl.col(_OLD).forward_fill())
        if self.has_outside:
            matched = matched.filter(pl.Series(find_cuts(stored, self.combiner).is_inside))
        span = (
            matched.drop_nulls(_OLD)
            .group_by(_OLD)
            .agg(
                pl.col(_NUMBER).first().alias("first"),
                (pl.col(_NUMBER).n_unique() == 1).alias("is_whole"),
            )
            .sort(_OLD)
        )
        return span["first"].to_numpy(), span["is_whole"].to_numpy()

    def _revive(
        self, whole: pl.DataFrame, vanished: pl.DataFrame
    ) -> tuple[pl.DataFrame, NDArray[np.int64]]:
        """Let sessions with the bounds of vanished ones continue their revisions.

        A retraction that is still owed is dropped; one that was emitted is a revision, too. The
        result is the sessions and the numbers of those that owe fewer retractions.
        """
        numbered = whole.with_row_index(_NUMBER)
        owed = numbered.select(_NUMBER, *self.keys, RETRACTS).drop_nulls(RETRACTS)
        owed = owed.explode(RETRACTS).unnest(RETRACTS)
        dropped = join_null_safe(owed, whole, self._window, "semi")
        others = join_null_safe(owed, whole, self._window, "anti")
        replaced = pl.struct(columns.FIRST, columns.LAST, FIRED, *self._ends).alias(RETRACTS)
        lists = others.group_by(_NUMBER, maintain_order=True).agg(replaced)
        counts = [name for name in self._counts if name != UNEMITTED]
        before = vanished.select(*self._window, *(pl.col(c).alias(f"{c}.before") for c in counts))
        owing = dropped.select(*self._window, pl.lit(0, pl.Int64).alias(_RETRACTED)).unique()
        before = join_null_safe(before, owing, self._window, "left")
        again = join_null_safe(numbered.drop(RETRACTS), before, self._window, "left")
        again = again.join(lists, on=_NUMBER, how="left").sort(_NUMBER)
        retracted = pl.when(pl.col(f"{FIRED}.before") > 0).then(pl.col(_RETRACTED).fill_null(1))
        again = again.with_columns(
            (pl.col(c) + pl.col(f"{c}.before").fill_null(0)).alias(c) for c in counts
        ).with_columns(pl.col(FIRED) + retracted.fill_null(0))
        return again.select(whole.columns), dropped[_NUMBER].unique().to_numpy()

    def _times_of(
        self,
        old: pl.DataFrame,
        into: NDArray[np.int64],
        is_whole: NDArray[np.bool_],
        unemitted: NDArray[np.int64],
        wall: int,
    ) -> dict[str, NDArray[np.int64]]:
        """Return when the first, or the last, unemitted message of each session came.

        The messages that a cut has moved into another session count as coming now.
        """
        if not self._times:
            return {}
        waited = np.where(is_whole, old[UNEMITTED].to_numpy(), 0)
        has_moved = unemitted > _add(into, waited, len(unemitted))
        times = {}
        for name in self._times:
            merge, beyond = (np.minimum, MAX_WINDOW) if name == SINCE["first"] else _LATEST
            times[name] = np.where(has_moved, wall, beyond)
            merge.at(times[name], into, np.where(waited > 0, old[name].to_numpy(), beyond))
        return times

    def _keep(
        self, rows: pl.DataFrame, still: pl.DataFrame, absorbed: pl.DataFrame, clock: BatchClock
    ) -> None:
        self.cells.append(self._new_cells)
        super()._keep(rows, still, absorbed, clock)
        if self.longest is None:
            self._collect_garbage(clock)
        else:
            self.cells.drop_before(self._first_open(clock.closed_after))
        if self.has_outside:
            self._keep_messages(clock)

    def _keep_messages(self, clock: BatchClock) -> None:
        """Store the new messages that aren't settled, and drop the settled ones."""
        new = self._new_messages
        if len(new):
            at = pl.col(columns.TIME).alias(columns.PANE)
            keys = [pl.col(name).alias(key) for name, key in self.combiner.key_names.items()]
            names = self.combiner.empty_messages.columns
            self.messages.append(new.select(*keys, at, pl.struct(names).alias(_MESSAGE)))
        self.messages.drop_before(self._last_settled(clock.closed_after) + 1)

    def _collect_garbage(self, clock: BatchClock) -> None:
        """Drop the cells of closed sessions, once they may be half of all cells.

        A session may last for any time, so its cells can't be dropped by their age.
        """
        left: int = self.state.extra.get(_OPEN_CELLS, 0)
        if self.cells.rows < max(2 * left, MIN_GARBAGE):
            return
        sessions = self._newest(self.sessions.read()).filter(
            (pl.col(columns.MESSAGES) > 0) & (pl.col(columns.LAST) > clock.closed_after)
        )
        cells = self.combiner.combine_cells(self.cells.read())
        cells = self._without_garbage(cells, sessions, clock.closed_after)
        self.cells.rewrite(cells)
        self.state.extra[_OPEN_CELLS] = len(cells)

    def _newest(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return the last version of each session, and the bounds that sessions had before.

        The last position of a session may decrease, and versions are dropped by it. So each version
        is hidden by a row with its own bounds, which is dropped together with it.
        """
        if not frames:
            return self._no_sessions
        return select_newest(pl.concat(frames, how="diagonal"), self._identity)


def select_newest(versions: pl.DataFrame, identity: Sequence[str]) -> pl.DataFrame:
    """Return the last version of each session, and rows without messages for vanished ones.

    ``versions`` are in the order in which they were stored; ``identity`` has key and first
    position.
    """
    bounds = [name for name in (columns.LAST, columns.END) if name in versions.columns]
    rows = versions.unique([*identity, *bounds], keep="last", maintain_order=True)
    exists = rows[columns.MESSAGES] > 0
    whole = rows.filter(exists).unique(identity, keep="last", maintain_order=True)
    return stack_rows([rows.filter(~exists), whole])


def _is_within(low: int, high: int) -> pl.Expr:
    """Return whether a position is after one and not after another."""
    return pl.col(columns.PANE).is_between(low, high, closed="right")


def _add(into: NDArray[np.int64], numbers: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Add numbers of old sessions by the session that follows each."""
    total = np.zeros(count, dtype=np.int64)
    np.add.at(total, into, numbers)
    return total
