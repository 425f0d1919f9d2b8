"""One side of a join in the store: messages that may still have partners, and those with one.

Only positions decide which messages are kept, so that expired ones are dropped by whole segments. A
table that is sorted by time first finds the messages of a range, and those of some keys in it. A
table that is sorted by keys first finds those of some keys among all, and expired messages are left
out when its runs are merged.

An expired message is **held** while a partner of it waits for its policy.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from muntin.engine import columns
from muntin.engine.firing import MAX_WINDOW
from muntin.engine.joins.joiner import ID, LATE, Joiner
from muntin.engine.retention import RetentionCounter, divide_limit
from muntin.engine.state import State
from muntin.model.joins import SideName
from muntin.state.lookup import join_null_safe
from muntin.state.runs import Runs, segment_length

# A table is searched by key only if it has this many times more rows than there are keys.
_FEW = 4


class SideBuffer:
    """The stored messages of one side."""

    def __init__(self, joiner: Joiner, side: SideName, state: State) -> None:
        spec = joiner.spec
        self.side = side
        self.keys = list(spec.side(side).keys)
        self.empty = joiner.no_messages(side).with_columns(
            columns.number(ID), pl.lit(False).alias(LATE)
        )
        self.from_place: int | None = state.extra.get("from", {}).get(side)
        reach = getattr(spec.bound, "reach", 1)
        firing = spec.side(side).firing
        span = segment_length(reach + firing.grace)
        by_keys = spec.state_layout == "keys"
        self.messages = state.table(
            f"{side} messages",
            columns.TIME,
            None if by_keys else span,
            self._living if by_keys else _stacked,
            self.keys,
        )

        def table(name: str) -> Runs:
            return state.table(f"{side} {name}", columns.TIME, span, _stacked)

        self.matched, self.waiting, self.held = table("matched"), table("waiting"), table("held")
        kept = state.extra.get("kept", {}).get(side)
        most = divide_limit(firing.rows, spec.shards)
        self.kept = RetentionCounter(columns.TIME, span, most, kept, None)

    @property
    def rows(self) -> int:
        """Number of stored messages."""
        return self.messages.rows + self.waiting.rows + self.held.rows

    def near(self, only: pl.DataFrame, asked: int, low: int, high: int) -> pl.DataFrame:
        """Return the stored messages in a range, at least those of some keys."""
        held = self._within(self.held.read(low, high), low, high)
        if self.from_place is not None:
            low = max(low, self.from_place)
        few = self.messages.span is None or self.messages.rows > _FEW * asked
        found = self.messages.read(low, high, only if few else None)
        return pl.concat([self._within(found, low, high), held])

    def between(self, low: int | None, high: int) -> pl.DataFrame:
        """Return all stored messages in a range."""
        return self._within(self.messages.read(low, high), low, high)

    def all_near(self, low: int, high: int, only: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return all messages in a range, including held and waiting ones.

        ``only`` limits them to some keys, each of which it has once.
        """
        if only is None:
            kept = low if self.from_place is None else max(low, self.from_place)
            held = self._within(self.held.read(low, high), low, high)
            found = pl.concat([self.between(kept, high), held])
        else:
            found = self.near(only, len(only), low, high)
        waiting = self._within(self.waiting.read(low, high), low, high)
        found = pl.concat([found, waiting])
        return found if only is None else join_null_safe(found, only, self.keys, "semi")

    def hold(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Replace the held messages, and return those that were held before."""
        before = pl.concat([self.empty, *self.held.read()])
        if len(before) or len(messages):
            self.held.rewrite(messages)
        return before

    def not_let_in(self) -> pl.DataFrame:
        """Return the messages that wait for their policy."""
        return pl.concat([self.empty, *self.waiting.read()])

    def unmatched(self, messages: pl.DataFrame, high: int | None) -> pl.DataFrame:
        """Return the messages without a partner, given messages up to a position."""
        found = self.matched.read(None, high) if len(messages) else []
        known = [frame.select(ID) for frame in found]
        return messages.join(pl.concat(known), on=ID, how="anti") if known else messages

    def append(self, messages: pl.DataFrame) -> None:
        """Store messages."""
        self.kept.count_stored(self.messages.read, self.from_place)
        self.messages.append(messages)
        self.kept.add(messages)

    def limited(self) -> int | None:
        """Return the first position that the limit of rows keeps; ``None`` if it drops nothing."""
        place = self.kept.apply_limit(MAX_WINDOW, self.from_place)
        return None if place == self.from_place else place

    def mark(self, messages: pl.DataFrame) -> None:
        """Mark messages as having a partner."""
        # The keys are stored so that marks can move to another shard.
        self.matched.append(messages.select(columns.TIME, ID, *self.keys))

    def take_waiting(self, ready: pl.Expr) -> pl.DataFrame:
        """Remove and return the waiting messages that are ready."""
        waiting = self.not_let_in()
        mask = waiting.select(ready).to_series()
        if not mask.any():
            return self.empty
        self.waiting.rewrite(waiting.filter(~mask))
        return waiting.filter(mask)

    def drop_before(self, place: int | None) -> None:
        """Drop the messages before a position, unless it is ``None``."""
        if place is None:
            return
        self.from_place = place
        self.kept.apply_limit(MAX_WINDOW, place)
        self.messages.drop_before(place)
        self.matched.drop_before(self.first_of(place))

    def first_of(self, kept: int) -> int:
        """Return the first position of held messages and those from ``kept`` on."""
        held = self.held.low
        return kept if held is None else min(kept, held)

    def _living(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        rows = pl.concat(frames)
        gone = self.from_place
        return rows if gone is None else rows.filter(pl.col(columns.TIME) >= gone)

    def _within(self, frames: Sequence[pl.DataFrame], low: int | None, high: int) -> pl.DataFrame:
        if not frames:
            return self.empty
        inside = pl.col(columns.TIME) <= high
        if low is not None:
            inside = inside & (pl.col(columns.TIME) >= low)
        return pl.concat(frames).filter(inside)


def _stacked(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate rows; earlier versions stored some without their keys."""
    return pl.concat(frames, how="diagonal")
