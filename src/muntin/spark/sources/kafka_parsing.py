"""Parses payloads that Spark's Kafka connector has read, with Spark's expressions."""

from __future__ import annotations

from functools import reduce
from typing import Any, Literal, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.sources.kafka_columns import KAFKA_COLUMNS, refuse_malformed
from muntin.sources.source import MALFORMED_COLUMN, MALFORMED_DETAIL_COLUMN
from muntin.spark.sources.decimals import LONG_TEXTS, exclude_long_numbers
from muntin.spark.sources.inputs import MARKS_MALFORMED

_CORRUPT = "__muntin_corrupt"
_PARSED = "__muntin_value"


def parse_rows(
    frame: DataFrame, form: str, columns: StructType | None, schema: str | None, *, several: bool
) -> DataFrame:
    """Return the connector's rows with their payloads as columns.

    Payloads without ``columns`` stay bytes or have an Avro schema. With ``several`` topics, a
    partition is named with its topic.
    """
    # Kafka stores -1 for a message without a timestamp.
    at = F.col("timestamp")
    frame = frame.withColumn("timestamp", F.when(F.unix_millis(at) >= 0, at))
    if several:
        frame = frame.withColumn("partition", F.concat_ws("-", "topic", "partition"))
    if form != "avro" and columns is None:
        return frame.withColumn("key", F.col("key").cast("string"))
    value, corrupt = _payload(frame, form, columns, schema)
    whole = frame.select("*", value.alias(_PARSED))
    names = [n for n in whole.select(f"{_PARSED}.*").columns if n != _CORRUPT]
    refuse_malformed(names)
    # A null in this column means well-formed, so a malformed null payload becomes empty bytes.
    raw = F.coalesce(F.col("value"), F.lit(b""))
    malformed = F.when(corrupt, raw).alias(MALFORMED_COLUMN, metadata={MARKS_MALFORMED: True})
    # Spark doesn't say which column is at fault.
    detail = F.when(corrupt, F.lit("not readable by Spark")).alias(MALFORMED_DETAIL_COLUMN)
    own = [name for name in KAFKA_COLUMNS if name not in names and name in frame.columns]
    return whole.select(
        *(F.col(f"{_PARSED}.`{name}`") for name in names),
        *(F.col(name).cast("string") if name == "key" else F.col(name) for name in own),
        malformed,
        detail,
    )


def _payload(
    frame: DataFrame, form: str, columns: StructType | None, schema: str | None
) -> tuple[Column, Column]:
    """Return the payload as a struct, and the condition that it couldn't be parsed."""
    if form == "avro":
        from pyspark.sql.avro.functions import from_avro

        value = from_avro("value", str(schema), {"mode": "PERMISSIVE"})
        # Spark parses a malformed payload as a record of nulls.
        fields = frame.select(value.alias(_PARSED)).select(f"{_PARSED}.*").columns
        nothing = [F.col(_PARSED)[name].isNull() for name in fields]
        return value, reduce(Column.__and__, nothing, F.lit(True))
    assert columns is not None
    parse: Any = F.from_json if form == "json" else F.from_csv
    parsed_as = StructType(columns.fields).add(_CORRUPT, "string")
    # `from_csv` only accepts a schema as text.
    emitted = parsed_as if form == "json" else parsed_as.toDDL()
    how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, **LONG_TEXTS}
    text = F.col("value").cast("string")
    value = parse(
        exclude_long_numbers(text, columns, cast('Literal["json", "csv"]', form)), emitted, how
    )
    parsed = F.col(_PARSED)
    return value, parsed.isNull() | parsed[_CORRUPT].isNotNull()
