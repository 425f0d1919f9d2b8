"""What every sink of windows promises, as a test for sinks of one's own.

The newest version of a window wins, one that was taken back is deleted, and a batch that comes
again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import pyarrow as pa

Window = tuple[str | None, int, int | None, int]
"""A key, when its window began (seconds of a day), how many it counted, the version; a count of
``None`` takes the window back."""

_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_SIZE = 10


@dataclass
class SetAside:
    """Rows that a sink can't take, as it gives them back.

    Attributes:
        reasons: Why, of each.
    """

    reasons: list[str] = field(default_factory=list)

    def add(self, rows: Any, sink: str, why: Sequence[str]) -> None:
        """Take some rows of one sink, with a reason each."""
        self.reasons += why


@dataclass
class SinkBatch:
    """A batch of counts of messages by ``key`` and window, as sinks are given it.

    Attributes:
        number: Its number; one that is repeated has the same.
        windows: What it says.
        kind: Which output of a query it is of.
        keys: The key columns; ``None`` where rows have no identity and are appended.
        query: What distinguishes the query from others.
        unwritable: Takes the rows that the sink can't store.
    """

    number: int
    windows: Sequence[Window]
    kind: str = "results"
    keys: tuple[str, ...] | None = ("key",)
    query: str = "a query"
    unwritable: SetAside = field(default_factory=SetAside)
    zone: ClassVar[str] = "UTC"

    @property
    def empty(self) -> bool:
        """Whether there are no rows."""
        return not self.windows

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The columns that identify a row; ``None`` where none do."""
        return None if self.keys is None else (*self.keys, "window_start", "window_end")

    def table(self) -> pa.Table:
        """The rows: key, window, the count ``n``, emission and revision."""
        import pyarrow as pa

        stamp = pa.timestamp("us", tz="UTC")
        starts = [_DAY + timedelta(seconds=start) for _, start, _, _ in self.windows]
        ends = [start + timedelta(seconds=_SIZE) for start in starts]
        emissions = ["retract" if n is None else "full" for _, _, n, _ in self.windows]
        columns = {
            "key": pa.array([key for key, _, _, _ in self.windows], pa.string()),
            "window_start": pa.array(starts, stamp),
            "window_end": pa.array(ends, stamp),
            "n": pa.array([n for _, _, n, _ in self.windows], pa.int64()),
            "emission": pa.array(emissions, pa.string()),
            "revision": pa.array([revision for _, _, _, revision in self.windows], pa.int32()),
        }
        return pa.table(columns)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.table().schema

    @property
    def frame(self) -> Any:
        """The rows as a Polars frame."""
        import polars as pl

        return pl.from_arrow(self.table())

    def write_natively(self, sink: Any) -> bool:
        """Leave the batch to its sink."""
        return False


# What happens, its batches, and which windows stand then: key, count and version.
_CASES: list[tuple[str, list[SinkBatch], list[tuple[str | None, int, int]]]] = [
    (
        "a batch of new windows",
        [SinkBatch(0, [("a", 0, 1, 0), ("b", 0, 2, 0), (None, 0, 3, 0)])],
        [("a", 1, 0), ("b", 2, 0), (None, 3, 0)],
    ),
    (
        "several versions of a window in one batch, of which the greatest is the newest",
        [SinkBatch(1, [("a", 0, 5, 1), ("a", 0, 6, 2), (None, 0, 4, 1), ("a", 10, 7, 0)])],
        [("a", 6, 2), ("a", 7, 0), ("b", 2, 0), (None, 4, 1)],
    ),
    (
        "an older version, which says nothing any more",
        [SinkBatch(2, [("a", 0, 9, 1)])],
        [("a", 6, 2), ("a", 7, 0), ("b", 2, 0), (None, 4, 1)],
    ),
    (
        "a window that is taken back, also under the key NULL",
        [SinkBatch(3, [("b", 0, None, 1), (None, 0, None, 2), ("c", 0, 1, 0)])],
        [("a", 6, 2), ("a", 7, 0), ("c", 1, 0)],
    ),
    ("a batch without rows", [SinkBatch(4, [])], [("a", 6, 2), ("a", 7, 0), ("c", 1, 0)]),
    (
        "a window that begins anew after it was taken back",
        [SinkBatch(5, [("b", 0, 8, 2)])],
        [("a", 6, 2), ("a", 7, 0), ("b", 8, 2), ("c", 1, 0)],
    ),
]


def check_sink(make: Callable[[], Any], read: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
    """Hold a sink of one's own against what muntin's promise.

    Each batch is written, and then once more by another sink that was made anew, as after a crash.

    Args:
        make: Makes the sink, over a table that isn't there or is empty at the beginning.
        read: The rows of the table: its columns ``key``, ``n`` and ``revision``, and any others.

    Raises:
        AssertionError: Naming what happened, what stands in the table, and what should.

    Example:
        >>> kept = {}
        >>> class Latest:
        ...     def write(self, batch):
        ...         for row in batch.table().to_pylist():
        ...             window = row["key"], row["window_start"]
        ...             if row["revision"] >= kept.get(window, row)["revision"]:
        ...                 kept[window] = row
        >>> try:
        ...     check_sink(Latest, kept.values)
        ... except AssertionError as error:
        ...     print(str(error).partition(",")[0])
        after a window that is taken back
    """
    for name, batches, wanted in _CASES:
        for repeated in ("", ", and the same batch again after a crash"):
            sink = make()
            for batch in batches:
                sink.write(batch)
            found = sorted(((r["key"], r["n"], r["revision"]) for r in read()), key=str)
            assert found == sorted(wanted, key=str), (
                f"after {name}{repeated}, the table holds {found}, and should hold {wanted}"
            )
