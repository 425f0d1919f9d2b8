"""Rows that a sink can't store: found one by one, and set aside with the reason.

A sink that refuses a batch for the sake of a few rows would refuse it after every restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from muntin.model.errors import SinkError
from muntin.sinks.plain import as_json

UNSTORABLE = "unstorable"
SINK, WHY, ROW = "sink", "why", "row"
# What is kept of a row that was set aside.
COLUMNS = ("output", "reason", SINK, WHY, ROW)
_LONGEST = 300


class RowsRefusedError(Exception):
    """A sink refuses rows for what is in them; the message says why, in the sink's words."""


def sift(where: str, rows: pa.Table, attempt: Callable[[pa.Table], None]) -> dict[int, str]:
    """Write all rows that can be written, in their order.

    The others are looked for by writing halves, so that whatever a sink has against a row, it is
    only that row which is set aside.

    Args:
        where: What is written to.
        rows: The rows.
        attempt: Writes some of them, or raises a ``RowsRefusedError`` and has written none.

    Returns:
        Which rows were refused, by position, and why.
    """
    refused: dict[int, str] = {}
    waiting = [(0, len(rows))]
    while waiting:
        start, end = waiting.pop()
        try:
            attempt(rows.slice(start, end - start))
        except RowsRefusedError as error:
            if start == end:
                raise SinkError(f"{where} takes no row at all: {error}") from error
            if end - start == len(rows):
                waiting.append((0, 0))
            if end - start == 1:
                refused[start] = str(error)
                continue
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
    return refused


@dataclass
class UnwritableRows:
    """Rows of one output of a batch that its sink couldn't store.

    Attributes:
        output: The kind of the rows.
        tables: The rows as JSON, each with its sink and the reason.
        frames: The same, where the host itself holds them.
    """

    output: str
    tables: list[pa.Table] = field(default_factory=list)
    frames: list[Any] = field(default_factory=list)

    def add(self, rows: pa.Table, sink: str, why: Sequence[str]) -> None:
        """Set rows aside.

        Args:
            rows: The rows.
            sink: What can't store them.
            why: A reason for each.
        """
        if len(rows):
            texts = [[sink] * len(rows), [_shorten(one) for one in why], as_json(rows)]
            columns = dict(zip((SINK, WHY, ROW), texts, strict=True))
            self.tables.append(
                pa.table({name: pa.array(texts, pa.string()) for name, texts in columns.items()})
            )

    def table(self) -> pa.Table:
        """The rows of this process, in the columns that are kept of them."""
        schema = pa.schema([(name, pa.string()) for name in COLUMNS])
        fixed = {"output": self.output, "reason": UNSTORABLE}
        tables = [schema.empty_table()]
        for table in self.tables:
            for name, text in fixed.items():
                table = table.append_column(name, pa.array([text] * len(table), pa.string()))
            tables.append(table.select(list(COLUMNS)))
        return pa.concat_tables(tables)


def _shorten(why: str) -> str:
    line = " ".join(why.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
