"""Reads Parquet files in the workers, by columns, where the input is a plain scan of them.

Spark hands messages to Python row by row, at some 200 ns each, which is more than a window then
needs for them. A worker can read the columns of a Parquet file directly, forty times cheaper. So
where a streaming DataFrame is a plain scan of local Parquet files, Spark still lists the files,
assigns them to tasks and stores the offsets, but it sends paths, and the worker reads the rows. The
rows of a large file are divided among several tasks.

This reader only takes inputs that it reads exactly as Spark does. Any other frame (with a filter,
an expression, a nested type or another file system) is read by Spark.
``spark.muntin.readParquet=false`` turns this reader off.
"""

from __future__ import annotations

import os
import socket
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from glob import iglob
from itertools import islice
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType

from muntin.engine.admission import Flags
from muntin.engine.utf8 import GARBLED, frame_from_arrow
from muntin.model.errors import OptionError, SourceError
from muntin.sinks.parquet import NULL_FOLDER
from muntin.spark.host.internals.jvm import default_files, working_directory
from muntin.spark.host.internals.plans import find_bare_source, is_seen
from muntin.spark.host.messages import ROWS_AT_ONCE

SETTING = "spark.muntin.readParquet"

# Options that select files, and don't change how they are read.
_LISTING = {
    "path", "maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "filenameonly",
    "cleansource", "sourcearchivedir", "pathglobfilter", "recursivefilelookup", "modifiedbefore",
    "modifiedafter",
}  # fmt: skip
# Settings that change what Spark reads from a file.
_UNUSUAL = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.parquet.binaryAsString",
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.caseSensitive",
)
# Least number of rows that is worth a task of its own.
_ROWS_OF_A_PART = 250_000
_MOST_PARTS = 4
_FILES_LOOKED_AT = 1000
_LAST_NANOSECOND = 2**63 - 1
_FILE = "path string, modificationTime timestamp, length long, content binary"


def list_file_parts(frame: DataFrame, now: Column) -> tuple[DataFrame, str | None] | None:
    """Return the files of a streaming frame that is a plain scan of them.

    The frame has a row for each part of a file, with the columns ``path``, ``now``, ``part`` and
    ``parts``. Beside it is the folder below which names of folders may be columns, if any. ``None``
    where the frame is more than a scan.
    """
    spark = frame.sparkSession
    if not (frame.isStreaming and is_seen(frame) and _has_usual_settings(spark)):
        return None
    if not all(isinstance(field.dataType, AtomicType) for field in frame.schema):
        return None
    source = find_bare_source(frame)
    if source is None or source.name != "parquet" or not source.options.keys() <= _LISTING:
        return None
    options = source.options
    if "path" not in options or not _is_local(spark, options["path"]):
        return None
    reader = spark.readStream.format("binaryFile").schema(_FILE).options(**options)
    path = _absolute(spark, options["path"])
    listed = _split_files(reader.load().select("path", now.alias("now")), path)
    return listed, _root(path)


def make_lost_file_error(path: str, host: str) -> SourceError:
    """Return the error of a file that Spark has listed, and that isn't on the machine of a task."""
    return SourceError(
        f"{_strip_scheme(path)} isn't on {host}: it was deleted, or that machine doesn't share the "
        "folder. Restore the file, or give a folder that all machines share"
    )


