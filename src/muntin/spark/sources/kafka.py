"""Reads topics of Kafka as DataFrames, with payloads as columns.

The workers read topics themselves where they can. All other topics are read by Spark's own
connector, which ``connector`` provides. A payload that can't be parsed is marked as malformed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any, Literal, cast

import polars as pl
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from muntin.model.errors import OptionError, SettingError
from muntin.model.references import resolve_all
from muntin.model.secrets import list_references
from muntin.sources.ddl import plain_columns
from muntin.sources.kafka import InColumns, KafkaTopics
from muntin.sources.kafka_broker import PATIENCE, starting_of
from muntin.sources.kafka_client import refuse_librdkafkas
from muntin.sources.kafka_columns import KAFKA_COLUMNS, refuse_malformed
from muntin.sources.source import MALFORMED_COLUMN, MALFORMED_DETAIL_COLUMN
from muntin.spark.host.internals.versions import BOUNDS_BATCHES
from muntin.spark.host.schema import polars_schema, spark_schema
from muntin.spark.host.zones import ZONE_SETTING
from muntin.spark.security_settings import hide_secrets
from muntin.spark.sources.connector import connect
from muntin.spark.sources.decimals import LONG_TEXTS, exclude_long_numbers
from muntin.spark.sources.kafka_rows import KafkaRows, read_topic_rows
from muntin.spark.sources.malformed import MARKS_MALFORMED, UNREADABLE

_LOG = logging.getLogger(__name__)
_CORRUPT = "__muntin_corrupt"
_PARSED = "__muntin_value"


def read_topics(topics: KafkaTopics, spark: SparkSession, *, streaming: bool) -> DataFrame:
    """Return the messages of topics, with the columns of their payloads, as a DataFrame.

    Without ``streaming`` it has the messages that the topics hold now.
    """
    described = topics.with_registered_schema()
    if judge_columns(described):
        return _read_in_columns(described, spark, streaming=streaming)
    return _load(described, spark, spark.readStream if streaming else spark.read)


def judge_columns(topics: KafkaTopics) -> InColumns:
    """Return whether Spark's workers read topics in columns, for ``Kafka.in_columns``."""
    required = _columns_required(topics)
    if topics.reader == "spark":
        if required:
            hint = "leave out one of both"
            raise OptionError(*required[0], "isn't possible: reader='spark'", hint)
        return _by_connector(topics, "reader='spark'")
    if not BOUNDS_BATCHES:
        if required:
            hint = "leave it out, or take a newer Spark"
            raise OptionError(*required[0], "needs Spark 4.2", hint)
        return _by_connector(topics, "this Spark is older than 4.2")
    reason = _with_types(topics).find_obstacle()
    if reason and required:
        option, value = required[0]
        hint = "leave out one of both"
        raise OptionError(option, value, f"isn't possible: {reason}", hint)
    if reason:
        return _by_connector(topics, reason)
    topics.check_client("read with Spark's connector: reader='spark'")
    return InColumns("")


def _columns_required(topics: KafkaTopics) -> list[tuple[str, str | None]]:
    """Return the options that require reading in columns, since Spark's connector lacks them."""
    only: list[tuple[str, str | None, bool]] = [
        ("reader", topics.reader, topics.reader == "columns"),
        ("registry", "…", topics.registry is not None),
        ("format", topics.form, topics.message is not None),
        ("group", topics.group, topics.group is not None),
        ("bytes_per_batch", str(topics.bytes_per_batch), topics.bytes_per_batch is not None),
        ("starting", topics.starting, topics.starting == "group"),
        ("patience", f"{topics.patience:g} seconds", topics.patience != PATIENCE),
    ]
    return [(option, value) for option, value, is_set in only if is_set]


def _by_connector(topics: KafkaTopics, reason: str) -> InColumns:
    refuse_librdkafkas(topics.options, reason)
    return InColumns(reason)


def _with_types(topics: KafkaTopics) -> KafkaTopics:
    """Return topics with the types that Spark sends for the declared columns, if there are any."""
    if topics.columns is None:
        return topics
    return replace(topics, columns=polars_schema(_as_struct(topics.columns)))


def _load(topics: KafkaTopics, spark: SparkSession, reader: Any) -> DataFrame:
    """Return the messages that Spark's connector reads."""
    reason = judge_columns(topics).reason
    if topics.reader != "spark":
        instead = "To read in columns, change that; reader='spark' turns this line off"
        _LOG.warning("%s: Spark's connector reads row by row, since %s. %s.",
                     ", ".join(topics.topics), reason, instead)  # fmt: skip
    try:
        connect(spark)
    except SettingError as error:
        raise SettingError(f"Spark's connector is needed, since {reason}: {error}") from error
    hide_secrets(spark)
    options = {
        "kafka.bootstrap.servers": topics.servers,
        "subscribe": ",".join(topics.topics),
        "includeHeaders": str(topics.headers).lower(),
    }
    starting = starting_of(topics.starting)
    if isinstance(starting, int):
        options["startingTimestamp"] = str(starting)
        # Start at the end of a partition if all of its messages are older.
        options["startingOffsetsByTimestampStrategy"] = "latest"
    else:
        options["startingOffsets"] = topics.starting
    if topics.per_batch is not None:
        options["maxOffsetsPerTrigger"] = str(topics.per_batch)
    rows = reader.format("kafka").options(**options, **resolve_all(topics.options)).load()
    columns = None if topics.columns is None else _as_struct(topics.columns)
    several = len(topics.topics) > 1
    return parse_rows(rows, topics.form, columns, topics.reader_schema, several=several)


def _read_in_columns(topics: KafkaTopics, spark: SparkSession, *, streaming: bool) -> DataFrame:
    """Return the messages that the workers read."""
    typed = _with_types(topics)
    source = typed.source_in(str(spark.conf.get(ZONE_SETTING)), ZONE_SETTING)
    registry = () if topics.registry is None else (topics.registry.url,)
    references = list_references((*source.topics.client.values(), *registry))
    rows = KafkaRows(spark, source.topics, streaming, references)
    return read_topic_rows(rows, source.columns, _message_schema(topics, typed))


def _message_schema(topics: KafkaTopics, typed: KafkaTopics) -> StructType:
    """Return the columns of a message in Spark's types; payload columns keep their declaration."""
    declared = StructType() if topics.columns is None else _as_struct(topics.columns)
    others = {
        name: kind for name, kind in typed.message_types().items() if name not in declared.names
    }
    fields = [*declared.fields, *spark_schema(others).fields]
    marks = {MARKS_MALFORMED: True}
    return StructType(
        [StructField(f.name, f.dataType, True, marks) if f.name == MALFORMED_COLUMN else f
         for f in fields]
    )  # fmt: skip


def _as_struct(columns: str | Mapping[str, pl.DataType | str]) -> StructType:
    if not isinstance(columns, str):
        return spark_schema(plain_columns(columns))
    if SparkSession.getActiveSession() is None:
        return spark_schema(plain_columns(columns))
    # Parse the DDL with Spark, which has more types than reading in columns supports.
    return cast(StructType, StructType.fromDDL(columns))


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
    detail = F.when(corrupt, F.lit(UNREADABLE)).alias(MALFORMED_DETAIL_COLUMN)
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
