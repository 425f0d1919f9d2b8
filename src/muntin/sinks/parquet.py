"""Writes rows to Parquet files, one folder per batch."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.engine.utf8 import frame_from_arrow
from muntin.model.errors import OptionError, SinkError
from muntin.model.option_types import check_count, check_local, parse_path
from muntin.sinks.batch import Batch
from muntin.sinks.sink import (
    BATCH_COLUMN,
    TableSink,
    make_absolute,
    report_refused,
    warn_of_new_table,
)
from muntin.state.disk import sync_path

# The maximum length of a folder's name in bytes, on nearly all file systems.
MAX_NAME_BYTES = 255
# The reasons for which no folder can hold a row.
TOO_LONG = f"the folder of %s has a name of %d bytes; file systems take {MAX_NAME_BYTES}"
HAS_NUL = "the folder of %s has the character NUL in its name; file systems don't take it"
READS_AS_NULL = "the folder of %s for this value is that of NULL, as which readers would take it"
# The folder name that readers interpret as NULL; Spark also uses it for empty text.
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
# The prefix of an empty folder that names the query whose rows a folder has. Readers ignore it.
CLAIM = ".query-"
# The characters that Spark writes as %XX in the name of a folder.
_ESCAPES = {
    char: f"%{ord(char):02X}" for char in [*map(chr, range(1, 32)), *"\"#%'*/:=?\\\x7f{[]^"]
}


class ParquetSink(TableSink):
    """Parquet files; see ``to_parquet``."""

    def __init__(
        self, path: str | PathLike[str], partition_by: Sequence[Any] = (), files: int | None = None
    ) -> None:
        super().__init__(parse_path("path", path).rstrip("/"), None, make_absolute)
        self.folders = self.tables
        self.partition_by = tuple(partition_by)
        self.files = files
        self._root = Path(self.table.removeprefix("file://"))
        # Whether the folder is known to be that of the query.
        self.is_claimed = False

    def prepare(self) -> None:
        """Keep to the folder, should the process change its own; another query may use it now."""
        self._root = self._root.absolute()
        self.is_claimed = False

    def check(self, schema: pa.Schema, keys: tuple[str, ...] | None) -> None:
        super().check(schema, keys)
        check_local("path", self.table.removeprefix("file://"))
        names = [name for name, _ in self._list_folders(schema.names)]
        self.check_folders(names, schema.names)

    def check_folders(self, folders: Sequence[str], names: Sequence[str]) -> None:
        """Refuse folders that are named twice, or that leave no column for the files."""
        if BATCH_COLUMN in {one.lower() for one in folders}:
            problem = "is the name of the folders of batches"
            raise OptionError("partition_by", BATCH_COLUMN, problem, "give it another name")
        if len({*folders}) < len(folders) or {*names} <= {*folders}:
            hint = "name each once, and leave one column for the files"
            raise OptionError("partition_by", ", ".join(folders), "can't be folders", hint)

    def check_column(self, name: str, names: Sequence[str]) -> None:
        """Refuse a folder's column that isn't one of the rows' columns."""
        if name not in names:
            hint = f"give some of {', '.join(names)}, or an expression with a name"
            raise OptionError("partition_by", name, "isn't a column", hint)

    def check_names(self, names: Iterable[str], keys: tuple[str, ...] | None) -> None:
        # Readers would get the number of the folder instead of the column.
        super().check_names(names, None)

    def _list_folders(self, names: Sequence[str]) -> list[tuple[str, pl.Expr]]:
        """Return the columns whose values are folders, with their expressions."""
        folders = []
        for column in self.partition_by:
            if isinstance(column, str):
                self.check_column(column, names)
                folders.append((column, pl.col(column)))
            elif isinstance(column, pl.Expr):
                folders.append((column.meta.output_name(), column))
            else:
                hint = "give the name of a column, or an expression of Polars with an alias"
                raise OptionError("partition_by", column, "isn't computed in this process", hint)
        return folders

    def _write(self, batch: Batch) -> None:
        rows = batch.table()
        self.check_names(rows.column_names, None)
        root = self._root
        target = root / f"{BATCH_COLUMN}={batch.number}"
        # Readers of the folder ignore hidden names.
        staging = root / f".{target.name}.writing"
        if not root.exists():
            warn_of_new_table(f"Parquet {self.table}", batch.number)
            self.is_claimed = False
        if not self.is_claimed and batch.query:
            _claim_folder(root, batch, self.table)
            self.is_claimed = True
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        refused = self._write_files(rows, staging)
        report_refused(batch, rows, refused, self.table)
        for path in (*staging.rglob("*"), staging):
            sync_path(path)
        _replace_folder(staging, target)

    def _write_files(self, rows: pa.Table, root: Path) -> dict[int, str]:
        """Write one file per folder; return the rows that no folder can hold, with reasons."""
        folders = self._list_folders(rows.column_names)
        if not folders:
            pq.write_table(rows, root / "part-0.parquet")
            return {}
        names = [_format_folder_name(name, value) for name, value in folders]
        whole = frame_from_arrow(rows)
        frame = whole.select(names)
        texts = whole.select(value.cast(pl.String).alias(name) for name, value in folders)
        refused: dict[int, str] = {}
        for name in frame.columns:
            sizes = frame[name].str.len_bytes()
            for row in (sizes > MAX_NAME_BYTES).arg_true():
                refused[row] = TOO_LONG % (name, sizes[row])
            for row in frame[name].str.contains("\0", literal=True).arg_true():
                refused[row] = HAS_NUL % name
            if name in rows.column_names:
                # The files don't have the column, so two keys would become one.
                for row in texts[name].is_in(["", NULL_FOLDER]).arg_true():
                    refused[row] = READS_AS_NULL % name
        rest = rows.select([name for name in rows.column_names if name not in frame.columns])
        paths = frame.select(path=pl.concat_str(pl.all(), separator="/")).with_row_index("row")
        paths = paths.filter(~pl.col("row").is_in([*refused]))
        for path, row_numbers in paths.group_by("path", maintain_order=True).agg("row").iter_rows():
            folder = root / path
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(rest.take(pa.array(row_numbers, pa.int64())), folder / "part-0.parquet")
        if paths.is_empty():
            # Without any value there is no folder, but readers still need the other columns.
            pq.write_table(rest.slice(0, 0), root / "part-0.parquet")
        return dict(sorted(refused.items()))


