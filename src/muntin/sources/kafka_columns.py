"""Reads Kafka's topics as columns; the workers decode payloads where they read them."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import polars as pl

from muntin.engine.admission import Flags
from muntin.engine.columns import PARTITION
from muntin.engine.utf8 import decode_with_escapes, mark_garbled
from muntin.model.errors import OptionError
from muntin.sources.byte_values import ByteValues, binary_column, join_values, select_values
from muntin.sources.kafka_broker import PATIENCE
from muntin.sources.kafka_consumer import MOST_MESSAGES, Columns, Range, Watch
from muntin.sources.kafka_reading import MessagePart, decode_parts, read
from muntin.sources.payloads import Payloads, describe_faults
from muntin.sources.source import MALFORMED_COLUMN, MALFORMED_COLUMNS, MALFORMED_DETAIL_COLUMN

# Kafka's own columns, besides those of the payload.
KAFKA_COLUMNS = ("key", "topic", "partition", "offset", "timestamp", "headers")
Item = TypeVar("Item")
_END: Any = object()
# The columns that differ by message, with the names of confluent_kafka's methods.
_FIELDS = {
    "key": "key",
    "value": "value",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestampType": "timestamp",
    "headers": "headers",
}


@dataclass(frozen=True)
class KafkaReader:
    """Reads ranges as columns.

    Attributes:
        payload: Decoder of payloads; ``None`` if they stay bytes.
        wanted: Columns to return in this order, with the types that Spark has.
        lossy: Whether to continue if messages were deleted before they were read.
        malformed_flag: Name of a boolean column that marks malformed messages, if one is wanted.
        has_partition_names: Whether messages carry the name of their partition.
        patience: How long brokers may be away, in seconds.
    """

    client: Mapping[str, str] = field(repr=False)
    payload: Payloads | None
    wanted: dict[str, pl.DataType]
    flags: Flags
    lossy: bool = False
    malformed_flag: str | None = None
    patience: float = PATIENCE
    has_partition_names: bool = False

    @property
    def fields(self) -> frozenset[str]:
        """The fields of messages that are needed for the columns."""
        payload = {} if self.payload is None else self.payload.columns
        fields = {_FIELDS[name] for name in self.wanted if name in _FIELDS.keys() - payload.keys()}
        # A message is still counted if none of its payload's columns is wanted, and may be
        # malformed.
        return frozenset(fields | ({"value"} if self.payload is not None else set()))

    def read(
        self, ranges: Sequence[Range], watch: Watch
    ) -> Generator[pl.DataFrame, None, None] | ReadAhead[pl.DataFrame]:
        """Read ranges in frames of a bounded size, without flags.

        The next messages are fetched, taken out of their record batches, and decoded while a frame
        is in use, each on a thread of its own.
        """
        parts = read(self.client, self.lossy, ranges, self.fields, watch)
        if sum(one.size for one in ranges) <= MOST_MESSAGES:
            # They make a single frame, unless they are large, and a thread would only add latency.
            return self._frames(self._decode(parts))
        return ReadAhead(self._frames(ReadAhead(self._decode(ReadAhead(parts)))))

    def read_parts(self, parts: Sequence[MessagePart]) -> Generator[pl.DataFrame, None, None]:
        """Decode messages that were fetched, if there are some, in one frame without flags."""
        if columns := decode_parts(parts, self.fields):
            yield self.frame(columns)

    def _decode(
        self, parts: Generator[list[MessagePart], None, None] | ReadAhead[list[MessagePart]]
    ) -> Generator[list[Columns], None, None]:
        with closing(parts):
            for some in parts:
                if columns := decode_parts(some, self.fields):
                    yield columns

    def _frames(
        self, messages: Generator[list[Columns], None, None] | ReadAhead[list[Columns]]
    ) -> Generator[pl.DataFrame, None, None]:
        with closing(messages):
            yield from map(self.frame, messages)

    def frame(self, parts: Sequence[Columns]) -> pl.DataFrame:
        """Return messages as columns, partition by partition."""
        lists = {name: _join_field(parts, name) for name in self.fields}
        values = lists.get("value", [])
        columns: dict[str, pl.Series] = {}
        if self.payload is not None:
            # All columns are decoded: whether a message is malformed can't depend on the wanted
            # ones.
            decoded, bad, faults = self.payload.decode(values)
            columns = {name: decoded[name] for name in decoded.columns if name in self.wanted}
            if MALFORMED_COLUMN in self.wanted:
                columns[MALFORMED_COLUMN] = _keep_malformed(values, bad)
            if MALFORMED_DETAIL_COLUMN in self.wanted:
                detail = describe_faults(self.payload, values, bad, faults)
                columns[MALFORMED_DETAIL_COLUMN] = detail
            if self.malformed_flag is not None:
                columns[self.malformed_flag] = bad
        garbled = {}
        for name, dtype in self.wanted.items():
            if name == "key" and name not in columns:
                keys = binary_column(lists["key"])
                # On Spark, a key may have any bytes, as with Spark's own reader.
                if dtype == pl.Binary:
                    columns[name] = keys
                else:
                    columns[name], garbled[name] = decode_with_escapes(keys)
            elif name not in columns:
                columns[name] = _own_column(name, dtype, parts, lists).cast(dtype)
        if self.has_partition_names:
            names = [f"{part.topic}[{part.partition}]" for part in parts]
            columns[PARTITION] = _repeat_by_part(names, parts, pl.String())
        frame = pl.DataFrame([column.alias(name) for name, column in columns.items()])
        return mark_garbled(frame, garbled)


def refuse_malformed(names: Collection[str]) -> None:
    """Refuse a payload with a column named like one of those of malformed payloads."""
    for name in MALFORMED_COLUMNS:
        if name in names:
            hint = "rename it, with columns of your own"
            raise OptionError("columns", name, "is reserved for malformed payloads", hint)


def _keep_malformed(values: Sequence[bytes | None], bad: pl.Series) -> pl.Series:
    """Return the bytes of malformed payloads; a null payload becomes empty bytes."""
    none = pl.Series([None], dtype=pl.Binary).new_from_index(0, len(values))
    if not bad.any():
        return none
    rows = bad.arg_true()
    return none.scatter(rows, binary_column(select_values(values, rows.to_numpy())).fill_null(b""))


def _join_field(parts: Sequence[Columns], name: str) -> Any:
    lists = [part.lists[name] for part in parts]
    if len(lists) == 1:
        return lists[0]
    if isinstance(lists[0], ByteValues):
        return join_values(lists)
    return np.concatenate(lists) if isinstance(lists[0], np.ndarray) else [*chain(*lists)]


def _repeat_by_part(
    values: Sequence[object], parts: Sequence[Columns], dtype: pl.DataType
) -> pl.Series:
    """Return a column with the value of each part for all of its messages."""
    if len(parts) == 1:
        return pl.Series(values, dtype=dtype).new_from_index(0, parts[0].count)
    rows = np.repeat(np.arange(len(parts)), [part.count for part in parts])
    return pl.Series(values, dtype=dtype)[rows]


def _own_column(
    name: str, dtype: pl.DataType, parts: Sequence[Columns], lists: Mapping[str, Any]
) -> pl.Series:
    if name in ("topic", "partition"):
        # With several topics, a partition's number is ambiguous without its topic.
        has_topic_prefix = name == "partition" and dtype == pl.String
        each = [
            f"{part.topic}-{part.partition}" if has_topic_prefix else getattr(part, name)
            for part in parts
        ]
        return _repeat_by_part(each, parts, dtype)
    values = lists[_FIELDS[name]]
    if name == "value":
        return binary_column(values)
    if name == "offset":
        return pl.Series(values, dtype=pl.Int64)
    if name in ("timestamp", "timestampType"):
        both = values
        if not isinstance(values, np.ndarray):
            flat = chain.from_iterable(values)
            both = np.fromiter(flat, np.int64, 2 * len(values)).reshape(-1, 2)
        if name == "timestamp":
            # Kafka writes -1 for a message without a timestamp, and no timestamp is earlier.
            times = pl.Series(both[:, 1] * 1000).cast(pl.Datetime("us", "UTC"))
            lacks = (both[:, 1] < 0) | (both[:, 0] == 0)
            return times.set(pl.Series(lacks), None) if lacks.any() else times
        # Spark has 0 for the producer's time, and 1 for the broker's.
        return pl.Series(both[:, 0] - 1)
    headers = [[{"key": k, "value": v} for k, v in some or ()] or None for some in values]
    return pl.Series(headers, dtype=pl.List(pl.Struct({"key": pl.String, "value": pl.Binary})))


class ReadAhead(Iterator[Item]):
    """Computes each item of an iterator while the item before it is in use, the first one at once.

    Fetching, decoding and combining messages take similar times, and most of each is spent outside
    of Python's interpreter lock, so that they run on several cores. At most one item waits. An
    error is raised where the item would come.

    Args:
        items: The items, which are closed when the caller stops early.
    """

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._pool = ThreadPoolExecutor(1, "muntin-read-ahead")
        self._future = self._pool.submit(next, items, _END)

    def __next__(self) -> Item:
        try:
            item = self._future.result()
        except BaseException:
            self.close()
            raise
        if item is _END:
            self.close()
            raise StopIteration
        self._future = self._pool.submit(next, self._items, _END)
        return item

    def close(self) -> None:
        """Wait for the item that is computed, and close the items."""
        self._future.cancel()
        self._pool.shutdown()
        if close := getattr(self._items, "close", None):
            close()
