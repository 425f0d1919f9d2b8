"""Rows as messages of a topic, made of columns; and which rows can't be messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from muntin.engine import columns
from muntin.engine.utf8 import GARBLED, frame_of
from muntin.sinks.json_text import moments, objects
from muntin.sinks.kafka_producer import Headers, Messages, send
from muntin.sinks.plain import as_json
from muntin.sinks.unwritable import ROW, WHY

# Made by Spark, where it is: the value of each message.
VALUE = "__muntin_value"
_NOT_TEXT = "a text isn't UTF-8, as JSON must be"


@dataclass(frozen=True)
class Encoding:
    """How rows become messages.

    Attributes:
        key: The columns of the key: one is taken as it is, several are a JSON object.
        value: The columns of the value.
        own: The columns that are headers.
        batch: The number of the batch, which is a header.
        raw: The column that has a message's very bytes, for those that couldn't be read.
        given: Whether the rows have headers of their own.
        vanish: Whether rows that take a window back have no value.
        by_spark: Whether the rows have their values already, in ``VALUE``.
        zone: The zone that times are written in.
    """

    key: tuple[str, ...]
    value: tuple[str, ...]
    own: tuple[str, ...]
    batch: int = 0
    raw: str | None = None
    given: bool = False
    vanish: bool = False
    by_spark: bool = False
    zone: str = "UTC"

    def messages(self, table: pa.Table) -> tuple[Messages, dict[int, str]]:
        """Rows as messages, and why some of them can't be any."""
        rows = frame_of(table)
        made = Messages(self._keys(table, rows), self._values(rows), self._headers(rows))
        return made, dict.fromkeys(self._garbled(rows), _NOT_TEXT)

    def _keys(self, table: pa.Table, rows: pl.DataFrame) -> list[Any]:
        if not self.key:
            return [None] * len(rows)
        if len(self.key) > 1:
            return objects(rows, self.key, self.zone).to_list()
        name = self.key[0]
        kind = rows.schema[name]
        if isinstance(kind, pl.String | pl.Binary):
            # Its bytes as they are, whatever they are.
            held: list[Any] = table[name].cast(pa.large_binary()).to_pylist()
            return held
        if isinstance(kind, pl.Datetime):
            return moments(rows, name, self.zone).to_list()
        if kind.is_nested() or isinstance(kind, pl.Map):
            of = pl.DataFrame({"k": rows[name]})
            texts = objects(of, ["k"], self.zone).str.slice(5).str.strip_suffix("}")
            return texts.set(rows[name].is_null(), None).to_list()
        return rows[name].cast(pl.String).to_list()

    def _values(self, rows: pl.DataFrame) -> list[Any]:
        values = rows[VALUE] if self.by_spark else objects(rows, self.value, self.zone)
        made: list[Any] = values.to_list()
        if self.vanish:
            gone = rows[columns.EMISSION] == "retract"
            made = [None if none else text for none, text in zip(gone, made, strict=True)]
        if self.raw is not None:
            raw = rows[self.raw]
            made = [text if held is None else held for held, text in zip(raw, made, strict=True)]
        return made

    def _headers(self, rows: pl.DataFrame) -> list[Headers]:
        texts = [(name, _plain(rows[name], self.zone).to_list()) for name in self.own]
        last: tuple[str, Any] = ("batch", str(self.batch))
        names = [name for name, _ in texts]
        cells = zip(*(held for _, held in texts), strict=True) if texts else [()] * len(rows)
        # Most rows have the same ones.
        known: dict[tuple[Any, ...], Headers] = {}
        made = []
        for row in cells:
            found = known.get(row)
            if found is None:
                found = known[row] = [*zip(names, row, strict=True), last]
            made.append(found)
        if self.given:
            before = [_as_given(one) for one in rows["headers"].to_list()]
            made = [[*one, *two] for one, two in zip(before, made, strict=True)]
        return made

    def _garbled(self, rows: pl.DataFrame) -> list[int]:
        """Which rows have text that isn't UTF-8 where it would become JSON."""
        if GARBLED not in rows.columns or self.by_spark:
            return []
        used = [*self.value, *(self.key if len(self.key) > 1 else ())]
        bad = rows[GARBLED].list.set_intersection(used).list.len() > 0
        return bad.fill_null(False).arg_true().to_list()


def _as_given(headers: Sequence[Mapping[str, Any]] | None) -> Headers:
    return [(one["key"], one["value"]) for one in headers or ()]


def _plain(column: pl.Series, zone: str) -> pl.Series:
    """Values as text, as Spark casts them."""
    if not isinstance(column.dtype, pl.Datetime):
        return column.cast(pl.String)
    text = moments(column.to_frame("at"), "at", zone).str.replace("T", " ")
    return text.str.replace(r"(Z|[+-]\d\d:\d\d)$", "").str.replace(r"\.?0+$", "")


@dataclass(frozen=True)
class Sender:
    """Makes messages of rows and sends them; for the driver, and for ``mapInArrow``."""

    client: Mapping[str, str]
    topic: str
    encoding: Encoding

    def send(self, table: pa.Table) -> dict[int, str]:
        """Send rows in their order; which of them can't be sent, and why."""
        messages, unfit = self.encoding.messages(table)
        rows = [row for row in range(len(messages)) if row not in unfit]
        unfit |= send(self.client, self.topic, messages, rows)
        return dict(sorted(unfit.items()))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send rows; those that can't be sent come back, with the reason."""
        for batch in batches:
            table = pa.Table.from_batches([batch])
            unfit = self.send(table)
            if unfit:
                # As they came, without what Spark made of them.
                names = [name for name in table.column_names if name != VALUE]
                texts = as_json(table.select(names).take([*unfit]))
                found = [pa.array(texts, pa.string()), pa.array(unfit.values(), pa.string())]
                yield pa.RecordBatch.from_arrays(found, names=[ROW, WHY])
