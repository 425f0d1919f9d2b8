"""How many messages are kept in windows that take no more, and which go when there are too many.

Messages are counted by stretches of the axis, some hundreds of them at most, and go by stretches,
the oldest first. So a batch costs what the batch is, whatever is kept.
Source: the VoltDB windowing application (a limit of rows; rows of one time go together, so that a
deletion always makes progress).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.model.kinds import Kind
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec

# Into how many stretches a segment of a table is cut, where it has so many places.
_A_SEGMENT = 32
# In the state of a query that has read all of its input, where closed windows are kept.
ENDED = "ended"


def share(rows: int | None, buckets: int | None) -> int | None:
    """Each shard's part of a limit.

    Example:
        >>> share(10, 4), share(None, 4)
        (3, None)
    """
    return None if rows is None else -(-rows // (buckets or 1))


class RetentionCounter:
    """The messages of a shard by where they lie; counted only where there is a limit.

    Args:
        axis: The column that says where a row lies.
        span: How many places make a segment of the table.
        most: How many messages may be kept; ``None``: any number.
        stored: What ``entries`` gave when the manifest was written.
        count: The column of how many messages a row stands for; ``None`` where it is one.

    Attributes:
        unknown: Whether what is stored is still to be counted: there was no limit, or another
            width of stretches, when it was written, or other shards wrote it.
        floor: Before this place the limit has left nothing, or not everything; ``None`` where it
            has never been passed. A window that begins before it can't be read any more.
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
        self._width = max(1, span // _A_SEGMENT)
        self.floor: int | None = stored["floor"] if stored else None
        # An earlier build didn't write down the width.
        same = stored is not None and stored.get("width") == self._width
        self.unknown = most is not None and not same
        self._counts: dict[int, int] = dict(stored["counts"] if stored and same else ())

    def entries(self) -> dict[str, Any]:
        """The floor, and the stretches with their messages; plain JSON."""
        width = None if self.most is None else self._width
        return {"floor": self.floor, "width": width, "counts": list(self._counts.items())}

    def learn(self, stored: Callable[[], Iterable[pl.DataFrame]], first: int | None) -> None:
        """Count what is stored, where that is unknown; before anything else is counted."""
        if self.unknown:
            self.unknown = False
            for rows in stored():
                self.add(rows if first is None else rows.filter(pl.col(self.axis) >= first))

    def add(self, rows: pl.DataFrame, sign: int = 1) -> None:
        """Count the messages of rows, or take them away again."""
        if self.most is None or not len(rows):
            return
        stretch = pl.col(self.axis).floordiv(self._width).alias("stretch")
        for at, n in rows.group_by(stretch).agg(self._messages).iter_rows():
            self._counts[at] = self._counts.get(at, 0) + sign * n
            if not self._counts[at]:
                del self._counts[at]

    def first(self, opened: int, expired: int | None) -> int | None:
        """The first place that is kept; what lies before it is forgotten.

        Args:
            opened: The first place of windows that may still take messages.
            expired: The first place that the retention keeps, as far as time goes.
        """
        if self.most is None:
            return expired
        past = sorted(at for at in self._counts if (at + 1) * self._width <= opened)
        held = sum(self._counts[at] for at in past)
        for at in past:
            end = (at + 1) * self._width
            if expired is None or end > expired:
                if held <= self.most:
                    break
                self.floor = end
            held -= self._counts.pop(at)
        return max((p for p in (expired, self.floor) if p is not None), default=None)


def uncounted(floors: Iterable[int | None]) -> dict[str, Any]:
    """What several shards remember together of a limit, which is counted anew.

    Of a window that lies before one of their floors, some part may be gone.
    """
    floor = max((floor for floor in floors if floor is not None), default=None)
    return {"floor": floor, "width": None, "counts": []}


def first_whole(
    spec: WindowSpec, windows: Kind, watermark: int | None, floor: int | None, limit: int | None
) -> int | None:
    """The first window (of sessions: their last place) that still has all of its messages.

    The floor is what ``whole_from`` gave, and the limit is the ``floor`` of a counter.
    """
    floors = [floor]
    if limit is not None:  # a window that begins before it has lost messages
        floors.append(
            limit if isinstance(windows, Sessions) else windows.last_window(limit - 1) + 1
        )
    if watermark is not None:
        floors.append(windows.ended(watermark - spec.firing.retention) + 1)
    return max((one for one in floors if one is not None), default=None)
