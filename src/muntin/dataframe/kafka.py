"""`kafka`: describes topics of Kafka for both hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

import polars as pl

from muntin.model.axis import Duration, parse_duration
from muntin.model.errors import OptionError
from muntin.model.option_names import suggest_options
from muntin.model.option_types import check_boolean, check_count, check_text, parse_bytes
from muntin.sources.kafka import (
    DESCRIBED,
    InColumns,
    KafkaTopics,
    PayloadFormat,
    Reader,
    refuse_schema,
)
from muntin.sources.kafka_broker import starting_text_of
from muntin.sources.kafka_client import of_connector
from muntin.sources.protobuf_schema import message_of
from muntin.sources.schema_registry import registry_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Kafka(KafkaTopics):
    """Topics of Kafka with the format of their payloads, as `kafka` returns them.

    `muntin.windowed` and `muntin.join` accept it directly, and run in this process.
    """

    def stream(self, spark: SparkSession) -> DataFrame:
        """Read the topics on Spark as a streaming DataFrame.

        Raises:
            SettingError: When Spark's Kafka connector can't be provided.
            SourceError: When the schema registry doesn't know the topic, or doesn't answer.
        """
        from muntin.spark.sources.kafka import read_topics

        return read_topics(self, spark, streaming=True)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Read the messages that the topics hold now on Spark, as a batch DataFrame.

        Raises:
            SettingError: When Spark's Kafka connector can't be provided.
            SourceError: When the schema registry doesn't know the topic, or doesn't answer.
        """
        from muntin.spark.sources.kafka import read_topics

        return read_topics(self, spark, streaming=False)

    def in_columns(self) -> InColumns:
        """Return whether Spark's workers read the topics themselves, and the reason if they don't.

        Returns:
            A value that is true or false; its `reason` names the column or the option because of
            which Spark's connector reads message by message.

        Raises:
            MissingExtraError: When the workers would read, and librdkafka isn't installed.
            OptionError: When options require the workers to read and they can't, or one is wrong.

        Example:
            >>> kafka("h:9092", "t", columns="id long", reader="spark").in_columns()
            False: reader='spark'
        """
        from muntin.spark.sources.kafka import judge_columns

        return judge_columns(self)


