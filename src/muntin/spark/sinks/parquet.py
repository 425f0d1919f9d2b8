"""Parquet files that Spark writes, all shards at once."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from muntin.model.errors import OptionError
from muntin.sinks.batch import Batch
from muntin.sinks.parquet import ParquetSink
from muntin.sinks.sink import BATCH
from muntin.spark.sources.naming import name_of


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
                folders.append(name_of(empty, "partition_by", one))
        self.sink.check_folders(folders, schema.names)

    def write(self, batch: Batch, *, few: bool) -> bool:
        """Write a batch's folder."""
        frame: DataFrame = batch.frame
        self.sink.check_names(frame.columns, None)
        names = []
        for one in self.sink.partition_by:
            if isinstance(one, Column):
                name = name_of(frame, "partition_by", one)
                frame = frame.withColumn(name, one)
            else:
                name = one
            names.append(name)
        if self.sink.files is not None:
            frame = frame.coalesce(self.sink.files)
        writer = frame.write.mode("overwrite")
        writer = writer.partitionBy(*names) if names else writer
        writer.parquet(f"{self.sink.table}/{BATCH}={batch.number}")
        return True
