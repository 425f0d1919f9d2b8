"""Topics of Kafka as columns: decoded by the workers, combined where they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from muntin.spark.flags import Flags
from muntin.spark.kafka_consumer import Range, read
from muntin.spark.kafka_ranges import KafkaRows
from muntin.spark.payloads import decode
from muntin.spark.schema import to_batches
from muntin.spark.utf8 import marked, text

# The column of a payload that couldn't be parsed, as it came; null for all others.
MALFORMED = "malformed"
_MADE_OF = "_muntin_columnar"


@dataclass(frozen=True)
class KafkaReader:
    """Reads ranges in a worker, as columns.

    Attributes:
        client: Settings of librdkafka.
        payload: The payload's columns; ``None`` where it is left as bytes.
        wanted: The columns to give, in order, of the types that Spark would send.
        zone: Which zone a time without one is of.
        flags: What is said of each message.
        lossy: Whether to go on where messages were deleted before they were read.
        marks: The column to say in which messages couldn't be parsed, if anybody asks.
    """

    client: Mapping[str, str] = field(repr=False)
    payload: dict[str, pl.DataType] | None
    wanted: dict[str, pl.DataType]
    zone: str
    flags: Flags
    lossy: bool = False
    marks: str | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
        """The messages of all ranges, flags added, in frames of a bounded size."""
        for batch in batches:
            rows = batch.to_pylist()
            now = max((row.pop("now") for row in rows), default=0)
            for messages in read(self.client, self.lossy, [Range(**row) for row in rows]):
                yield self.flags.add(self.frame(messages), now)

    def frame(self, messages: Sequence[Any]) -> pl.DataFrame:
        """Messages of one partition as columns."""
        values = [message.value() for message in messages]
        found: dict[str, pl.Series] = {}
        if self.payload is not None:
            # All columns, whoever asks: whether a message is malformed can't depend on that.
            decoded, bad = decode(values, self.payload, self.zone)
            found = {name: decoded[name] for name in self.payload if name in self.wanted}
            if MALFORMED in self.wanted:
                found[MALFORMED] = _raw(values, bad)
            if self.marks is not None:
                found[self.marks] = bad
        garbled = {}
        for name, dtype in self.wanted.items():
            if name == "key" and name not in found:
                found[name], garbled[name] = _text([message.key() for message in messages])
            elif name not in found:
                found[name] = _own(name, messages, values).cast(dtype)
        frame = pl.DataFrame([column.alias(name) for name, column in found.items()])
        return marked(frame, garbled)


@dataclass(frozen=True)
class Columnar:
    """What a DataFrame of topics was made of, for whoever would rather read them itself.

    Attributes:
        rows: The topics' ranges.
        reader: Reads all columns of the DataFrame.
    """

    rows: KafkaRows
    reader: KafkaReader

    def frame(self, schema: StructType) -> DataFrame:
        """The messages as a DataFrame, which remembers what it was made of."""
        frame = self.rows.mapInArrow(Messages(self.reader, schema), schema)
        vars(frame)[_MADE_OF] = self
        return frame


def columnar(frame: DataFrame) -> Columnar | None:
    """What a DataFrame was made of, where it is a topic's and nothing else."""
    return vars(frame).get(_MADE_OF)


@dataclass(frozen=True)
class Messages:
    """Gives messages to Spark, as rows of a DataFrame; for ``mapInArrow``."""

    read: KafkaReader
    schema: StructType

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The messages of ranges."""
        for frame in self.read(batches):
            yield from to_batches(frame, self.schema)


def _raw(values: Sequence[bytes | None], bad: pl.Series) -> pl.Series:
    """Payloads that couldn't be parsed; one that is null is kept as nothing."""
    if not bad.any():
        return pl.Series([None], dtype=pl.Binary).new_from_index(0, len(values))
    kept = [value or b"" if wrong else None for value, wrong in zip(values, bad, strict=True)]
    return pl.Series(kept, dtype=pl.Binary)


def _own(name: str, messages: Sequence[Any], values: Sequence[bytes | None]) -> pl.Series:
    """One of Kafka's own columns."""
    count = len(messages)
    if name == "value":
        return pl.Series(values, dtype=pl.Binary)
    if name == "topic":
        return pl.repeat(messages[0].topic(), count, dtype=pl.String, eager=True)
    if name == "partition":
        return pl.repeat(messages[0].partition(), count, dtype=pl.Int32, eager=True)
    if name == "offset":
        return pl.Series([message.offset() for message in messages], dtype=pl.Int64)
    if name == "timestamp":
        stamps = pl.Series([message.timestamp()[1] for message in messages], dtype=pl.Int64)
        return (stamps * 1000).cast(pl.Datetime("us", "UTC"))
    if name == "timestampType":
        # Spark's 0 is the producer's time, and 1 the broker's.
        return pl.Series([message.timestamp()[0] - 1 for message in messages], dtype=pl.Int32)
    headers = [
        [{"key": key, "value": value} for key, value in message.headers() or ()] or None
        for message in messages
    ]
    kind = pl.List(pl.Struct({"key": pl.String, "value": pl.Binary}))
    return pl.Series(headers, dtype=kind)


def _text(keys: list[bytes | None]) -> tuple[pl.Series, pl.Series]:
    """Keys as text, as Python shows them where they are other bytes, and which these are."""
    held = pl.Series(keys, dtype=pl.Binary)
    texts, bad = text(held)
    if not bad.any():
        return texts, bad
    shown = [None if k is None else k.decode("utf-8", "replace") for k in keys]
    return pl.Series(shown, dtype=pl.String), bad
