"""Encodes rows as messages of a topic, column by column, and reports rows that can't be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from muntin.engine import columns
from muntin.engine.utf8 import GARBLED, frame_from_arrow
from muntin.sinks.json_text import format_objects, format_several, format_text, format_times
from muntin.sinks.kafka_producer import Headers, Messages, send_messages
from muntin.sinks.plain import format_json_rows
from muntin.sinks.unwritable import ROW_COLUMN, WHY_COLUMN

# The value of each message, if Spark encoded it.
VALUE_COLUMN = "__muntin_value"
_KEY, _VALUE = "key", "value"
_NOT_TEXT = "a text isn't UTF-8, as JSON must be"


@dataclass(frozen=True)
class Encoding:
    """The encoding of rows as messages.

    Attributes:
        key: The columns of the key: a single one is sent as it is, several are a JSON object.
        value: The columns of the value.
        batch: The number of the batch, which is a header.
        raw: The column with the original bytes of messages that couldn't be read.
        has_headers: True if the rows have headers of their own.
        omits_retracted: True if retractions have no value.
        by_spark: True if the rows have their values already, in ``VALUE``.
    """

    key: tuple[str, ...]
    value: tuple[str, ...]
    header_columns: tuple[str, ...]
    batch: int = 0
    raw: str | None = None
    has_headers: bool = False
    omits_retracted: bool = False
    by_spark: bool = False
    zone: str = "UTC"

    def encode_messages(self, table: pa.Table) -> tuple[Messages, dict[int, str]]:
        """Encode rows as messages; also return the rows that can't be encoded, with reasons."""
        rows = frame_from_arrow(table)
        objects = self._format_objects(rows)
        messages = Messages(
            self._encode_keys(table, rows, objects),
            self._encode_values(rows, objects),
            self._encode_headers(rows),
        )
        return messages, dict.fromkeys(self._find_garbled(rows), _NOT_TEXT)

    def _format_objects(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the keys and values that are JSON objects."""
        objects = {} if self.by_spark else {_VALUE: self.value}
        if len(self.key) > 1:
            objects[_KEY] = self.key
        return format_several(rows, objects, self.zone) if objects else pl.DataFrame()

    def _encode_keys(self, table: pa.Table, rows: pl.DataFrame, objects: pl.DataFrame) -> list[Any]:
        if not self.key:
            return [None] * len(rows)
        if len(self.key) > 1:
            return objects[_KEY].to_list()
        name = self.key[0]
        kind = rows.schema[name]
        if isinstance(kind, pl.String | pl.Binary):
            # The unchanged bytes, even if they aren't UTF-8.
            raw_keys: list[Any] = table[name].cast(pa.large_binary()).to_pylist()
            return raw_keys
        if isinstance(kind, pl.Datetime):
            return format_times(rows, name, self.zone).to_list()
        if kind.is_nested() or isinstance(kind, pl.Map):
            key_frame = pl.DataFrame({"k": rows[name]})
            texts = format_objects(key_frame, ["k"], self.zone).str.slice(5).str.strip_suffix("}")
            return texts.set(rows[name].is_null(), None).to_list()
        return rows[name].cast(pl.String).to_list()

    def _encode_values(self, rows: pl.DataFrame, objects: pl.DataFrame) -> list[Any]:
        encoded: list[Any] = (rows[VALUE_COLUMN] if self.by_spark else objects[_VALUE]).to_list()
        if self.omits_retracted:
            is_retraction = rows[columns.EMISSION] == "retract"
            encoded = [
                None if none else text for none, text in zip(is_retraction, encoded, strict=True)
            ]
        if self.raw is not None:
            raw = rows[self.raw]
            encoded = [
                text if held is None else held for held, text in zip(raw, encoded, strict=True)
            ]
        return encoded

    def _encode_headers(self, rows: pl.DataFrame) -> list[Headers]:
        texts = [
            (name, format_text(rows[name], self.zone).to_list()) for name in self.header_columns
        ]
        batch_header: tuple[str, Any] = ("batch", str(self.batch))
        names = [name for name, _ in texts]
        cells = zip(*(held for _, held in texts), strict=True) if texts else [()] * len(rows)
        # Most rows have the same headers.
        cache: dict[tuple[Any, ...], Headers] = {}
        headers = []
        for row in cells:
            row_headers = cache.get(row)
            if row_headers is None:
                row_headers = cache[row] = [*zip(names, row, strict=True), batch_header]
            headers.append(row_headers)
        if self.has_headers:
            own_headers = [_to_pairs(one) for one in rows["headers"].to_list()]
            headers = [[*one, *two] for one, two in zip(own_headers, headers, strict=True)]
        return headers

    def _find_garbled(self, rows: pl.DataFrame) -> list[int]:
        """Return the rows with text that isn't UTF-8 in columns that become JSON."""
        if GARBLED not in rows.columns or self.by_spark:
            return []
        used = [*self.value, *(self.key if len(self.key) > 1 else ())]
        bad = rows[GARBLED].list.set_intersection(used).list.len() > 0
        return bad.fill_null(False).arg_true().to_list()


def _to_pairs(headers: Sequence[Mapping[str, Any]] | None) -> Headers:
    return [(one["key"], one["value"]) for one in headers or ()]


@dataclass(frozen=True)
class Sender:
    """Encodes rows and sends them, on the driver or in ``mapInArrow``."""

    client: Mapping[str, str]
    topic: str
    encoding: Encoding

    def send(self, table: pa.Table) -> dict[int, str]:
        """Send rows in their order; return the rows that can't be sent, with reasons."""
        messages, unfit = self.encoding.encode_messages(table)
        rows = [row for row in range(len(messages)) if row not in unfit]
        unfit |= send_messages(self.client, self.topic, messages, rows)
        return dict(sorted(unfit.items()))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send rows; return those that can't be sent, with the reasons."""
        for batch in batches:
            table = pa.Table.from_batches([batch])
            unfit = self.send(table)
            if unfit:
                # The original columns, without the value that Spark encoded.
                names = [name for name in table.column_names if name != VALUE_COLUMN]
                texts = format_json_rows(table.select(names).take([*unfit]))
                unsendable = [pa.array(texts, pa.string()), pa.array(unfit.values(), pa.string())]
                yield pa.RecordBatch.from_arrays(unsendable, names=[ROW_COLUMN, WHY_COLUMN])
