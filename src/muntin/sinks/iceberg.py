"""Writes results and rejected messages to Iceberg tables, on Spark only."""

from __future__ import annotations

import pyarrow as pa

from muntin.model.errors import OptionError
from muntin.sinks.batch import Batch
from muntin.sinks.sink import TableSink

_HINT = "give the names of catalog, namespace and table, with dots between them"


class IcebergSink(TableSink):
    """Iceberg tables; see ``to_iceberg``."""

    def __init__(self, table: str, history: str | None) -> None:
        for option, name in (("table", table), ("history", history)):
            if name is not None:
                _check_table_name(option, name)
        super().__init__(table, history, lambda name: f"Iceberg {name}")

    def __repr__(self) -> str:
        return f"IcebergSink({self.table!r}, {self.history!r})"

    def check(self, schema: pa.Schema, keys: tuple[str, ...] | None) -> None:
        super().check(schema, keys)
        raise OptionError("sink", "to_iceberg", "isn't written in this process", "run it on Spark")

    def _write(self, batch: Batch) -> None:
        self.check(batch.schema, batch.keys)


def _check_table_name(option: str, name: str) -> None:
    if "`" in name or not all(part.strip() for part in name.split(".")):
        raise OptionError(option, name, "can't be a table of Iceberg", _HINT)
    if "." not in name:
        raise OptionError(option, name, "doesn't say its catalog", _HINT)


def to_iceberg(table: str, *, history: str | None = None) -> IcebergSink:
    """Store the newest state of every window in an Iceberg table.

    Results are merged by keys and window, one snapshot per batch: the greater revision wins, and
    retracted sessions are deleted. Pairs of joins and rejected messages are appended with their
    batch's number, in a column ``batch``, so none of their own columns can have this name. A
    repeated batch changes nothing: the snapshot that appended a batch names the query and the
    batch, even if another query writes to the same table. Keep snapshots for longer than a query
    may be down between a crash and its restart.

    A query in a session without such a catalog raises a ``SettingError`` when it starts, and one
    with columns that Iceberg can't store an ``OptionError``.

    Args:
        table: The table with its catalog: ``lake.db.worst``. It is created at the first batch if
            it doesn't exist; its namespace has to exist.
        history: Another table that keeps every emission, with the batch's number.

    Returns:
        The sink.

    Raises:
        OptionError: When a name can't be a table of a catalog.

    Example:
        >>> to_iceberg("lake.db.worst").table
        'lake.db.worst'
    """
    return IcebergSink(table, history)
