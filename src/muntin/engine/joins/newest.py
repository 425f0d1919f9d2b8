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
from muntin.engine.joins.pairs import select_comparable_keys
from muntin.engine.joins.stored_messages import StoredMessages
from muntin.engine.joins.strategy import (
    JoinClock,
    JoinStrategy,
    SideFrames,
    SidePositions,
    SideWatermarks,
)
from muntin.engine.order import sort_rows
from muntin.engine.state import State
from muntin.model.bounds import SideName
from muntin.model.joins import OTHER, SIDES
from muntin.state.rows import stack_rows

# Internal columns of a side's row: whether it arrived in this step, whether its window exists, and
# whether the window existed before. Pairs have the same columns, prefixed by the side.
_NEW, _EXISTS, _EXISTED = "__muntin_new", "__muntin_exists", "__muntin_existed"
_RETRACT = "retract"


class NewestMessages(StoredMessages):
    """The newest row of each key and window of one side."""

    def _drop_expired(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return select_greatest_revisions(super()._drop_expired(frames), self.keys)


class NewestJoin(JoinStrategy):
    """The strategy of joins at each change."""

    buffers: Mapping[SideName, NewestMessages]

    def __init__(self, joiner: Joiner, state: State) -> None:
        super().__init__(joiner)
        self.buffers = {side: NewestMessages(joiner, side, state) for side in SIDES}
        self.names = [f"k{number}" for number in range(len(self.spec.left.keys))]

    def find_first_stored(self, watermarks: SideWatermarks) -> SidePositions:
        """Return the first position, the same for both sides, at which either may change a pair."""
        accepted = [self.find_first_accepted(side, watermarks) for side in SIDES]
        present = [position for position in accepted if position is not None]
        return dict.fromkeys(SIDES, min(present) if len(present) == len(SIDES) else None)

    def join_messages(self, new: SideFrames, clock: JoinClock) -> list[pl.DataFrame]:
        left, right = (self._read_changed_windows(side, new) for side in SIDES)
        pairs = left.join(right, on=self.names, how="full", coalesce=True)
        changed = pl.any_horizontal(_read_flag(side, _NEW) for side in SIDES)
        now, before = (self._build_pair_test(flag) for flag in (_EXISTS, _EXISTED))
        pairs = pairs.filter(changed, now | before).with_columns(now.alias(_EXISTS))
        for side in SIDES:
            self.buffers[side].messages.append(new[side].with_columns(pl.lit(False).alias(LATE)))
        # Retractions come first: a reader that adds up must subtract a pair before its replacement.
        return [self._build_results(sort_rows(pairs, [_EXISTS, *self.names]))]

    def _read_changed_windows(self, side: SideName, new: SideFrames) -> pl.DataFrame:
        """Return a side's newest rows of all windows with new rows on either side."""
        keys, exists = self.buffers[side].keys, pl.col(columns.EMISSION).ne_missing(_RETRACT)
        of_other = self.joiner.convert_keys(OTHER[side], new[OTHER[side]])
        changed = stack_rows([new[side][keys], of_other]).unique()
        stored = self.buffers[side].read_keys(changed)
        stored = stored.with_columns(pl.lit(False).alias(_NEW), exists.alias(_EXISTED))
        arrivals = new[side].with_columns(pl.lit(True).alias(_NEW), pl.lit(False).alias(_EXISTED))
        rows = stack_rows([stored, arrivals.select(stored.columns)])
        rows = select_greatest_revisions(rows.with_columns(pl.col(_EXISTED).any().over(keys)), keys)
        rows = rows.with_columns(exists.alias(_EXISTS))
        return rows.select(*select_comparable_keys(rows, keys), pl.all().name.prefix(f"{side} "))

    def _build_pair_test(self, flag: str) -> pl.Expr:
        """Return an expression for whether a pair exists, given which of its sides exist."""
        left, right = (_read_flag(side, flag) for side in SIDES)
        if self.spec.how == "inner":
            return left & right
        return {"left": left, "right": right}.get(self.spec.how, left | right)

    def _build_results(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """Return results, with nulls for missing sides and for retracted pairs."""
        values = []
        for side in SIDES:
            exists = pl.col(_EXISTS) & _read_flag(side, _EXISTS)
            keys = self.spec.side(side).keys
            for name, out in self.joiner.result_names[side].items():
                value = pl.col(f"{side} {name}")
                if name in keys:
                    value = pl.coalesce(value, self._get_other_key(side, keys.index(name)))
                else:
                    value = pl.when(exists).then(value)
                values.append(value.alias(out))
        return pairs.select(*values, _build_emission().alias(columns.EMISSION), _build_revision())

    def _get_other_key(self, side: SideName, number: int) -> pl.Expr:
        """Return a key of the other side, in this side's type."""
        name = self.spec.side(OTHER[side]).keys[number]
        kind = self.joiner.schemas[side][self.spec.side(side).keys[number]]
        return pl.col(f"{OTHER[side]} {name}").cast(kind, strict=False)


def select_greatest_revisions(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return each key's row with the greatest revision, or the last one of several."""
    return rows.sort(columns.REVISION, ID).unique(keys, keep="last")


def _read_flag(side: SideName, flag: str) -> pl.Expr:
    return pl.col(f"{side} {flag}").fill_null(False)


def _build_emission() -> pl.Expr:
    """Return a pair's emission: ``full`` if both sides are, else that of the side that isn't."""
    words = [
        pl.when(_read_flag(side, _EXISTS)).then(pl.col(f"{side} {columns.EMISSION}"))
        for side in SIDES
    ]
    early, late = (pl.any_horizontal(word == name for word in words) for name in ("early", "late"))
    emission = pl.when(~pl.col(_EXISTS)).then(pl.lit(_RETRACT)).when(early).then(pl.lit("early"))
    return emission.when(late).then(pl.lit("late")).otherwise(pl.lit("full"))


def _build_revision() -> pl.Expr:
    """Return a pair's revision, which grows with each revision of either side."""
    left, right = (
        (pl.col(f"{side} {columns.REVISION}").cast(pl.Int64) + 1).fill_null(0) for side in SIDES
    )
    return (left + right - 1).alias(columns.REVISION)
