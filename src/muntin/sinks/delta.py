"""Results and rejected messages in Delta tables."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from muntin.model.errors import OptionError
from muntin.sinks.batch import Batch
from muntin.sinks.sink import TableSink

# What no column of Delta's may have in its name, unless the table maps names.
_UNNAMEABLE = set(" ,;{}()\n\t=")
_HINT = "give a name of the catalog, or a path"


class DeltaSink(TableSink):
    """Delta tables; see ``to_delta``."""

    def __init__(self, table: str, history: str | None) -> None:
        for option, name in (("table", table), ("history", history)):
            if name is not None and ("`" in name or not name.strip("/ ")):
                raise OptionError(option, name, "can't be a table of Delta", _HINT)
        super().__init__(table, history, lambda name: f"Delta {name.rstrip('/')}")

    def __repr__(self) -> str:
        return f"DeltaSink({self.table!r}, {self.history!r})"

    def check(self, schema: pa.Schema, keys: tuple[str, ...] | None) -> None:
        super().check(schema, keys)
        raise OptionError("sink", "to_delta", "isn't written in this process", "run it on Spark")

    def check_names(self, names: Iterable[str], keys: tuple[str, ...] | None) -> None:
        listed = list(names)
        for name in listed:
            if wrong := _UNNAMEABLE & set(name):
                problem = f"has {sorted(wrong)[0]!r} in its name, which Delta's columns haven't"
                raise OptionError("column", name, problem, "give the column another name")
        super().check_names(listed, keys)

    def _write(self, batch: Batch) -> None:
        self.check(batch.schema, batch.keys)


def to_delta(table: str, *, history: str | None = None) -> DeltaSink:
    """Keep the newest state of every window in a Delta table.

    Results are merged by keys and window, the greater revision wins, a batch in one transaction;
    sessions that were taken back are deleted. Pairs of joins and rejected messages are appended
    with their batch's number, in a column ``batch``, which therefore none of theirs may be called.
    A repeated batch changes nothing: what was appended is known by the query and the batch
    (Delta's ``txnAppId`` and ``txnVersion``), also where another query writes to the same table.

    Args:
        table: The table: a name of the catalog, or a path (whatever has a ``/``). It is made at the
            first batch where it doesn't exist.
        history: Another table that keeps every emission, with the batch's number.

    A session without Delta is refused by a ``SettingError`` when the query starts; columns that
    Delta can't have, by an ``OptionError``.
    """
    return DeltaSink(table, history)
