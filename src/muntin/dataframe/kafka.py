"""`kafka`: the entrance to topics of Kafka for both hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from muntin.model.axis import Duration
from muntin.sources.kafka import Form, KafkaTopics, Reader
from muntin.sources.kafka_formats import InColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Kafka(KafkaTopics):
    """Topics of Kafka, and how their payloads become columns; made by `kafka`.

    `muntin.windowed` and `muntin.join` take it as it is, and run in this process.
    """

    def stream(self, spark: SparkSession) -> DataFrame:
        """Read the topics on Spark as a streaming DataFrame.

        Raises:
            SettingError: When Spark's Kafka connector is nowhere.
            SourceError: When the schema registry doesn't know the topic, or doesn't answer.
        """
        from muntin.spark.sources.kafka import read_topics

        return read_topics(self, spark, streaming=True)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Read what the topics hold now on Spark, as a batch DataFrame.

        Raises:
            SettingError: When Spark's Kafka connector is nowhere.
            SourceError: When the schema registry doesn't know the topic, or doesn't answer.
        """
        from muntin.spark.sources.kafka import read_topics

        return read_topics(self, spark, streaming=False)

    def in_columns(self) -> InColumns:
        """Say whether Spark's workers read the topics themselves, and why not where they don't.

        Returns:
            True or False; its `reason` names the column or the option for which Spark's connector
            reads message by message.

        Raises:
            MissingExtraError: When the workers are to read, and librdkafka isn't installed.
            OptionError: When the workers are asked to read what they can't, or an option is wrong.

        Example:
            >>> kafka("h:9092", "t", columns="id long", reader="spark").in_columns()
            False: reader='spark'
        """
        from muntin.spark.sources.kafka import check_columns

        return check_columns(self)


def kafka(
    servers: str,
    topic: str | Sequence[str],
    *,
    columns: str | Mapping[str, pl.DataType] | StructType | None = None,
    format: Form = "json",
    schema: Any = None,
    starting: str | datetime = "earliest",
    headers: bool = False,
    per_batch: int | None = None,
    reader: Reader | None = None,
    registry: str | None = None,
    options: Mapping[str, str] | None = None,
    patience: Duration = "2 minutes",
    group: str | None = None,
) -> Kafka:
    """Describe topics of Kafka, for queries in this process and on Spark.

    `windowed` and `join` take the topics as they are and run in this process, without Spark; it
    needs `muntin[kafka]`. `.stream(spark)` and `.frame(spark)` read them as a DataFrame of Spark's.

    A message has the payload's columns, Kafka's `key` (as text), `topic`, `partition`,
    `offset` and `timestamp` where the payload has no column of that name, and `malformed`: a
    payload that can't be parsed, as it came. `windowed` and `join` reject such a message as
    `malformed`, and `to_kafka` sends it on as it was. With `offset=("partition", "offset")` a
    message that is read twice counts once, and windows can be measured in offsets. Of several
    topics a `partition` is named `orders-0`. `timestamp` is NULL where Kafka has none.

    Args:
        servers: `host:port`, several with commas.
        topic: The topic, or several.
        columns: Names and types of the payload, as Spark's DDL (`"id long, at timestamp"`), as
            Spark's type, or as types of Polars by name. Without it, `value` is left as bytes.
        format: How payloads are written: `json`, `csv`, `avro` or `protobuf`.
        schema: The schema of Avro payloads, as JSON. With a registry, the one to read by: the
            newest of the topic where none is given. Of Protobuf the generated class, or a file of
            descriptors and the message's name: `orders.desc#shop.Order`.
        starting: Where a new query begins: `earliest`, `latest`, a time (a `datetime`, or ISO
            8601 with a zone: the first message of each partition that isn't older, by Kafka's
            timestamp), `group` (what `group` has committed, else the earliest), or offsets as
            JSON (`{"orders": {"0": 17}}`). A query that goes on from its checkpoint doesn't look
            at it.
        headers: Whether the column `headers` is read too.
        per_batch: How many messages a batch takes at most.
        reader: Who reads and parses: `columns` (the workers themselves, through librdkafka and
            Polars: about twice as fast, no jar, needs `muntin[kafka]`) or `spark` (its
            connector, row by row). Both keep offsets in Spark's log. Without it, what can be read
            in columns is (JSON, CSV, Avro, Protobuf, and bytes). The rest is Spark's, and the log
            says why: unions in Avro, and options of its connector or of Java's client.
        registry: The address of a schema registry (`http://localhost:8081`; where it wants them,
            `http://user:password@…`), for payloads in Confluent's wire format: each says by
            which schema it was written, and is read as the one given, by Avro's own rules. (Of
            Protobuf any schema's messages are read by the one given, so that nothing is asked.)
        options: More of the connector's options; those with a dot in their names are of Kafka's
            clients, with or without `kafka.` before them (`security.protocol`). Secrets
            among their values are shown in no plan and no message. A name that neither librdkafka
            nor Java's client nor the connector has is refused.
        patience: How long brokers and the registry are waited for while they are away, before the
            query ends with an error. A broker that refuses the connection at the very start is an
            error after five seconds.
        group: A consumer group to which offsets are committed behind each batch, so that what
            watches the lag of groups sees this query. The query itself goes by its checkpoint.

    Raises:
        OptionError: When the options don't fit together.

    Example:
        >>> orders = kafka("localhost:9092", "orders", columns="id long, at timestamp")
        >>> orders.topics
        ('orders',)
    """
    if columns is not None and not isinstance(columns, str | Mapping):
        columns = str(columns.toDDL())
    return Kafka.describe(
        servers,
        topic,
        columns=columns,
        format=format,
        schema=schema,
        starting=starting,
        headers=headers,
        per_batch=per_batch,
        reader=reader,
        registry=registry,
        options=options,
        patience=patience,
        group=group,
    )
