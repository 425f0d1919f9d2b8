"""A shard of a join by arrival: a left message's partner is the newest right row of its key.

The right side is a table: it keeps the last row of each key to have arrived, whatever its time.
The rows of a batch enter the table before the left messages of that batch look it up. A left
message is emitted at once, so none is stored, and neither side waits for the other.

Source: Kafka Streams' join of a stream with a table; Flink's lookups by processing time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import ID, LATE, Joiner
from muntin.engine.joins.pairs import ROW, compared
from muntin.engine.joins.stored_messages import StoredMessages
from muntin.engine.joins.strategy import (
    JoinClock,
    JoinStrategy,
    SideFrames,
    SidePlaces,
    SideWatermarks,
)
from muntin.engine.state import State
from muntin.model.joins import Side

# Internal column of a row: the right side's watermark when it arrived. It never decreases, so that
# a row never outlives one of its key that arrived after it.
ARRIVED = "__muntin_arrived"
# Columns that sources in Kafka add to each message, deletions included.
_OF_KAFKA = frozenset({"topic", "partition", "offset", "timestamp"})
_HEADERS = "headers"
_INTERNAL = "__muntin"


class NewestRows(StoredMessages):
    """The newest row of each key of the right side, from a watermark of its arrival on."""

    def __init__(self, joiner: Joiner, state: State) -> None:
        self.deletes = deletes(joiner.spec.right, joiner.inputs["right"])
        super().__init__(joiner, "right", state, axis=ARRIVED, settle=self._drop_deletions)

    def add(self, rows: pl.DataFrame, watermark: int | None) -> None:
        """Store rows that arrive at a watermark."""
        arrived = pl.col(columns.TIME) if watermark is None else pl.lit(watermark, dtype=pl.Int64)
        rows = rows.with_columns(pl.lit(False).alias(LATE), arrived.alias(ARRIVED))
        self.messages.append(keep_last(rows, self.keys))

    def of(self, only: pl.DataFrame) -> pl.DataFrame:
        return self._drop_deletions(super().of(only))

    def all_near(self, low: int, high: int, only: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return the rows between two times; all are read to decide which are the newest."""
        frames = self.messages.read(only=only)
        rows = self._drop_deletions(self._living([self.empty, *frames]))
        return rows.filter(pl.col(columns.TIME).is_between(low, high))

    def _living(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return keep_last(super()._living(frames), self.keys)

    def _drop_deletions(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.filter(~self.deletes)


class ArrivalJoin(JoinStrategy):
    """The strategy of joins by arrival."""

    def __init__(self, joiner: Joiner, state: State) -> None:
        super().__init__(joiner)
        self.table = NewestRows(joiner, state)
        # Left messages are never stored.
        self.buffers = {"left": StoredMessages(joiner, "left", state), "right": self.table}

    def kept_from(self, marks: SideWatermarks) -> SidePlaces:
        """Return the first watermark of arrival from which on rows are kept."""
        mark, kept = marks["right"], self.spec.right.kept
        return {"left": None, "right": None if mark is None or kept is None else mark - kept}

    def watermark(self, marks: SideWatermarks) -> int | None:
        """Return the left side's watermark: pairs have its times, and don't wait for the right."""
        return marks["left"]

    def meet(self, new: SideFrames, moment: JoinClock) -> list[pl.DataFrame]:
        self.table.add(new["right"], moment.marks["right"])
        left = new["left"].with_columns(pl.lit(False).alias(LATE))
        rows = self.table.of(self.joiner.wanted("left", left))
        number = pl.int_range(pl.len(), dtype=pl.Int64).alias(ROW)
        names = [f"k{position}" for position in range(len(self.spec.left.keys))]
        messages = left.select(*compared(left, self.spec.left.keys), number)
        pairs = messages.join(
            rows.select(*compared(rows, self.spec.right.keys), number), on=names, how="left"
        )
        partner = pl.col(f"{ROW}_right")
        matched = pairs.filter(partner.is_not_null())
        sides = left[matched[ROW]], rows[matched[f"{ROW}_right"]]
        emitted = [self.joiner.paired(*sides, moment.final, "full")]
        if "left" in self.spec.unmatched:
            unmatched = left[pairs.filter(partner.is_null())[ROW]]
            emitted.append(self.joiner.unmatched("left", unmatched.sort(columns.TIME, ID)))
        return emitted


def keep_last(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the row of each key that arrived last."""
    return rows.sort(ID).unique(keys, keep="last")


def deletes(side: Side, names: Collection[str]) -> pl.Expr:
    """Return an expression for whether a row deletes the row of its key, as tombstones do.

    It does if all of its columns are NULL, except its key, time and offset. The columns that Kafka
    adds to each message don't count.
    """
    apart = {*side.keys, side.time, *(side.offset or ())}
    if set(names) >= _OF_KAFKA:
        apart |= {*_OF_KAFKA, _HEADERS}
    values = [n for n in names if n not in apart and not n.startswith(_INTERNAL)]
    return pl.all_horizontal(pl.col(values).is_null()) if values else pl.lit(False)
