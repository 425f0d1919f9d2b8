"""Results, pairs and rejected messages to a topic of Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Literal

import pyarrow as pa

from muntin.engine import columns
from muntin.engine.operator import REJECTED
from muntin.model.errors import MissingExtraError, OptionError
from muntin.sinks.batch import Batch
from muntin.sinks.kafka_messages import Encoding, Sender
from muntin.sinks.sink import set_aside
from muntin.sources.kafka_client import of_librdkafka, refuse_unknown
from muntin.sources.kafka_columns import MALFORMED, OWN
from muntin.sources.schema_registry import Registry, registry_at

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
        self.client = dict(client)

    def __repr__(self) -> str:
        return f"KafkaSink({self.servers!r}, {self.topic!r})"

    @property
    def place(self) -> str:
        """Where messages go, in words."""
        return f"Kafka {self.servers}, topic {self.topic}"

    def check(self, schema: pa.Schema, keys: tuple[str, ...] | None) -> None:
        self.check_key(schema.names)
        if self.form == "avro":
            hint = "write JSON, or run the query on Spark"
            raise OptionError("format", self.form, "isn't written in this process", hint)

    def check_key(self, names: Sequence[str]) -> None:
        """Refuse a key of no column."""
        folded = {name.lower() for name in names}
        for name in self.key or ():
            if name.lower() not in folded:
                hint = f"give some of {', '.join(names)}"
                raise OptionError("key", name, f"isn't a column of what {self.topic} gets", hint)

    def write(self, batch: Batch) -> None:
        if batch.empty or batch.write_natively(self):
            return
        rows = batch.table()
        refused = self.sender(batch, rows.column_names).send(rows)
        set_aside(batch, rows, refused, self.place)

    def sender(self, batch: Batch, names: Sequence[str]) -> Sender:
        """What makes messages of a batch's rows, and sends them."""
        return Sender(self.client, self.topic, self._encoding(batch, names))

    def _encoding(self, batch: Batch, names: Sequence[str]) -> Encoding:
        """How rows of some columns become messages."""
        if batch.kind == REJECTED:
            own = [name for name in _ASIDE if name in names]
            payload = [c for c in names if c not in (*own, *OWN, MALFORMED)]
            key = self.key if self.key is not None else ("key",) if "key" in names else ()
            encoding = Encoding(
                _as_named(key, names),
                tuple(payload or names),
                tuple(own),
                raw=MALFORMED if MALFORMED in names else None,
                given="headers" in names,
            )
        else:
            identity = self.key if self.key is not None else batch.identity
            own = [name for name in (columns.EMISSION, columns.REVISION) if name in names]
            gone = batch.keys is not None and columns.EMISSION in names
            encoding = Encoding(
                _as_named(identity or (), names), tuple(names), tuple(own), vanish=gone
            )
        return replace(encoding, batch=batch.number, zone=batch.zone, by_spark=self.form == "avro")


def _as_named(names: Sequence[str], present: Sequence[str]) -> tuple[str, ...]:
    """Columns by the names that they have: Spark's have no case."""
    folded = {name.lower(): name for name in present}
    return tuple(folded[name.lower()] for name in names)


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

    Returns:
        The sink. Its query ends with a ``SinkError`` where brokers stay away for two minutes.

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
