"""Rows in Parquet files, a folder a batch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from os import PathLike, fspath

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructType

from muntin.model.errors import OptionError
from muntin.model.pipeline import quoted
from muntin.spark.sinks.batch import Batch
from muntin.spark.sinks.sink import BATCH, TableSink
from muntin.spark.sinks.unstorable import WHY
from muntin.spark.sources.naming import name_of

# How many bytes the name of a folder has at most, on nearly all file systems.
_LONGEST_NAME = 255
# The characters that Spark writes as %XX in the name of a folder.
_ESCAPED = r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]"""


class ParquetSink(TableSink):
    """Parquet files; see ``to_parquet``."""

    def __init__(
        self,
        path: str | PathLike[str],
        partition_by: Sequence[Column | str] = (),
        files: int | None = None,
    ) -> None:
        super().__init__(fspath(path).rstrip("/"), None, str)
        self.partition_by = tuple(partition_by)
        self.files = files

    def check(self, schema: StructType, keys: tuple[str, ...] | None) -> None:
        super().check(schema, keys)
        named = [one for one in self.partition_by if isinstance(one, str)]
        for name in named:
            if name not in schema.names:
                hint = f"give some of {', '.join(schema.names)}, or an expression with a name"
                raise OptionError("partition_by", name, "isn't a column", hint)
        spark = SparkSession.getActiveSession()
        if spark is not None and len(named) < len(self.partition_by):
            empty = spark.createDataFrame([], schema)
            named += [name_of(empty, "partition_by", one) for one in self._computed]
        if len({*named}) < len(named) or {*schema.names} <= {*named}:
            hint = "name each once, and leave one column for the files"
            raise OptionError("partition_by", ", ".join(named), "can't be folders", hint)

    @property
    def _computed(self) -> list[Column]:
        return [one for one in self.partition_by if isinstance(one, Column)]

    def _write(self, batch: Batch) -> None:
        frame = batch.frame
        self._check_names(frame.columns, None)
        names = [one for one in self.partition_by if isinstance(one, str)]
        for one in self._computed:
            names.append(name_of(frame, "partition_by", one))
            frame = frame.withColumn(names[-1], one)
        frame = self._with_short_folders(batch, frame, names)
        if self.files is not None:
            frame = frame.coalesce(self.files)
        writer = frame.write.mode("overwrite")
        writer = writer.partitionBy(*names) if names else writer
        writer.parquet(f"{self.table}/{BATCH}={batch.number}")

    def _with_short_folders(
        self, batch: Batch, frame: DataFrame, names: Sequence[str]
    ) -> DataFrame:
        """Rows whose folders a file system can have; the others are set aside."""
        texts = [n for n in names if isinstance(frame.schema[n].dataType, StringType | BinaryType)]
        if not texts or batch.empty:
            return frame
        lengths = {name: F.coalesce(_folder_length(name), F.lit(0)) for name in texts}
        too_long = F.lit(False)
        why = F.lit("")
        for name, length in lengths.items():
            too_long = too_long | (length > _LONGEST_NAME)
            said = f"the folder of {name} has a name of %s bytes; file systems take {_LONGEST_NAME}"
            why = F.when(length > _LONGEST_NAME, F.format_string(said, length)).otherwise(why)
        frame = frame.persist()
        try:
            aside = frame.where(too_long).select(why.alias(WHY), *frame.columns).toArrow()
        finally:
            frame.unpersist()
        if not aside.num_rows:
            return frame
        batch.letters.add(aside.drop_columns([WHY]), self.table, aside[WHY].to_pylist())
        return frame.where(~too_long)

    def _check_names(self, names: Iterable[str], keys: tuple[str, ...] | None) -> None:
        # Who reads the folder would get its number in place of the column.
        super()._check_names(names, None)


def _folder_length(name: str) -> Column:
    """The bytes in the name of the folder that Spark makes for a column's value."""
    value = F.regexp_replace(F.col(quoted(name)).cast("string"), _ESCAPED, "%00")
    column = re.sub(_ESCAPED, "%00", name)
    return F.octet_length(F.concat(F.lit(f"{column}="), value))


def to_parquet(
    path: str | PathLike[str],
    *,
    partition_by: Column | str | Sequence[Column | str] = (),
    files: int | None = None,
) -> ParquetSink:
    """Keep every row in Parquet under ``path``, a folder a batch.

    A repeated batch replaces its folder. ``spark.read.parquet(path)`` shows all rows, with the
    batch's number in the column ``batch``, which therefore no other column may be called. A batch
    without rows makes no folder, but the first one after a start does, so that there are columns
    to read.

    Args:
        path: The folder.
        partition_by: Columns by whose values a batch's rows lie in folders of their own, so that
            who asks for one value reads its files only: names, or expressions with names
            (``F.to_date("window_start").alias("day")``). A row whose folder's name would be longer
            than 255 bytes is set aside as unwritable.
        files: In how many files at most a batch's rows lie, of each folder; in as many as there are
            shards where it isn't said.

    A column that isn't there is refused by an ``OptionError`` when the query starts.
    """
    if files is not None and files < 1:
        raise OptionError("files", files, "is less than one", "give 1 or more")
    by = [partition_by] if isinstance(partition_by, Column | str) else list(partition_by)
    return ParquetSink(path, by, files)
