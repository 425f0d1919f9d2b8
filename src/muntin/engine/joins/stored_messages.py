"""A table of the messages of one side of a join, for searches by key or by position."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import Joiner
from muntin.engine.state import State
from muntin.model.bounds import SideName
from muntin.state.frames import Complete
from muntin.state.lookup import join_null_safe
from muntin.state.rows import stack_rows


class StoredMessages:
    """The stored messages of one side that haven't expired.

    Args:
        joiner: The join.
        side: The side of the messages.
        state: The state of the shard.
        by_keys: Whether messages are searched by key.
        axis: The column with the position by which messages expire.
        settle: Drops rows in merges that include the oldest run; see ``Runs``.
    """

    def __init__(
        self,
        joiner: Joiner,
        side: SideName,
        state: State,
        *,
        by_keys: bool = True,
        axis: str = columns.TIME,
        settle: Complete | None = None,
    ) -> None:
        self.keys = list(joiner.spec.side(side).keys)
        self.axis = axis
        self.empty = joiner.no_numbered[side]
        if axis != columns.TIME:
            self.empty = self.empty.with_columns(columns.number(axis))
        self.first_position: int | None = None
        # Without segments, which don't pay for messages that are soon dropped or replaced.
        self.messages = state.table(
            f"{side} messages",
            axis,
            None,
            self._drop_expired,
            self.keys if by_keys else (),
            settle=settle,
        )

    @property
    def rows(self) -> int:
        """Number of stored messages, including expired ones that aren't dropped yet."""
        return self.messages.rows

    def read_keys(self, only: pl.DataFrame) -> pl.DataFrame:
        """Return all messages of some keys."""
        frames = self.messages.read(only=only) if len(only) and self.rows else []
        return self._drop_expired([self.empty, *frames])

    def read_messages(self, low: int, high: int, only: pl.DataFrame | None = None) -> pl.DataFrame:
        messages = self._drop_expired([self.empty, *self.messages.read(low, high)])
        messages = messages.filter(pl.col(columns.TIME).is_between(low, high))
        return messages if only is None else join_null_safe(messages, only, self.keys, "semi")

    def drop_before(self, position: int | None) -> None:
        if position is not None:
            self.first_position = position
            self.messages.drop_before(position)

    def _drop_expired(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return the rows that haven't expired."""
        rows, first = stack_rows(frames), self.first_position
        return rows if first is None else rows.filter(pl.col(self.axis) >= first)
