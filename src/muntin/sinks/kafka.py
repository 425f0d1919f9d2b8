"""Writes results, pairs and rejected messages to a topic of Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Literal

import pyarrow as pa

from muntin.engine import columns
from muntin.engine.operator import REJECTED
from muntin.model.axis import Duration, parse_duration
from muntin.model.errors import MissingExtraError, OptionError
from muntin.model.option_types import check_text
from muntin.model.references import resolve_all
from muntin.model.secrets import list_references
from muntin.sinks.batch import Batch
from muntin.sinks.kafka_messages import Encoding, Sender
from muntin.sinks.kafka_producer import DEFAULTS
from muntin.sinks.sink import report_refused
from muntin.sources.kafka_client import of_librdkafka, refuse_unknown
from muntin.sources.kafka_columns import KAFKA_COLUMNS
from muntin.sources.schema_registry import Registry, registry_at
from muntin.sources.source import MALFORMED_COLUMN, MALFORMED_COLUMNS, MALFORMED_DETAIL_COLUMN

# Settings that follow from ``patience``.
_TIMES = ("message.timeout.ms", "delivery.timeout.ms", "topic.metadata.propagation.max.ms")
# The longest time that the first of them takes.
_LONGEST_MS = (1 << 31) - 1
# These columns become headers, so that the value of a dead letter is the original message.
_REJECTED_HEADERS = (
    "topic", "partition", "offset", "timestamp", columns.REASON, columns.WATERMARK,
    MALFORMED_DETAIL_COLUMN,
)  # fmt: skip


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
    def references(self) -> frozenset[str]:
        """The secrets that whoever sends messages looks up."""
        registry = () if self.registry is None else (self.registry.url,)
        return list_references((*self.client.values(), *registry))

    @property
    def location(self) -> str:
        """A description of the topic, for messages."""
        return f"Kafka {self.servers}, topic {self.topic}"

    def check(self, schema: pa.Schema, keys: tuple[str, ...] | None) -> None:
        self.check_key(schema.names)
        resolve_all(self.client)
        if self.form == "avro":
            hint = "write JSON, or run the query on Spark"
            raise OptionError("format", self.form, "isn't written in this process", hint)

    def check_key(self, names: Sequence[str]) -> None:
        """Refuse a key that isn't a column."""
        folded = {name.lower() for name in names}
        for name in self.key or ():
            if name.lower() not in folded:
                hint = f"give some of {', '.join(names)}"
                raise OptionError("key", name, f"isn't a column of what {self.topic} gets", hint)

    def write(self, batch: Batch) -> None:
        if batch.empty or batch.write_natively(self):
            return
        rows = batch.table()
        refused = self.create_sender(batch, rows.column_names).send(rows)
        report_refused(batch, rows, refused, self.location)

    def create_sender(self, batch: Batch, names: Sequence[str]) -> Sender:
        """Return the sender for a batch's rows."""
        return Sender(self.client, self.topic, self._create_encoding(batch, names))

    def _create_encoding(self, batch: Batch, names: Sequence[str]) -> Encoding:
        """Return the encoding of rows with some columns as messages."""
        if batch.kind == REJECTED:
            own = [name for name in _REJECTED_HEADERS if name in names]
            payload = [c for c in names if c not in (*own, *KAFKA_COLUMNS, *MALFORMED_COLUMNS)]
            key = self.key if self.key is not None else ("key",) if "key" in names else ()
            encoding = Encoding(
                _resolve_names(key, names),
                tuple(payload or names),
                tuple(own),
                raw=MALFORMED_COLUMN if MALFORMED_COLUMN in names else None,
                has_headers="headers" in names,
            )
        else:
            identity = self.key if self.key is not None else batch.identity
            own = [name for name in (columns.EMISSION, columns.REVISION) if name in names]
            has_retractions = batch.keys is not None and columns.EMISSION in names
            encoding = Encoding(
                _resolve_names(identity or (), names),
                tuple(names),
                tuple(own),
                omits_retracted=has_retractions,
            )
        return replace(encoding, batch=batch.number, zone=batch.zone, by_spark=self.form == "avro")


def _resolve_names(names: Sequence[str], present: Sequence[str]) -> tuple[str, ...]:
    """Return columns by their present names, ignoring case as Spark does."""
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
    patience: Duration = "2 minutes",
) -> KafkaSink:
    """Send every row to a topic of Kafka.

    **Results** have their keys and window as the message's key, a JSON object, so that a compacted
    topic keeps the newest state of every window; a retracted session is a message
    without value. **Rejected** messages are dead letters: they keep their key and, if they
    couldn't be parsed, their original bytes. The headers are ``emission`` and ``revision``, or
    ``reason``, ``watermark``, ``topic``, ``partition`` and ``offset``, and always ``batch``.

    Kafka gets each row **at least once**: a batch that is repeated after a crash sends its rows
    again, with the same keys, revisions and batch number, in the same order for each key. A
    consumer that keeps the greatest revision of each key has the right table.

    Args:
        servers: ``host:port``, several separated by commas.
        topic: The topic.
        key: The columns of the message's key; a single one is sent as it is, several are a JSON
            object. By default, the columns that identify the row.
        format: ``json`` or ``avro``.
        schema: The Avro schema, as JSON; derived from the columns' types by default.
        registry: The address of a schema registry, as in ``kafka``: the schema is registered with
            the first batch, and each message starts with its number.
        options: Settings of librdkafka, as in ``kafka`` when the workers read: ``sasl.username``,
            ``ssl.ca.location``, ``message.max.bytes``, … Write a secret as ``${env:NAME}`` or
            ``${file:PATH}``, which whoever sends messages looks up.
        patience: How long to wait for brokers and registries that are away, or for a topic that
            doesn't exist, before the query ends with an error.

    Returns:
        The sink. Its query ends with a ``SinkError`` where brokers stay away for longer than
        ``patience``.

    Raises:
        OptionError: When options conflict, or aren't librdkafka's.
        MissingExtraError: When ``muntin[kafka]`` isn't installed.

    Example:
        >>> to_kafka("localhost:9092", "views")
        KafkaSink('localhost:9092', 'views')
    """
    check_text("servers", servers)
    check_text("topic", topic)
    if format not in ("json", "avro"):
        raise OptionError("format", format, "isn't written", "give 'json' or 'avro'")
    if schema is not None and format != "avro":
        raise OptionError("schema", schema, "is for Avro", "add format='avro'")
    if registry is not None and format != "avro":
        raise OptionError("registry", "…", "is for Avro", "add format='avro'")
    if find_spec("confluent_kafka") is None:
        raise MissingExtraError("writing topics", "kafka")
    client, _ = of_librdkafka(servers, options or {}, "write with a function of your own")
    if "transactional.id" in client:
        problem = "begins transactions, but messages are sent at least once"
        raise OptionError("options", "transactional.id", problem, "leave it out")
    for name in client.keys() & {*_TIMES}:
        raise OptionError("options", name, "is set by the sink itself", "give patience=")
    waits = parse_duration("patience", patience, zero=False)
    if options:
        refuse_unknown(client, sends=True, defaults=DEFAULTS)
    client[_TIMES[0]] = str(min(max(1, waits // 1000), _LONGEST_MS))
    schema_registry = registry_at(registry, waits / 1_000_000)
    names = (key,) if isinstance(key, str) else key
    if names is not None:
        if not isinstance(names, Sequence):
            raise OptionError("key", key, "isn't the name of a column", "give one, or a list")
        if not names:
            raise OptionError("key", key, "names no column", "give one, or leave it out")
        names = tuple(names)
    return KafkaSink(client, topic, names, format, schema, schema_registry)
