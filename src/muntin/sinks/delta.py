"""Writes results and rejected messages to Delta tables."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any

import polars as pl
import pyarrow as pa

from muntin.engine import columns
from muntin.model.errors import MissingExtraError, OptionError
from muntin.model.option_types import parse_path
from muntin.sinks.batch import Batch
from muntin.sinks.frames import read_polars_rows, select_newest_revisions
from muntin.sinks.sink import (
    BATCH_COLUMN,
    TableSink,
    make_absolute,
    quote_ansi_name,
    warn_of_new_table,
)

# Characters that Delta doesn't allow in column names, unless the table maps names.
_UNNAMEABLE = set(" ,;{}()\n\t=")
_HINT = "give a name of the catalog, or a path"


class DeltaSink(TableSink):
    """Delta tables; see ``to_delta``."""

    takes_queries = True

    def __init__(self, table: str | PathLike[str], history: str | PathLike[str] | None) -> None:
        name = _parse_table("table", table)
        log = None if history is None else _parse_table("history", history)
        super().__init__(name, log, lambda one: make_absolute(one) if "/" in one else one)
        self.folders = tuple(one for one in self.tables if "/" in one)

    def __repr__(self) -> str:
        return f"DeltaSink({self.table!r}, {self.history!r})"

    def check(self, schema: pa.Schema, keys: tuple[str, ...] | None) -> None:
        super().check(schema, keys)
        _import_deltalake()
        for option, name in (("table", self.table), ("history", self.history)):
            if name is not None and "/" not in name:
                hint = "give a path (with a '/'), or run the query on Spark"
                raise OptionError(option, name, "is a name of Spark's catalog", hint)
        for field in schema:
            if pa.types.is_duration(field.type) or pa.types.is_time(field.type):
                problem = f"has type {field.type}, which Delta has no type for"
                hint = "cast it to a number or a string first"
                raise OptionError("column", field.name, problem, hint)

    def check_names(self, names: Iterable[str], keys: tuple[str, ...] | None) -> None:
        listed = list(names)
        for name in listed:
            if wrong := _UNNAMEABLE & set(name):
                problem = f"has {sorted(wrong)[0]!r} in its name, which Delta's columns haven't"
                raise OptionError("column", name, problem, "give the column another name")
        super().check_names(listed, keys)

    def _write(self, batch: Batch) -> None:
        rows = read_polars_rows(batch, f"Delta {self.table}").to_arrow()
        if batch.identity is not None:
            table = _open_or_create(self.table, rows.schema, batch.number)
            if len(rows):
                _merge_newest(table, rows, batch.identity)
        if (log := self.get_log_table(batch.keys)) is not None:
            number = pa.array([batch.number] * len(rows), pa.int64())
            _append_once(log, rows.append_column(BATCH_COLUMN, number), batch)


def _parse_table(option: str, table: str | PathLike[str]) -> str:
    """Return a table's name, or its path, with the user's home for ``~``."""
    name = parse_path(option, table)
    if "`" in name or not name.strip("/ "):
        raise OptionError(option, name, "can't be a table of Delta", _HINT)
    return f"./{name}" if isinstance(table, PathLike) and "/" not in name else name


def _import_deltalake() -> Any:
    try:
        import deltalake
    except ImportError as error:
        instead = "run the query on Spark"
        raise MissingExtraError("to_delta() in this process", "delta", instead) from error
    return deltalake


def _open_or_create(path: str, schema: pa.Schema, number: int) -> Any:
    """Open a table, creating it if it doesn't exist."""
    delta = _import_deltalake()
    if not delta.DeltaTable.is_deltatable(path):
        warn_of_new_table(f"Delta {path}", number)
        nullable = pa.schema([field.with_nullable(True) for field in schema])
        delta.DeltaTable.create(path, nullable, mode="ignore")
    return delta.DeltaTable(path)


def _merge_newest(table: Any, rows: pa.Table, identity: tuple[str, ...]) -> None:
    """Merge the newest revision of each window in one transaction."""
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    same = " AND ".join(
        f"(target.{quote_ansi_name(name)} IS NOT DISTINCT FROM source.{quote_ansi_name(name)})"
        for name in identity
    )
    newer = f"source.{columns.REVISION} >= target.{columns.REVISION}"
    is_retraction = f"source.{columns.EMISSION} = 'retract'"
    merger = table.merge(
        select_newest_revisions(frame, identity).to_arrow(), same, source_alias="source",
        target_alias="target",
    )  # fmt: skip
    merger = merger.when_matched_delete(f"{newer} AND {is_retraction}").when_matched_update_all(
        newer
    )
    merger.when_not_matched_insert_all(f"NOT ({is_retraction})").execute()


def _append_once(path: str, rows: pa.Table, batch: Batch) -> None:
    """Append rows, unless this query has appended the batch."""
    delta = _import_deltalake()
    table = _open_or_create(path, rows.schema, batch.number)
    writer = f"muntin {batch.query} {batch.kind}"
    last_batch = table.transaction_version(writer)
    if not len(rows) or (last_batch is not None and last_batch >= batch.number):
        return
    transaction = delta.Transaction(writer, batch.number)
    commit = delta.CommitProperties(app_transactions=[transaction])
    delta.write_deltalake(table, rows, mode="append", schema_mode="merge", commit_properties=commit)


def to_delta(
    table: str | PathLike[str], *, history: str | PathLike[str] | None = None
) -> DeltaSink:
    """Store the newest state of every window in a Delta table.

    Results are merged by keys and window, one transaction per batch: the greater revision wins, and
    retracted sessions are deleted. Pairs of joins and rejected messages are appended with their
    batch's number, in a column ``batch``, so none of their own columns can have this name. A
    repeated batch changes nothing: appended batches are recorded by query and number (Delta's
    ``txnAppId`` and ``txnVersion``), even if another query writes to the same table.

    In one process this needs the extra ``delta``. On Spark it needs Delta's jars: a query in a
    session without them raises a ``SettingError`` when it starts, and one with columns that Delta
    can't store an ``OptionError``.

    Args:
        table: The table: a path (anything with a ``/``, or of ``pathlib``), or on Spark a name in
            the catalog. It is created at the first batch if it doesn't exist.
        history: Another table that keeps every emission, with the batch's number.

    Returns:
        The sink.

    Example:
        >>> to_delta("lake/views", history="lake/views_history").table
        'lake/views'
    """
    return DeltaSink(table, history)
