"""Kafka as a source: payloads as columns, and what can't be parsed as a rejected message.

The workers read topics themselves where they can; all else is read by Spark's own connector, see
``connector`` for where that comes from.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from importlib.util import find_spec
from typing import Any, ClassVar, Literal, cast, get_args

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from muntin.engine.session_zone import session_zone
from muntin.model.axis import Duration, micros
from muntin.model.errors import MissingExtraError, OptionError, SettingError
from muntin.sources.avro_payloads import AvroPayloads
from muntin.sources.avro_registry import RegisteredAvro
from muntin.sources.avro_schema import record
from muntin.sources.csv_payloads import CsvPayloads
from muntin.sources.ddl import parse_columns
from muntin.sources.flags import Flags
from muntin.sources.json_nested import NestedJsonPayloads, is_nested_json
from muntin.sources.json_payloads import JsonPayloads
from muntin.sources.kafka_broker import PATIENCE, Topics, starting_of, starting_text_of
from muntin.sources.kafka_client import (
    needs_java,
    of_connector,
    of_librdkafka,
    refuse_librdkafkas,
    refuse_owned,
    refuse_unknown,
)
from muntin.sources.kafka_columns import MALFORMED, OWN, KafkaReader
from muntin.sources.kafka_formats import DESCRIBED, InColumns, refuse_schema
from muntin.sources.kafka_source import KafkaSource, KafkaSourceReader
from muntin.sources.payloads import Payloads, UnreadableError
from muntin.sources.protobuf_payloads import ProtobufPayloads
from muntin.sources.protobuf_schema import ProtoMessage, message_of
from muntin.sources.schema_registry import Registry, registry_at
from muntin.sources.text_values import readable
from muntin.spark.host.internals.versions import BOUNDS_BATCHES
from muntin.spark.host.schema import polars_schema, spark_schema
from muntin.spark.host.zones import ZONE_SETTING
from muntin.spark.redaction import hide_secrets
from muntin.spark.sources.connector import connect
from muntin.spark.sources.inputs import MARKS_MALFORMED
from muntin.spark.sources.kafka_parsing import parse_rows, refuse_malformed
from muntin.spark.sources.kafka_rows import KafkaRows, messages

Form = Literal["json", "csv", "avro", "protobuf"]
Reader = Literal["spark", "columns"]

_TYPES = {
    "key": "string", "value": "binary", "topic": "string", "partition": "int", "offset": "long",
    "timestamp": "timestamp", "timestampType": "int",
    "headers": "array<struct<key: string, value: binary>>",
}  # fmt: skip
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kafka:
    """Topics of Kafka, and how their payloads become columns; made by ``kafka``."""

    servers: str
    topics: tuple[str, ...]
    columns: str | StructType | None
    form: Form
    reader_schema: str | None
    starting: str
    headers: bool
    per_batch: int | None
    reader: Reader | None = None
    registry: Registry | None = None
    message: ProtoMessage | None = None
    options: Mapping[str, str] = field(repr=False, default_factory=dict)
    patience: float = PATIENCE
    group: str | None = None
    ordered: ClassVar[bool] = False
    has_partitions: ClassVar[bool] = True

    def stream(self, spark: SparkSession) -> DataFrame:
        """The topics as a streaming DataFrame.

        Raises:
            SettingError: When Spark's Kafka connector is nowhere.
            SourceError: When the schema registry doesn't know the topic, or doesn't answer.
        """
        return self._read(spark, streaming=True)

    def frame(self, spark: SparkSession) -> DataFrame:
        """What the topics hold now, as a batch DataFrame.

        Raises:
            SettingError: When Spark's Kafka connector is nowhere.
            SourceError: When the schema registry doesn't know the topic, or doesn't answer.
        """
        return self._read(spark, streaming=False)

    def _read(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        given = self._with_registered_schema()
        if given.in_columns():
            return given._columnar(spark, streaming=streaming)
        return given._load(spark, spark.readStream if streaming else spark.read)

    def in_columns(self) -> InColumns:
        """Say whether the workers read the topics themselves, and why not where they don't.

        Returns:
            True or False; its ``reason`` names the column or the option for which Spark's connector
            reads message by message.

        Raises:
            MissingExtraError: When the workers are to read, and librdkafka isn't installed.
            OptionError: When the workers are asked to read what they can't, or an option is wrong.

        Example:
            >>> Kafka(
            ...     "h:9092", ("t",), "id long", "json", None, "earliest", False, None, "spark"
            ... ).in_columns()
            False: reader='spark'
        """
        required = self._columns_required()
        if self.reader == "spark":
            if required:
                hint = "leave out one of both"
                raise OptionError(*required[0], "isn't possible: reader='spark'", hint)
            return self._by_spark("reader='spark'")
        if not BOUNDS_BATCHES:
            if required:
                hint = "leave it out, or take a newer Spark"
                raise OptionError(*required[0], "needs Spark 4.2", hint)
            return self._by_spark("this Spark is older than 4.2")
        reason = self._beyond_columns() or needs_java(self.options)
        if reason and required:
            option, value = required[0]
            hint = "leave out one of both"
            raise OptionError(option, value, f"isn't possible: {reason}", hint)
        if reason:
            return self._by_spark(reason)
        if find_spec("confluent_kafka") is None:
            instead = "read with Spark's connector: reader='spark'"
            raise MissingExtraError("reading topics in columns", "kafka", instead)
        client, _ = of_librdkafka(self.servers, self.options)
        refuse_owned(self.options)
        if self.options:
            refuse_unknown(client)
        return InColumns("")

    def _columns_required(self) -> list[tuple[str, str | None]]:
        """Options that Spark's own reader doesn't know."""
        only: list[tuple[str, str | None, bool]] = [
            ("reader", self.reader, self.reader == "columns"),
            ("registry", "…", self.registry is not None),
            ("format", self.form, self.message is not None),
            ("group", self.group, self.group is not None),
            ("starting", self.starting, self.starting == "group"),
        ]
        return [(option, value) for option, value, is_set in only if is_set]

    def _by_spark(self, reason: str) -> InColumns:
        refuse_librdkafkas(self.options, reason)
        return InColumns(reason)

    def _beyond_columns(self) -> str | None:
        """Why the workers don't decode payloads themselves, if they don't."""
        if self.form == "avro" and self.reader_schema is not None:
            try:
                record(str(self.reader_schema))
            except UnreadableError as error:
                return f"the Avro schema {error}"
        elif self.columns is not None:
            for name, dtype in polars_schema(_as_struct(self.columns)).items():
                if not self._is_read(dtype):
                    return f"columns={name!r} has a type that isn't read in columns"
        return None

    def _is_read(self, dtype: Any) -> bool:
        """Whether the workers read a column of a type."""
        if self.form == "json":
            return is_nested_json(dtype)
        return readable(dtype) or isinstance(dtype, pl.Decimal)

    def _load(self, spark: SparkSession, reader: Any) -> DataFrame:
        reason = self.in_columns().reason
        if self.reader != "spark":
            instead = "To read in columns, change that; reader='spark' turns this line off"
            _LOG.warning("%s: Spark's connector reads row by row, since %s. %s.",
                         ", ".join(self.topics), reason, instead)  # fmt: skip
        try:
            connect(spark)
        except SettingError as error:
            raise SettingError(f"Spark's connector is needed, since {reason}: {error}") from error
        hide_secrets(spark)
        given = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": ",".join(self.topics),
            "includeHeaders": str(self.headers).lower(),
        }
        starting = starting_of(self.starting)
        if isinstance(starting, int):
            given["startingTimestamp"] = str(starting)
            # What is newer than all messages is the end.
            given["startingOffsetsByTimestampStrategy"] = "latest"
        else:
            given["startingOffsets"] = self.starting
        if self.per_batch is not None:
            given["maxOffsetsPerTrigger"] = str(self.per_batch)
        rows = reader.format("kafka").options(**given, **self.options).load()
        columns = None if self.columns is None else _as_struct(self.columns)
        several = len(self.topics) > 1
        return parse_rows(rows, self.form, columns, self.reader_schema, several=several)

    def _columnar(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        source = self._source(str(spark.conf.get(ZONE_SETTING)))
        rows = KafkaRows(spark, source.topics, streaming)
        return messages(rows, source.columns, self._schema(self._struct()))

    def _source(self, zone: str) -> KafkaSource:
        """The topics as a source of columns, with a zone for times that have none."""
        client, lossy = of_librdkafka(self.servers, self.options)
        topics = Topics(
            self.topics, starting_of(self.starting), self.per_batch, client, lossy,
            self.patience, self.group,
        )  # fmt: skip
        struct = self._struct()
        payload = None if struct is None else self._payloads(struct, zone)
        wanted = dict(polars_schema(self._schema(struct)))
        flags = Flags(None, None, None)
        reader = KafkaReader(client, payload, wanted, flags, lossy, patience=self.patience)
        return KafkaSource(topics, reader)

    @cached_property
    def _local(self) -> KafkaSource:
        """The topics as a source for this process; times without a zone are of UTC."""
        described = self._with_registered_schema()
        reason = described.in_columns().reason
        if reason:
            hint = "leave out what needs it, or run the query on Spark: kafka(…).stream(spark)"
            raise OptionError("reader", self.reader, f"needs Spark, since {reason}", hint)
        return described._source("UTC")

    @property
    def schema(self) -> pl.Schema:
        """The columns of a message."""
        return self._local.schema

    @property
    def malformed(self) -> str | None:
        """The column of payloads that can't be decoded, if payloads are decoded."""
        return self._local.malformed

    def open(self) -> KafkaSourceReader:
        """Connect to the brokers, for a query in this process.

        Raises:
            OptionError: When the topics can be read on Spark only.
            SourceError: When a topic doesn't exist, or the brokers don't answer.
        """
        return self._local.open()

    def _with_registered_schema(self) -> Kafka:
        if self.registry is None or self.reader_schema is not None or self.message is not None:
            return self
        return replace(self, reader_schema=self.registry.latest(self.topics[0]))

    def _payloads(self, struct: StructType, zone: str) -> Payloads:
        """What workers decode payloads by."""
        columns = dict(polars_schema(struct))
        if self.message is not None:
            return ProtobufPayloads(self.message, columns, self.registry is not None)
        if self.form == "avro" and self.registry is not None:
            return RegisteredAvro(self.registry, record(str(self.reader_schema)), columns)
        if self.form == "avro":
            return AvroPayloads(record(str(self.reader_schema)), columns)
        known = session_zone(zone)
        if known is None:
            problem = "is a zone that isn't in the time zone database"
            hint = "set one that is, as 'America/Los_Angeles', or give reader='spark'"
            raise OptionError(ZONE_SETTING, zone, problem, hint)
        if self.form == "csv":
            return CsvPayloads(columns, known)
        is_plain = all(map(readable, columns.values()))
        return (JsonPayloads if is_plain else NestedJsonPayloads)(columns, known)

    def _struct(self) -> StructType | None:
        """A payload's columns, as workers read them; ``None`` where it stays as it is."""
        if self.message is not None:
            return spark_schema(self.message.columns())
        if self.form == "avro":
            return spark_schema(record(str(self.reader_schema)).columns())
        return None if self.columns is None else _as_struct(self.columns)

    def _schema(self, payload: StructType | None) -> StructType:
        """The columns that workers read: the payload's, Kafka's own, what is malformed."""
        types = {name: kind for name, kind in _TYPES.items() if name != "headers" or self.headers}
        if len(self.topics) > 1:
            types["partition"] = "string"
        ours = _as_struct(", ".join(f"`{name}` {kind}" for name, kind in types.items()))
        if payload is None:
            return ours
        refuse_malformed(payload.names)
        rest = [f for f in ours.fields if f.name in OWN and f.name not in payload.names]
        made = StructType([*payload.fields, *rest])
        return made.add(MALFORMED, "binary", metadata={MARKS_MALFORMED: True})


