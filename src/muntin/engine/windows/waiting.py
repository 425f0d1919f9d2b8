"""Changed windows that wait for their policy, early or late.

What has changed is appended to a table, in pieces that add up. By rows, a window's turn comes with
its own messages: so only the keys of a batch are looked up, and what was emitted is taken back by
a piece with the sign turned round. Of partial results nothing can be taken back; where firings emit
only what is new, the table is written anew when some window emits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from muntin.engine import columns
from muntin.engine.firing import BatchClock, due, due_by_clock, may_be_due
from muntin.model.policies import EveryRows, Policy, RowsOrEvery, by_change, by_message
from muntin.state.lookup import join_null_safe
from muntin.state.runs import Merge, Runs, find_extent, join_runs

BEFORE, _READY = "__muntin_before", "__muntin_ready"
# Whether a window hasn't emitted yet, early or late, where its policy asks for it.
FIRST = "__muntin_first"
Mark = Callable[[pl.DataFrame], pl.DataFrame]


class Waiting:
    """The windows that have changed since they last emitted.

    Args:
        table: Holds the changes of each window and key.
        policy: When they emit; ``None`` is never.
        late: Whether these are past windows; they emit when they close, too.
        identity: The columns that name a window of a key.
        additive: Whether changes are numbers of messages and nothing else.
        counted: How many wait, as it was stored; ``None`` where it isn't known.
    """

    def __init__(
        self,
        table: Runs,
        policy: Policy | None,
        late: bool,
        identity: Sequence[str],
        additive: bool,
        counted: int | None,
    ) -> None:
        self.table = table
        self.policy = policy
        self.late = late
        self.additive = additive
        self._identity = list(identity)
        # Only where windows are looked up by key it is known which of them are new here.
        self.counted = None
        if by_change(policy):
            self.counted = 0 if table.low is None else counted

    @property
    def pending(self) -> int:
        """How many windows wait; where that isn't counted, a window once per run that has it."""
        return self.table.rows if self.counted is None else self.counted

    @property
    def rows(self) -> int | None:
        """After how many new messages a window emits; ``None`` where they aren't counted."""
        return self.policy.rows if isinstance(self.policy, EveryRows | RowsOrEvery) else None

    @property
    def merge(self) -> Merge:
        """Makes one row of the changes of a window."""
        return self.table.merge

    def drop_before(self, window: int | None) -> None:
        """Forget the windows before one; all of them for ``None``."""
        self.table.drop_before(window)

    def read(self, low: int | None, high: int | None, nothing: pl.DataFrame) -> pl.DataFrame:
        """The changes of some windows; ``nothing`` has the columns where there are none."""
        frames = self.table.read_with_ranges(low, high)
        return join_runs(frames, columns.WINDOW, self.merge) if frames else nothing

    def take(self, changes: pl.DataFrame, moment: BatchClock, mark: Mark) -> pl.DataFrame:
        """Take the changes of a batch in.

        Args:
            changes: Each changed window once, with its new messages.
            moment: Where the watermark and the clock are.
            mark: Says of windows what the policy asks of them beside what is new: whether its
                condition holds, and ``FIRST``.

        Returns:
            The windows that emit now, with all that is new since they last did.
        """
        low = self.table.low
        if self.policy is None or (not len(changes) and low is None):
            return changes.clear()
        if not may_be_due(self.policy, moment) and not self._closes(changes, moment):
            self.table.append(changes)
            return changes.clear()
        if self.counted is None or due_by_clock(self.policy, moment):
            return self._of_all(changes, moment, mark)
        return self._of_changed(changes, moment, mark)

    def take_each(self, changes: pl.DataFrame) -> pl.DataFrame:
        """Take messages in of which each is a step, while no clock passes and nothing closes.

        Args:
            changes: Each window once, with how many messages are new to it.

        Returns:
            The same windows, with how many messages waited before.
        """
        new = self._slim(changes)
        none = new.with_columns(pl.lit(0, dtype=pl.Int64).alias(BEFORE))
        rows = self.rows
        if self.policy is None or not len(changes):
            return none
        if rows is None:
            if not by_message(self.policy):
                self.table.append(changes)
            return none
        assert self.counted is not None
        stored = self._stored(changes).rename({columns.MESSAGES: BEFORE})
        both = join_null_safe(new, stored, self._identity, "left").with_columns(
            pl.col(BEFORE).fill_null(0)
        )
        # The first that lets a window emit takes all that waits; then every so many do.
        first = pl.max_horizontal(pl.lit(1), rows - pl.col(BEFORE))
        left = pl.when(pl.col(columns.MESSAGES) < first).then(
            pl.col(BEFORE) + pl.col(columns.MESSAGES)
        )
        both = both.with_columns(
            left.otherwise((pl.col(columns.MESSAGES) - first) % rows).alias("left")
        )
        waited, waits = (int((both[name] > 0).sum()) for name in (BEFORE, "left"))
        self.counted += waits - waited
        moved = both.with_columns((pl.col("left") - pl.col(BEFORE)).alias(columns.MESSAGES))
        self.table.append(self._slim(moved.filter(pl.col(columns.MESSAGES) != 0)))
        return both.drop("left")

    def _closes(self, changes: pl.DataFrame, moment: BatchClock) -> bool:
        """Whether some of these windows may have closed, and so must emit."""
        lows = [self.table.low, changes[columns.WINDOW].min() if len(changes) else None]
        return self.late and any(low is not None and low <= moment.closed_after for low in lows)  # type: ignore[operator]

    def _of_all(self, changes: pl.DataFrame, moment: BatchClock, mark: Mark) -> pl.DataFrame:
        """Look at all that waits, and write anew what goes on waiting."""
        assert self.policy is not None
        waiting = self.merge([self.read(None, None, changes.clear()), changes])
        # Beside what waits the table may hold windows whose time has passed.
        over = moment.closed_before if self.late else moment.after
        waiting = waiting.filter(pl.col(columns.WINDOW) > over)
        emitting, rest = self._by_turn(waiting, moment, mark)
        if self.table.low is not None or len(rest):
            self.table.rewrite(rest)
        if by_change(self.policy):
            self.counted = len(rest)
        return emitting

    def _of_changed(self, changes: pl.DataFrame, moment: BatchClock, mark: Mark) -> pl.DataFrame:
        """Look at the changed windows, and at those that the watermark has just passed."""
        assert self.counted is not None
        if not self.late:
            changes = changes.filter(pl.col(columns.WINDOW) > moment.after)
        before = self._stored(changes)
        now = _summed([before, self._slim(changes)], self._identity)
        passed = join_null_safe(
            self._passed(changes.clear(), moment), changes, self._identity, "anti"
        )
        emitting, waits = self._by_turn(now, moment, mark)
        if self.late:
            emitting = pl.concat([emitting, passed])
        if len(emitting) and not self.additive:
            return self._of_all(changes, moment, mark)
        self.counted += len(waits) - len(before) - len(passed)
        rest = join_null_safe(changes, emitting, self._identity, "anti")
        done = join_null_safe(before, emitting, self._identity, "semi")
        back = done.with_columns(-pl.col(columns.MESSAGES))
        self.table.append(pl.concat([rest, back], how="diagonal") if len(back) else rest)
        return emitting

    def _by_turn(
        self, windows: pl.DataFrame, moment: BatchClock, mark: Mark
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The windows that emit, and those that go on waiting."""
        assert self.policy is not None
        ready = due(self.policy, moment, columns.MESSAGES, pl.col(FIRST))
        if self.late:
            ready = ready | (pl.col(columns.WINDOW) <= moment.closed_after)
        both = mark(windows).with_columns(ready.alias(_READY))
        emitting, rest = both.filter(_READY), both.filter(pl.col(_READY).not_())
        return emitting.select(windows.columns), rest.select(windows.columns)

    def _stored(self, changes: pl.DataFrame) -> pl.DataFrame:
        """How many messages the windows that have changed had new before."""
        if not len(changes):
            return self._slim(changes)
        keys = changes.select(self.table.keys).unique()
        found = self.table.read(*find_extent(changes[columns.WINDOW]), keys)
        frames = [changes.clear(), *found]
        there = pl.concat(self._slim(frame) for frame in frames)
        return _summed([join_null_safe(there, changes, self._identity, "semi")], self._identity)

    def _passed(self, nothing: pl.DataFrame, moment: BatchClock) -> pl.DataFrame:
        """The windows whose time to wait has ended in this step, with what is stored of them."""
        low, high = moment.before, moment.after
        if self.late:
            low, high = moment.closed_before, moment.closed_after
        found = self.table.read(low + 1, high) if low < high else []
        within = pl.col(columns.WINDOW).is_between(low + 1, high)
        frames = [nothing, *(frame.filter(within) for frame in found)]
        return _summed([self._slim(frame) for frame in frames], self._identity)

    def _slim(self, changes: pl.DataFrame) -> pl.DataFrame:
        return changes.select(*self._identity, columns.MESSAGES)


def _summed(frames: Sequence[pl.DataFrame], identity: Sequence[str]) -> pl.DataFrame:
    """How many messages of each window are not emitted yet; those of which none is are left out."""
    whole = pl.concat(frames).group_by(identity).agg(pl.col(columns.MESSAGES).sum())
    return whole.filter(pl.col(columns.MESSAGES) > 0)
