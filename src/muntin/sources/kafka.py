"""Topics of Kafka as a user describes them: the servers, and the columns of payloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any, ClassVar, Literal, Self

import polars as pl

from muntin.engine.admission import Flags
from muntin.engine.session_zone import find_session_zone
from muntin.model.attribute_hints import WithoutRows
from muntin.model.errors import MissingExtraError, OptionError
from muntin.sources.avro_payloads import AvroPayloads
from muntin.sources.avro_registry import RegisteredAvro
from muntin.sources.avro_schema import record
from muntin.sources.csv_payloads import CsvPayloads
from muntin.sources.ddl import plain_columns
from muntin.sources.json_nested import NestedJsonPayloads, is_nested_json
from muntin.sources.json_payloads import JsonPayloads
from muntin.sources.kafka_broker import PATIENCE, Topics, starting_of
from muntin.sources.kafka_client import needs_java, of_librdkafka, refuse_owned, refuse_unknown
from muntin.sources.kafka_columns import KAFKA_COLUMNS, KafkaReader, refuse_malformed
from muntin.sources.kafka_source import KafkaSource, KafkaSourceReader
from muntin.sources.payloads import Payloads, UnreadableError
from muntin.sources.protobuf_payloads import ProtobufPayloads
from muntin.sources.protobuf_schema import ProtoMessage
from muntin.sources.schema_registry import Registry
from muntin.sources.source import MALFORMED_COLUMNS, Source
from muntin.sources.text_values import is_readable

# The formats whose columns are described by a schema.
DESCRIBED = ("avro", "protobuf")


@dataclass(frozen=True, eq=False)
class InColumns:
    """A boolean that is true if topics are read in columns, with the reason if they aren't.

    Attributes:
        reason: Reason why they aren't; empty if they are.
    """

    reason: str

    def __bool__(self) -> bool:
        return not self.reason

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    def __hash__(self) -> int:
        return hash(bool(self))

    def __repr__(self) -> str:
        return f"False: {self.reason}" if self.reason else "True"


def refuse_schema(
    form: str, schema: Any, registry: str | None, topics: Sequence[str], reader: str | None
) -> None:
    """Refuse options of formats that don't fit together."""
    # A registry has Avro's schemas in a usable form; its schemas of Protobuf need a compiler.
    needed = form in DESCRIBED and not (form == "avro" and registry is not None)
    if (needed and schema is None) or (form not in DESCRIBED and schema is not None):
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
    if form not in DESCRIBED:
        raise OptionError("registry", "…", f"doesn't fit format={form!r}", "add format='avro'")
    if schema is None and len(topics) > 1:
        hint = "give the one to read by, or read each topic by itself: schema='{…}'"
        raise OptionError("schema", schema, "is ambiguous for several topics", hint)


PayloadFormat = Literal["json", "csv", "avro", "protobuf"]
Reader = Literal["spark", "columns"]
PayloadColumns = str | Mapping[str, pl.DataType | str]

_OWN_TYPES: dict[str, pl.DataType] = {
    "key": pl.String(), "value": pl.Binary(), "topic": pl.String(), "partition": pl.Int32(),
    "offset": pl.Int64(), "timestamp": pl.Datetime("us", "UTC"), "timestampType": pl.Int32(),
    "headers": pl.List(pl.Struct({"key": pl.String(), "value": pl.Binary()})),
}  # fmt: skip
# Libraries that read and decompress messages; the extra installs all of them.
_LIBRARIES = ("confluent_kafka", "cramjam", "google_crc32c")