def kafka(
    servers: str,
    topic: str | Sequence[str],
    *,
    columns: str | StructType | None = None,
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
    """Describe topics of Kafka; ``.stream(spark)`` and ``.frame(spark)`` read them.

    The DataFrame has the payload's columns, Kafka's ``key`` (as text), ``topic``, ``partition``,
    ``offset`` and ``timestamp`` where the payload has no column of that name, and ``malformed``: a
    payload that can't be parsed, as it came. ``windowed`` and ``join`` reject such a message as
    ``malformed``, and ``to_kafka`` sends it on as it was. With ``offset=("partition", "offset")`` a
    message that is read twice counts once, and windows can be measured in offsets. Of several
    topics a ``partition`` is named ``orders-0``. ``timestamp`` is NULL where Kafka has none.

    Args:
        servers: ``host:port``, several with commas.
        topic: The topic, or several.
        columns: Names and types of the payload, as Spark's DDL (``"id long, at timestamp"``) or as
            a type. Without it, ``value`` is left as bytes.
        format: How payloads are written: ``json``, ``csv``, ``avro`` or ``protobuf``.
        schema: The schema of Avro payloads, as JSON. With a registry, the one to read by: the
            newest of the topic where none is given. Of Protobuf the generated class, or a file of
            descriptors and the message's name: ``orders.desc#shop.Order``.
        starting: Where a new query begins: ``earliest``, ``latest``, a time (a ``datetime``, or ISO
            8601 with a zone: the first message of each partition that isn't older, by Kafka's
            timestamp), ``group`` (what ``group`` has committed, else the earliest), or offsets as
            JSON (``{"orders": {"0": 17}}``). A query that goes on from its checkpoint doesn't look
            at it.
        headers: Whether the column ``headers`` is read too.
        per_batch: How many messages a batch takes at most.
        reader: Who reads and parses: ``columns`` (the workers themselves, through librdkafka and
            Polars: about twice as fast, no jar, needs ``muntin[kafka]``) or ``spark`` (its
            connector, row by row). Both keep offsets in Spark's log. Without it, what can be read
            in columns is (JSON, CSV, Avro, Protobuf, and bytes). The rest is Spark's, and the log
            says why: unions in Avro, and options of its connector or of Java's client.
        registry: The address of a schema registry (``http://localhost:8081``; where it wants them,
            ``http://user:password@…``), for payloads in Confluent's wire format: each says by
            which schema it was written, and is read as the one given, by Avro's own rules. (Of
            Protobuf any schema's messages are read by the one given, so that nothing is asked.)
        options: More of the connector's options; those with a dot in their names are of Kafka's
            clients, with or without ``kafka.`` before them (``security.protocol``). Secrets
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
    topics = (topic,) if isinstance(topic, str) else tuple(topic)
    if not topics or not all(topics):
        raise OptionError("topic", topic, "names none", "give the name of one")
    if format not in get_args(Form):
        hint = f"give one of {', '.join(get_args(Form))}"
        raise OptionError("format", format, "isn't read", hint)
    refuse_schema(format, schema, registry, topics, reader)
    if format in DESCRIBED and columns is not None:
        hint = "leave it out: the schema says them"
        raise OptionError("columns", columns, f"aren't given with format={format!r}", hint)
    if per_batch is not None and per_batch < 1:
        raise OptionError("per_batch", per_batch, "is less than one", "give 1 or more")
    if reader not in (None, "columns", "spark"):
        raise OptionError("reader", reader, "isn't one", "give 'columns' or 'spark'")
    connector_options = of_connector(options or {})
    starting_text = starting_text_of(starting)
    if starting_text == "group" and group is None:
        raise OptionError("starting", "group", "needs a consumer group", "add group='…'")
    if group is not None and not group:
        raise OptionError("group", group, "names none", "give its name, or leave it out")
    waits = micros("patience", patience) / 1_000_000
    known = registry_at(registry, waits)
    message = None
    if format == "protobuf":
        message, schema = message_of(schema), None
    return Kafka(
        servers, topics, columns, format, schema, starting_text, headers, per_batch, reader, known,
        message, connector_options, waits, group,
    )  # fmt: skip


def _as_struct(columns: str | StructType | None) -> StructType:
    if isinstance(columns, StructType):
        return columns
    if SparkSession.getActiveSession() is None:
        return spark_schema(parse_columns(str(columns)))
    # Spark has more types than are read in columns.
    return cast(StructType, StructType.fromDDL(str(columns)))