def _claim_folder(root: Path, batch: Batch, table: str) -> None:
    """Mark a folder as that of a query with a checkpoint; refuse it if it is another one's."""
    own = root / f"{CLAIM}{batch.query}"
    if batch.has_checkpoint:
        own.mkdir(parents=True, exist_ok=True)
    if any(one.name != own.name for one in root.glob(f"{CLAIM}*")):
        if batch.has_checkpoint:
            own.rmdir()
        raise refuse_claimed(table)


def refuse_claimed(table: str) -> SinkError:
    """Return the error of a folder that has the rows of another query."""
    return SinkError(
        f"Parquet {table} has the rows of another query (or of an earlier checkpoint), which this "
        "one would replace. Give each query a folder of its own, or remove the whole folder"
    )


def _format_folder_name(name: str, value: pl.Expr) -> pl.Expr:
    """Return an expression for the name of the folder of a column's value."""
    text = value.cast(pl.String)
    text = pl.when(text != "").then(text.str.replace_many(_ESCAPES))
    column = "".join(_ESCAPES.get(char, char) for char in name)
    folder = pl.concat_str(pl.lit(f"{column}="), text.fill_null(NULL_FOLDER))
    return folder.alias(name)


def _replace_folder(staging: Path, target: Path) -> None:
    """Replace a folder that an earlier attempt may have left."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    staging.rename(target)
    sync_path(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def to_parquet(
    path: str | PathLike[str], *, partition_by: Any = (), files: int | None = None
) -> ParquetSink:
    """Store every row in Parquet under ``path``, one folder per batch.

    A repeated batch replaces its folder. Readers of the folder see all rows, with the batch's
    number in the column ``batch``, so no other column can have this name. A batch without
    rows creates no folder, except the first one after a start, so that there are columns to read.
    The folder belongs to one query and its checkpoint, which an empty folder in it names. Another
    query would replace its batches, and ends with a ``SinkError``. A query without a checkpoint
    begins anew each time, and replaces the batches of its earlier runs.

    Args:
        path: The folder.
        partition_by: Columns by whose values a batch's rows are split into folders, so that a
            reader of one value reads only its files: names, or expressions with names. On Spark
            these are Spark's (``F.to_date("window_start").alias("day")``), in one process those of
            Polars (``pl.col("window_start").dt.date().alias("day")``). A row whose folder's name
            would be longer than 255 bytes is set aside as unwritable, and so is one with empty
            text in such a column of its own, which would come back as NULL.
        files: The maximum number of files per folder and batch. Default: on Spark one per shard,
            in one process one.

    Returns:
        The sink. A query that starts with it raises an ``OptionError`` if a column of
        ``partition_by`` isn't one of its own.

    Raises:
        OptionError: When ``files`` is less than one.

    Example:
        >>> to_parquet("out", partition_by="country").table
        'out'
    """
    check_count("files", files)
    several = isinstance(partition_by, Sequence) and not isinstance(partition_by, str)
    return ParquetSink(path, partition_by if several else [partition_by], files)
