"""Results, pairs and rejected messages to a topic of Kafka."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampType

from muntin.engine import columns
from muntin.model.errors import OptionError
from muntin.model.pipeline import quoted
from muntin.spark.host.plan import REJECTED
from muntin.spark.redaction import hide_secrets
from muntin.spark.sinks.batch import Batch
from muntin.spark.sinks.kafka_messages import OutgoingMessages, texts
from muntin.spark.sources.avro_registry import Registry, registry_at
from muntin.spark.sources.avro_schema import schema_of
from muntin.spark.sources.connector import connect
from muntin.spark.sources.kafka import MALFORMED, OWN
from muntin.spark.sources.kafka_client import of_connector

# As exact as times are, so that no two windows have one key.
_INSTANT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
_LOCAL = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_JSON = {"ignoreNullFields": "false", "timestampFormat": _INSTANT, "timestampNTZFormat": _LOCAL}
# The client's ``max.request.size``, where it isn't given.
_MOST = 1_048_576
# Sent in headers, so that a dead letter's value is what came in.
_ASIDE = ("topic", "partition", "offset", "timestamp", columns.REASON, columns.WATERMARK)


class KafkaSink:
    """A topic; see ``to_kafka``."""

    def __init__(
        self,
        servers: str,
        topic: str,
        key: tuple[str, ...] | None,
        form: str,
        schema: str | None,
        registry: Registry | None,
        options: Mapping[str, str],
    ) -> None:
        self.servers = servers
        self.topic = topic
        self.key = key
        self.form = form
        self.schema = schema
        self.registry = registry
        self._options = dict(options)

    def __repr__(self) -> str:
        return f"KafkaSink({self.servers!r}, {self.topic!r})"

    def check(self, schema: StructType, keys: tuple[str, ...] | None) -> None:
        """See ``Sink``."""
        there = {name.lower() for name in schema.names}
        for name in self.key or ():
            if name.lower() not in there:
                hint = f"give some of {', '.join(schema.names)}"
                raise OptionError("key", name, f"isn't a column of what {self.topic} gets", hint)

    def write(self, batch: Batch) -> None:
        """See ``Sink``."""
        if batch.empty:
            return
        frame = batch.frame
        connect(frame.sparkSession)
        hide_secrets(frame.sparkSession)
        made = self._letters if batch.kind == REJECTED else self._rows
        rows = frame.select(F.struct("*").alias("row"), *made(frame, batch))
        unfit = OutgoingMessages(rows, self._most, self._send).send()
        if unfit is not None:
            place = F.lit(f"Kafka {self.servers}, topic {self.topic}")
            batch.letters.add_frame(unfit.withColumn("sink", place))

    def _send(self, messages: DataFrame) -> None:
        given = {"kafka.bootstrap.servers": self.servers, "topic": self.topic}
        options = {**given, "includeHeaders": "true", **self._options}
        messages.write.format("kafka").options(**options).save()

    @property
    def _most(self) -> int:
        """How many bytes a message may have for the client."""
        known = {name.lower(): value for name, value in self._options.items()}
        return int(known.get("kafka.max.request.size", _MOST))

    def _rows(self, frame: DataFrame, batch: Batch) -> list[Column]:
        """Results and pairs."""
        there = frame.columns
        identity = self.key if self.key is not None else batch.identity
        value = self._value(there, frame.schema)
        if batch.keys is not None:
            value = F.when(F.expr(f"{columns.EMISSION} <> 'retract'"), value)
        own = [name for name in (columns.EMISSION, columns.REVISION) if name in there]
        key = _key(identity, frame.schema)
        names = there if identity is None or len(identity) < 2 else (*there, *identity)
        return self._made(key, value, _headers(own, batch.number), names, frame)

    def _letters(self, frame: DataFrame, batch: Batch) -> list[Column]:
        """Rejected messages, with their own key, value and headers where those are known."""
        there = frame.columns
        own = [name for name in _ASIDE if name in there]
        payload = [c for c in there if c not in (*own, *OWN, MALFORMED)]
        value = self._value(payload or there, frame.schema)
        if MALFORMED in there:
            value = F.coalesce(F.col(MALFORMED), value)
        headers = _headers(own, batch.number)
        if "headers" in there:
            given = F.coalesce(F.col("headers"), F.array().cast(frame.schema["headers"].dataType))
            headers = F.concat(given, headers)
        key = F.lit(None).cast("string")
        if self.key is not None:
            key = _key(self.key, frame.schema)
        elif "key" in there:
            key = F.col("key").cast("string")
        names = (*(payload or there), *(self.key or ()))
        return self._made(key, value, headers, names, frame)

    def _made(
        self, key: Column, value: Column, headers: Column, names: Sequence[str], frame: DataFrame
    ) -> list[Column]:
        """A message's columns, and whether those that become JSON are text where they must be."""
        valid = F.lit(True) if self.form == "avro" else texts(names, frame.schema)
        parts = {"key": key, "value": value, "headers": headers, "texts": valid}
        return [column.alias(name) for name, column in parts.items()]

    def _value(self, names: Sequence[str], schema: StructType) -> Column:
        row = _struct(names)
        if self.form == "json":
            return F.to_json(row, _JSON).cast("binary")
        from pyspark.sql.avro.functions import to_avro

        if self.registry is None:
            return to_avro(row) if self.schema is None else to_avro(row, self.schema)
        written = StructType([schema[name] for name in names])
        text = self.schema or json.dumps(schema_of(written, "Row"))
        number = _registered(self.registry, self.topic, text)
        return F.concat(F.lit(bytearray(b"\0" + number.to_bytes(4, "big"))), to_avro(row, text))


