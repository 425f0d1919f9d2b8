"""Trigger policies: the windows that are due, by watermark, wall clock and changes."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from muntin.engine import columns
from muntin.engine.conditions import column
from muntin.engine.state import State
from muntin.model.kinds import Kind
from muntin.model.policies import (
    After,
    Every,
    FirstThen,
    Policy,
    When,
    ages_of,
    by_message,
    parts,
)
from muntin.model.spec import WindowSpec

# Beyond every window number that a time can have.
FOREVER = 2**62
_FLOOR = "floor"
# The wall clock when the first, and the last, message came that a window hasn't emitted.
SINCE = {"first": "__muntin_since_first", "last": "__muntin_since_last"}


@dataclass(frozen=True, slots=True)
class BatchClock:
    """The watermark, as window numbers, and the wall clock before and after a batch.

    Attributes:
        before: The latest window that had ended when the batch began.
        after: The latest window that has ended now.
        closed_before: The latest window that was closed when the batch began.
        closed_after: The latest window that is closed now.
        wall: The wall clock now, microseconds.
        last_wall: The wall clock of the batch before; ``None`` for the first batch.
        ends_run: Whether the run ends, so that windows that wait for the wall clock emit now.
    """

    before: int
    after: int
    closed_before: int
    closed_after: int
    wall: int
    last_wall: int | None
    ends_run: bool = False

    @classmethod
    def of(
        cls,
        windows: Kind,
        grace: int,
        watermarks: tuple[int | None, int | None],
        walls: tuple[int | None, int],
        final: bool,
        ends_run: bool = False,
    ) -> BatchClock:
        """Convert watermarks before and after a batch to window numbers."""

        def ended(watermark: int | None, delay: int) -> int:
            return -FOREVER if watermark is None else windows.ended(watermark - delay)

        before, after = watermarks
        return cls(
            before=ended(before, 0),
            after=FOREVER if final else ended(after, 0),
            closed_before=ended(before, grace),
            closed_after=FOREVER if final else ended(after, grace),
            wall=walls[1],
            last_wall=walls[0],
            ends_run=ends_run,
        )

    def passed(self, period: int) -> bool:
        """Return whether the wall clock has passed a multiple of a period since the last batch."""
        if self.ends_run:
            return True
        return self.last_wall is not None and self.wall // period > self.last_wall // period


def since_columns(*policies: Policy | None) -> list[str]:
    """Return the columns of ``SINCE`` that some policies need."""
    return [SINCE[age] for age in ages_of(*policies)]


def may_be_due(policy: Policy, moment: BatchClock) -> bool:
    """Return whether some window can be due under a policy, without looking at the windows."""
    return by_message(policy) or due_by_clock(policy, moment)


def due_by_clock(policy: Policy | None, moment: BatchClock) -> bool:
    """Return whether a policy makes windows due by the wall clock, without new messages."""
    return any(part.period is not None and moment.passed(part.period) for part in parts(policy))


def due(
    policy: Policy,
    moment: BatchClock,
    unemitted: str = columns.MESSAGES,
    first: pl.Expr | None = None,
) -> pl.Expr:
    """Return an expression for whether a changed window is due.

    Args:
        policy: The policy of the windows. A condition must have its column in the rows, and
            ``After`` those of ``since_columns``.
        moment: The watermark and the wall clock.
        unemitted: The column with the number of new messages since a window emitted.
        first: Whether a window hasn't emitted yet, early or late; needed for ``FirstThen``.
    """
    if isinstance(policy, FirstThen):
        assert first is not None
        one, other = (due(part, moment, unemitted) for part in parts(policy))
        return pl.when(first).then(one).otherwise(other)
    if isinstance(policy, When):
        return pl.col(column(policy.condition))
    by_clock = due_by_clock(policy, moment)
    if by_clock and isinstance(policy, Every):
        return pl.col(unemitted) >= (1 if moment.ends_run else policy.least)
    if by_clock and isinstance(policy, After) and not moment.ends_run:
        # Without a time, the messages were read before there was such a policy.
        age = moment.wall - pl.col(SINCE[policy.since])
        old = (age >= policy.wait).fill_null(True)
        return old if policy.rows is None else old | (pl.col(unemitted) >= policy.rows)
    if by_clock or policy.rows is None:
        return pl.lit(by_clock or policy.period is None)
    return pl.col(unemitted) >= policy.rows


def whole_from(state: State, spec: WindowSpec, windows: Kind) -> int | None:
    """Return the first window that still has all of its messages after a longer retention.

    If the retention is longer than it was, windows that had expired are within it again, but have
    lost messages. The first whole window is stored, for later starts.

    Returns:
        A window's number, or a session's last position; ``None`` if the retention never grew.
    """
    then, mark = state.written_by, state.watermark
    found: int | None = state.extra.get(_FLOOR)
    if then is None or mark is None or then == spec.to_dict():
        return found
    before = WindowSpec.from_dict(then).firing.retention
    if before < spec.firing.retention:
        first = windows.ended(mark - before) + 1
        found = state.extra[_FLOOR] = first if found is None else max(first, found)
    return found
