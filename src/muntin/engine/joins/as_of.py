"""A shard of an as-of join: a left message's partner is the newest right one at its time.

A left message waits until the right side's watermark has passed it, for until then a newer version
may come. Of the right side every message stays that is newer than what the left side may still
bring, and of those before the newest of each key; the others go when their run is folded.

Source: Flink's temporal joins (versions of a row by event time).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.firing import FOREVER
from muntin.engine.joins.joiner import ID, LATE, Joiner
from muntin.engine.joins.pairs import AT, ROW, compared
from muntin.engine.joins.stored_messages import StoredMessages
from muntin.engine.joins.strategy import (
    JoinClock,
    JoinStrategy,
    SideFrames,
    SidePlaces,
    SideWatermarks,
)
from muntin.engine.order import arranged, begins
from muntin.engine.state import State
from muntin.model.joins import AsOf, JoinSpec

RowNumbers = NDArray[np.int64]
_ASKS = "__asks"


class Versions(StoredMessages):
    """Right messages: each is its key's version until the next one's time."""

    def __init__(self, joiner: Joiner, state: State, most: int | None) -> None:
        self.most = most
        super().__init__(joiner, "right", state)

    def all_near(self, low: int, high: int, only: pl.DataFrame | None = None) -> pl.DataFrame:
        """See ``StoredMessages``; which version is the newest depends on all of them."""
        found = self.messages.read() if only is None else [self.of(only)]
        living = self._living([self.empty, *found])
        return living.filter(pl.col(columns.TIME).is_between(low, high))

    def drop_before(self, place: int | None) -> None:
        """Of the versions before a place, forget all but the newest of each key."""
        if place is None:
            return
        self.from_place = place
        if place == FOREVER:
            self.messages.drop_before(place)
        elif self.most is not None:
            self.messages.drop_before(place - self.most)

    def _living(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return living(pl.concat(frames), self.keys, self.from_place, self.most)


class AsOfJoin(JoinStrategy):
    """Joins by version; see ``JoinStrategy``."""

    def __init__(self, joiner: Joiner, state: State) -> None:
        super().__init__(joiner)
        assert isinstance(self.spec.bound, AsOf)
        # Left messages for which a newer version may still come.
        self.waiting = StoredMessages(joiner, "left", state, by_keys=False)
        self.versions = Versions(joiner, state, self.spec.bound.most)
        self.buffers = {"left": self.waiting, "right": self.versions}

    def kept_from(self, marks: SideWatermarks) -> SidePlaces:
        """See ``JoinStrategy``; of the right side also the newest version before it is kept."""
        left, right = marks["left"], marks["right"]
        asks = None
        if left is not None and right is not None:
            asks = min(left - self.spec.left.firing.grace, right)
        return {"left": right, "right": asks}

    def meet(self, new: SideFrames, moment: JoinClock) -> list[pl.DataFrame]:
        passed = FOREVER if moment.final else moment.marks["right"]
        left, place, on_time = new["left"], pl.col(columns.TIME), pl.lit(False).alias(LATE)
        # Whether a message came late is stated with its own arrival only.
        versions = new["right"].with_columns(on_time)
        emitted = []
        if passed is not None:
            due = pl.concat(
                [self.waiting.all_near(-FOREVER, passed - 1), left.filter(place < passed)]
            )
            emitted = self._emitted(due, versions, moment.final)
            left = left.filter(place >= passed)
        self.waiting.messages.append(left.with_columns(on_time))
        self.versions.messages.append(versions)
        return emitted

    def _emitted(self, due: pl.DataFrame, new: pl.DataFrame, final: bool) -> list[pl.DataFrame]:
        """Rows of results out of left messages whose version is known for good."""
        if not len(due):
            return []
        stored = self.versions.of(self.joiner.wanted("left", due))
        there = pl.concat([stored, new.select(stored.columns)])
        left, right = newest(due, there, self.spec)
        emitted = [self.joiner.paired(due[left], there[right], final, "full")]
        if "left" in self.spec.unmatched:
            alone = np.ones(len(due), dtype=bool)
            alone[left] = False
            unmatched = due.filter(pl.Series(alone)).sort(columns.TIME, ID)
            emitted.append(self.joiner.unmatched("left", unmatched))
        return emitted


def living(
    rows: pl.DataFrame, keys: Sequence[str], place: int | None, most: int | None
) -> pl.DataFrame:
    """The versions that may still be somebody's.

    Args:
        rows: Stored right messages.
        keys: Their key columns.
        place: The first place that a left message may still have; ``None`` is any.
        most: See ``AsOf``.
    """
    if place is None:
        return rows
    at = pl.col(columns.TIME)
    before = rows.filter(at < place)
    if most is not None:
        before = before.filter(at >= place - most)
    last = before.sort(columns.TIME, ID).unique(keys, keep="last")
    return pl.concat([last, rows.filter(at >= place)])


def newest(
    left: pl.DataFrame, right: pl.DataFrame, spec: JoinSpec
) -> tuple[RowNumbers, RowNumbers]:
    """The row numbers of left messages and of the newest right one at the time of each.

    Of several at the same time it is the one that came last.
    """
    nothing = np.zeros(0, dtype=np.int64)
    if not len(left) or not len(right):
        return nothing, nothing
    assert isinstance(spec.bound, AsOf)
    parts = []
    for frame, keys, asked in ((right, spec.right.keys, 0), (left, spec.left.keys, 1)):
        number = pl.int_range(pl.len(), dtype=pl.Int64).alias(ROW)
        place, order = pl.col(columns.TIME).alias(AT), pl.lit(asked, dtype=pl.Int64).alias(_ASKS)
        parts.append(frame.select(*compared(frame, keys), place, order, ID, number))
    names = parts[0].columns[: len(spec.left.keys)]
    # NULL equals nothing.
    rows = arranged(pl.concat(parts).drop_nulls(names), [*names, AT, _ASKS, ID])
    count = np.arange(len(rows))
    first = np.maximum.accumulate(np.where(begins(rows, names), count, 0))
    asks = rows[_ASKS].to_numpy() == 1
    version = np.maximum.accumulate(np.where(asks, -1, count))
    found = asks & (version >= first)
    if spec.bound.most is not None:
        at = rows[AT].to_numpy()
        found &= at - at[version] <= spec.bound.most
    row = rows[ROW].to_numpy()
    return row[found], row[version[found]]
