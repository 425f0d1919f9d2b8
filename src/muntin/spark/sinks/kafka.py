"""Sends rows to a Kafka topic from Spark's workers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.model.pipeline import quote_name
from muntin.sinks.batch import Batch
from muntin.sinks.kafka import KafkaSink
from muntin.sinks.kafka_messages import VALUE_COLUMN
from muntin.sinks.unwritable import ROW_COLUMN, SINK_COLUMN, WHY_COLUMN
from muntin.sources.avro_schema import schema_of
from muntin.sources.payloads import HEAD
from muntin.sources.schema_registry import Registry
from muntin.spark.host.schema import polars_schema
from muntin.spark.sources.connector import connect


class KafkaWriter:
    """Sends the batches of ``to_kafka``."""

    def __init__(self, sink: KafkaSink) -> None:
        self.sink = sink

    def check(self, schema: StructType, keys: tuple[str, ...] | None) -> None:
        """Refuse a key that isn't a column."""
        self.sink.check_key(schema.names)

    def write(self, batch: Batch, *, few: bool) -> bool:
        """Send a batch from the workers."""
        if few and self.sink.form == "json":
            # Leave few rows to the sink: a Spark job takes longer than sending them from here.
            return False
        frame: DataFrame = batch.frame
        sender = self.sink.create_sender(batch, frame.columns)
        if sender.encoding.by_spark:
            frame = self._with_value(frame, sender.encoding.value)
        refused = frame.mapInArrow(sender, f"{ROW_COLUMN} string, {WHY_COLUMN} string")
        refused = refused.select(
            F.lit(self.sink.location).alias(SINK_COLUMN), WHY_COLUMN, ROW_COLUMN
        ).persist()
        if refused.isEmpty():
            refused.unpersist()
        else:
            batch.unwritable.frames.append(refused)
        return True

    def _with_value(self, frame: DataFrame, names: Sequence[str]) -> DataFrame:
        """Return rows with their message values, which Spark encodes as Avro."""
        from pyspark.sql.avro.functions import to_avro

        connect(frame.sparkSession)
        row = F.struct(*(F.col(quote_name(name)) for name in names))
        registry, schema = self.sink.registry, self.sink.schema
        if registry is None:
            value = to_avro(row) if schema is None else to_avro(row, schema)
            return frame.withColumn(VALUE_COLUMN, value)
        written = StructType([frame.schema[name] for name in names])
        text = schema or json.dumps(schema_of(polars_schema(written), "Row"))
        number = _register(registry, self.sink.topic, text)
        begin = F.lit(bytearray(number.to_bytes(HEAD, "big")))
        return frame.withColumn(VALUE_COLUMN, F.concat(begin, to_avro(row, text)))


@lru_cache(maxsize=100)
def _register(registry: Registry, topic: str, schema: str) -> int:
    """Return the number of a topic's schema in the registry, which is asked once."""
    return registry.register(topic, schema)