@suggest_options()
def kafka(
    servers: str,
    topic: str | Sequence[str],
    *,
    columns: str | Mapping[str, pl.DataType] | StructType | None = None,
    format: PayloadFormat = "json",
    schema: Any = None,
    starting: str | datetime = "earliest",
    headers: bool = False,
    per_batch: int | None = None,
    reader: Reader | None = None,
    registry: str | None = None,
    options: Mapping[str, str] | None = None,
    patience: Duration = "2 minutes",
    group: str | None = None,
    bytes_per_batch: str | int | None = None,
) -> Kafka:
    """Describe topics of Kafka, for queries in this process and on Spark.

    `windowed` and `join` accept the topics directly and run in this process, without Spark; this
    needs `muntin[kafka]`. `.stream(spark)` and `.frame(spark)` read them as a Spark DataFrame.

    A message has the payload's columns, Kafka's `key` (as text), `topic`, `partition`,
    `offset` and `timestamp` where the payload has no column of that name, `malformed`: the
    unchanged payload if it can't be parsed, and `malformed_detail`: the column that isn't of its
    type. `windowed` and `join` reject such a message as `malformed`, and `to_kafka` forwards it
    unchanged. With `offset=("partition", "offset")` a message that is read twice counts once, and
    windows can be measured in offsets. With several topics a `partition` is named like `orders-0`.
    `timestamp` is NULL where Kafka has none.

    Args:
        servers: `host:port`; several are separated by commas.
        topic: The topic, or several.
        columns: Names and types of the payload, as Spark's DDL (`"id long, at timestamp"`), as
            Spark's type, or as types of Polars by name. Without it, `value` is bytes.
        format: The format of payloads: `json`, `csv`, `avro` or `protobuf`.
        schema: The schema of Avro payloads, as JSON. With a registry, it is the reader's schema; by
            default the topic's newest one. For Protobuf, the generated class, or a file of
            descriptors and the message's name: `orders.desc#shop.Order`.
        starting: The position at which a new query begins: `earliest`, `latest`, a time (a
            `datetime`, or ISO 8601 with a zone: the first message of each partition that isn't
            older, by Kafka's timestamp), `group` (the offsets that `group` has committed, else the
            earliest), or offsets as JSON (`{"orders": {"0": 17}}`). A query that resumes from its
            checkpoint ignores it.
        headers: Whether the column `headers` is read, too.
        per_batch: The largest number of messages of a batch. One query in this process reads at
            most a million.
        reader: The reader on Spark: `columns` (the workers themselves, with librdkafka and Polars:
            about twice as fast, no jar, needs `muntin[kafka]`) or `spark` (its connector, row by
            row). Both store offsets in Spark's log. By default, topics are read in columns where
            that is possible (JSON, CSV, Avro, Protobuf, and bytes). Otherwise Spark's connector
            reads them, and the log says why: unions in Avro, or options of the connector or of
            Java's client.
        registry: The address of a schema registry (`http://localhost:8081`, or with credentials
            `http://user:password@…`), for payloads in Confluent's wire format. Each payload names
            the schema it was written with, and is converted to the reader's schema by Avro's rules.
            (Protobuf payloads are all read with the given schema, so the registry isn't asked.)
        options: Further options of the connector. Those with a dot in their names belong to Kafka's
            clients, with or without the prefix `kafka.` (`security.protocol`). Write a secret as
            `${env:NAME}` or `${file:PATH}`: the driver and the executors look it up themselves.
            Secret values appear in no plan and no message. A name that neither librdkafka nor
            Java's client nor the connector has is refused.
        patience: How long to wait for unavailable brokers and registries before the query ends with
            an error. A broker that refuses the first connection is an error after five seconds.
        group: A consumer group to which offsets are committed after each batch, so that tools which
            monitor the lag of groups see this query. The query itself resumes from its checkpoint.
        bytes_per_batch: About how many bytes of messages, uncompressed, a batch has at most:
            `"64 MB"`, or a number. A batch has a message at least. By default `"256 MB"`, and on
            Spark `"128 MB"` for each core. Sizes are estimated from samples of the messages.

    Returns:
        The topics, as input of `windowed` and `join`, which then run in this process.
        `.stream(spark)` is a streaming DataFrame, `.frame(spark)` a batch of the present messages.

    Raises:
        OptionError: When an option is wrong, or options contradict each other.

    Example:
        >>> orders = kafka("localhost:9092", "orders", columns="id long, at timestamp")
        >>> orders.topics
        ('orders',)
    """
    check_text("servers", servers)
    topics = _list_topics(topic)
    check_boolean("headers", headers)
    if format not in get_args(PayloadFormat):
        hint = f"give one of {', '.join(get_args(PayloadFormat))}"
        raise OptionError("format", format, "isn't a format", hint)
    refuse_schema(format, schema, registry, topics, reader)
    if format in DESCRIBED and columns is not None:
        hint = "leave it out: the schema has the columns"
        raise OptionError("columns", columns, f"can't be combined with format={format!r}", hint)
    if columns is None and format == "csv":
        hint = "give columns='page string, at timestamp', or leave format= out to read bytes"
        raise OptionError("format", format, "needs columns", hint)
    check_count("per_batch", per_batch)
    if reader not in (None, *get_args(Reader)):
        raise OptionError("reader", reader, "isn't a reader", "give 'columns' or 'spark'")
    connector_options = of_connector(options or {})
    starting_text = starting_text_of(starting, topics)
    _check_group(group, starting_text)
    waits = parse_duration("patience", patience) / 1_000_000
    message = None
    if format == "protobuf":
        message, schema = message_of(schema), None
    return Kafka(
        servers, topics, _plain_columns(columns), format, schema, starting_text, headers,
        per_batch, reader, registry_at(registry, waits), message, connector_options, waits, group,
        parse_bytes("bytes_per_batch", bytes_per_batch),
    )  # fmt: skip


def _list_topics(topic: str | Sequence[str]) -> tuple[str, ...]:
    topics = (topic,) if isinstance(topic, str) else tuple(topic)
    if not topics:
        raise OptionError("topic", topic, "is empty", "give the name of a topic")
    for one in topics:
        check_text("topic", one)
    return topics


def _plain_columns(
    columns: str | Mapping[str, pl.DataType] | StructType | None,
) -> str | Mapping[str, pl.DataType] | None:
    """Return a schema of Spark as text, and other columns as they are."""
    if columns is None or isinstance(columns, str | Mapping):
        return columns
    if not hasattr(columns, "toDDL"):
        hint = "write them as 'page string, at timestamp', or as a mapping of names to types"
        raise OptionError("columns", columns, "aren't columns", hint)
    return str(columns.toDDL())


def _check_group(group: str | None, starting: str) -> None:
    if starting == "group" and group is None:
        raise OptionError("starting", "group", "needs a consumer group", "add group='…'")
    if group is not None:
        check_text("group", group)
