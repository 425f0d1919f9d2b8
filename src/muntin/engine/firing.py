"""What emits when: which windows are due, from the watermark, the clock and what has changed."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from muntin.engine import columns
from muntin.engine.conditions import column
from muntin.engine.state import State
from muntin.model.kinds import Kind
from muntin.model.policies import Every, FirstThen, Policy, When, by_message, parts
from muntin.model.spec import WindowSpec

# Beyond every window number that a time can have.
FOREVER = 2**62
_FLOOR = "floor"


@dataclass(frozen=True, slots=True)
class BatchClock:
    """Where a batch finds the watermark and the clock, and where it leaves them.

    Attributes:
        before: The latest window that had ended when the batch began.
        after: The latest window that has ended now.
        closed_before: The latest window that took nothing more when the batch began.
        closed_after: The latest window that takes nothing more now.
        wall: The wall clock now, microseconds.
        last_wall: The wall clock of the batch before; ``None`` at the first.
        ends_run: Whether what waits for the clock emits now, since the run ends.
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
        """Say it in windows instead of times."""

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
        """Whether the clock has passed a multiple of a period since the last batch."""
        if self.ends_run:
            return True
        return self.last_wall is not None and self.wall // period > self.last_wall // period


def may_be_due(policy: Policy, moment: BatchClock) -> bool:
    """Whether some window can be due under a policy at all, before looking at any."""
    return by_message(policy) or due_by_clock(policy, moment)


def due_by_clock(policy: Policy | None, moment: BatchClock) -> bool:
    """Whether windows are due although no message is new to them."""
    return any(part.period is not None and moment.passed(part.period) for part in parts(policy))


def due(
    policy: Policy,
    moment: BatchClock,
    unemitted: str = columns.MESSAGES,
    first: pl.Expr | None = None,
) -> pl.Expr:
    """Which rows of changed windows are due; where a condition says so, they are marked by it.

    Args:
        policy: When windows emit.
        moment: Where the watermark and the clock are.
        unemitted: The column of how many messages are new to a window since it emitted.
        first: Whether a window hasn't emitted yet, early or late, where the policy asks for it.
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
    if by_clock or policy.rows is None:
        return pl.lit(by_clock or policy.period is None)
    return pl.col(unemitted) >= policy.rows


def whole_from(state: State, spec: WindowSpec, windows: Kind) -> int | None:
    """The first window that is still whole; where more is kept from now on, it is remembered.

    What had expired before comes within the retention again, but some of it is gone.

    Returns:
        A window's number or a session's last place; ``None`` where never more was kept.
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
