"""Combining messages into short sessions before the shuffle.

Messages of a key within the same pane of one gap always share a session. So messages are lifted to
panes as for other windows, with the first and the last position of each pane, and sessions are
built from the panes.

Source: KIP-94, the steps "find", "merge" and "aggregate", done for all keys of a batch at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.aggregates.algebra import Algebra
from muntin.engine.aggregates.chosen import Extreme
from muntin.engine.order import find_group_starts, sort_rows
from muntin.engine.windows.combine import Combined, Combiner
from muntin.model.errors import OptionError
from muntin.model.kinds import Numbered
from muntin.model.sessions import LONGEST_GAP, Sessions
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows
from muntin.state.rows import drop_columns, split_rows, stack_rows

# Whether the messages of a cell have different values in the column that sessions keep.
MIXED = "__muntin_mixed"
# A sort key: 0 for retractions, 1 for sessions that still exist.
_LIVES = "__muntin_lives"


class SessionCombiner(Combiner):
    """A combiner that lifts messages to sessions.

    A message before the watermark may still extend an open session, and another one may belong to a
    closed session. Only the shard knows. Messages before the watermark, less the grace, are passed
    on unchanged in ``Combined.raw``.
    """

    def __init__(self, spec: WindowSpec, schema: pl.Schema) -> None:
        assert not spec.windows.is_numbered
        self.sessions = spec.windows
        # The columns of messages that conditions were evaluated to, by the columns that have them.
        self._evaluated = {
            columns.CONDITIONS[option]: _find_condition_column(option, column, schema)
            for option, column in self.sessions.conditions.items()
        }
        super().__init__(spec, schema)

    @property
    def numbered_windows(self) -> Numbered:
        """The panes that messages are lifted to."""
        # If each message has its own gap, only messages of one time certainly share a session.
        # Sessions are cut between positions.
        gap = 1 if self.sessions.is_cut else self.sessions.gap or 1
        return Windows(gap, gap, 0, self.sessions.axis)

    @property
    def number(self) -> str:
        """The last position of a session, which takes the place of a number."""
        return columns.LAST

    def find_starts(self, windows: pl.DataFrame) -> pl.Series:
        return windows[columns.FIRST]

    def find_ends(self, windows: pl.DataFrame) -> pl.Series:
        return find_session_ends(windows, self.sessions)

    def sort_emitted(self, windows: pl.DataFrame, order: Sequence[str] = ()) -> pl.DataFrame:
        """Sort emitted sessions by start, then key, after those that are retracted.

        A reader that adds up must subtract the old row before it adds its replacement. And only a
        retracted session can start where another session of its key does.
        """
        order = [columns.FIRST, *self.keys]
        if (windows[columns.EMISSION] == "retract").any():
            exists = (pl.col(columns.EMISSION) != "retract").cast(pl.Int64).alias(_LIVES)
            windows, order = windows.with_columns(exists), [_LIVES, *order, columns.LAST]
        return sort_rows(windows, order)

    @cached_property
    def no_windows(self) -> pl.DataFrame:
        """An empty frame of sessions, which have bounds instead of a window number."""
        return self.no_cells.drop(columns.PANE)

    @cached_property
    def empty_messages(self) -> pl.DataFrame:
        """An empty frame of messages, with the columns that shards get."""
        return pl.DataFrame(schema=self.schema)

    @property
    def reach(self) -> str:
        """The column of the position up to which a message extends its session, less the gap."""
        return columns.TIME if self.sessions.by is None else columns.REACH

    def _internal_keys(self, schema: pl.Schema) -> dict[str, pl.DataType]:
        own = {} if self.sessions.by is None else {columns.REACH: pl.Int64()}
        evaluated = {name: schema[column] for name, column in self._evaluated.items()}
        return {**super()._internal_keys(schema), **own, **evaluated}

    def _add_keys(self, messages: pl.DataFrame) -> pl.DataFrame:
        messages, by = super()._add_keys(messages), self.sessions.by
        copies = [
            pl.col(column).alias(name)
            for name, column in self._evaluated.items()
            if name not in messages.columns
        ]
        messages = messages.with_columns(copies) if copies else messages
        if by is None or columns.REACH in messages.columns:
            return messages
        malformed = has_invalid_gap(messages, by)
        if columns.MALFORMED in messages.columns:
            malformed = malformed | pl.col(columns.MALFORMED)
        reach = (pl.col(columns.TIME) + _gap(messages, by)).alias(columns.REACH)
        return messages.with_columns(malformed.alias(columns.MALFORMED), reach)

    def _bounds(self) -> list[Algebra]:
        bounds: list[Algebra] = [
            _NamedExtreme(columns.FIRST, columns.TIME, False),
            _NamedExtreme(columns.LAST, self.reach, True),
        ]
        self.cutting = [
            _SharedValue() if name == columns.SAME else _NamedExtreme(name, name, True)
            for name in self._evaluated
        ]
        return [*bounds, *self.cutting]

    def judge(self, messages: pl.DataFrame, watermark: int | None) -> Combined:
        messages = self._add_keys(messages)
        taken, rejected = self.part(messages, None)
        sure, doubtful = taken, None
        if self.sessions.start is not None:
            # Only the shard knows the messages that are in no session.
            sure, doubtful = taken.clear(), taken
        elif watermark is not None and len(taken):
            # Any message before this position may be within the gap of a closed session.
            edge = watermark - self.spec.firing.grace
            doubtful, sure = split_rows(taken, taken[columns.TIME] < edge)
        combined = self._summarize(messages, taken, rejected, self.combine_cells([self.lift(sure)]))
        if doubtful is not None and len(doubtful):
            combined.raw = doubtful
            combined.counts["counted"] -= len(doubtful)
        return combined

    def combine_cells(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        if self.sessions.is_cut:
            return super().combine_cells(frames)
        full = [frame for frame in frames if len(frame)]
        return merge_sessions(full, self) if full else self.no_cells

    @property
    def patience(self) -> int:
        """Distance of the watermark from a session's last message at which the session closes."""
        return self.sessions.reach + self.spec.firing.grace