@lru_cache(maxsize=100)
def _registered(registry: Registry, topic: str, schema: str) -> int:
    """The number of a topic's schema, asked for once."""
    return registry.register(topic, schema)


def to_kafka(
    servers: str,
    topic: str,
    *,
    key: str | Sequence[str] | None = None,
    format: Literal["json", "avro"] = "json",
    schema: str | None = None,
    registry: str | None = None,
    options: Mapping[str, str] | None = None,
) -> KafkaSink:
    """Send every row to a topic of Kafka.

    **Results** have their keys and window as the message's key, a JSON object, so that a compacted
    topic keeps the newest state of every window; a session that was taken back is a message
    without value. **Rejected** messages are dead letters: they keep their key and, where they
    couldn't be parsed, their very bytes. The headers are ``emission`` and ``revision``, or
    ``reason``, ``watermark``, ``topic``, ``partition`` and ``offset``, and ``batch`` everywhere.

    Kafka gets each row **at least once**: a batch that is repeated after a crash sends its rows
    again, with the same keys, revisions and batch number, in the same order for each key. Whoever
    keeps the greatest revision of each key has the right table.

    Args:
        servers: ``host:port``, several with commas.
        topic: The topic.
        key: The columns that are the message's key; one is taken as it is, several are a JSON
            object. Without it, what identifies the row.
        format: ``json`` or ``avro``.
        schema: The Avro schema, as JSON; made from the columns' types where it isn't given.
        registry: The address of a schema registry, as of ``kafka``: the schema is registered with
            the first batch, and each message begins with its number.
        options: As of ``kafka``.

    Raises:
        OptionError: When the options don't fit together.

    Example:
        >>> to_kafka("localhost:9092", "views")
        KafkaSink('localhost:9092', 'views')
    """
    if format not in ("json", "avro"):
        raise OptionError("format", format, "isn't written", "give 'json' or 'avro'")
    if schema is not None and format != "avro":
        raise OptionError("schema", schema, "is for Avro", "add format='avro'")
    if registry is not None and format != "avro":
        raise OptionError("registry", "…", "is for Avro", "add format='avro'")
    known = registry_at(registry)
    names = (key,) if isinstance(key, str) else None if key is None else tuple(key)
    return KafkaSink(servers, topic, names, format, schema, known, of_connector(options or {}))


def _key(names: tuple[str, ...] | None, schema: StructType) -> Column:
    if not names:
        return F.lit(None).cast("string")
    if len(names) > 1:
        return F.to_json(_struct(names), _JSON)
    found = F.col(quoted(names[0]))
    times = {f.name.lower() for f in schema.fields if isinstance(f.dataType, TimestampType)}
    # Without its offset, the hour that comes twice when clocks go back is one.
    return F.date_format(found, _INSTANT) if names[0].lower() in times else found.cast("string")


# Each batch makes its columns anew, and a column made of text is one call to the JVM.
def _struct(names: Sequence[str]) -> Column:
    return F.expr(f"struct({', '.join(map(quoted, names))})")


def _headers(names: Sequence[str], number: int) -> Column:
    values = {name: f"cast({quoted(name)} AS string)" for name in names}
    values["batch"] = f"'{number}'"
    made = (
        f"named_struct('key', '{name}', 'value', cast({value} AS binary))"
        for name, value in values.items()
    )
    return F.expr(f"array({', '.join(made)})")
