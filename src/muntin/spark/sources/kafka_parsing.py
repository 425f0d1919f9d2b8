"""Payloads that Spark's Kafka connector has read, parsed by Spark row by row."""

from __future__ import annotations

from functools import reduce
from typing import Any, Literal, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.sources.kafka_columns import MALFORMED, OWN, refuse_malformed
from muntin.spark.sources.decimals import LONG_TEXTS, bounded
from muntin.spark.sources.inputs import MARKS_MALFORMED

_CORRUPT = "__muntin_corrupt"
_PARSED = "__muntin_value"


def parse_rows(
    frame: DataFrame, form: str, columns: StructType | None, schema: str | None, *, several: bool
) -> DataFrame:
    """The connector's rows with their payloads as columns.

    Args:
        frame: The rows of Spark's connector.
        form: The format of payloads.
        columns: The columns of a payload; ``None`` where it stays as it is or a schema says them.
        schema: The Avro schema.
        several: Whether there are several topics, so that a partition is named with its topic.
    """
    # Kafka writes -1 where a message has no time.
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
    # A null can't say that it is one: a payload that is null is kept as nothing.
    raw = F.coalesce(F.col("value"), F.lit(b""))
    malformed = F.when(corrupt, raw).alias(MALFORMED, metadata={MARKS_MALFORMED: True})
    own = [name for name in OWN if name not in names and name in frame.columns]
    return whole.select(
        *(F.col(f"{_PARSED}.`{name}`") for name in names),
        *(F.col(name).cast("string") if name == "key" else F.col(name) for name in own),
        malformed,
    )


def _payload(
    frame: DataFrame, form: str, columns: StructType | None, schema: str | None
) -> tuple[Column, Column]:
    """The payload as a struct, and whether it couldn't be parsed."""
    if form == "avro":
        from pyspark.sql.avro.functions import from_avro

        value = from_avro("value", str(schema), {"mode": "PERMISSIVE"})
        # What doesn't fit comes out as a record of nulls.
        fields = frame.select(value.alias(_PARSED)).select(f"{_PARSED}.*").columns
        nothing = [F.col(_PARSED)[name].isNull() for name in fields]
        return value, reduce(Column.__and__, nothing, F.lit(True))
    assert columns is not None
    parse: Any = F.from_json if form == "json" else F.from_csv
    parsed_as = StructType(columns.fields).add(_CORRUPT, "string")
    # CSV takes a schema only as text.
    emitted = parsed_as if form == "json" else parsed_as.toDDL()
    how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, **LONG_TEXTS}
    text = F.col("value").cast("string")
    value = parse(bounded(text, columns, cast('Literal["json", "csv"]', form)), emitted, how)
    parsed = F.col(_PARSED)
    return value, parsed.isNull() | parsed[_CORRUPT].isNotNull()
