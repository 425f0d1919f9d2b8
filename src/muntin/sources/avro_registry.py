"""Avro with a schema registry: a zero byte, the number of the schema, and then the record.

This is the wire format of Confluent's registry, and of those that support its protocol: Karapace,
Apicurio and Redpanda's. The workers ask for a schema once, by its number, and keep it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any

import polars as pl

from muntin.sources.avro_evolution import converted
from muntin.sources.avro_payloads import AvroPayloads
from muntin.sources.avro_schema import AvroType, record
from muntin.sources.byte_values import binary_column
from muntin.sources.payloads import HEAD, UnreadableError
from muntin.sources.schema_registry import Registry
from muntin.sources.text_values import sound

logger = logging.getLogger(__name__)

# The limit of unknown numbers to ask for in one frame of messages: garbage must not cost a request
# per message.
_MOST_ASKED = 1_000
# How long, in seconds, an unknown number isn't asked for again, and how many are remembered.
_FORGOTTEN, _MOST_UNKNOWN = 30.0, 10_000
_SCHEMAS: dict[tuple[str, int], AvroType | None] = {}
# Unknown numbers of registries, with the time until which they aren't asked for again.
_UNKNOWN: dict[tuple[str, int], float] = {}


def schema_of_number(registry: Registry, number: int) -> AvroType | None:
    """Return the schema of a number; the registry is asked once.

    Returns:
        ``None`` if the registry has no such number, which is asked again after a while, or has a
        schema that can't be decoded in columns, which is logged once.

    Raises:
        SourceError: When the registry refuses the request, or doesn't answer.
    """
    known = (registry.url, number)
    if known in _SCHEMAS:
        return _SCHEMAS[known]
    if time.monotonic() < _UNKNOWN.get(known, 0.0):
        return None
    answer = registry.get(f"schemas/ids/{number}")
    if answer is None:
        if len(_UNKNOWN) >= _MOST_UNKNOWN:
            _UNKNOWN.clear()
        _UNKNOWN[known] = time.monotonic() + _FORGOTTEN
        return None
    try:
        _SCHEMAS[known] = _record_of(answer)
    except UnreadableError as error:
        _warn(registry.place, number, str(error))
        _SCHEMAS[known] = None
    return _SCHEMAS[known]


def _record_of(answer: Any) -> AvroType:
    """Return the record type in a registry's answer."""
    if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
        raise UnreadableError("is answered with JSON that holds none")
    if answer.get("schemaType", "AVRO") != "AVRO" or answer.get("references"):
        raise UnreadableError("is no Avro that stands by itself")
    return record(answer["schema"])


@dataclass(frozen=True)
class RegisteredAvro:
    """Decodes records with the numbers of the schemas by which they were written."""

    registry: Registry
    kind: AvroType
    columns: dict[str, pl.DataType]

    def decode(self, values: Sequence[bytes | None]) -> tuple[pl.DataFrame, pl.Series]:
        """Decode payloads; the schema of each must exist and be compatible with the reader's.

        Raises:
            SourceError: When the registry doesn't answer.
        """
        heads = binary_column(values).bin.head(HEAD)
        left = pl.repeat(True, len(values), dtype=pl.Boolean, eager=True)
        frames, wrong, rows = [], [], []
        for number, writer in self._writers(heads).items():
            among = heads.eq_missing(pl.Series([number.to_bytes(HEAD, "big")]))
            frame, bad = self._read(list(compress(values, among)), writer)
            frames.append(frame)
            wrong.append(bad)
            rows.append(among.arg_true())
            left &= ~among
        rest = left.arg_true()
        frames.append(pl.DataFrame(schema=self.columns).clear(len(rest)))
        wrong.append(pl.Series([True]).new_from_index(0, len(rest)))
        order = pl.concat([*rows, rest]).arg_sort()
        bad = pl.concat(wrong).gather(order)
        return sound(pl.concat(frames).select(pl.all().gather(order)), bad), bad

    def _writers(self, heads: pl.Series) -> dict[int, AvroType]:
        """Return the schemas of the messages by their numbers, as far as the registry has them."""
        whole = heads.filter(heads.is_not_null() & (heads.bin.size() == HEAD))
        counts = whole.value_counts(sort=True, name="messages").rows()
        numbers = [int.from_bytes(head[1:], "big") for head, _ in counts if not head[0]]
        writers, unknown = {}, 0
        # Frequent numbers come first: garbage has many numbers, each in one message.
        for number in numbers:
            writer = None
            if unknown < _MOST_ASKED or (self.registry.url, number) in _SCHEMAS:
                writer = schema_of_number(self.registry, number)
            unknown += writer is None
            if writer is not None and self._converts(number, writer):
                writers[number] = writer
        return writers

    def _converts(self, number: int, writer: AvroType) -> bool:
        try:
            self._read([], writer)
        except UnreadableError as error:
            _warn(self.registry.place, number, str(error))
            return False
        return True

    def _read(
        self, values: Sequence[bytes | None], writer: AvroType
    ) -> tuple[pl.DataFrame, pl.Series]:
        own = writer.columns()
        frame, bad = AvroPayloads(writer, own, HEAD).decode(values)
        if writer == self.kind:
            return frame, bad
        frame, unlike = converted(frame, writer, self.kind)
        return frame.cast(pl.Schema(self.columns)), bad | unlike


@lru_cache(maxsize=1000)
def _warn(place: str, number: int, problem: str) -> None:
    """Warn once that messages of a schema are rejected, and why."""
    logger.warning("schema %d of the registry at %s %s: its messages are rejected as malformed",
                   number, place, problem)  # fmt: skip
