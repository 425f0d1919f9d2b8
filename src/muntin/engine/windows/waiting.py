"""Changed windows that wait for their policy, early or late.

Changes are appended to a table, and add up. With a policy by rows, only a window's own messages can
make it due. So only the keys of a batch are read, and emitted changes are cancelled by rows with
the opposite sign. Partial results can't be cancelled: if firings emit only what is new, the table
is rewritten when a window emits. Policies by the age of a message need the time of the first or the
last one. It is stored as its difference from the time before, so that it adds up, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from muntin.engine import columns
from muntin.engine.firing import (
    MAX_WINDOW,
    SINCE,
    BatchClock,
    is_due,
    is_due_by_clock,
    may_be_due,
    since_columns,
)
from muntin.engine.order import sort_rows
from muntin.engine.retention import divide_limit
from muntin.model.errors import WaitingWindowsError
from muntin.model.policies import (
    Each,
    EveryRows,
    Policy,
    RowsOrEvery,
    WaitingLimit,
    by_change,
    by_message,
)
from muntin.state.lookup import join_null_safe
from muntin.state.rows import split_rows, stack_rows
from muntin.state.runs import Merge, Runs, find_extent, join_runs, select_between

BEFORE, _READY = "__muntin_before", "__muntin_ready"
# The column for whether a window hasn't emitted yet, early or late, if its policy needs it.
IS_FIRST = "__muntin_first"
Mark = Callable[[pl.DataFrame], pl.DataFrame]


class Waiting:
    """The windows that have changed since they last emitted.

    Args:
        table: The table of the changes by window and key.
        policy: The policy by which windows emit; ``None`` if they never do.
        late: Whether these are past windows, which also emit when they close.
        identity: The columns that identify a window of a key.
        additive: Whether changes are only numbers of messages.
        counted: The stored number of waiting windows; ``None`` if it isn't known.
        limit: The greatest number of waiting windows; ``None`` for no limit.
        shards: The number of shards that share the limit.

    Attributes:
        most: This shard's share of the limit.
    """

    def __init__(
        self,
        table: Runs,
        policy: Policy | None,
        late: bool,
        identity: Sequence[str],
        additive: bool,
        counted: int | None,
        limit: WaitingLimit | None = None,
        shards: int | None = None,
    ) -> None:
        self.table = table
        self.policy = policy
        self.late = late
        self.additive = additive
        self._times = since_columns(policy)
        self._identity = list(identity)
        self.limit = limit
        self.most = divide_limit(None if limit is None else limit.windows, shards)
        # New windows can only be counted if waiting windows are looked up by key.
        self.counted = None
        self._counts = by_change(policy) or limit is not None
        if self._counts:
            self.counted = 0 if table.low is None else counted

    @property
    def pending(self) -> int:
        """Number of waiting windows; if it isn't counted, the number of rows in the table."""
        return self.table.rows if self.counted is None else self.counted

    @property
    def rows(self) -> int | None:
        """Number of new messages after which a window emits; ``None`` if they aren't counted."""
        return self.policy.rows if isinstance(self.policy, EveryRows | RowsOrEvery) else None

    @property
    def merge(self) -> Merge:
        """The function that merges the changes of a window into one row."""
        return self.table.merge

    def drop_before(self, window: int | None) -> None:
        """Drop the windows before one; ``None`` drops all."""
        self.table.drop_before(window)

    def read(self, low: int | None, high: int | None, nothing: pl.DataFrame) -> pl.DataFrame:
        """Return the changes of a range of windows, or the empty frame ``nothing``."""
        frames = self.table.read_with_ranges(low, high)
        return join_runs(frames, columns.WINDOW, self.merge) if frames else nothing

    def take(self, changes: pl.DataFrame, clock: BatchClock, mark: Mark) -> pl.DataFrame:
        """Add the changes of a batch, and take the windows that are due.

        Args:
            changes: Each changed window once, with its new messages.
            clock: The watermark and the wall clock.
            mark: Adds the columns that the policy needs: whether its condition is true, and
                ``IS_FIRST``.

        Returns:
            The windows that emit now, with all changes since they last did.

        Raises:
            WaitingWindowsError: When more windows wait than the limit allows, and it stops.
        """
        emitting = self._take_due(changes, clock, mark)
        if self.most is None or self.counted is None or self.counted <= self.most:
            return emitting
        assert self.limit is not None
        if self.limit.stop:
            share = "" if self.most == self.limit.windows else f", {self.most:,} in each shard"
            raise WaitingWindowsError(
                f"over={self.limit.windows}{share}: {self.counted:,} changed windows wait to emit. "
                "Raise over= of early(), or leave stop= out, and the oldest emit early."
            )
        return pl.concat([emitting, self._take_oldest(changes.clear(), clock)], how="diagonal")

    def _take_oldest(self, nothing: pl.DataFrame, clock: BatchClock) -> pl.DataFrame:
        """Take the oldest waiting windows, so that no more wait than the limit allows.

        This reads all windows that wait, of which there are about as many as the limit.
        """
        assert self.most is not None
        waiting = self.read(None, None, nothing).filter(pl.col(columns.WINDOW) > clock.after)
        waiting = sort_rows(waiting, self._identity)
        rest = waiting.tail(self.most)
        self.table.rewrite(rest)
        self.counted = len(rest)
        return waiting.head(len(waiting) - len(rest))

    def _take_due(self, changes: pl.DataFrame, clock: BatchClock, mark: Mark) -> pl.DataFrame:
        """Add the changes of a batch, and take the windows that are due by their policy."""
        low = self.table.low
        if self.policy is None or (not len(changes) and low is None):
            return changes.clear()
        changes = self._with_times(changes, clock)
        if (
            not self._counts
            and self.counted is None
            and not may_be_due(self.policy, clock)
            and not self._closes(changes, clock)
        ):
            self.table.append(changes)
            return changes.clear()
        if self.counted is None or is_due_by_clock(self.policy, clock):
            return self._take_from_all(changes, clock, mark)
        return self._take_from_changed(changes, clock, mark)

    def _with_times(self, changes: pl.DataFrame, clock: BatchClock) -> pl.DataFrame:
        """Add the times that the policy needs, as differences from the stored ones."""
        if not self._times:
            return changes
        before = self._read_stored(changes).select(
            *self._identity, pl.col(self._times).name.prefix(BEFORE)
        )
        with_stored = join_null_safe(changes, before, self._identity, "left")
        wall = pl.lit(clock.wall, dtype=pl.Int64)
        added = []
        for name in self._times:
            stored = pl.col(BEFORE + name)
            # The first message of those that wait stays the first one.
            change = stored - stored if name == SINCE["first"] else wall - stored
            added.append(change.fill_null(wall).alias(name))
        return with_stored.with_columns(added).drop([BEFORE + name for name in self._times])

    def take_each(self, changes: pl.DataFrame) -> pl.DataFrame:
        """Add messages that count as a step each, while no clock passes and no window closes.

        Args:
            changes: Each changed window once, with the number of its new messages.

        Returns:
            The windows with the number of messages that waited before, in ``BEFORE``.
        """
        new = self._slim(changes)
        unchanged = new.with_columns(pl.lit(0, dtype=pl.Int64).alias(BEFORE))
        rows = self.rows
        if self.policy is None or not len(changes):
            return unchanged
        if rows is None:
            if not by_message(self.policy):
                self.table.append(changes)
            return unchanged
        assert self.counted is not None
        stored = self._read_stored(changes).rename({columns.MESSAGES: BEFORE})
        windows = join_null_safe(new, stored, self._identity, "left").with_columns(
            pl.col(BEFORE).fill_null(0)
        )
        # The first message that makes a window due emits all changes; then every ``rows``-th does.
        first = pl.max_horizontal(pl.lit(1), rows - pl.col(BEFORE))
        left_waiting = pl.when(pl.col(columns.MESSAGES) < first).then(
            pl.col(BEFORE) + pl.col(columns.MESSAGES)
        )
        windows = windows.with_columns(
            left_waiting.otherwise((pl.col(columns.MESSAGES) - first) % rows).alias("left")
        )
        waited_before, wait_now = (int((windows[name] > 0).sum()) for name in (BEFORE, "left"))
        self.counted += wait_now - waited_before
        changed = windows.with_columns((pl.col("left") - pl.col(BEFORE)).alias(columns.MESSAGES))
        self.table.append(self._slim(changed.filter(pl.col(columns.MESSAGES) != 0)))
        return windows.drop("left")

    def _closes(self, changes: pl.DataFrame, clock: BatchClock) -> bool:
        """Return whether some of these windows may have closed, and so must emit."""
        lows = [self.table.low, changes[columns.WINDOW].min() if len(changes) else None]
        return self.late and any(low is not None and low <= clock.closed_after for low in lows)  # type: ignore[operator]

    def _take_from_all(self, changes: pl.DataFrame, clock: BatchClock, mark: Mark) -> pl.DataFrame:
        """Check all waiting windows, and rewrite the table with those that still wait."""
        assert self.policy is not None
        waiting = changes
        if self.table.low is not None:
            waiting = self.merge([self.read(None, None, changes.clear()), changes])
        # The table may also have windows that don't wait any more.
        last_done = clock.closed_before if self.late else clock.after
        waiting = select_between(waiting, columns.WINDOW, last_done + 1, MAX_WINDOW)
        emitting, rest = self._split_due(waiting, clock, mark)
        if self.table.low is not None or len(rest):
            self.table.rewrite(rest)
        if self._counts:
            self.counted = len(rest)
        return emitting

    def _take_from_changed(
        self, changes: pl.DataFrame, clock: BatchClock, mark: Mark
    ) -> pl.DataFrame:
        """Check the changed windows, and those that the watermark has just passed."""
        assert self.counted is not None
        if not self.late:
            changes = changes.filter(pl.col(columns.WINDOW) > clock.after)
        before = self._read_stored(changes)
        waiting = self._sum_messages([before, self._slim(changes)])
        passed = join_null_safe(
            self._find_passed(changes.clear(), clock), changes, self._identity, "anti"
        )
        emitting, still_waiting = self._split_due(waiting, clock, mark)
        if self.late:
            emitting = stack_rows([emitting, passed])
        if len(emitting) and not self.additive:
            return self._take_from_all(changes, clock, mark)
        self.counted += len(still_waiting) - len(before) - len(passed)
        rest = join_null_safe(changes, emitting, self._identity, "anti")
        emitted = join_null_safe(before, emitting, self._identity, "semi")
        cancelled = emitted.with_columns(-pl.col(columns.MESSAGES, *self._times))
        self.table.append(pl.concat([rest, cancelled], how="diagonal") if len(cancelled) else rest)
        return emitting

    def _split_due(
        self, windows: pl.DataFrame, clock: BatchClock, mark: Mark
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the windows that emit, and those that still wait."""
        assert self.policy is not None
        if isinstance(self.policy, Each):
            return windows, windows.clear()
        is_ready = is_due(self.policy, clock, columns.MESSAGES, pl.col(IS_FIRST))
        if self.late:
            is_ready = is_ready | (pl.col(columns.WINDOW) <= clock.closed_after)
        marked = mark(windows).with_columns(is_ready.alias(_READY))
        return split_rows(marked[windows.columns], marked[_READY])

    def _read_stored(self, changes: pl.DataFrame) -> pl.DataFrame:
        """Return the stored numbers of waiting messages of the changed windows."""
        if not len(changes):
            return self._slim(changes)
        keys = changes[self.table.keys].unique()
        stored = self.table.read(*find_extent(changes[columns.WINDOW]), keys)
        frames = [changes.clear(), *stored]
        waiting = stack_rows(self._slim(frame) for frame in frames)
        return self._sum_messages([join_null_safe(waiting, changes, self._identity, "semi")])

    def _find_passed(self, nothing: pl.DataFrame, clock: BatchClock) -> pl.DataFrame:
        """Return the windows that stop waiting in this step, with their stored changes."""
        low, high = clock.before, clock.after
        if self.late:
            low, high = clock.closed_before, clock.closed_after
        stored = self.table.read(low + 1, high) if low < high else []
        is_passed = pl.col(columns.WINDOW).is_between(low + 1, high)
        frames = [nothing, *(frame.filter(is_passed) for frame in stored)]
        return self._sum_messages([self._slim(frame) for frame in frames])

    def _slim(self, changes: pl.DataFrame) -> pl.DataFrame:
        # Rows that were stored under another policy have no times.
        absent = [columns.number(name) for name in self._times if name not in changes.columns]
        whole = changes.with_columns(absent) if absent else changes
        return whole[[*self._identity, columns.MESSAGES, *self._times]]

    def _sum_messages(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Sum the waiting messages by window, without windows that have none."""
        sums = pl.col(columns.MESSAGES, *self._times).sum()
        return (
            stack_rows(frames)
            .group_by(self._identity)
            .agg(sums)
            .filter(pl.col(columns.MESSAGES) > 0)
        )
