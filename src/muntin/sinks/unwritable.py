"""Finds the rows that a sink can't store, and sets them aside with the reason.

Otherwise a few bad rows would make the sink refuse their batch after every restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from muntin.model.errors import SinkError
from muntin.model.printable import escape_line
from muntin.sinks.plain import format_json_rows

UNWRITABLE = "unwritable"
SINK_COLUMN, WHY_COLUMN, ROW_COLUMN = "sink", "why", "row"
# The columns of rows that were set aside.
UNWRITABLE_COLUMNS = ("output", "reason", SINK_COLUMN, WHY_COLUMN, ROW_COLUMN)
_MAX_REASON_LENGTH = 300
_LOG = logging.getLogger(__name__)


class RowsRefusedError(Exception):
    """A sink refuses rows because of their contents; the message is the sink's reason."""


def write_accepted(
    where: str, rows: pa.Table, attempt: Callable[[pa.Table], None]
) -> dict[int, str]:
    """Write all rows that can be written, in order; return the others by position, with reasons.

    They are found by writing halves, so that only rows that the sink really refuses are set aside.
    ``attempt`` writes some, or raises ``RowsRefusedError`` and has written none. An empty batch
    that is refused is a ``SinkError``.
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


def warn_of_unwritable(
    sink: str, rows: int, output: str, batch: int, reason: str, folder: object
) -> None:
    """Log that a sink couldn't store rows of a batch, and the reason for the first of them."""
    _LOG.warning(
        "%s can't take %d rows of %s of batch %d (the first: %s); they are in %s",
        sink, rows, output, batch, escape_line(reason), folder,
    )  # fmt: skip


@dataclass
class UnwritableRows:
    """Rows of one output of a batch that its sink couldn't store.

    Attributes:
        tables: The rows as JSON, each with its sink and the reason.
        frames: The rows in the same form, as frames of the host.
    """

    output: str
    tables: list[pa.Table] = field(default_factory=list)
    frames: list[Any] = field(default_factory=list)

    def add(self, rows: pa.Table, sink: str, why: Sequence[str]) -> None:
        """Set rows aside that a sink can't store, with a reason for each."""
        if len(rows):
            texts = [[sink] * len(rows), [_shorten(one) for one in why], format_json_rows(rows)]
            columns = dict(zip((SINK_COLUMN, WHY_COLUMN, ROW_COLUMN), texts, strict=True))
            self.tables.append(
                pa.table({name: pa.array(texts, pa.string()) for name, texts in columns.items()})
            )

    def table(self) -> pa.Table:
        """Return the rows of this process as a table with ``UNWRITABLE_COLUMNS``."""
        schema = pa.schema([(name, pa.string()) for name in UNWRITABLE_COLUMNS])
        fixed = {"output": self.output, "reason": UNWRITABLE}
        tables = [schema.empty_table()]
        for table in self.tables:
            for name, text in fixed.items():
                table = table.append_column(name, pa.array([text] * len(table), pa.string()))
            tables.append(table.select(list(UNWRITABLE_COLUMNS)))
        return pa.concat_tables(tables)


def _shorten(why: str) -> str:
    line = " ".join(why.split())
    return line if len(line) <= _MAX_REASON_LENGTH else f"{line[:_MAX_REASON_LENGTH]}…"
