"""A shard of a join at each change: a pair is the newest row of each side of one key and window.

For every key and window, the row of each side with the greatest revision counts, even if it is a
retraction. A row is kept as long as either side may bring another row of its window. A batch emits
every pair that it changed once, or a ``retract`` if the pair no longer exists. So the last emission
doesn't depend on how the input is cut into batches, or on which side comes first.

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
from muntin.engine.order import sort_rows
from muntin.engine.state import State
from muntin.model.joins import OTHER, SIDES, Newest, SideName

# Internal columns of a side's row: whether it came in this step, whether its window exists, and
# whether the window existed before. Pairs have the same columns, prefixed by the side.
_NEW, _THERE, _WAS = "__muntin_new", "__muntin_there", "__muntin_was"
_RETRACT = "retract"


class NewestMessages(StoredMessages):
    """The newest row of each key and window of one side."""

    def _living(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return newest(super()._living(frames), self.keys)


class NewestJoin(JoinStrategy):
    """The strategy of joins at each change."""

    buffers: Mapping[SideName, NewestMessages]

    def __init__(self, joiner: Joiner, state: State) -> None:
        super().__init__(joiner)
        assert isinstance(self.spec.bound, Newest)
        self.buffers = {side: NewestMessages(joiner, side, state) for side in SIDES}
        self.names = [f"k{place}" for place in range(len(self.spec.left.keys))]

    def kept_from(self, marks: SideWatermarks) -> SidePlaces:
        """Return the first position that is kept; both sides keep what either one may change."""
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
        # Retractions come first: a reader that adds up must subtract a pair before its replacement.
        return [self._rows(sort_rows(pairs, [_THERE, *self.names]))]

    def _known(self, side: SideName, new: SideFrames) -> pl.DataFrame:
        """Return a side's newest rows of all windows with new rows on either side."""
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
        """Return an expression for whether a pair exists, given which of its sides exist."""
        left, right = (_of(side, flag) for side in SIDES)
        if self.spec.how == "inner":
            return left & right
        return {"left": left, "right": right}.get(self.spec.how, left | right)

    def _rows(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """Return results, with nulls for missing sides and for retracted pairs."""
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
        """Return a key of the other side, in this side's type."""
        name = self.spec.side(OTHER[side]).keys[place]
        kind = self.joiner.schemas[side][self.spec.side(side).keys[place]]
        return pl.col(f"{OTHER[side]} {name}").cast(kind, strict=False)


def newest(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the row of each key with the greatest revision; of several, the last."""
    return rows.sort(columns.REVISION, ID).unique(keys, keep="last")


def _of(side: SideName, flag: str) -> pl.Expr:
    return pl.col(f"{side} {flag}").fill_null(False)


def _emission() -> pl.Expr:
    """Return the emission of a pair: ``full`` if both sides are, else that of the other one."""
    words = [
        pl.when(_of(side, _THERE)).then(pl.col(f"{side} {columns.EMISSION}")) for side in SIDES
    ]
    early, late = (pl.any_horizontal(word == name for word in words) for name in ("early", "late"))
    found = pl.when(~pl.col(_THERE)).then(pl.lit(_RETRACT)).when(early).then(pl.lit("early"))
    return found.when(late).then(pl.lit("late")).otherwise(pl.lit("full"))


def _revision() -> pl.Expr:
    """Return a pair's revision: it grows with each revision of a side, in any order."""
    left, right = (
        (pl.col(f"{side} {columns.REVISION}").cast(pl.Int64) + 1).fill_null(0) for side in SIDES
    )
    return (left + right - 1).alias(columns.REVISION)
