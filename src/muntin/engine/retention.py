"""Retention by a limit of messages in closed windows.

Messages are counted by ranges of the axis, at most some hundreds, and are dropped by ranges, the
oldest first. So the cost of a batch doesn't depend on how much is kept.

Source: the VoltDB windowing example (a limit of rows; rows of one time are dropped together, so
that a deletion always makes progress).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.model.kinds import Uniform
from muntin.model.spec import WindowSpec

# Number of ranges per segment of a table, if the segment has that many positions.
_RANGES_PER_SEGMENT = 32
# Set in the state of a query that has read all of its input, if closed windows are kept.
ENDED = "ended"


def divide_limit(rows: int | None, shards: int | None) -> int | None:
    """Return each shard's share of a limit.

    Example:
        >>> divide_limit(10, 4), divide_limit(None, 4)
        (3, None)
    """
    return None if rows is None else -(-rows // (shards or 1))


class RetentionCounter:
    """Counts of a shard's messages by ranges of the axis, if there is a limit.

    Args:
        axis: The column of a row's position.
        span: Number of positions in a segment of the table.
        most: Greatest number of messages to keep; ``None`` for no limit.
        stored: The result of ``entries`` when the manifest was written.
        count: The column with the number of messages that a row stands for; ``None`` for one.

    Attributes:
        unknown: Whether the stored messages must be counted first: when they were written there was
            no limit, or another width of ranges, or other shards wrote them.
        floor: Position before which the limit has dropped messages; ``None`` if it never has. A
            window that starts before it can't be read any more.
    """

    def __init__(
        self,
        axis: str,
        span: int,
        most: int | None,
        stored: dict[str, Any] | None = None,
        count: str | None = columns.MESSAGES,
    ) -> None:
        self.axis = axis
        self.most = most
        self._messages = pl.len() if count is None else pl.col(count).sum()
        self._width = max(1, span // _RANGES_PER_SEGMENT)
        self.floor: int | None = stored["floor"] if stored else None
        # Earlier versions didn't store the width.
        is_same_width = stored is not None and stored.get("width") == self._width
        self.unknown = most is not None and not is_same_width
        self._counts: dict[int, int] = dict(stored["counts"] if stored and is_same_width else ())

    def entries(self) -> dict[str, Any]:
        """Return the floor and the counts by range; plain JSON."""
        width = None if self.most is None else self._width
        return {"floor": self.floor, "width": width, "counts": list(self._counts.items())}

    def count_stored(self, stored: Callable[[], Iterable[pl.DataFrame]], first: int | None) -> None:
        """Count the stored messages, unless they are counted already; call it before ``add``."""
        if self.unknown:
            self.unknown = False
            for rows in stored():
                self.add(rows if first is None else rows.filter(pl.col(self.axis) >= first))

    def add(self, rows: pl.DataFrame, sign: int = 1) -> None:
        """Add the messages of rows to the counts, or subtract them for ``sign=-1``."""
        if self.most is None or not len(rows):
            return
        range_number = pl.col(self.axis).floordiv(self._width).alias("stretch")
        for number, n in rows.group_by(range_number).agg(self._messages).iter_rows():
            self._counts[number] = self._counts.get(number, 0) + sign * n
            if not self._counts[number]:
                del self._counts[number]

    def apply_limit(self, opened: int, expired: int | None) -> int | None:
        """Apply the limit, and return the first position that is kept.

        Args:
            opened: The first position of the windows that are open.
            expired: The first position that the retention by time keeps.
        """
        if self.most is None:
            return expired
        closed = sorted(number for number in self._counts if (number + 1) * self._width <= opened)
        closed_messages = sum(self._counts[number] for number in closed)
        for number in closed:
            end = (number + 1) * self._width
            if expired is None or end > expired:
                if closed_messages <= self.most:
                    break
                self.floor = end
            closed_messages -= self._counts.pop(number)
        return max((p for p in (expired, self.floor) if p is not None), default=None)


def merge_uncounted(floors: Iterable[int | None]) -> dict[str, Any]:
    """Merge the stored entries of several shards; their messages must be counted again.

    The floor is the greatest of theirs, since windows before it may have lost messages.
    """
    floor = max((floor for floor in floors if floor is not None), default=None)
    return {"floor": floor, "width": None, "counts": []}


def find_first_whole(
    spec: WindowSpec, windows: Uniform, watermark: int | None, floor: int | None, limit: int | None
) -> int | None:
    """Return the first window, or a session's last position, that still has all messages.

    ``floor`` is the result of ``update_first_whole``, ``limit`` the floor of a
    ``RetentionCounter``.
    """
    floors = [floor]
    if limit is not None:  # windows that start before it have lost messages
        floors.append(windows.last_window(limit - 1) + 1)
    if watermark is not None:
        floors.append(windows.last_ended(watermark - spec.firing.retention) + 1)
    return max((one for one in floors if one is not None), default=None)
