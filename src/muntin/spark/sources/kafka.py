"""Kafka as a source: payloads as columns, and what can't be parsed as a rejected message.

The workers read topics themselves where they can; all else is read by Spark's own connector, see
``connector`` for where that comes from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from importlib.util import find_spec
from typing import Any, Literal, cast, get_args

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.engine.session_zone import session_zone
from muntin.model.errors import MissingExtraError, OptionError
from muntin.sources.avro_payloads import AvroPayloads
from muntin.sources.avro_registry import RegisteredAvro, Registry, registry_at
from muntin.sources.avro_schema import record
from muntin.sources.csv_payloads import CsvPayloads
from muntin.sources.flags import Flags
from muntin.sources.json_payloads import JsonPayloads
from muntin.sources.kafka_client import of_connector, of_librdkafka, refuse_unknown
from muntin.sources.kafka_columns import MALFORMED, OWN, KafkaReader
from muntin.sources.kafka_ranges import Topics, starting_of
from muntin.sources.payloads import Payloads, UnreadableError
from muntin.sources.protobuf_payloads import ProtobufPayloads
from muntin.sources.protobuf_schema import ProtoMessage, message_of
from muntin.sources.text_values import readable
from muntin.spark.host.internals.versions import BOUNDS_BATCHES
from muntin.spark.host.schema import polars_schema, spark_schema
from muntin.spark.host.zones import ZONE_SETTING
from muntin.spark.redaction import hide_secrets
from muntin.spark.sources.connector import connect
from muntin.spark.sources.decimals import LONG_TEXTS, bounded
from muntin.spark.sources.inputs import MARKS_MALFORMED
from muntin.spark.sources.kafka_rows import KafkaRows, messages

Form = Literal["json", "csv", "avro", "protobuf"]
Reader = Literal["spark", "columns"]

_TYPES = {
    "key": "string", "value": "binary", "topic": "string", "partition": "int", "offset": "long",
    "timestamp": "timestamp", "timestampType": "int",
    "headers": "array<struct<key: string, value: binary>>",
}  # fmt: skip
# The formats whose columns a schema says.
_DESCRIBED = ("avro", "protobuf")
_CORRUPT = "__muntin_corrupt"
_PARSED = "__muntin_value"


@dataclass(frozen=True)
class Kafka:
    """Topics of Kafka, and how their payloads become columns; made by ``kafka``."""

    servers: str
    topics: tuple[str, ...]
    columns: str | StructType | None
    form: Form
    schema: str | None
    starting: str
    headers: bool
    per_batch: int | None
    reader: Reader | None = None
    registry: Registry | None = None
    message: ProtoMessage | None = None
    options: Mapping[str, str] = field(repr=False, default_factory=dict)

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
        given = self
        if self.registry is not None and self.schema is None and self.message is None:
            given = replace(self, schema=self.registry.latest(self.topics[0]))
        if given.in_columns():
            return given._columnar(spark, streaming=streaming)
        return given._load(spark, spark.readStream if streaming else spark.read)

    def in_columns(self) -> bool:
        """Whether the workers read the topics themselves; Spark's connector does otherwise.

        Columns are given as text that a session parses, so there must be one.

        Raises:
            MissingExtraError: When they are to, and librdkafka isn't there.
            OptionError: When they are asked to read what they can't.
        """
        if self.reader == "spark":
            return False
        # What Spark's own reader doesn't know.
        only: list[tuple[str, str | None, bool]] = [
            ("reader", self.reader, self.reader == "columns"),
            ("registry", "…", self.registry is not None),
            ("format", self.form, self.message is not None),
        ]
        required = [(option, value) for option, value, given in only if given]
        if not BOUNDS_BATCHES:
            if required:
                hint = "leave it out, or take a newer Spark"
                raise OptionError(*required[0], "needs Spark 4.2", hint)
            return False
        problem = self._beyond_columns()
        if problem is not None and required:
            raise problem
        if problem is None and find_spec("confluent_kafka") is None:
            instead = "read with Spark's connector: reader='spark'"
            raise MissingExtraError("reading topics in columns", "kafka", instead)
        return problem is None

    def _beyond_columns(self) -> OptionError | None:
        """What the workers don't read themselves, if there is any such thing."""
        hint = "leave reader='columns' out"
        try:
            starting_of(self.starting)
        except ValueError:
            hint = "give 'earliest', 'latest', or JSON: {\"topic\": {\"0\": 17}}"
            return OptionError("starting", self.starting, "is none of those", hint)
        if self.form == "avro" and self.schema is not None:
            try:
                record(str(self.schema))
            except UnreadableError as error:
                return OptionError("schema", self.schema, str(error), hint)
        elif self.columns is not None:
            for name, dtype in polars_schema(_as_struct(self.columns)).items():
                if not readable(dtype):
                    problem = "has a type that isn't read in columns"
                    return OptionError("columns", name, problem, hint)
        try:
            client, _ = of_librdkafka(self.servers, self.options)
            if self.options and find_spec("confluent_kafka") is not None:
                refuse_unknown(client)
        except OptionError as error:
            return error
        return None

    def _load(self, spark: SparkSession, reader: Any) -> DataFrame:
        connect(spark)
        hide_secrets(spark)
        given = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": ",".join(self.topics),
            "startingOffsets": self.starting,
            "includeHeaders": str(self.headers).lower(),
        }
        if self.per_batch is not None:
            given["maxOffsetsPerTrigger"] = str(self.per_batch)
        return self._parsed(reader.format("kafka").options(**given, **self.options).load())

    def _columnar(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        client, lossy = of_librdkafka(self.servers, self.options)
        topics = Topics(self.topics, starting_of(self.starting), self.per_batch, client, lossy)
        struct = self._struct()
        payload = None
        if struct is not None:
            payload = self._payloads(struct, str(spark.conf.get(ZONE_SETTING)))
        schema = self._schema(struct)
        wanted = dict(polars_schema(schema))
        reader = KafkaReader(client, payload, wanted, Flags(None, None, None), lossy)
        return messages(KafkaRows(spark, topics, streaming), reader, schema)

    def _payloads(self, struct: StructType, zone: str) -> Payloads:
        """What workers decode payloads by."""
        columns = dict(polars_schema(struct))
        if self.message is not None:
            return ProtobufPayloads(self.message, columns, self.registry is not None)
        if self.form == "avro" and self.registry is not None:
            return RegisteredAvro(self.registry, record(str(self.schema)), columns)
        if self.form == "avro":
            return AvroPayloads(record(str(self.schema)), columns)
        known = session_zone(zone)
        if known is None:
            problem = "is a zone that isn't in the time zone database"
            hint = "set one that is, as 'America/Los_Angeles', or give reader='spark'"
            raise OptionError(ZONE_SETTING, zone, problem, hint)
        return (JsonPayloads if self.form == "json" else CsvPayloads)(columns, known)

    def _struct(self) -> StructType | None:
        """A payload's columns, as workers read them; ``None`` where it stays as it is."""
        if self.message is not None:
            return spark_schema(self.message.columns())
        if self.form == "avro":
            return spark_schema(record(str(self.schema)).columns())
        return None if self.columns is None else _as_struct(self.columns)

    def _schema(self, payload: StructType | None) -> StructType:
        """The columns that workers read: the payload's, Kafka's own, what is malformed."""
        own = [name for name in _TYPES if name != "headers" or self.headers]
        ours = _as_struct(", ".join(f"`{name}` {_TYPES[name]}" for name in own))
        if payload is None:
            return ours
        _refuse_malformed(payload.names)
        rest = [f for f in ours.fields if f.name in OWN and f.name not in payload.names]
        made = StructType([*payload.fields, *rest])
        return made.add(MALFORMED, "binary", metadata={MARKS_MALFORMED: True})

    def _parsed(self, frame: DataFrame) -> DataFrame:
        if self.form != "avro" and self.columns is None:
            return frame.withColumn("key", F.col("key").cast("string"))
        value, corrupt = self._payload(frame)
        whole = frame.select("*", value.alias(_PARSED))
        names = [n for n in whole.select(f"{_PARSED}.*").columns if n != _CORRUPT]
        _refuse_malformed(names)
        # A null can't say that it is one: a payload that is null is kept as nothing.
        raw = F.coalesce(F.col("value"), F.lit(b""))
        kept = F.when(corrupt, raw).alias(MALFORMED, metadata={MARKS_MALFORMED: True})
        own = [name for name in OWN if name not in names and name in frame.columns]
        return whole.select(
            *(F.col(f"{_PARSED}.`{name}`") for name in names),
            *(F.col(name).cast("string") if name == "key" else F.col(name) for name in own),
            kept,
        )

    def _payload(self, frame: DataFrame) -> tuple[Column, Column]:
        """The payload as a struct, and whether it couldn't be parsed."""
        if self.form == "avro":
            from pyspark.sql.avro.functions import from_avro

            value = from_avro("value", str(self.schema), {"mode": "PERMISSIVE"})
            # What doesn't fit comes out as a record of nulls.
            fields = frame.select(value.alias(_PARSED)).select(f"{_PARSED}.*").columns
            nothing = [F.col(_PARSED)[name].isNull() for name in fields]
            return value, reduce(Column.__and__, nothing, F.lit(True))
        wanted, form = _as_struct(self.columns), cast('Literal["json", "csv"]', self.form)
        parse: Any = F.from_json if form == "json" else F.from_csv
        schema = StructType(wanted.fields).add(_CORRUPT, "string")
        # CSV takes a schema only as text.
        emitted = schema if form == "json" else schema.toDDL()
        how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, **LONG_TEXTS}
        value = parse(bounded(F.col("value").cast("string"), wanted, form), emitted, how)
        parsed = F.col(_PARSED)
        return value, parsed.isNull() | parsed[_CORRUPT].isNotNull()


