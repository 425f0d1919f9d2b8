"""Parquet read in columns by the workers, where the input is nothing but Parquet files.

Spark hands messages to Python row by row, at some 200 ns each: more than all that a window then
does with them. A Parquet file holds columns, and a worker can read them as they are, forty times
cheaper. So where a DataFrame is a plain scan of local Parquet files, Spark lists the files, decides
which task reads what, and keeps the offsets, all as ever; but it sends **chunks** (a file and a row
number each), and the worker reads the rows.

Spark's reader and this one agree on what is admitted here; whatever else a frame does (a filter, an
expression, a nested type, another store) goes the ordinary way. ``spark.muntin.readParquet=false``
turns it off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import polars as pl
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, TimestampNTZType

from muntin.engine import columns
from muntin.model.errors import OptionError

SETTING = "spark.muntin.readParquet"
CHUNK = 65_536
"""Rows of a file that one row of ``chunks`` stands for."""
ROWS_AT_ONCE = 500_000

# Options that decide which files are read, not what is in them.
_LISTING = {
    "path",
    "maxfilespertrigger",
    "maxbytespertrigger",
    "latestfirst",
    "maxfileage",
    "filenameonly",
    "cleansource",
    "sourcearchivedir",
    "pathglobfilter",
    "recursivefilelookup",
    "modifiedbefore",
    "modifiedafter",
}
# Settings under which Spark reads files otherwise than they are written.
_UNUSUAL = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.parquet.binaryAsString",
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.caseSensitive",
)
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_PATH, _ROW, _NOW = "path", "row", "now"


def chunks(frame: DataFrame) -> DataFrame | None:
    """The files of a frame, cut into chunks; ``None`` where the frame is more than its files.

    Returns:
        Columns ``path``, ``row`` (the number of the chunk's first row in its file) and ``now``
        (the batch's wall clock in microseconds; local time for a frame without time zones).
    """
    if not _is_files(frame):
        return None
    zoneless = any(isinstance(field.dataType, TimestampNTZType) for field in frame.schema)
    row = F.col("_metadata.row_index")
    return frame.select(
        F.col("_metadata.file_path").alias(_PATH),
        row.alias(_ROW),
        F.unix_micros(_wall(zoneless)).alias(_NOW),
    ).where(F.col(_ROW) % CHUNK == 0)


def _wall(zoneless: bool) -> Column:
    now = F.current_timestamp()
    return F.from_utc_timestamp(now, F.current_timezone()) if zoneless else now


def _is_files(frame: DataFrame) -> bool:
    spark = frame.sparkSession
    if not hasattr(frame, "_jdf") or _is_on(spark, SETTING, "true") is False:
        return False
    if any(_is_on(spark, setting, "false") for setting in _UNUSUAL):
        return False
    if not all(isinstance(field.dataType, AtomicType) for field in frame.schema):
        return False
    found = _scan(frame._jdf.queryExecution().analyzed())
    return found is not None and _is_local(spark, found)


def _is_on(spark: SparkSession, setting: str, default: str) -> bool:
    return str(spark.conf.get(setting, default)).lower() == "true"


@dataclass(frozen=True)
class _Scan:
    paths: tuple[str, ...]


def _scan(plan: Any) -> _Scan | None:
    """The scan at the bottom of a plan that does nothing but name some of its columns."""
    kind = plan.getClass().getSimpleName()
    if kind == "Project":
        listed = plan.projectList()
        named = (listed.apply(i).getClass().getSimpleName() for i in range(listed.size()))
        return _scan(plan.child()) if set(named) == {"AttributeReference"} else None
    if kind == "SubqueryAlias":
        return _scan(plan.child())
    if kind == "StreamingRelation":
        source = plan.dataSource()
        if source.className() != "parquet":
            return None
        options = _strings(source.options())
        paths = [*_items(source.paths()), *([options["path"]] if "path" in options else [])]
    elif kind == "LogicalRelation" and plan.relation().getClass().getSimpleName() == (
        "HadoopFsRelation"
    ):
        relation = plan.relation()
        if str(relation.fileFormat().getClass().getSimpleName()) != "ParquetFileFormat":
            return None
        options = _strings(relation.options())
        roots = relation.location().rootPaths()
        paths = [roots.apply(i).toString() for i in range(roots.size())]
    else:
        return None
    return _Scan(tuple(paths)) if options.keys() <= _LISTING else None


def _items(sequence: Any) -> list[str]:
    return [str(sequence.apply(i)) for i in range(sequence.size())]


def _strings(options: Any) -> dict[str, str]:
    """A Scala map of strings, its names in lower case."""
    pairs, found = options.iterator(), {}
    while pairs.hasNext():
        pair = pairs.next()
        found[str(pair._1()).lower()] = str(pair._2())
    return found


def _is_local(spark: SparkSession, scan: _Scan) -> bool:
    default = spark._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")
    schemes = {urlsplit(p).scheme or urlsplit(default).scheme for p in scan.paths}
    return schemes == {"file"}


@dataclass(frozen=True)
class ParquetReader:
    """Reads chunks in a worker.

    Attributes:
        schema: The columns wanted, of the types that Spark would send.
        time: The event-time column.
        clock: The arrival-time column, if messages carry their own clock.
        max_ahead: How far ahead of the clock a time may be, in microseconds.
    """

    schema: dict[str, pl.DataType]
    time: str
    clock: str | None
    max_ahead: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
        """The rows of all chunks, flags added, in frames of a bounded number of rows."""
        for path, start, rows, now in _ranges(batches):
            yield self._flagged(self.read(_local(path), start, rows), now)

    def read(self, path: str, start: int, rows: int) -> pl.DataFrame:
        """Some rows of a file.

        Raises:
            OptionError: When a column's type isn't one that Spark's reader and this one agree on.
        """
        file = pl.scan_parquet(path, glob=False, hive_partitioning=False, parallel="none")
        held = file.collect_schema()
        folders = _partition_values(path)
        wanted = [self._column(name, held, folders, path) for name in self.schema]
        return file.slice(start, rows).select(wanted).collect()

    def _column(
        self, name: str, held: pl.Schema, folders: dict[str, str | None], path: str
    ) -> pl.Expr:
        dtype = self.schema[name]
        if name in folders:
            return pl.lit(folders[name]).cast(dtype).alias(name)
        same = [n for n in held if n == name] or [n for n in held if n.lower() == name.lower()]
        if not same:
            return pl.lit(None, dtype=dtype).alias(name)
        found = held[same[0]]
        column = pl.col(same[0])
        if len(same) > 1 or not _agrees(found, dtype):
            raise OptionError(
                name,
                found,
                f"is how {path} holds a column that is {dtype} here, and may be read otherwise "
                "than by Spark",
                f"set {SETTING} to false before the query is built",
            )
        if isinstance(found, pl.Datetime):
            # Spark's files hold nanoseconds (INT96), others milliseconds; time zones are labels.
            column = _micros(column.cast(pl.Int64), found.time_unit)
        return column.cast(dtype).alias(name)

    def _flagged(self, messages: pl.DataFrame, now: int) -> pl.DataFrame:
        """Add what Spark otherwise says of each message."""
        clock = pl.lit(now, dtype=pl.Int64)
        if self.clock is not None:
            clock = pl.col(self.clock).cast(pl.Int64)
            messages = messages.with_columns(pl.col(self.clock).alias(columns.CLOCK))
        if self.max_ahead is None:
            return messages
        ahead = pl.col(self.time).cast(pl.Int64) > clock + self.max_ahead
        return messages.with_columns(ahead.fill_null(False).alias(columns.FUTURE))


def _agrees(found: pl.DataType, wanted: pl.DataType) -> bool:
    """Whether both readers make the same of a column: the same type, or a wider one."""
    if found == wanted:
        return True
    if isinstance(found, pl.Datetime) and isinstance(wanted, pl.Datetime):
        return True
    signed = (pl.Int8, pl.Int16, pl.Int32, pl.Int64)
    if found in signed and wanted in signed:
        return signed.index(type(found)) <= signed.index(type(wanted))
    return found == pl.Float32 and wanted == pl.Float64


def _micros(number: pl.Expr, unit: str) -> pl.Expr:
    if unit == "ns":
        return number.floordiv(1000)
    return number * 1000 if unit == "ms" else number


def _ranges(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, int, int, int]]:
    """Neighbouring chunks as one range: path, first row, rows, wall clock."""
    waiting: tuple[str, int, int, int] | None = None
    for batch in batches:
        for path, row, now in zip(*(batch.column(c).to_pylist() for c in range(3)), strict=True):
            if waiting is not None:
                before, start, rows, _ = waiting
                if (path, row) == (before, start + rows) and rows + CHUNK <= ROWS_AT_ONCE:
                    waiting = (path, start, rows + CHUNK, now)
                    continue
                yield waiting
            waiting = (path, row, CHUNK, now)
    if waiting is not None:
        yield waiting


def _local(uri: str) -> str:
    return unquote(urlsplit(uri).path)


def _partition_values(path: str) -> dict[str, str | None]:
    """What the folders ``name=value`` above a file say."""
    pairs = (folder.partition("=") for folder in path.split("/")[:-1] if "=" in folder)
    found = {unquote(name): unquote(value) for name, _, value in pairs}
    return {name: None if value == _NO_VALUE else value for name, value in found.items()}