class _NamedExtreme(Extreme):
    """The least or greatest value of a column, in a column of a name."""

    def __init__(self, name: str, column: str, greatest: bool) -> None:
        super().__init__(0, column, greatest)
        self.v = name


class _SharedValue(Algebra):
    """The value that all messages have in a column, NULL included; or else that there is none."""

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        return self._merge(pl.lit(False))

    def merge(self) -> list[pl.Expr]:
        return self._merge(pl.col(MIXED).any())

    def _merge(self, are_mixed: pl.Expr) -> list[pl.Expr]:
        value = pl.col(columns.SAME)
        differ = (value.min() != value.max()).fill_null(False)
        differ |= value.is_null().any() & value.is_not_null().any()
        return [value.max().alias(columns.SAME), (are_mixed | differ).alias(MIXED)]

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return frame[columns.SAME]


def _find_condition_column(option: str, column: object, schema: pl.Schema) -> str:
    """Return the column of messages that a condition was evaluated to, or refuse its type."""
    name = columns.CONDITIONS[option]
    if name not in schema:
        name = str(column)
    if name not in schema:
        raise OptionError(option, name, "isn't a column", f"give one of {', '.join(schema)}")
    dtype = schema[name]
    if option != "same" and dtype not in (pl.Boolean(), pl.Null()):
        hint = "compare it with something"
        raise OptionError(option, str(column), f"has type {dtype}, not true or false", hint)
    if option == "same" and (dtype.is_nested() or dtype.is_float()):
        hint = "give a string, an integer, a date, a timestamp, a boolean or a decimal"
        raise OptionError(option, str(column), f"has type {dtype}", hint)
    return name


def find_session_ends(sessions: pl.DataFrame, windows: Sessions) -> pl.Series:
    """Return the ends of sessions as they are emitted."""
    if columns.END in sessions.columns:
        return sessions[columns.END]
    return sessions[columns.LAST] + windows.gap


def has_invalid_gap(messages: pl.DataFrame, by: str) -> pl.Expr:
    """Return which messages have an invalid gap; NULL for those whose gap is NULL."""
    return ~_gap(messages, by).is_between(1, LONGEST_GAP)


def _gap(messages: pl.DataFrame, by: str) -> pl.Expr:
    gap = pl.col(by)
    return gap.dt.total_microseconds() if messages.schema[by] == pl.Duration else gap


def merge_sessions(frames: Sequence[pl.DataFrame], combiner: SessionCombiner) -> pl.DataFrame:
    """Merge rows of sessions that overlap or touch into one row per session."""
    rows, group = group_rows(frames, combiner)
    if not len(rows) or int(group[-1]) == len(rows) - 1:
        return rows
    return merge_groups(rows, group, combiner)


def group_rows(
    frames: Sequence[pl.DataFrame], combiner: SessionCombiner
) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """Return rows by key and first position, and the session number of each."""
    full = [f for f in frames if len(f)] or list(frames[:1])
    rows = pl.concat(full, how="diagonal") if len(full) > 1 else full[0]
    rows = sort_rows(drop_columns(rows, columns.PANE), [*combiner.keys, columns.FIRST])
    bounds = columns.FIRST, columns.LAST
    return rows, number_sessions(rows, combiner.keys, *bounds, combiner.sessions.reach)


def number_sessions(
    rows: pl.DataFrame, keys: Sequence[str], first: str, last: str, reach: int
) -> NDArray[np.int64]:
    """Number the sessions of rows, which are sorted by key and first position."""
    starts = find_group_starts(rows, keys)
    if len(rows):
        greatest = _find_greatest_last(np.cumsum(starts), rows[last].to_numpy())
        starts[1:] |= rows[first].to_numpy()[1:] - greatest[:-1] >= reach
    return np.cumsum(starts) - 1


def _find_greatest_last(key: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the greatest position up to each row within its key; keys are sorted numbers."""
    least = int(last.min())
    span = int(last.max()) - least + 1
    if span * (int(key[-1]) + 1) < 2**63:
        ahead = key * np.int64(span) - np.int64(least)
        greatest: NDArray[np.int64] = np.maximum.accumulate(last + ahead) - ahead
        return greatest
    positions, rank = np.unique(last, return_inverse=True)
    best = np.maximum.accumulate(key * np.int64(len(positions)) + rank)
    greatest = positions[best - key * np.int64(len(positions))]
    return greatest


def merge_groups(
    rows: pl.DataFrame, group: NDArray[np.int64], combiner: SessionCombiner
) -> pl.DataFrame:
    """Merge each group of adjacent rows into one, in their order; single rows are unchanged."""
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    is_single = np.diff(begins, append=len(rows)) == 1
    if is_single.all():
        return rows
    is_grouped = ~is_single[group]
    grouped_rows = rows.filter(is_grouped).hstack([pl.Series("__group", group[is_grouped])])
    # The groups keep their order.
    merged = drop_columns(combiner.merge([grouped_rows], by=["__group"]), "__group")
    merged_sessions = rows[combiner.keys][begins[~is_single]].hstack(merged)
    sessions: pl.DataFrame = stack_rows(
        [rows[merged_sessions.columns][begins[is_single]], merged_sessions]
    )
    order = np.where(is_single, np.cumsum(is_single), is_single.sum() + np.cumsum(~is_single)) - 1
    return sessions.rechunk()[order]
