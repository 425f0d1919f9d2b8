"""Rows of a running query as a table that changes while it is looked at."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.table import Table

from muntin.cli.console import cell

IDENTITY = ("window_start", "window_end")
# Far more than a terminal shows: a window that emits again is nearly always among them.
KEPT = 10_000


class LiveRows:
    """The newest rows of a query: of a window its greatest revision, without those taken back.

    Older ones than are kept are counted only, so that a query may run indefinitely.

    Args:
        columns: The names of the columns.
        keys: The key columns; ``None`` where rows have no identity (joins).
        most: How many rows are shown.
        kept: How many rows are kept, so that a window that emits again takes the place of its own.
    """

    def __init__(
        self,
        columns: Sequence[str],
        keys: Sequence[str] | None,
        most: int = 30,
        kept: int = KEPT,
    ) -> None:
        self.columns = list(columns)
        self.keys = keys
        self.most = most
        self.kept = kept
        self.taken = 0
        self.gone = 0
        self._rows: OrderedDict[Any, dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, rows: Sequence[dict[str, Any]]) -> None:
        """Take rows in, the newest last."""
        with self._lock:
            for row in rows:
                self.taken += 1
                name = self._name(row)
                known = self._rows.get(name)
                if known is not None and row.get("revision", 0) < known.get("revision", 0):
                    continue
                self._rows.pop(name, None)
                if row.get("emission") != "retract":
                    self._rows[name] = row
                while len(self._rows) > self.kept:
                    self._rows.popitem(last=False)
                    self.gone += 1

    def _name(self, row: dict[str, Any]) -> Any:
        if self.keys is None:
            return self.taken
        return tuple(row.get(column) for column in (*self.keys, *IDENTITY))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows that hold, as far as they are kept, the newest last."""
        with self._lock:
            return list(self._rows.values())

    def table(self) -> Table:
        """The newest rows."""
        held = self.rows
        shown = held[-self.most :]
        left = self.gone + len(held) - len(shown)
        made = Table(header_style="bold", caption=f"… and {left:,} before" if left else None)
        for column in self.columns:
            made.add_column(cell(column), no_wrap=column in IDENTITY)
        for row in shown:
            # Data may hold brackets, which rich would take for its markup.
            made.add_row(*(cell(as_text(row.get(column))) for column in self.columns))
        return made


def as_text(value: Any) -> str:
    """A value in a cell."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:g}" if isinstance(value, float) else str(value)
