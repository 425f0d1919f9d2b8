"""The rows of a running query as a live table."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.table import Table

from muntin.cli.console import cell
from muntin.model.pipeline import WINDOW_BOUNDS
from muntin.sinks.plain import list_plain_rows

if TYPE_CHECKING:
    from muntin.sinks.batch import Batch

# Far more than a terminal shows, so that a window that emits again is nearly always among them.
ROW_LIMIT = 10_000


class LiveRows:
    """A sink of the newest rows: the greatest revision of each one, without retracted rows.

    Rows beyond ``limit`` are only counted, so that a query may run indefinitely.

    Args:
        columns: Names of the columns.
        most: Number of rows to show.
        limit: Number of rows to keep, so that a window that emits again replaces its row.
    """

    def __init__(self, columns: Sequence[str], most: int = 30, limit: int = ROW_LIMIT) -> None:
        self.columns = list(columns)
        self.most = most
        self.limit = limit
        self.count = 0
        self.dropped = 0
        self._rows: OrderedDict[Any, dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def write(self, batch: Batch) -> None:
        """Add the rows of a batch of a stream."""
        if not batch.empty:
            self.take(list_plain_rows(batch.table()), batch.identity)

    def take(self, rows: Sequence[dict[str, Any]], identity: Sequence[str] | None) -> None:
        """Add rows, the newest last; ``identity`` has the columns that identify one, if any do."""
        with self._lock:
            for row in rows:
                self.count += 1
                name = self.count if identity is None else tuple(map(row.get, identity))
                earlier = self._rows.get(name)
                if earlier is not None and row.get("revision", 0) < earlier.get("revision", 0):
                    continue
                self._rows.pop(name, None)
                if row.get("emission") != "retract":
                    self._rows[name] = row
                while len(self._rows) > self.limit:
                    self._rows.popitem(last=False)
                    self.dropped += 1

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The valid rows in memory, the newest last."""
        with self._lock:
            return list(self._rows.values())

    def table(self) -> Table:
        """Return the newest rows as a table."""
        rows = self.rows
        shown = rows[-self.most :]
        left = self.dropped + len(rows) - len(shown)
        live_table = Table(header_style="bold", caption=f"… and {left:,} before" if left else None)
        for column in self.columns:
            live_table.add_column(cell(column), no_wrap=column in WINDOW_BOUNDS)
        for row in shown:
            # Data may have brackets, which rich would read as markup.
            live_table.add_row(*(cell(format_cell(row.get(column))) for column in self.columns))
        return live_table


def format_cell(value: Any) -> str:
    """Format a value for a cell."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:g}" if isinstance(value, float) else str(value)
