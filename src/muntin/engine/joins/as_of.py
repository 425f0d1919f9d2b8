"""A shard of an as-of join: a left message's partner is the newest right one at its time.

A left message waits until the right side's watermark has passed it, since a newer version may come
until then. Where the right side's source is read to its end, it doesn't hold left messages back:
time passes with the greatest time of either side, less the right side's lateness. A version that
comes behind that isn't late, and counts for what is emitted from then on.

The right side keeps the messages that are newer than any left message that may still come, and the
newest message of each key before that. Others are dropped when their run is merged.

Source: Flink's temporal joins (versions of a row by event time).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.firing import MAX_WINDOW
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
from muntin.engine.order import find_group_starts, sort_rows
from muntin.engine.state import State
from muntin.model.joins import AsOf, JoinSpec

RowNumbers = NDArray[np.int64]
_ASKS = "__asks"
_PASSED = "passed"


class Versions(StoredMessages):
    """Right messages, each of which is its key's version until the time of the next one."""

    def __init__(self, joiner: Joiner, state: State, most: int | None) -> None:
        self.most = most
        super().__init__(joiner, "right", state)

    def all_near(self, low: int, high: int, only: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return the messages between two positions; all are read to decide which are valid."""
        found = self.messages.read() if only is None else [self.of(only)]
        living = self._living([self.empty, *found])
        return living.filter(pl.col(columns.TIME).is_between(low, high))

    def drop_before(self, place: int | None) -> None:
        """Drop the versions before a position, except the newest of each key."""
        if place is None:
            return
        self.from_place = place
        if place == MAX_WINDOW:
            self.messages.drop_before(place)
        elif self.most is not None:
            self.messages.drop_before(place - self.most)

    def _living(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return living(pl.concat(frames), self.keys, self.from_place, self.most)


class AsOfJoin(JoinStrategy):
    """The strategy of joins by version."""

    def __init__(self, joiner: Joiner, state: State) -> None:
        super().__init__(joiner)
        assert isinstance(self.spec.bound, AsOf)
        self.state = state
        # Left messages whose version may still be replaced by a newer one.
        self.waiting = StoredMessages(joiner, "left", state, by_keys=False)
        self.versions = Versions(joiner, state, self.spec.bound.most)
        self.buffers = {"left": self.waiting, "right": self.versions}

    def kept_from(self, marks: SideWatermarks) -> SidePlaces:
        """Return the first position that is kept; the right side keeps a version before it."""
        left, right = marks["left"], marks["right"]
        asks = None
        if left is not None and right is not None:
            asks = min(left - self.spec.left.firing.grace, right)
        return {"left": self._find_later(right, self.passed), "right": asks}

    @property
    def passed(self) -> int | None:
        """The position before which left messages were emitted because the right side had ended."""
        passed: int | None = self.state.extra.get(_PASSED)
        return passed

    def drop_before(self, places: SidePlaces) -> None:
        super().drop_before({**places, "left": self._find_later(places["left"], self.passed)})

    def _pass_time(self, moment: JoinClock) -> int | None:
        """Return the position before which the versions of left messages are certain now."""
        if moment.final:
            return MAX_WINDOW
        left, right = moment.marks["left"], moment.marks["right"]
        if "right" in moment.caught_up and left is not None:
            reached = left + self.spec.left.lateness - self.spec.right.lateness
            self.state.extra[_PASSED] = self._find_later(reached, self.passed)
        return self._find_later(right, self.passed)

    @staticmethod
    def _find_later(one: int | None, other: int | None) -> int | None:
        """Return the later one of two positions, each of which may be unknown."""
        known = [position for position in (one, other) if position is not None]
        return max(known, default=None)

    def meet(self, new: SideFrames, moment: JoinClock) -> list[pl.DataFrame]:
        passed = self._pass_time(moment)
        left, place, on_time = new["left"], pl.col(columns.TIME), pl.lit(False).alias(LATE)
        # A message counts as late only in the step in which it arrives.
        versions = new["right"].with_columns(on_time)
        emitted = []
        if passed is not None:
            due = pl.concat(
                [self.waiting.all_near(-MAX_WINDOW, passed - 1), left.filter(place < passed)]
            )
            emitted = self._emitted(due, versions, moment.final)
            left = left.filter(place >= passed)
        self.waiting.messages.append(left.with_columns(on_time))
        self.versions.messages.append(versions)
        return emitted

    def _emitted(self, due: pl.DataFrame, new: pl.DataFrame, final: bool) -> list[pl.DataFrame]:
        """Return results for left messages whose version is final."""
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
    """Return the versions that may still be a left message's partner.

    Args:
        rows: Stored right messages.
        keys: Their key columns.
        place: The first position of left messages that may still come; ``None`` for any.
        most: Greatest age of a version, microseconds; ``None`` for any age.
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
    """Return the row numbers of left messages and of the newest right message at each one's time.

    Of several right messages at the same time, the one that arrived last counts.
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
    rows = sort_rows(pl.concat(parts).drop_nulls(names), [*names, AT, _ASKS, ID])
    count = np.arange(len(rows))
    first = np.maximum.accumulate(np.where(find_group_starts(rows, names), count, 0))
    asks = rows[_ASKS].to_numpy() == 1
    version = np.maximum.accumulate(np.where(asks, -1, count))
    found = asks & (version >= first)
    if spec.bound.most is not None:
        at = rows[AT].to_numpy()
        found &= at - at[version] <= spec.bound.most
    row = rows[ROW].to_numpy()
    return row[found], row[version[found]]
