"""A shard of a join by arrival: a left message's partner is the newest right row of its key.

The right side is a table: it stores, for each key, the row that arrived last, whatever its time.
The right rows of a batch enter the table before its left messages are looked up. A left message is
emitted at once, so none is stored, and neither side waits for the other.

Source: Kafka Streams' join of a stream with a table; Flink's lookups by processing time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import ID, LATE, Joiner
from muntin.engine.joins.pairs import ROW, select_comparable_keys
from muntin.engine.joins.stored_messages import StoredMessages
from muntin.engine.joins.strategy import (
    JoinClock,
    JoinStrategy,
    SideFrames,
    SidePositions,
    SideWatermarks,
)
from muntin.engine.state import State
from muntin.model.joins import SIDES, Side

# Internal column of a row: the right side's watermark when it arrived. It never decreases, so that
# a row never outlives one of its key that arrived after it.
ARRIVED = "__muntin_arrived"
# Columns that sources in Kafka add to each message, deletions included.
_KAFKA_COLUMNS = frozenset({"topic", "partition", "offset", "timestamp"})
_MORE_COLUMNS = frozenset({"headers", columns.PAYLOAD, columns.PAYLOAD_DETAIL})


class NewestRows(StoredMessages):
    """The newest row of each key of the right side; rows expire by the watermark at arrival."""

    def __init__(self, joiner: Joiner, state: State) -> None:
        self.deletes = build_deletion_test(joiner.spec.right, joiner.inputs["right"])
        super().__init__(joiner, "right", state, axis=ARRIVED, settle=self._drop_deletions)

    def add(self, rows: pl.DataFrame, watermark: int | None) -> None:
        """Store rows that arrive at a watermark."""
        arrived = pl.col(columns.TIME) if watermark is None else pl.lit(watermark, dtype=pl.Int64)
        rows = rows.with_columns(pl.lit(False).alias(LATE), arrived.alias(ARRIVED))
        self.messages.append(select_last_rows(rows, self.keys))

    def read_keys(self, only: pl.DataFrame) -> pl.DataFrame:
        return self._drop_deletions(super().read_keys(only))

    def read_messages(self, low: int, high: int, only: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return the rows between two times that are the newest of their key."""
        frames = self.messages.read(only=only)
        rows = self._drop_deletions(self._drop_expired([self.empty, *frames]))
        return rows.filter(pl.col(columns.TIME).is_between(low, high))

    def _drop_expired(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return select_last_rows(super()._drop_expired(frames), self.keys)

    def _drop_deletions(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.filter(~self.deletes)


class ArrivalJoin(JoinStrategy):
    """The strategy of joins by arrival."""

    def __init__(self, joiner: Joiner, state: State) -> None:
        super().__init__(joiner)
        self.table = NewestRows(joiner, state)
        # Left messages are never stored.
        self.buffers = {"left": StoredMessages(joiner, "left", state), "right": self.table}

    def find_first_stored(self, watermarks: SideWatermarks) -> SidePositions:
        """Return the first watermark; a row expires if it arrived at an earlier one."""
        watermark, retention = watermarks["right"], self.spec.right.own_retention
        if watermark is None or retention is None:
            return dict.fromkeys(SIDES)
        return {"left": None, "right": watermark - retention}

    def compute_watermark(self, watermarks: SideWatermarks) -> int | None:
        """Return the left side's watermark, since pairs have its times and don't wait."""
        return watermarks["left"]

    def join_messages(self, new: SideFrames, clock: JoinClock) -> list[pl.DataFrame]:
        self.table.add(new["right"], clock.watermarks["right"])
        left = new["left"].with_columns(pl.lit(False).alias(LATE))
        rows = self.table.read_keys(self.joiner.convert_keys("left", left))
        number = pl.int_range(pl.len(), dtype=pl.Int64).alias(ROW)
        names = [f"k{position}" for position in range(len(self.spec.left.keys))]
        messages = left.select(*select_comparable_keys(left, self.spec.left.keys), number)
        pairs = messages.join(
            rows.select(*select_comparable_keys(rows, self.spec.right.keys), number),
            on=names,
            how="left",
        )
        partner = pl.col(f"{ROW}_right")
        matched = pairs.filter(partner.is_not_null())
        sides = left[matched[ROW]], rows[matched[f"{ROW}_right"]]
        emitted = [self.joiner.build_pairs(*sides, clock.final, "full")]
        if "left" in self.spec.outer_sides:
            unmatched = left[pairs.filter(partner.is_null())[ROW]]
            emitted.append(self.joiner.build_unmatched("left", unmatched.sort(columns.TIME, ID)))
        return emitted


def select_last_rows(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the row of each key that arrived last."""
    return rows.sort(ID).unique(keys, keep="last")


def build_deletion_test(side: Side, names: Collection[str]) -> pl.Expr:
    """Return an expression for whether a row deletes the row of its key, as tombstones do.

    It does if all of its columns are NULL, except its key, time and offset. The columns that Kafka
    adds to each message don't count.
    """
    ignored = {*side.keys, side.time, *(side.offset or ())}
    if set(names) >= _KAFKA_COLUMNS:
        ignored |= {*_KAFKA_COLUMNS, *_MORE_COLUMNS}
    values = [n for n in names if n not in ignored and not columns.is_internal(n)]
    return pl.all_horizontal(pl.col(values).is_null()) if values else pl.lit(False)
