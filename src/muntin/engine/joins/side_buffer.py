"""One side of a join in the store: messages that may still find partners, and who has found one.

Which messages are kept is a matter of places alone, so that what has expired goes by whole
segments. Sorted by time first, a table finds the messages of a stretch, and in it those of some
keys; sorted by keys first, it finds those of some keys among all, and what has expired is left out
as it is folded.

A message whose time is over is **held** while one that is its partner waits to be let in.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from muntin.engine import columns
from muntin.engine.firing import FOREVER
from muntin.engine.joins.joiner import ID, LATE, Joiner
from muntin.engine.retention import RetentionCounter, share
from muntin.engine.state import State
from muntin.model.joins import SideName
from muntin.state.lookup import join_null_safe
from muntin.state.runs import Runs, segment_length

# A table is looked through for some keys only where it has so many times more rows.
_FEW = 4


class SideBuffer:
    """The messages of one side."""

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
        most = share(firing.rows, spec.buckets)
        self.kept = RetentionCounter(columns.TIME, span, most, kept, None)

    @property
    def rows(self) -> int:
        """How many messages are stored."""
        return self.messages.rows + self.waiting.rows + self.held.rows

    def near(self, only: pl.DataFrame, asked: int, low: int, high: int) -> pl.DataFrame:
        """The stored messages in a stretch, at least those of some keys."""
        held = self._within(self.held.read(low, high), low, high)
        if self.from_place is not None:
            low = max(low, self.from_place)
        few = self.messages.span is None or self.messages.rows > _FEW * asked
        found = self.messages.read(low, high, only if few else None)
        return pl.concat([self._within(found, low, high), held])

    def between(self, low: int | None, high: int) -> pl.DataFrame:
        """All stored messages in a stretch."""
        return self._within(self.messages.read(low, high), low, high)

    def all_near(self, low: int, high: int, only: pl.DataFrame | None = None) -> pl.DataFrame:
        """All messages in a stretch, those too that are held or wait to be let in.

        They are those of some keys, each given once, or of all.
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
        """Keep messages beyond their time, in place of those that were kept so."""
        before = pl.concat([self.empty, *self.held.read()])
        if len(before) or len(messages):
            self.held.rewrite(messages)
        return before

    def not_let_in(self) -> pl.DataFrame:
        """What waits to be let in."""
        return pl.concat([self.empty, *self.waiting.read()])

    def unmatched(self, messages: pl.DataFrame, high: int | None) -> pl.DataFrame:
        """Those of some messages, none of them beyond a place, that have found no partner."""
        found = self.matched.read(None, high) if len(messages) else []
        known = [frame.select(ID) for frame in found]
        return messages.join(pl.concat(known), on=ID, how="anti") if known else messages

    def append(self, messages: pl.DataFrame) -> None:
        """Store messages."""
        self.kept.learn(self.messages.read, self.from_place)
        self.messages.append(messages)
        self.kept.add(messages)

    def limited(self) -> int | None:
        """The first place that the limit of rows leaves, if it is beyond what is kept now."""
        place = self.kept.first(FOREVER, self.from_place)
        return None if place == self.from_place else place

    def mark(self, messages: pl.DataFrame) -> None:
        """Remember that messages have found a partner."""
        # With the key, they can go to another shard.
        self.matched.append(messages.select(columns.TIME, ID, *self.keys))

    def take_waiting(self, ready: pl.Expr) -> pl.DataFrame:
        """Remove some of what waits to be let in."""
        waiting = self.not_let_in()
        mask = waiting.select(ready).to_series()
        if not mask.any():
            return self.empty
        self.waiting.rewrite(waiting.filter(~mask))
        return waiting.filter(mask)

    def drop_before(self, place: int | None) -> None:
        """Forget messages before a place, if there is one."""
        if place is None:
            return
        self.from_place = place
        self.kept.first(FOREVER, place)
        self.messages.drop_before(place)
        self.matched.drop_before(self.first_of(place))

    def first_of(self, kept: int) -> int:
        """The first place of all that is kept, by its time from ``kept`` on or beyond it."""
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
    """All rows; a build before wrote some without their keys."""
    return pl.concat(frames, how="diagonal")
