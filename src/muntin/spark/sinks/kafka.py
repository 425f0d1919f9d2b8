"""Results, pairs and rejected messages to a topic of Kafka."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.engine import columns
from muntin.engine.operator import REJECTED
from muntin.model.errors import MissingExtraError, OptionError
from muntin.model.pipeline import quoted
from muntin.spark.session_zone import ZONE_SETTING
from muntin.spark.sinks.batch import Batch
from muntin.spark.sinks.kafka_messages import VALUE, Encoding, Sender
from muntin.spark.sinks.sink import set_aside
from muntin.spark.sinks.unstorable import ROW, WHY
from muntin.spark.sources.avro_registry import Registry, registry_at
from muntin.spark.sources.avro_schema import schema_of
from muntin.spark.sources.connector import connect
from muntin.spark.sources.kafka import MALFORMED, OWN
from muntin.spark.sources.kafka_client import of_librdkafka, refuse_unknown
from muntin.spark.sources.payloads import HEAD

# Sent in headers, so that a dead letter's value is what came in.
_ASIDE = ("topic", "partition", "offset", "timestamp", columns.REASON, columns.WATERMARK)


class KafkaSink:
    """A topic; see ``to_kafka``."""

    def __init__(
        self,
        client: Mapping[str, str],
        topic: str,
        key: tuple[str, ...] | None,
        form: str,
        schema: str | None,
        registry: Registry | None,
    ) -> None:
        self.servers = client["bootstrap.servers"]
        self.topic = topic
        self.key = key
        self.form = form
        self.schema = schema
        self.registry = registry
        self._client = dict(client)

    def __repr__(self) -> str:
        return f"KafkaSink({self.servers!r}, {self.topic!r})"

    def check(self, schema: StructType, keys: tuple[str, ...] | None) -> None:
        there = {name.lower() for name in schema.names}
        for name in self.key or ():
            if name.lower() not in there:
                hint = f"give some of {', '.join(schema.names)}"
                raise OptionError("key", name, f"isn't a column of what {self.topic} gets", hint)

    def write(self, batch: Batch) -> None:
        if batch.empty:
            return
        place = f"Kafka {self.servers}, topic {self.topic}"
        if batch.blobs is not None and self.form == "json":
            # Few rows are sent from here: a job of Spark's takes longer than they do.
            rows = batch.table()
            sender = Sender(self._client, self.topic, self._encoding(batch, rows.column_names))
            set_aside(batch, rows, sender.send(rows), place)
            return
        frame = batch.frame
        encoding = self._encoding(batch, frame.columns)
        if encoding.by_spark:
            frame = self._with_value(frame, encoding.value)
        sender = Sender(self._client, self.topic, encoding)
        aside = frame.mapInArrow(sender, f"{ROW} string, {WHY} string").persist()
        if aside.isEmpty():
            aside.unpersist()
        else:
            batch.letters.add_frame(aside, place)

    def _encoding(self, batch: Batch, there: Sequence[str]) -> Encoding:
        """How rows of some columns become messages."""
        if batch.kind == REJECTED:
            own = [name for name in _ASIDE if name in there]
            payload = [c for c in there if c not in (*own, *OWN, MALFORMED)]
            key = self.key if self.key is not None else ("key",) if "key" in there else ()
            made = Encoding(
                _as_named(key, there),
                tuple(payload or there),
                tuple(own),
                raw=MALFORMED if MALFORMED in there else None,
                given="headers" in there,
            )
        else:
            identity = self.key if self.key is not None else batch.identity
            own = [name for name in (columns.EMISSION, columns.REVISION) if name in there]
            gone = batch.keys is not None and columns.EMISSION in there
            made = Encoding(_as_named(identity or (), there), tuple(there), tuple(own), vanish=gone)
        zone = str(batch.emitted.sparkSession.conf.get(ZONE_SETTING))
        return replace(made, batch=batch.number, zone=zone, by_spark=self.form == "avro")

    def _with_value(self, frame: DataFrame, names: Sequence[str]) -> DataFrame:
        """Rows, with their values as Spark writes Avro."""
        from pyspark.sql.avro.functions import to_avro

        connect(frame.sparkSession)
        row = F.struct(*(F.col(quoted(name)) for name in names))
        if self.registry is None:
            value = to_avro(row) if self.schema is None else to_avro(row, self.schema)
            return frame.withColumn(VALUE, value)
        written = StructType([frame.schema[name] for name in names])
        text = self.schema or json.dumps(schema_of(written, "Row"))
        number = _registered(self.registry, self.topic, text)
        begin = F.lit(bytearray(number.to_bytes(HEAD, "big")))
        return frame.withColumn(VALUE, F.concat(begin, to_avro(row, text)))


def _as_named(names: Sequence[str], there: Sequence[str]) -> tuple[str, ...]:
    """Columns by the names that they have: Spark's have no case."""
    known = {name.lower(): name for name in there}
    return tuple(known[name.lower()] for name in names)


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
        options: Settings of librdkafka, as of ``kafka`` where the workers read: ``sasl.username``,
            ``ssl.ca.location``, ``message.max.bytes``, …

    Raises:
        OptionError: When the options don't fit together, or aren't librdkafka's.
        MissingExtraError: When ``muntin[kafka]`` isn't installed.

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
    if find_spec("confluent_kafka") is None:
        raise MissingExtraError("writing topics", "kafka")
    client, _ = of_librdkafka(servers, options or {}, "write with a function of your own")
    if options:
        refuse_unknown(client, sends=True)
    known = registry_at(registry)
    names = (key,) if isinstance(key, str) else None if key is None else tuple(key)
    return KafkaSink(client, topic, names, format, schema, known)
