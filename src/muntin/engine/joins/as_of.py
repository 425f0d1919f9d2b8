"""A shard of an as-of join: a left message's partner is the newest right one at its time.

A left message waits until the right side's watermark has passed it, since a newer version may come
until then. Where the right side's source is read to its end, it doesn't hold left messages back:
time then advances to the greatest time of either side, less the right side's lateness. A version
that arrives after that isn't late, and applies to left messages that are emitted later.

The right side stores all versions from the first left message that may still arrive, and the newest
version of each key before it. Others are dropped when their run is merged.

Source: Flink's temporal joins (versions of a row by event time).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from muntin.engine import columns
from muntin.engine.firing import MAX_WINDOW
from muntin.engine.joins.joiner import ID, LATE, Joiner
from muntin.engine.joins.pairs import (
    AT,
    ROW,
    RowNumbers,
    select_comparable_keys,
    stack_sides,
)
from muntin.engine.joins.stored_messages import StoredMessages
from muntin.engine.joins.strategy import (
    JoinClock,
    JoinStrategy,
    SideFrames,
    SidePositions,
    SideWatermarks,
)
from muntin.engine.order import find_group_starts, sort_rows
from muntin.engine.state import State
from muntin.model.bounds import AsOf
from muntin.model.joins import JoinSpec
from muntin.state.rows import stack_rows

_IS_LEFT = "__is_left"
_PASSED = "passed"


class Versions(StoredMessages):
    """Right messages, each of which is its key's version until the time of the next one."""

    def __init__(self, joiner: Joiner, state: State, max_age: int | None) -> None:
        self.max_age = max_age
        super().__init__(joiner, "right", state)

    def read_messages(self, low: int, high: int, only: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return the versions between two positions that haven't been replaced."""
        frames = self.messages.read() if only is None else [self.read_keys(only)]
        versions = self._drop_expired([self.empty, *frames])
        return versions.filter(pl.col(columns.TIME).is_between(low, high))

    def drop_before(self, position: int | None) -> None:
        """Drop the versions before a position, except the newest of each key."""
        if position is None:
            return
        self.first_position = position
        if position == MAX_WINDOW:
            self.messages.drop_before(position)
        elif self.max_age is not None:
            self.messages.drop_before(position - self.max_age)

    def _drop_expired(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return drop_replaced(stack_rows(frames), self.keys, self.first_position, self.max_age)


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

    def find_first_stored(self, watermarks: SideWatermarks) -> SidePositions:
        """Return the first positions; the right side also stores the version before its own."""
        left, right = watermarks["left"], watermarks["right"]
        first_version = None
        if left is not None and right is not None:
            first_version = min(left - self.spec.left.firing.grace, right)
        return {"left": self._find_later(right, self.first_pending), "right": first_version}

    @property
    def first_pending(self) -> int | None:
        """The position before which left messages were emitted because the right side had ended."""
        position: int | None = self.state.extra.get(_PASSED)
        return position

    def drop_before(self, positions: SidePositions) -> None:
        left = self._find_later(positions["left"], self.first_pending)
        super().drop_before({**positions, "left": left})

    def _update_certain_until(self, clock: JoinClock) -> int | None:
        """Return the position before which no newer version can arrive, and record it."""
        if clock.final:
            return MAX_WINDOW
        left, right = clock.watermarks["left"], clock.watermarks["right"]
        if "right" in clock.caught_up and left is not None:
            position = left + self.spec.left.lateness - self.spec.right.lateness
            self.state.extra[_PASSED] = self._find_later(position, self.first_pending)
        return self._find_later(right, self.first_pending)

    @staticmethod
    def _find_later(one: int | None, other: int | None) -> int | None:
        """Return the later one of two positions, each of which may be unknown."""
        positions = [position for position in (one, other) if position is not None]
        return max(positions, default=None)

    def join_messages(self, new: SideFrames, clock: JoinClock) -> list[pl.DataFrame]:
        certain_until = self._update_certain_until(clock)
        left, position, on_time = new["left"], pl.col(columns.TIME), pl.lit(False).alias(LATE)
        # A message counts as late only in the step in which it arrives.
        versions = new["right"].with_columns(on_time)
        emitted = []
        if certain_until is not None:
            due = stack_rows(
                [
                    self.waiting.read_messages(-MAX_WINDOW, certain_until - 1),
                    left.filter(position < certain_until),
                ]
            )
            emitted = self._build_results(due, versions, clock.final)
            left = left.filter(position >= certain_until)
        self.waiting.messages.append(left.with_columns(on_time))
        self.versions.messages.append(versions)
        return emitted

    def _build_results(
        self, due: pl.DataFrame, new: pl.DataFrame, final: bool
    ) -> list[pl.DataFrame]:
        """Return results for left messages, each of which no newer version can reach."""
        if not len(due):
            return []
        stored = self.versions.read_keys(self.joiner.convert_keys("left", due))
        versions = stack_rows([stored, new.select(stored.columns)])
        left, right = find_versions(due, versions, self.spec)
        results = [self.joiner.build_pairs(due[left], versions[right], final, "full")]
        if "left" in self.spec.outer_sides:
            has_no_version = np.ones(len(due), dtype=bool)
            has_no_version[left] = False
            unmatched = due.filter(pl.Series(has_no_version)).sort(columns.TIME, ID)
            results.append(self.joiner.build_unmatched("left", unmatched))
        return results


def drop_replaced(
    rows: pl.DataFrame, keys: Sequence[str], position: int | None, max_age: int | None
) -> pl.DataFrame:
    """Return the versions that may still be a left message's partner.

    Args:
        rows: Stored right messages.
        keys: Their key columns.
        position: The first position of left messages that may still come; ``None`` for any.
        max_age: Greatest age of a version, microseconds; ``None`` for any age.
    """
    if position is None:
        return rows
    at = pl.col(columns.TIME)
    before = rows.filter(at < position)
    if max_age is not None:
        before = before.filter(at >= position - max_age)
    last = before.sort(columns.TIME, ID).unique(keys, keep="last")
    return stack_rows([last, rows.filter(at >= position)])


def find_versions(
    left: pl.DataFrame, right: pl.DataFrame, spec: JoinSpec
) -> tuple[RowNumbers, RowNumbers]:
    """Return the row numbers of left messages and of the newest right message at each one's time.

    Of several right messages at the same time, the one that arrived last counts.
    """
    no_rows = np.zeros(0, dtype=np.int64)
    if not len(left) or not len(right):
        return no_rows, no_rows
    assert isinstance(spec.bound, AsOf)
    parts = []
    for frame, keys, is_left in ((right, spec.right.keys, 0), (left, spec.left.keys, 1)):
        number = pl.int_range(pl.len(), dtype=pl.Int64).alias(ROW)
        position = pl.col(columns.TIME).alias(AT)
        order = pl.lit(is_left, dtype=pl.Int64).alias(_IS_LEFT)
        key_columns = select_comparable_keys(frame, keys)
        parts.append(frame.select(*key_columns, position, order, ID, number))
    names = parts[0].columns[: len(spec.left.keys)]
    # NULL equals nothing.
    rows = sort_rows(stack_sides(parts).drop_nulls(names), [*names, AT, _IS_LEFT, ID])
    count = np.arange(len(rows))
    first = np.maximum.accumulate(np.where(find_group_starts(rows, names), count, 0))
    is_left_row = rows[_IS_LEFT].to_numpy() == 1
    version = np.maximum.accumulate(np.where(is_left_row, -1, count))
    has_version = is_left_row & (version >= first)
    if spec.bound.most is not None:
        at = rows[AT].to_numpy()
        has_version &= at - at[version] <= spec.bound.most
    row = rows[ROW].to_numpy()
    return row[has_version], row[version[has_version]]
