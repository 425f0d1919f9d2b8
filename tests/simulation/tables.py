"""Tables outside of the query, which crashes leave as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import polars as pl


@dataclass
class Table:
    """A table that keeps rows by their batch.

    Attributes:
        kind: What it is called.
        interrupt: Is called before and after each write, with the name of the event.
        batches: The rows of each batch.
        problems: What a sink must never see: a batch that is repeated with other rows.
    """

    kind: str
    interrupt: Callable[[str], None]
    batches: dict[int, pl.DataFrame] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def write(self, batch: Any) -> None:
        """Write a batch; one that is repeated has the same rows."""
        self.interrupt(f"before the sink of {self.kind}")
        self.put(batch.number, batch.frame)
        self.interrupt(f"after the sink of {self.kind}")

    def put(self, number: int, rows: pl.DataFrame) -> None:
        """Keep the rows of a batch."""
        before = self.batches.get(number)
        if before is not None and not _have_same_rows(before, rows):
            self.problems.append(f"batch {number} was written again with other {self.kind}")
        self.batches[number] = rows


def _have_same_rows(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """Whether frames have the same rows; in another number of shards their order is another."""
    return one.equals(other) or _sort_rows(one) == _sort_rows(other)


def _sort_rows(rows: pl.DataFrame) -> list[str]:
    """The rows as texts, in order; times as numbers, since Python has none behind the year 9999."""
    times = [name for name, dtype in rows.schema.items() if dtype.is_temporal()]
    return sorted(map(repr, rows.with_columns(pl.col(times).to_physical()).rows()))
