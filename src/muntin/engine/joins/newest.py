"""A shard of a join at each change: a pair is the newest row of each side of one key and window.

Of every key and window each side has one row that counts, the one with the greatest revision, also
where it says that the window is no more. A row stays as long as either side may bring another one
of its window. A batch emits every pair that it has changed, once, and a pair that is no more as a
``retract``; so what is emitted last doesn't depend on how the input is cut, or on which side comes
first.

Source: Kafka Streams' joins of tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import ID, LATE, Joiner
from muntin.engine.joins.pairs import compared
from muntin.engine.joins.stored_messages import StoredMessages
from muntin.engine.joins.strategy import (
    JoinClock,
    JoinStrategy,
    SideFrames,
    SidePlaces,
    SideWatermarks,
)
from muntin.engine.order import arranged
from muntin.engine.state import State
from muntin.model.joins import OTHER, SIDES, Newest, SideName

# Beside a side's row: whether it has come in this step, whether it is there, and whether one of its
# window was there before. Beside a pair the same, behind the side's name.
_NEW, _THERE, _WAS = "__muntin_new", "__muntin_there", "__muntin_was"
_RETRACT = "retract"


class NewestMessages(StoredMessages):
    """The newest row of each key and window of one side."""

    def _living(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return newest(super()._living(frames), self.keys)


class NewestJoin(JoinStrategy):
    """Joins at each change; see ``JoinStrategy``."""

    buffers: Mapping[SideName, NewestMessages]

    def __init__(self, joiner: Joiner, state: State) -> None:
        super().__init__(joiner)
        assert isinstance(self.spec.bound, Newest)
        self.buffers = {side: NewestMessages(joiner, side, state) for side in SIDES}
        self.names = [f"k{place}" for place in range(len(self.spec.left.keys))]

    def kept_from(self, marks: SideWatermarks) -> SidePlaces:
        """See ``JoinStrategy``; both sides keep what either one may change."""
        edges = [edge for side in SIDES if (edge := self.edge(side, marks)) is not None]
        return dict.fromkeys(SIDES, min(edges) if len(edges) == len(SIDES) else None)

    def meet(self, new: SideFrames, moment: JoinClock) -> list[pl.DataFrame]:
        left, right = (self._known(side, new) for side in SIDES)
        pairs = left.join(right, on=self.names, how="full", coalesce=True)
        changed = pl.any_horizontal(_of(side, _NEW) for side in SIDES)
        now, before = (self._emits(flag) for flag in (_THERE, _WAS))
        pairs = pairs.filter(changed, now | before).with_columns(now.alias(_THERE))
        for side in SIDES:
            self.buffers[side].messages.append(new[side].with_columns(pl.lit(False).alias(LATE)))
        # A reader that adds up subtracts what is replaced before its replacement.
        return [self._rows(arranged(pairs, [_THERE, *self.names]))]

    def _known(self, side: SideName, new: SideFrames) -> pl.DataFrame:
        """The newest rows of a side, of all windows that a row has come of on either side."""
        keys, there = self.buffers[side].keys, pl.col(columns.EMISSION).ne_missing(_RETRACT)
        own = new[side].select(keys)
        asked = pl.concat([own, self.joiner.wanted(OTHER[side], new[OTHER[side]])]).unique()
        stored = (
            self.buffers[side].of(asked).with_columns(pl.lit(False).alias(_NEW), there.alias(_WAS))
        )
        came = new[side].with_columns(pl.lit(True).alias(_NEW), pl.lit(False).alias(_WAS))
        rows = pl.concat([stored, came.select(stored.columns)])
        rows = newest(rows.with_columns(pl.col(_WAS).any().over(keys)), keys)
        rows = rows.with_columns(there.alias(_THERE))
        return rows.select(*compared(rows, keys), pl.all().name.prefix(f"{side} "))

    def _emits(self, flag: str) -> pl.Expr:
        """Whether there is a pair, by which of its sides are there."""
        left, right = (_of(side, flag) for side in SIDES)
        if self.spec.how == "inner":
            return left & right
        return {"left": left, "right": right}.get(self.spec.how, left | right)

    def _rows(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """Rows of results; of a side that isn't there, and of a pair that is no more, null."""
        shown = []
        for side in SIDES:
            there = pl.col(_THERE) & _of(side, _THERE)
            keys = self.spec.side(side).keys
            for name, out in self.joiner.names[side].items():
                value = pl.col(f"{side} {name}")
                if name in keys:
                    value = pl.coalesce(value, self._other_key(side, keys.index(name)))
                else:
                    value = pl.when(there).then(value)
                shown.append(value.alias(out))
        return pairs.select(*shown, _emission().alias(columns.EMISSION), _revision())

    def _other_key(self, side: SideName, place: int) -> pl.Expr:
        """A key of the other side, in this side's type."""
        name = self.spec.side(OTHER[side]).keys[place]
        kind = self.joiner.schemas[side][self.spec.side(side).keys[place]]
        return pl.col(f"{OTHER[side]} {name}").cast(kind, strict=False)


def newest(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Of the rows of each key the one with the greatest revision, and of such the last."""
    return rows.sort(columns.REVISION, ID).unique(keys, keep="last")


def _of(side: SideName, flag: str) -> pl.Expr:
    return pl.col(f"{side} {flag}").fill_null(False)


def _emission() -> pl.Expr:
    """How a pair is emitted: in full where its sides are, and otherwise as the one that isn't."""
    words = [
        pl.when(_of(side, _THERE)).then(pl.col(f"{side} {columns.EMISSION}")) for side in SIDES
    ]
    early, late = (pl.any_horizontal(word == name for word in words) for name in ("early", "late"))
    found = pl.when(~pl.col(_THERE)).then(pl.lit(_RETRACT)).when(early).then(pl.lit("early"))
    return found.when(late).then(pl.lit("late")).otherwise(pl.lit("full"))


def _revision() -> pl.Expr:
    """Which revision of a pair it is: one more with each of a side, in whatever order they come."""
    left, right = (
        (pl.col(f"{side} {columns.REVISION}").cast(pl.Int64) + 1).fill_null(0) for side in SIDES
    )
    return (left + right - 1).alias(columns.REVISION)
