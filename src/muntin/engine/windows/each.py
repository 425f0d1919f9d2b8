"""Processing of single messages in one step, with the output of a step for each.

If no window ends meanwhile, the step of a message only lets the message's own windows emit. Their
content then is a prefix of their content after all messages. So a thousand messages cost one step,
and emit the same as a thousand steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.firing import BatchClock, WallClock, is_due_by_clock
from muntin.engine.order import find_group_starts, sort_rows
from muntin.engine.output import ShardOutput
from muntin.engine.windows.combine import Combined
from muntin.engine.windows.compose import Combine, Line, Parts
from muntin.engine.windows.overlap import copy_to_windows
from muntin.engine.windows.paned import FIRED, LATE, PanedShard
from muntin.engine.windows.waiting import BEFORE, Waiting
from muntin.model.policies import Each, FirstThen, When, ages_of, by_message
from muntin.state.lookup import join_null_safe
from muntin.state.runs import add_range

ROW = "__muntin_step"
_STORED = -1


class Prefixes(Line):
    """Running aggregates of groups of rows: the content of a window after each of its messages.

    The rows of a group are adjacent, and each has a prefix. Floats are added in their order, as in
    single steps. ``first`` marks the first row of each group, including the very first row.
    """

    def __init__(self, first: NDArray[np.bool_]) -> None:
        self.starts = np.flatnonzero(first)
        self.lengths = np.diff(self.starts, append=len(first))
        # For each row, the first row of its group, and the distance from it.
        self.start = np.repeat(self.starts, self.lengths)
        self.ordinal = np.arange(len(first)) - self.start

    def add_integers(self, values: np.ndarray) -> np.ndarray:
        total = np.cumsum(values.astype(np.int64))
        sums: np.ndarray = total - total[self.start] + values[self.start]
        return sums

    def combine(self, parts: Sequence[np.ndarray], join: Combine) -> Parts:
        """Combine the rows of each prefix, with one join for each row of the longest group."""
        running = [np.array(part) for part in parts]
        by_ordinal = np.argsort(self.ordinal, kind="stable")
        ends = np.cumsum(np.bincount(self.ordinal))
        for begin, end in pairwise(ends):
            rows = by_ordinal[begin:end]
            joined = join([part[rows - 1] for part in running], [part[rows] for part in running])
            for target, values in zip(running, joined, strict=True):
                target[rows] = values
        return running

    def _reduce(self, values: np.ndarray, join: np.ufunc, neutral: float) -> np.ndarray:
        if len(self.starts) > int(self.lengths.max(initial=0)):
            return super()._reduce(values, join, neutral)
        reduced = np.array(values)
        for start, length in zip(self.starts, self.lengths, strict=True):
            join.accumulate(values[start : start + length], out=reduced[start : start + length])
        return reduced


class EachShard(PanedShard):
    """A shard of paned windows that can process many single messages in one step."""

    def takes_each(self, wall: int) -> bool:
        """Return whether ``step_each`` is possible with the policies and the waiting windows."""
        slides = all(algebra.slides and algebra.single for algebra in self.combiner.algebras)
        # The copies of a message for grouping sets would have to share a step.
        return (
            self.spec.sets is None
            and slides
            and all(self._allows(waiting, wall) for waiting in (self.early, self.late))
        )

    def _allows(self, waiting: Waiting, wall: int) -> bool:
        policy = waiting.policy
        if waiting.limit is not None or isinstance(policy, When | FirstThen) or ages_of(policy):
            return False
        if isinstance(policy, Each):
            # Windows that another policy left waiting emit with the next message.
            return waiting.table.low is None
        is_due = is_due_by_clock(policy, WallClock(wall=wall, last_wall=self.state.wall))
        # Waiting partial results can't be subtracted again.
        return not is_due and (self.spec.firing.accumulate or waiting.rows is None)

    def step_each(
        self, combined: Sequence[Combined], accepted: pl.DataFrame, wall: int
    ) -> ShardOutput:
        """Process messages that don't move the watermark past an edge of a window.

        Returns:
            The output of a step for each of them, one after the other.
        """
        context = self._begin(combined, wall, final=False)
        clock = context.clock
        new_cells = [add_range(c.cells, columns.PANE) for c in combined if len(c.cells)]
        changes = self._changes(new_cells, clock)
        no_windows = self._no_windows()
        marks = [self._collect_marks(changes["late"], no_windows, no_windows)]
        messages = self._lift_to_windows(accepted, clock)
        has_ended = pl.col(columns.WINDOW) <= clock.before
        frames = [
            self._emit_each(emission, messages.filter(selected), changes[emission], marks)
            for emission, selected in (("late", has_ended), ("early", ~has_ended))
        ]
        emitted = pl.concat([f for f in frames if len(f)] or frames[:1], how="diagonal")
        return self._end(context, combined, new_cells, emitted, marks, order=[ROW, columns.WINDOW])

    def _lift_to_windows(self, accepted: pl.DataFrame, clock: BatchClock) -> pl.DataFrame:
        """Return each message's partials, for each of its open windows."""
        messages, windows = self.combiner.lift_each(accepted, ROW), self.combiner.paned_windows
        return copy_to_windows(messages, clock.closed_before + 1, None, windows)

    def _emit_each(
        self,
        emission: str,
        messages: pl.DataFrame,
        changes: pl.DataFrame,
        marks: list[pl.DataFrame],
    ) -> pl.DataFrame:
        waiting = self.late if emission == "late" else self.early
        before = waiting.take_each(changes)
        if not by_message(waiting.policy) or not len(messages):
            numbers = [pl.lit(0, dtype=pl.Int64).alias(c) for c in (columns.REVISION, ROW)]
            return self._no_windows().with_columns(
                pl.lit(emission).alias(columns.EMISSION), *numbers
            )
        stored = self._read_stored(emission, before)
        records, line, due = self._arrange_records(messages, stored, waiting.rows)
        counts = records[columns.MESSAGES].to_numpy()
        partials = [pl.Series(columns.MESSAGES, line.add_integers(counts))]
        if self.spec.firing.accumulate:
            partials += [s for a in self.combiner.algebras for s in a.slide(records, line)]
            whole = pl.concat(
                [records[[*self._identity, ROW, FIRED]], pl.DataFrame(partials)],
                how="horizontal",
            )
        else:
            whole = records
        revision = _ordinals(due, line)
        whole = whole.with_columns(
            pl.lit(emission).alias(columns.EMISSION),
            (pl.col(FIRED) + pl.Series(revision)).alias(columns.REVISION),
        ).filter(pl.Series(due))
        none = pl.lit(0, dtype=pl.Int64)
        firings = whole.select(*self._identity, (none + 1).alias(FIRED), none.alias(LATE))
        marks.append(self._sum_marks([firings]))
        return whole.drop(FIRED)

    def _read_stored(self, emission: str, before: pl.DataFrame) -> pl.DataFrame:
        """Return the stored partials of windows, their firings, and their waiting messages."""
        window = before[columns.WINDOW]
        low, high = int(window.min()), int(window.max())  # type: ignore[arg-type]
        windows = before[self._identity]
        keys = self._list_keys(windows)
        stored = self._compose([], low, high, keys)
        stored = join_null_safe(before.drop(columns.MESSAGES), stored, self._identity, "left")
        stored = stored.with_columns(pl.col(columns.MESSAGES).fill_null(0))
        stored = self._with_marks(stored, low, high, (), keys)
        if emission == "late":
            stored = self._count_full(stored, stored[[*self._identity, columns.MESSAGES]])
        return stored.drop(LATE)

    def _arrange_records(
        self, messages: pl.DataFrame, windows: pl.DataFrame, rows: int | None
    ) -> tuple[pl.DataFrame, Prefixes, np.ndarray]:
        """Return windows' stored partials and new messages, and which messages let them emit."""
        stored = windows.filter(pl.col(columns.MESSAGES) > 0)
        stored = stored.with_columns(pl.lit(_STORED, dtype=pl.Int64).alias(ROW))
        waiting = windows[[*self._identity, BEFORE, FIRED]]
        messages = join_null_safe(messages, waiting, self._identity, "left")
        records = pl.concat([stored, messages], how="diagonal_relaxed")
        records = sort_rows(records, [columns.WINDOW, *self.keys, ROW])
        line = Prefixes(find_group_starts(records, self._identity))
        row = records[ROW].to_numpy()
        due = row != _STORED
        if rows is not None:
            ordinal = line.ordinal + (row[line.start] != _STORED)  # the first message is 1
            first = np.maximum(1, rows - records[BEFORE].to_numpy())
            due &= (ordinal >= first) & ((ordinal - first) % rows == 0)
        return records, line, due


def _ordinals(due: np.ndarray, line: Prefixes) -> np.ndarray:
    """Return, for each row, the number of due rows before it in its group."""
    ordinals: np.ndarray = line.add_integers(due.astype(np.int64)) - due
    return ordinals
