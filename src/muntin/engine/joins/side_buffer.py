"""The stored messages of one side of a join, and the numbers of those that have a partner.

A message expires by its position alone, so that whole segments can be dropped. A table sorted by
time is searched by range of positions, and by key within that range. A table sorted by keys is
searched by key, and drops expired messages when its runs are merged.

An expired message is **held** while a partner of it waits for its policy.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from muntin.engine import columns
from muntin.engine.firing import MAX_WINDOW
from muntin.engine.joins.joiner import ID, Joiner
from muntin.engine.retention import RetentionCounter, divide_limit
from muntin.engine.state import State
from muntin.model.bounds import SideName
from muntin.state.lookup import join_null_safe
from muntin.state.rows import split_rows, stack_rows
from muntin.state.runs import Runs, segment_length

# A table is searched by key only if it has this many times more rows than there are keys.
_MIN_ROWS_PER_KEY = 4


class SideBuffer:
    """The stored messages of one side."""

    def __init__(self, joiner: Joiner, side: SideName, state: State) -> None:
        spec = joiner.spec
        self.side = side
        self.keys = list(spec.side(side).keys)
        self.empty = joiner.no_numbered[side]
        self.first_position: int | None = state.extra.get("from", {}).get(side)
        firing = spec.side(side).firing
        segment_span = segment_length(spec.bound.reach + firing.grace)
        by_keys = spec.state_layout == "keys"
        self.messages = state.table(
            f"{side} messages",
            columns.TIME,
            None if by_keys else segment_span,
            self._drop_expired if by_keys else _concat_rows,
            self.keys,
        )

        def table(name: str) -> Runs:
            return state.table(f"{side} {name}", columns.TIME, segment_span, _concat_rows)

        self.matched, self.waiting, self.held = table("matched"), table("waiting"), table("held")
        counts = state.extra.get("kept", {}).get(side)
        max_rows = divide_limit(firing.rows, spec.shards)
        self.row_counter = RetentionCounter(columns.TIME, segment_span, max_rows, counts, None)

    @property
    def rows(self) -> int:
        return self.messages.rows + self.waiting.rows + self.held.rows

    def read_candidates(
        self, only: pl.DataFrame, key_count: int, low: int, high: int
    ) -> pl.DataFrame:
        """Return the stored messages in a range, at least those of some keys.

        ``key_count`` is the number of keys in ``only``, which may repeat some.
        """
        held = self._filter_range(self.held.read(low, high), low, high)
        if self.first_position is not None:
            low = max(low, self.first_position)
        use_keys = self.messages.span is None or self.messages.rows > _MIN_ROWS_PER_KEY * key_count
        messages = self.messages.read(low, high, only if use_keys else None)
        return stack_rows([self._filter_range(messages, low, high), held])

    def read_range(self, low: int | None, high: int) -> pl.DataFrame:
        """Return all stored messages in a range."""
        return self._filter_range(self.messages.read(low, high), low, high)

    def read_messages(self, low: int, high: int, only: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return all messages in a range, including held and waiting ones.

        ``only`` limits them to some keys, each of which it has once.
        """
        if only is None:
            first = low if self.first_position is None else max(low, self.first_position)
            held = self._filter_range(self.held.read(low, high), low, high)
            messages = stack_rows([self.read_range(first, high), held])
        else:
            messages = self.read_candidates(only, len(only), low, high)
        waiting = self._filter_range(self.waiting.read(low, high), low, high)
        messages = stack_rows([messages, waiting])
        return messages if only is None else join_null_safe(messages, only, self.keys, "semi")

    def replace_held(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Replace the held messages, and return those that were held before."""
        before = stack_rows([self.empty, *self.held.read()])
        if len(before) or len(messages):
            self.held.rewrite(messages)
        return before

    def read_waiting(self) -> pl.DataFrame:
        """Return the messages that wait for their policy."""
        return stack_rows([self.empty, *self.waiting.read()])

    def select_unmatched(self, messages: pl.DataFrame, high: int | None) -> pl.DataFrame:
        """Return the messages without a partner; all of them are at or before ``high``."""
        matched = self.matched.read(None, high) if len(messages) else []
        numbers = [frame[[ID]] for frame in matched]
        return messages.join(stack_rows(numbers), on=ID, how="anti") if numbers else messages

    def append(self, messages: pl.DataFrame) -> None:
        """Store messages."""
        self.row_counter.count_stored(self.messages.read, self.first_position)
        self.messages.append(messages)
        self.row_counter.add(messages)

    def apply_row_limit(self) -> int | None:
        """Return the first position within the limit of rows; ``None`` if none is beyond it."""
        position = self.row_counter.apply_limit(MAX_WINDOW, self.first_position)
        return None if position == self.first_position else position

    def mark_matched(self, messages: pl.DataFrame) -> None:
        """Store the numbers of messages that have a partner."""
        # The keys are stored so that the numbers can move to another shard.
        if len(messages):
            self.matched.append(messages[[columns.TIME, ID, *self.keys]])

    def take_waiting(self, ready: pl.Expr) -> pl.DataFrame:
        """Remove and return the waiting messages that are ready."""
        waiting = self.read_waiting()
        if not len(waiting):
            return waiting
        mask = waiting.select(ready).to_series()
        if not mask.any():
            return self.empty
        taken, rest = split_rows(waiting, mask)
        self.waiting.rewrite(rest)
        return taken

    def drop_before(self, position: int | None) -> None:
        if position is None:
            return
        self.first_position = position
        self.row_counter.apply_limit(MAX_WINDOW, position)
        self.messages.drop_before(position)
        self.matched.drop_before(self.find_first_stored(position))

    def find_first_stored(self, position: int) -> int:
        """Return the first position of held messages and of those from ``position`` on."""
        held = self.held.low
        return position if held is None else min(position, held)

    def _drop_expired(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        rows = stack_rows(frames)
        first = self.first_position
        return rows if first is None else rows.filter(pl.col(columns.TIME) >= first)

    def _filter_range(
        self, frames: Sequence[pl.DataFrame], low: int | None, high: int
    ) -> pl.DataFrame:
        if not frames:
            return self.empty
        rows = stack_rows(frames)
        inside = rows[columns.TIME] <= high
        if low is not None:
            inside &= rows[columns.TIME] >= low
        return rows if inside.all() else rows.filter(inside)


def _concat_rows(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate rows, some of which earlier versions stored without their keys."""
    return pl.concat(frames, how="diagonal")