def _split_files(files_frame: DataFrame, path: str) -> DataFrame:
    """Repeat each file of a list for each of its parts, so that several tasks can read it.

    The number of parts follows from the largest file that exists when the query is built. All files
    stay one source, since the number of sources is fixed by the checkpoint. So the query resumes
    with another number of parts when files have grown or there are more cores.
    """
    folder = os.path.join(path, "**") if os.path.isdir(path) else path
    files_of_source = islice(iglob(folder, recursive=True), _FILES_LOOKED_AT)
    largest = max(
        (f for f in files_of_source if os.path.isfile(f)), key=os.path.getsize, default=None
    )
    cores = files_frame.sparkSession.sparkContext.defaultParallelism
    parts = max(1, min(cores, _MOST_PARTS, _count_rows(largest) // _ROWS_OF_A_PART))
    counted = files_frame.withColumn("parts", F.lit(parts))
    if parts == 1:
        return counted.withColumn("part", F.lit(0))
    # The parts of a file go to consecutive tasks; many files are spread over all cores.
    numbers = F.sequence(F.lit(0), F.lit(parts - 1))
    first = F.crc32(F.encode("path", "UTF-8")) % (cores - parts + 1)
    task = (F.col("part") + first).cast("int")
    return counted.withColumn("part", F.explode(numbers)).repartitionById(cores, task)


def _count_rows(path: str | None) -> int:
    """Return the number of rows of a file; 0 if it can't be read, which its reader reports."""
    if path is None:
        return 0
    try:
        return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    except (OSError, pl.exceptions.PolarsError):
        return 0


def _has_usual_settings(spark: SparkSession) -> bool:
    wanted = {SETTING: "true", **dict.fromkeys(_UNUSUAL, "false")}
    return all(str(spark.conf.get(s, v)).lower() == v for s, v in wanted.items())


def _root(path: str) -> str | None:
    """Return the folder of a source; ``None`` for a pattern, where Spark derives no columns."""
    return None if any(c in path for c in "{}[]*?\\") else os.path.normpath(path)


def _absolute(spark: SparkSession, path: str) -> str:
    """Return the absolute path of a source, relative to the JVM's folder, as Spark resolves it."""
    return os.path.join(working_directory(spark), _strip_scheme(path))


def _strip_scheme(path: str) -> str:
    """Return a local path without the ``file:`` scheme that Spark adds; Spark escapes nothing."""
    return "/" + path[len("file:") :].lstrip("/") if path.startswith("file:") else path


def _is_local(spark: SparkSession, path: str) -> bool:
    return (urlsplit(path).scheme or urlsplit(default_files(spark)).scheme) == "file"


@dataclass(frozen=True)
class ParquetReader:
    """Reads files in a worker.

    Attributes:
        schema: The columns to read, with the types that Spark would send.
        root: The folder below which folders named ``name=value`` are columns, if there is one.
    """

    schema: dict[str, pl.DataType]
    root: str | None
    flags: Flags

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
        """Yield the rows of all files with their flags, in frames of bounded size."""
        for batch in batches:
            for file in batch.to_pylist():
                for messages in self.read(_strip_scheme(file["path"]), file["part"], file["parts"]):
                    yield self.flags.add(messages, file["now"])

    def read(self, path: str, part: int = 0, parts: int = 1) -> Iterator[pl.DataFrame]:
        """Yield the rows of one part of a file, or refuse a type that Spark reads differently."""
        if not os.path.exists(path):
            raise make_lost_file_error(path, socket.gethostname())
        file = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        first, end = _row_range(path, file.select(pl.len()).collect().item(), part, parts)
        if first == end:
            return
        held, folders = file.collect_schema(), _partition_values(path, self.root)
        wanted = file.select(self._read_column(name, held, folders, path) for name in self.schema)
        for start in range(first, end, ROWS_AT_ONCE):
            try:
                rows = wanted.slice(start, min(ROWS_AT_ONCE, end - start)).collect()
            except pl.exceptions.ComputeError as error:
                if "UTF-8" not in str(error):
                    raise
                # Polars can't read a file that has any text that isn't UTF-8; Arrow can.
                yield from self._read_by_arrow(path, start, end, folders)
                return
            nanoseconds = [name for name, dtype in held.items() if dtype == pl.Datetime("ns")]
            if nanoseconds and _may_be_cut_off(rows, nanoseconds):
                yield from self._read_by_arrow(path, start, end, folders)
                return
            yield rows

    def _read_by_arrow(
        self, path: str, first: int, end: int, folders: dict[str, str | None]
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of a file that Polars can't read faithfully."""
        names_by_case = {name.lower(): name for name in self.schema}
        held = pq.read_schema(path).names
        names = [name for name in held if name.lower() in names_by_case]
        names_in_schema = [names_by_case[name.lower()] for name in names]
        before = 0
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=names):
                start, stop = max(first - before, 0), min(end - before, batch.num_rows)
                before += batch.num_rows
                if start < stop:
                    table = pa.Table.from_batches([batch.slice(start, stop - start)])
                    # Keep names that differ only by case: `_column` refuses them.
                    are_unique = len({*names_in_schema}) == len(names_in_schema)
                    yield self._select_columns(
                        table.rename_columns(names_in_schema) if are_unique else table,
                        folders,
                        path,
                    )

    def _select_columns(
        self, table: pa.Table, folders: dict[str, str | None], path: str
    ) -> pl.DataFrame:
        rows = frame_from_arrow(table)
        held = rows.drop(GARBLED, strict=False).schema
        marks = [pl.col(GARBLED)] if GARBLED in rows.columns else []
        return rows.select(
            *(self._read_column(name, held, folders, path) for name in self.schema), *marks
        )

    def _read_column(
        self, name: str, held: pl.Schema, folders: dict[str, str | None], path: str
    ) -> pl.Expr:
        dtype = self.schema[name]
        if name in folders:
            if isinstance(dtype, pl.Datetime):
                raise self._type_error(name, pl.String(), path)
            return _folder_value(folders[name], dtype).alias(name)
        candidates = [n for n in held if n == name] or [
            n for n in held if n.lower() == name.lower()
        ]
        if not candidates:
            return pl.lit(None, dtype=dtype).alias(name)
        stored_type = held[candidates[0]]
        if len(candidates) > 1 or not _reads_alike(stored_type, dtype):
            raise self._type_error(name, stored_type, path)
        column = pl.col(candidates[0])
        if isinstance(stored_type, pl.Datetime):
            # Spark writes nanoseconds (INT96), other writers milliseconds. Ignore the time zone,
            # which doesn't change the instant.
            column = _to_micros(column.cast(pl.Int64), stored_type.time_unit)
        return column.cast(dtype).alias(name)

    def _type_error(self, name: str, stored_type: pl.DataType, path: str) -> OptionError:
        problem = (
            f"is the type of a column in {path} that is {self.schema[name]} here, and Spark may "
            "read it differently"
        )
        return OptionError(
            name, stored_type, problem, f"set {SETTING} to false before the query is built"
        )


def _may_be_cut_off(rows: pl.DataFrame, names: Sequence[str]) -> bool:
    """Return whether a time may exceed the nanoseconds' range, where Polars returns its end."""
    names_by_case = {name.lower(): name for name in rows.columns}
    times = (rows[names_by_case[name.lower()]] for name in names if name.lower() in names_by_case)
    numbers = (time.cast(pl.Int64) for time in times if isinstance(time.dtype, pl.Datetime))
    return any((time == _LAST_NANOSECOND // 1000).any() for time in numbers)


def _row_range(path: str, rows: int, part: int, parts: int) -> tuple[int, int]:
    """Return the range of a file's rows that a part reads, as its first row and its end.

    Consecutive parts read consecutive rows, so the order of tasks is the order of events. The part
    that reads the first rows depends on the file's name, so that many small files are spread over
    all parts.
    """
    shares = max(1, min(parts, rows // _ROWS_OF_A_PART))
    share = part - zlib.crc32(path.encode()) % (parts - shares + 1)
    if not 0 <= share < shares:
        return 0, 0
    return rows * share // shares, rows * (share + 1) // shares


def _folder_value(value: str | None, dtype: pl.DataType) -> pl.Expr:
    """Return the value in a folder's name as a column."""
    if value is not None and dtype == pl.Date:
        return pl.lit(date.fromisoformat(value))
    if value is not None and dtype == pl.Boolean:
        return pl.lit(value.lower() == "true")
    return pl.lit(value).cast(dtype)


def _reads_alike(stored: pl.DataType, wanted: pl.DataType) -> bool:
    """Return whether Spark and this reader read a column alike: as its own type or a wider one."""
    if stored == wanted:
        return True
    if isinstance(stored, pl.Datetime) and isinstance(wanted, pl.Datetime):
        return True
    signed = (pl.Int8, pl.Int16, pl.Int32, pl.Int64)
    if stored in signed and wanted in signed:
        return signed.index(type(stored)) <= signed.index(type(wanted))
    return stored == pl.Float32 and wanted == pl.Float64


def _to_micros(number: pl.Expr, unit: str) -> pl.Expr:
    if unit == "ns":
        return number.floordiv(1000)
    return number * 1000 if unit == "ms" else number


def _partition_values(path: str, root: str | None) -> dict[str, str | None]:
    """Return the values of the folders ``name=value`` between the root and a file."""
    if root is None:
        return {}
    above = PurePosixPath(path).relative_to(root).parts[:-1]
    pairs = (folder.partition("=") for folder in above if "=" in folder)
    values = {unquote(name): unquote(value) for name, _, value in pairs}
    return {name: None if value == NULL_FOLDER else value for name, value in values.items()}