@dataclass(frozen=True)
class KafkaTopics(WithoutRows, Source):
    """A description of Kafka's topics and of the columns of their payloads.

    It is a `Source` of the local host. Spark reads the same description.

    Attributes:
        columns: Names and types of a payload; `None` for bytes, or if a schema has them.
        reader_schema: Avro schema to read by, if there is one.
        starting: Position where a new query begins.
        per_batch: Maximum of messages in a batch.
        bytes_per_batch: Approximate maximum of bytes in a batch; `None` for the host's default.
        reader: Reader that the user requested, if any.
        options: Further options of Kafka's clients or of Spark's connector.
        patience: How long brokers may be away, in seconds.
        group: Consumer group to which offsets are committed.
    """

    _kind_of_words = "source"

    servers: str
    topics: tuple[str, ...]
    columns: PayloadColumns | None
    form: PayloadFormat
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
    bytes_per_batch: int | None = None
    has_partitions: ClassVar[bool] = True

    def find_obstacle(self) -> str | None:
        """Return the column or option that prevents reading these topics in columns, if any."""
        if self.form == "avro" and self.reader_schema is not None:
            try:
                record(str(self.reader_schema))
            except UnreadableError as error:
                return f"the Avro schema {error}"
        elif self.columns is not None:
            for name, dtype in plain_columns(self.columns).items():
                if not self._is_readable(dtype):
                    return f"columns={name!r} has a type that isn't read in columns"
        return needs_java(self.options)

    def check_client(self, instead: str = "") -> None:
        """Refuse options that librdkafka doesn't accept.

        Args:
            instead: What else the user can do if libraries are missing.

        Raises:
            MissingExtraError: When librdkafka isn't installed.
            OptionError: When librdkafka doesn't have an option, or not with this value.
        """
        if any(find_spec(library) is None for library in _LIBRARIES):
            raise MissingExtraError("reading topics", "kafka", instead)
        client, _ = of_librdkafka(self.servers, self.options)
        refuse_owned(self.options)
        if self.options:
            refuse_unknown(client)

    def with_registered_schema(self) -> Self:
        """Return the topics with the newest schema of the registry, if they are read by that."""
        if self.registry is None or self.reader_schema is not None or self.message is not None:
            return self
        return replace(self, reader_schema=self.registry.latest(self.topics[0]))

    def payload_types(self) -> dict[str, pl.DataType] | None:
        """Return the columns of a payload; `None` if it stays bytes."""
        if self.message is not None:
            return dict(self.message.columns())
        if self.form == "avro":
            return dict(record(str(self.reader_schema)).columns())
        return None if self.columns is None else dict(plain_columns(self.columns))

    def message_types(self) -> dict[str, pl.DataType]:
        """Return the columns of a message: the payload's, Kafka's own, and the malformed payload's.

        Raises:
            OptionError: When the payload has a column of a name that is taken.
        """
        own = {n: kind for n, kind in _OWN_TYPES.items() if n != "headers" or self.headers}
        if len(self.topics) > 1:
            own["partition"] = pl.String()
        payload = self.payload_types()
        if payload is None:
            return own
        refuse_malformed(payload)
        rest = {n: kind for n, kind in own.items() if n in KAFKA_COLUMNS and n not in payload}
        return {**payload, **rest, **MALFORMED_COLUMNS}

    def source_in(self, zone: str, zone_option: str = "zone") -> KafkaSource:
        """Return the topics as a source of columns.

        Args:
            zone: Time zone of times that have none.
            zone_option: Name of the option for it, for errors.
        """
        client, lossy = of_librdkafka(self.servers, self.options)
        topics = Topics(
            self.topics, starting_of(self.starting), self.per_batch, client, lossy,
            self.patience, self.group, self.bytes_per_batch,
        )  # fmt: skip
        types = self.payload_types()
        payload = None if types is None else self._payloads(types, zone, zone_option)
        flags = Flags(None, None)
        wanted = self.message_types()
        reader = KafkaReader(client, payload, wanted, flags, lossy, patience=self.patience)
        return KafkaSource(topics, reader)

    @property
    def schema(self) -> pl.Schema:
        """The columns of a message."""
        return self._local.schema

    @property
    def malformed_column(self) -> str | None:
        """The column of payloads that can't be decoded, if payloads are decoded."""
        return self._local.malformed_column

    def open(self) -> KafkaSourceReader:
        """Connect to the brokers, for a query in this process.

        Raises:
            MissingExtraError: When `muntin[kafka]` isn't installed.
            OptionError: When the topics can be read on Spark only.
            SourceError: When a topic doesn't exist, or the brokers don't answer.
        """
        return self._local.open()

    @cached_property
    def _local(self) -> KafkaSource:
        """The topics as a source for this process; times without a zone are in UTC."""
        hint = "leave out what needs it, or run the query on Spark: kafka(…).stream(spark)"
        if self.reader == "spark":
            raise OptionError("reader", "spark", "needs Spark", hint)
        described = self.with_registered_schema()
        if obstacle := described.find_obstacle():
            raise OptionError("reader", self.reader, f"needs Spark, since {obstacle}", hint)
        described.check_client()
        return described.source_in("UTC")

    def _is_readable(self, dtype: Any) -> bool:
        """Return whether a column of a type is read in columns."""
        if self.form == "json":
            return is_nested_json(dtype)
        return is_readable(dtype) or isinstance(dtype, pl.Decimal)

    def _payloads(self, columns: dict[str, pl.DataType], zone: str, zone_option: str) -> Payloads:
        if self.message is not None:
            return ProtobufPayloads(self.message, columns, self.registry is not None)
        if self.form == "avro" and self.registry is not None:
            return RegisteredAvro(self.registry, record(str(self.reader_schema)), columns)
        if self.form == "avro":
            return AvroPayloads(record(str(self.reader_schema)), columns)
        session = find_session_zone(zone)
        if session is None:
            problem = "isn't in the time zone database"
            hint = "set one such as 'America/Los_Angeles', or give reader='spark'"
            raise OptionError(zone_option, zone, problem, hint)
        if self.form == "csv":
            return CsvPayloads(columns, session)
        is_plain = all(map(is_readable, columns.values()))
        return (JsonPayloads if is_plain else NestedJsonPayloads)(columns, session)
