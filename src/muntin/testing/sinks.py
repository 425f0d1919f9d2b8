"""A test of the guarantees of every sink of windows, for sinks of your own.

The newest version of a window wins, a retracted one is deleted, and a repeated batch changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import pyarrow as pa

Window = tuple[str | None, int, int | None, int]
"""A key, the start of its window (seconds of a day), the count, and the revision.

A count of ``None`` retracts the window.
"""

_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_SIZE = 10


@dataclass
class SetAside:
    """Collects the rows that a sink reports as unwritable.

    Attributes:
        reasons: Reason for each row.
    """

    reasons: list[str] = field(default_factory=list)

    def add(self, rows: Any, sink: str, why: Sequence[str]) -> None:
        """Add rows of a sink, with a reason for each."""
        self.reasons += why


@dataclass
class SinkBatch:
    """A batch with counts of messages by ``key`` and window, in the form that sinks receive.

    Attributes:
        number: Number of the batch; a repeated batch has the same.
        windows: Rows of the batch.
        kind: Output of the query that the batch belongs to.
        keys: Key columns; ``None`` if rows have no identity and are appended.
        query: Identity of the query.
        unwritable: Collects the rows that the sink can't store.
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
        """True if there are no rows."""
        return not self.windows

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The columns that identify a row; ``None`` if there are none."""
        return None if self.keys is None else (*self.keys, "window_start", "window_end")

    def table(self) -> pa.Table:
        """Return the rows: key, window, the count ``n``, emission and revision."""
        import pyarrow as pa

        starts = [_DAY + timedelta(seconds=start) for _, start, _, _ in self.windows]
        ends = [start + timedelta(seconds=_SIZE) for start in starts]
        emissions = ["retract" if n is None else "full" for _, _, n, _ in self.windows]
        columns = {
            "key": [key for key, _, _, _ in self.windows],
            "window_start": starts,
            "window_end": ends,
            "n": [n for _, _, n, _ in self.windows],
            "emission": emissions,
            "revision": [revision for _, _, _, revision in self.windows],
        }
        return pa.table(columns, schema=self.schema)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        import pyarrow as pa

        stamp = pa.timestamp("us", tz="UTC")
        return pa.schema(
            [
                ("key", pa.string()),
                ("window_start", stamp),
                ("window_end", stamp),
                ("n", pa.int64()),
                ("emission", pa.string()),
                ("revision", pa.int32()),
            ]
        )

    @property
    def frame(self) -> Any:
        """The rows as a Polars frame."""
        import polars as pl

        return pl.from_arrow(self.table())

    def write_natively(self, sink: Any) -> bool:
        """Leave the batch to its sink: return False."""
        return False


# The cases, their batches, and the rows of the table afterwards: key, count and revision.
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
    """Check that a sink of your own guarantees the same as muntin's.

    Each batch is written twice, the second time by a new sink, as after a crash.

    Args:
        make: Returns a sink over a table that is missing or empty at the beginning.
        read: Returns the rows of the table with ``key``, ``n``, ``revision`` and any other columns.

    Raises:
        AssertionError: With the case, the rows of the table, and the expected rows.

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
            table_rows = sorted(((r["key"], r["n"], r["revision"]) for r in read()), key=str)
            assert table_rows == sorted(wanted, key=str), (
                f"after {name}{repeated}, the table holds {table_rows}, and should hold {wanted}"
            )
