"""Tables of sinks, which survive crashes of the query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import polars as pl


@dataclass
class Table:
    """A table that stores rows by batch.

    Attributes:
        kind: The name of the table.
        interrupt: Called before and after each write, with the name of the event.
        batches: The rows of each batch.
        problems: Errors that a sink must never see: a batch that is repeated with other rows.
    """

    kind: str
    interrupt: Callable[[str], None]
    batches: dict[int, pl.DataFrame] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def write(self, batch: Any) -> None:
        """Write a batch; a repeated batch must have the same rows."""
        self.interrupt(f"before the sink of {self.kind}")
        self.put(batch.number, batch.frame)
        self.interrupt(f"after the sink of {self.kind}")

    def put(self, number: int, rows: pl.DataFrame) -> None:
        """Store the rows of a batch."""
        earlier_rows = self.batches.get(number)
        if earlier_rows is not None and not _have_same_rows(earlier_rows, rows):
            self.problems.append(f"batch {number} was written again with other {self.kind}")
        self.batches[number] = rows


def _have_same_rows(first: pl.DataFrame, second: pl.DataFrame) -> bool:
    """Return whether frames have the same rows; the order depends on the number of shards."""
    return first.equals(second) or _sort_rows(first) == _sort_rows(second)


def _sort_rows(rows: pl.DataFrame) -> list[str]:
    """Return sorted rows as text; times as numbers, since Python has none after the year 9999."""
    times = [name for name, dtype in rows.schema.items() if dtype.is_temporal()]
    return sorted(map(repr, rows.with_columns(pl.col(times).to_physical()).rows()))