def kafka(
    servers: str,
    topic: str | Sequence[str],
    *,
    columns: str | StructType | None = None,
    format: Form = "json",
    schema: Any = None,
    starting: str = "earliest",
    headers: bool = False,
    per_batch: int | None = None,
    reader: Reader | None = None,
    registry: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Kafka:
    """Describe topics of Kafka; ``.stream(spark)`` and ``.frame(spark)`` read them.

    The DataFrame has the payload's columns, Kafka's ``key`` (as text), ``topic``, ``partition``,
    ``offset`` and ``timestamp`` (where the payload has no column of that name), and ``malformed``:
    a payload that can't be parsed, as it came. ``windowed`` and ``join`` reject such a message as
    ``malformed``, and ``to_kafka`` sends it on as it was. With ``offset=("partition", "offset")`` a
    message that is read twice counts once, and windows can be measured in offsets.

    Args:
        servers: ``host:port``, several with commas.
        topic: The topic, or several.
        columns: Names and types of the payload, as Spark's DDL (``"id long, at timestamp"``) or as
            a type. Without it, ``value`` is left as bytes.
        format: How payloads are written: ``json``, ``csv``, ``avro`` or ``protobuf``.
        schema: The schema of Avro payloads, as JSON. With a registry, the one to read by: the
            newest of the topic where none is given. Of Protobuf the generated class, or a file of
            descriptors and the message's name: ``orders.desc#shop.Order``.
        starting: Where a new query begins: ``earliest``, ``latest``, or offsets as the connector
            takes them. A query that goes on from its checkpoint doesn't look at it.
        headers: Whether the column ``headers`` is read too.
        per_batch: How many messages a batch takes at most.
        reader: Who reads and parses: ``columns`` (the workers themselves, through librdkafka and
            Polars: about twice as fast, no jar, needs ``muntin[kafka]``) or ``spark`` (its
            connector, row by row). Both keep offsets in Spark's log. Without it, what can be read
            in columns is (JSON and CSV of plain types, Avro, Protobuf, and bytes); the rest is
            Spark's: decimals and nested types in JSON and CSV, unions in Avro, and options of its
            connector or of Java's client.
        registry: The address of a schema registry (``http://localhost:8081``; where it wants them,
            ``http://user:password@…``), for payloads in Confluent's wire format: each says by
            which schema it was written, and is read as the one given, by Avro's own rules. (Of
            Protobuf any schema's messages are read by the one given, so that nothing is asked.)
        options: More of the connector's options; those with a dot in their names are of Kafka's
            clients, with or without ``kafka.`` before them (``security.protocol``). Secrets
            among their values are shown in no plan and no message.

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
    _refuse_schema(format, schema, registry, topics, reader)
    if format in _DESCRIBED and columns is not None:
        hint = "leave it out: the schema says them"
        raise OptionError("columns", columns, f"aren't given with format={format!r}", hint)
    if per_batch is not None and per_batch < 1:
        raise OptionError("per_batch", per_batch, "is less than one", "give 1 or more")
    if reader not in (None, "columns", "spark"):
        raise OptionError("reader", reader, "isn't one", "give 'columns' or 'spark'")
    given = of_connector(options or {})
    known = registry_at(registry)
    message = None
    if format == "protobuf":
        message, schema = message_of(schema), None
    return Kafka(
        servers, topics, columns, format, schema, starting, headers, per_batch, reader, known,
        message, given,
    )  # fmt: skip


def _refuse_schema(
    form: Form, schema: Any, registry: str | None, topics: Sequence[str], reader: Reader | None
) -> None:
    """Options of formats with a schema that don't fit together."""
    # A registry knows the schema of Avro, and of Protobuf a text that only a compiler reads.
    needed = form in _DESCRIBED and not (form == "avro" and registry is not None)
    if (needed and schema is None) or (form not in _DESCRIBED and schema is not None):
        hint = "give both, or neither: schema='{\"type\": \"record\", …}', format='avro'"
        if form == "protobuf":
            hint = "give a generated class, or a file and a message: 'orders.desc#shop.Order'"
        raise OptionError("schema", schema, f"doesn't fit format={form!r}", hint)
    if reader == "spark" and (form == "protobuf" or registry is not None):
        what = "a registry" if registry is not None else "format='protobuf'"
        hint = "leave reader='spark' out: only the workers read that"
        raise OptionError("reader", reader, f"doesn't fit {what}", hint)
    if registry is None:
        return
    if form not in _DESCRIBED:
        raise OptionError("registry", "…", f"doesn't fit format={form!r}", "add format='avro'")
    if schema is None and len(topics) > 1:
        hint = "give the one to read by, or read each topic by itself: schema='{…}'"
        raise OptionError("schema", schema, "isn't clear for several topics", hint)


def _as_struct(columns: str | StructType | None) -> StructType:
    if isinstance(columns, StructType):
        return columns
    return cast(StructType, StructType.fromDDL(str(columns)))


def _refuse_malformed(names: Sequence[str]) -> None:
    if MALFORMED in names:
        hint = "call it something else with computed columns of your own"
        raise OptionError("columns", MALFORMED, "is what unparsed payloads are kept in", hint)
