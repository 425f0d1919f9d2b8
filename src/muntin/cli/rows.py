"""The rows of a running query as a live table."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.table import Table

from muntin.cli.console import cell

IDENTITY = ("window_start", "window_end")
# Far more than a terminal shows, so that a window that emits again is nearly always among them.
ROW_LIMIT = 10_000


class LiveRows:
    """The newest rows of a query: the greatest revision of each window, without retracted rows.

    Rows beyond ``limit`` are only counted, so that a query may run indefinitely.

    Args:
        columns: Names of the columns.
        keys: Key columns; ``None`` if rows have no identity (joins).
        most: Number of rows to show.
        kept: Number of rows to keep, so that a window that emits again replaces its row.
    """

    def __init__(
        self,
        columns: Sequence[str],
        keys: Sequence[str] | None,
        most: int = 30,
        limit: int = ROW_LIMIT,
    ) -> None:
        self.columns = list(columns)
        self.keys = keys
        self.most = most
        self.limit = limit
        self.count = 0
        self.dropped = 0
        self._rows: OrderedDict[Any, dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add rows, the newest last."""
        with self._lock:
            for row in rows:
                self.count += 1
                name = self._name(row)
                earlier = self._rows.get(name)
                if earlier is not None and row.get("revision", 0) < earlier.get("revision", 0):
                    continue
                self._rows.pop(name, None)
                if row.get("emission") != "retract":
                    self._rows[name] = row
                while len(self._rows) > self.limit:
                    self._rows.popitem(last=False)
                    self.dropped += 1

    def _name(self, row: dict[str, Any]) -> Any:
        if self.keys is None:
            return self.count
        return tuple(row.get(column) for column in (*self.keys, *IDENTITY))

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
            live_table.add_column(cell(column), no_wrap=column in IDENTITY)
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
