"""Trigger policies: the windows that are due, by watermark, wall clock, changes and conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.state import State
from muntin.engine.windows.combine import Combiner
from muntin.model.conditions import COMPARE, Name, Term, read_condition
from muntin.model.errors import OptionError
from muntin.model.kinds import Uniform
from muntin.model.policies import (
    After,
    Every,
    FirstThen,
    Never,
    Policy,
    When,
    ages_of,
    by_message,
    parts,
)
from muntin.model.spec import WindowSpec
from muntin.state.manifest import Reopened, find_edges
from muntin.state.rows import drop_columns

# Beyond every window number that a time can have.
MAX_WINDOW = 2**62
_FLOOR = "floor"
# The wall clock when the first, and the last, message came that a window hasn't emitted.
SINCE = {"first": "__muntin_since_first", "last": "__muntin_since_last"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WallClock:
    """The wall clock before and after a batch.

    Attributes:
        ends_run: Whether the run ends, so that everything that waits for the wall clock is due.
    """

    wall: int
    last_wall: int | None
    ends_run: bool = False

    def has_passed(self, period: int) -> bool:
        """Return whether the wall clock has passed a multiple of a period since the last batch."""
        if self.ends_run:
            return True
        return self.last_wall is not None and self.wall // period > self.last_wall // period


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchClock(WallClock):
    """The watermark, as window numbers, and the wall clock before and after a batch.

    Attributes:
        before: The latest window that had ended when the batch began.
        after: The latest window that has ended now.
        closed_before: The latest window that was closed when the batch began.
        closed_after: The latest window that is closed now.
    """

    before: int
    after: int
    closed_before: int
    closed_after: int

    @classmethod
    def of(
        cls,
        windows: Uniform,
        grace: int,
        watermarks: tuple[int | None, int | None],
        walls: tuple[int | None, int],
        final: bool,
        ends_run: bool = False,
        reopened: Reopened | None = None,
    ) -> BatchClock:
        """Convert watermarks before and after a batch to window numbers."""

        def find_last(watermark: int | None) -> tuple[int, int]:
            edges = find_edges(watermark, grace, reopened)
            if edges is None:
                return -MAX_WINDOW, -MAX_WINDOW
            return windows.last_ended(edges[0]), windows.last_ended(edges[1])

        (closed_before, before), (closed_after, after) = map(find_last, watermarks)
        return cls(
            before=before,
            after=MAX_WINDOW if final else after,
            closed_before=closed_before,
            closed_after=MAX_WINDOW if final else closed_after,
            wall=walls[1],
            last_wall=walls[0],
            ends_run=ends_run,
        )


def since_columns(*policies: Policy | None) -> list[str]:
    """Return the columns of ``SINCE`` that some policies need."""
    return [SINCE[age] for age in ages_of(*policies)]


def may_be_due(policy: Policy, clock: BatchClock) -> bool:
    """Return whether some window can be due under a policy, without looking at the windows."""
    return by_message(policy) or is_due_by_clock(policy, clock)


def is_due_by_clock(policy: Policy | None, clock: WallClock) -> bool:
    """Return whether a policy makes windows due by the wall clock, without new messages."""
    return any(part.period is not None and clock.has_passed(part.period) for part in parts(policy))


def is_due(
    policy: Policy,
    clock: BatchClock,
    unemitted: str = columns.MESSAGES,
    first: pl.Expr | None = None,
) -> pl.Expr:
    """Return an expression for whether a changed window is due.

    The rows must have a condition's column, and those of ``since_columns`` for ``After``.
    ``unemitted`` is the column with the number of new messages since a window emitted. ``first``
    tells, for ``FirstThen``, whether a window hasn't emitted yet, early or late.
    """
    if isinstance(policy, FirstThen):
        assert first is not None
        first_policy, later_policy = (is_due(part, clock, unemitted) for part in parts(policy))
        return pl.when(first).then(first_policy).otherwise(later_policy)
    if isinstance(policy, When):
        return pl.col(condition_column(policy.condition))
    if isinstance(policy, Never):
        return pl.lit(False)
    by_clock = is_due_by_clock(policy, clock)
    if by_clock and isinstance(policy, Every):
        return pl.col(unemitted) >= (1 if clock.ends_run else policy.least)
    if by_clock and isinstance(policy, After) and not clock.ends_run:
        # Without a time, the messages were read before there was such a policy.
        age = clock.wall - pl.col(SINCE[policy.since])
        old = (age >= policy.wait).fill_null(True)
        return old if policy.rows is None else old | (pl.col(unemitted) >= policy.rows)
    if by_clock or policy.rows is None:
        return pl.lit(by_clock or policy.period is None)
    return pl.col(unemitted) >= policy.rows


def update_first_whole(state: State, spec: WindowSpec, windows: Uniform) -> int | None:
    """Return the first window that still has all of its messages after the retention grew.

    A longer retention includes windows that had expired and have lost messages. The first whole
    window (for sessions, its last position) is stored, for later starts. ``None`` if it never grew.
    """
    written_spec, watermark = state.written_by, state.watermark
    first_whole: int | None = state.extra.get(_FLOOR)
    if written_spec is None or watermark is None or written_spec == spec.to_dict():
        return first_whole
    old_retention = WindowSpec.from_dict(written_spec).firing.retention
    if old_retention < spec.firing.retention:
        candidate = windows.last_ended(watermark - old_retention) + 1
        first_whole = candidate if first_whole is None else max(candidate, first_whole)
        state.extra[_FLOOR] = first_whole
    return first_whole


def add_condition_columns(
    windows: pl.DataFrame, policies: Sequence[Policy | None], combiner: Combiner
) -> pl.DataFrame:
    """Add a column to windows for each condition of the policies; windows are whole partials."""
    return windows.hstack(
        [
            _evaluate(windows, text, combiner).alias(condition_column(text))
            for text in _list_conditions(policies)
        ]
    )


def drop_condition_columns(
    windows: pl.DataFrame, policies: Sequence[Policy | None]
) -> pl.DataFrame:
    """Drop the columns that ``add_condition_columns`` adds."""
    return drop_columns(windows, *list_condition_columns(*policies))


def list_condition_columns(*policies: Policy | None) -> list[str]:
    """Return the columns that ``add_condition_columns`` adds."""
    return [condition_column(text) for text in _list_conditions(policies)]


def _list_conditions(policies: Sequence[Policy | None]) -> list[str]:
    each = (part for policy in policies for part in parts(policy))
    return sorted({part.condition for part in each if isinstance(part, When)})


def condition_column(text: str) -> str:
    """Return the name of the column for a condition."""
    return f"__muntin_holds {text}"


def check_conditions(combiner: Combiner) -> None:
    """Refuse conditions that can't be computed."""
    combiner.spec.check_conditions()
    firing, nothing = combiner.spec.firing, combiner.no_cells
    for policy in (*parts(firing.early), *parts(firing.late)):
        try:
            add_condition_columns(nothing, [policy], combiner)
        except pl.exceptions.PolarsError as error:
            assert isinstance(policy, When)
            hint = "compare numbers with numbers, texts with texts"
            problem = "compares values of different types"
            raise OptionError("when", policy.condition, problem, hint) from error


def _evaluate(windows: pl.DataFrame, text: str, combiner: Combiner) -> pl.Series:
    condition, spec = read_condition(text), combiner.spec
    named = zip(spec.aggregates, combiner.algebras, strict=True)
    values = {name: algebra.lower(windows) for name, algebra in named if name in condition.names}
    keys = dict(zip(spec.keys, combiner.keys, strict=False))
    values |= {name: windows[keys[name]] for name in condition.names if name in keys}
    frame = pl.DataFrame([series.alias(name) for name, series in values.items()])
    return frame.select(_build_expression(condition.tree).fill_null(False)).to_series()


def _build_expression(node: Any) -> pl.Expr:
    if isinstance(node, Name):
        return pl.col(node.name)
    if not isinstance(node, Term):
        return pl.lit(node)
    parts = [_build_expression(part) for part in node.parts]
    match node.sign:
        case "AND":
            return pl.all_horizontal(parts)
        case "OR":
            return pl.any_horizontal(parts)
        case "NOT":
            return ~parts[0]
    comparison: pl.Expr = COMPARE[node.sign](*parts)
    return comparison
