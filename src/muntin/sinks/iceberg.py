"""Results and rejected messages in Iceberg tables."""

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
                _check_table(option, name)
        super().__init__(table, history, lambda name: f"Iceberg {name}")

    def __repr__(self) -> str:
        return f"IcebergSink({self.table!r}, {self.history!r})"

    def check(self, schema: pa.Schema, keys: tuple[str, ...] | None) -> None:
        super().check(schema, keys)
        raise OptionError("sink", "to_iceberg", "isn't written in this process", "run it on Spark")

    def _write(self, batch: Batch) -> None:
        self.check(batch.schema, batch.keys)


def _check_table(option: str, name: str) -> None:
    if "`" in name or not all(part.strip() for part in name.split(".")):
        raise OptionError(option, name, "can't be a table of Iceberg", _HINT)
    if "." not in name:
        raise OptionError(option, name, "doesn't say its catalog", _HINT)


def to_iceberg(table: str, *, history: str | None = None) -> IcebergSink:
    """Keep the newest state of every window in an Iceberg table.

    Results are merged by keys and window, the greater revision wins, a batch in one snapshot;
    sessions that were taken back are deleted. Pairs of joins and rejected messages are appended
    with their batch's number, in a column ``batch``, which therefore none of theirs may be called.
    A repeated batch changes nothing: the snapshot by which a batch was appended names the query and
    the batch, also where another query writes to the same table. (So keep snapshots for longer than
    a query may stand still between a crash and its restart.)

    Args:
        table: The table, with its catalog: ``lake.db.worst``. It is made at the first batch where
            it doesn't exist; its namespace has to.
        history: Another table that keeps every emission, with the batch's number.

    Returns:
        The sink, for queries on Spark. One that starts without such a catalog raises a
        ``SettingError``, and one with columns that Iceberg has no type for an ``OptionError``.

    Raises:
        OptionError: When a name can't be a table of a catalog.

    Example:
        >>> to_iceberg("lake.db.worst").table
        'lake.db.worst'
    """
    return IcebergSink(table, history)
