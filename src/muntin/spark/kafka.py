"""Kafka as a source: payloads as columns, and what can't be parsed as a rejected message.

Rides on Spark's own connector; see ``connector`` for where that comes from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Literal, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.model.errors import OptionError
from muntin.spark.connector import connect
from muntin.spark.decimals import bounded
from muntin.spark.inputs import MARKS_MALFORMED
from muntin.spark.redaction import hide_secrets

Form = Literal["json", "csv", "avro"]

# The column of a payload that couldn't be parsed, as it came; null for all others.
MALFORMED = "malformed"
# Kafka's own columns, beside those of the payload.
OWN = ("key", "topic", "partition", "offset", "timestamp", "headers")
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
    options: Mapping[str, str] = field(repr=False)

    def stream(self, spark: SparkSession) -> DataFrame:
        """The topics as a streaming DataFrame.

        Raises:
            SettingError: When Spark's Kafka connector is nowhere.
        """
        return self._load(spark, spark.readStream)

    def frame(self, spark: SparkSession) -> DataFrame:
        """What the topics hold now, as a batch DataFrame.

        Raises:
            SettingError: When Spark's Kafka connector is nowhere.
        """
        return self._load(spark, spark.read)

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

    def _parsed(self, frame: DataFrame) -> DataFrame:
        if self.form != "avro" and self.columns is None:
            return frame.withColumn("key", F.col("key").cast("string"))
        value, corrupt = self._payload(frame)
        whole = frame.select("*", value.alias(_PARSED))
        names = [n for n in whole.select(f"{_PARSED}.*").columns if n != _CORRUPT]
        if MALFORMED in names:
            cure = "call it something else with computed columns of your own"
            raise OptionError("columns", MALFORMED, "is what unparsed payloads are kept in", cure)
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
        wanted = self.columns
        if not isinstance(wanted, StructType):
            wanted = cast(StructType, StructType.fromDDL(str(wanted)))
        parse: Any = F.from_json if self.form == "json" else F.from_csv
        schema = StructType(wanted.fields).add(_CORRUPT, "string")
        # CSV takes a schema only as text.
        told = schema if self.form == "json" else schema.toDDL()
        how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        value = parse(bounded(F.col("value").cast("string"), wanted, self.form), told, how)
        parsed = F.col(_PARSED)
        return value, parsed.isNull() | parsed[_CORRUPT].isNotNull()


def kafka(
    servers: str,
    topic: str | Sequence[str],
    *,
    columns: str | StructType | None = None,
    format: Form = "json",
    schema: str | None = None,
    starting: str = "earliest",
    headers: bool = False,
    per_batch: int | None = None,
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
        format: How payloads are written: ``json``, ``csv`` or ``avro`` (plain, without a registry).
        schema: The schema of Avro payloads, as JSON.
        starting: Where a new query begins: ``earliest``, ``latest``, or offsets as the connector
            takes them. A query that goes on from its checkpoint doesn't look at it.
        headers: Whether the column ``headers`` is read too.
        per_batch: How many messages a batch takes at most.
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
    if format not in ("json", "csv", "avro"):
        raise OptionError("format", format, "isn't read", "give 'json', 'csv' or 'avro'")
    if (format == "avro") != (schema is not None):
        cure = "give both, or neither: schema='{\"type\": \"record\", …}', format='avro'"
        raise OptionError("schema", schema, f"doesn't fit format={format!r}", cure)
    if format == "avro" and columns is not None:
        cure = "leave it away: the schema says them"
        raise OptionError("columns", columns, "aren't given with Avro", cure)
    if per_batch is not None and per_batch < 1:
        raise OptionError("per_batch", per_batch, "is less than one", "give 1 or more")
    given = of_client(options or {})
    return Kafka(servers, topics, columns, format, schema, starting, headers, per_batch, given)


def of_client(options: Mapping[str, str]) -> dict[str, str]:
    """Options as the connector takes them: those of Kafka's clients begin with ``kafka.``."""
    return {
        name if "." not in name or name.startswith("kafka.") else f"kafka.{name}": value
        for name, value in options.items()
    }
