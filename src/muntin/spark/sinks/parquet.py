"""Writes Parquet files with Spark, from all shards in parallel."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructType

from muntin.model.errors import OptionError
from muntin.model.pipeline import quote_name
from muntin.sinks.batch import Batch
from muntin.sinks.parquet import (
    CLAIM,
    HAS_NUL,
    MAX_NAME_BYTES,
    NULL_FOLDER,
    READS_AS_NULL,
    TOO_LONG,
    ParquetSink,
    refuse_claimed,
)
from muntin.sinks.sink import BATCH_COLUMN, warn_of_new_table
from muntin.sinks.unwritable import WHY_COLUMN
from muntin.spark.host.internals.hadoop_path import HadoopPath
from muntin.spark.host.internals.jvm import is_connected
from muntin.spark.sources.naming import name_expression

# The characters that Spark writes as %XX in the name of a folder.
_ESCAPED = r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]"""


class ParquetWriter:
    """Writes the batches of ``to_parquet``."""

    def __init__(self, sink: ParquetSink) -> None:
        self.sink = sink

    def check(self, schema: StructType, keys: tuple[str, ...] | None) -> None:
        """Refuse names that files or folders can't have."""
        self.sink.check_names(schema.names, keys)
        spark = SparkSession.getActiveSession()
        folders = []
        for one in self.sink.partition_by:
            if isinstance(one, str):
                self.sink.check_column(one, schema.names)
                folders.append(one)
            elif not isinstance(one, Column):
                hint = 'give the name of a column, or one of Spark: F.to_date("at").alias("day")'
                raise OptionError("partition_by", one, "isn't computed by Spark", hint)
            elif spark is not None:
                empty = spark.createDataFrame([], schema)
                folders.append(name_expression(empty, "partition_by", one))
        self.sink.check_folders(folders, schema.names)

    def write(self, batch: Batch, *, few: bool) -> bool:
        """Write a batch's folder."""
        frame: DataFrame = batch.frame
        self.sink.check_names(frame.columns, None)
        names, own = [], {name.lower() for name in frame.columns}
        for one in self.sink.partition_by:
            if isinstance(one, Column):
                name = name_expression(frame, "partition_by", one)
                frame = frame.withColumn(name, one)
            else:
                name = one
            names.append(name)
        frame = self._with_valid_folders(batch, frame, names, own)
        if self.sink.files is not None:
            frame = frame.coalesce(self.sink.files)
        if not is_connected(frame.sparkSession):
            self._claim_folder(frame.sparkSession, batch)
        writer = frame.write.mode("overwrite")
        writer = writer.partitionBy(*names) if names else writer
        writer.parquet(f"{self.sink.table}/{BATCH_COLUMN}={batch.number}")
        return True

    def _claim_folder(self, spark: SparkSession, batch: Batch) -> None:
        """Mark the folder as that of the query, or refuse it if it is another one's."""
        root = HadoopPath(spark, self.sink.table)
        if not root.exists():
            warn_of_new_table(f"Parquet {self.sink.table}", batch.number)
            self.sink.is_claimed = False
        if self.sink.is_claimed:
            return
        own = root / f"{CLAIM}{batch.query}"
        own.make_folder()
        if any(one.name.startswith(CLAIM) and one.name != own.name for one in root.children()):
            own.delete()
            raise refuse_claimed(self.sink.table)
        self.sink.is_claimed = True

    def _with_valid_folders(
        self, batch: Batch, frame: DataFrame, names: Sequence[str], own: Container[str]
    ) -> DataFrame:
        """Return rows whose folders have valid names, and set the others aside as unwritable.

        Args:
            batch: The batch.
            frame: Its rows, with the columns of folders.
            names: The columns of folders.
            own: The columns of the rows without those, in lower case.
        """
        texts = [n for n in names if isinstance(frame.schema[n].dataType, StringType | BinaryType)]
        if not texts or batch.empty:
            return frame
        lengths = {name: F.coalesce(_folder_length(name), F.lit(0)) for name in texts}
        why = F.lit(None).cast("string")
        for name, length in lengths.items():
            value = F.col(quote_name(name)).cast("string")
            why = (
                F.when(length > MAX_NAME_BYTES, F.format_string(TOO_LONG, F.lit(name), length))
                .when(F.contains(value, F.lit("\0")), F.lit(HAS_NUL % name))
                .when(F.lit(name.lower() in own) & value.isin("", NULL_FOLDER),
                      F.lit(READS_AS_NULL % name))
                .otherwise(why)
            )  # fmt: skip
        frame = frame.persist()
        try:
            rejected = (
                frame.where(why.isNotNull()).select(why.alias(WHY_COLUMN), *frame.columns).toArrow()
            )
        finally:
            frame.unpersist()
        if not rejected.num_rows:
            return frame
        batch.unwritable.add(
            rejected.drop_columns([WHY_COLUMN]), self.sink.table, rejected[WHY_COLUMN].to_pylist()
        )
        return frame.where(why.isNull())


def _folder_length(name: str) -> Column:
    """Return the length in bytes of the name of the folder that Spark uses for a value."""
    value = F.regexp_replace(F.col(quote_name(name)).cast("string"), _ESCAPED, "%00")
    column = re.sub(_ESCAPED, "%00", name)
    return F.octet_length(F.concat(F.lit(f"{column}="), value))
