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
from typing import Any, ClassVar

import polars as pl

from muntin.sources.avro_evolution import convert_records
from muntin.sources.avro_payloads import AvroPayloads
from muntin.sources.avro_schema import AvroType, record
from muntin.sources.byte_values import binary_column
from muntin.sources.payloads import HEAD, Decoded, UnreadableError, no_faults, renumber_faults
from muntin.sources.schema_registry import Registry
from muntin.sources.text_values import null_malformed

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
    """Return the schema of a number; the registry is asked once, or raises ``SourceError``.

    It is ``None`` if the registry has no such number, which is asked again after a while, or has a
    schema that can't be decoded in columns, which is logged once.
    """
    schema_key = (registry.url, number)
    if schema_key in _SCHEMAS:
        return _SCHEMAS[schema_key]
    if time.monotonic() < _UNKNOWN.get(schema_key, 0.0):
        return None
    answer = registry.get(f"schemas/ids/{number}")
    if answer is None:
        if len(_UNKNOWN) >= _MOST_UNKNOWN:
            _UNKNOWN.clear()
        _UNKNOWN[schema_key] = time.monotonic() + _FORGOTTEN
        return None
    try:
        _SCHEMAS[schema_key] = _parse_answer(answer)
    except UnreadableError as error:
        _warn(registry.origin, number, str(error))
        _SCHEMAS[schema_key] = None
    return _SCHEMAS[schema_key]


def _parse_answer(answer: Any) -> AvroType:
    """Return the record type in a registry's answer."""
    if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
        raise UnreadableError("isn't in the registry's answer")
    if answer.get("schemaType", "AVRO") != "AVRO" or answer.get("references"):
        raise UnreadableError("isn't Avro, or refers to other schemas")
    return record(answer["schema"])


@dataclass(frozen=True)
class RegisteredAvro:
    """Decodes records with the numbers of the schemas by which they were written."""

    registry: Registry
    kind: AvroType
    columns: dict[str, pl.DataType]

    may_have_header: ClassVar[bool] = False

    @property
    def shape(self) -> str:
        """The format of a payload, for messages."""
        return "an Avro record of a schema in the registry that the reader's accepts"

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode payloads; the schema of each must exist and be compatible with the reader's."""
        heads = binary_column(values).bin.head(HEAD)
        is_unread = pl.repeat(True, len(values), dtype=pl.Boolean, eager=True)
        frames, wrong, rows, faults = [], [], [], no_faults(len(values))
        for number, writer in self._find_writers(heads).items():
            has_number = heads.eq_missing(pl.Series([number.to_bytes(HEAD, "big")]))
            frame, bad, unlike = self._read(list(compress(values, has_number)), writer)
            frames.append(frame)
            wrong.append(bad)
            rows.append(has_number.arg_true())
            faults[rows[-1].to_numpy()] = unlike
            is_unread &= ~has_number
        unread_rows = is_unread.arg_true()
        frames.append(pl.DataFrame(schema=self.columns).clear(len(unread_rows)))
        wrong.append(pl.Series([True]).new_from_index(0, len(unread_rows)))
        order = pl.concat([*rows, unread_rows]).arg_sort()
        bad = pl.concat(wrong).gather(order)
        frame = pl.concat(frames).select(pl.all().gather(order))
        return Decoded(null_malformed(frame, bad), bad, faults)

    def _find_writers(self, heads: pl.Series) -> dict[int, AvroType]:
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
            if writer is not None and self._can_convert(number, writer):
                writers[number] = writer
        return writers

    def _can_convert(self, number: int, writer: AvroType) -> bool:
        try:
            self._read([], writer)
        except UnreadableError as error:
            _warn(self.registry.origin, number, str(error))
            return False
        return True

    def _read(self, values: Sequence[bytes | None], writer: AvroType) -> Decoded:
        own = writer.columns()
        frame, bad, faults = AvroPayloads(writer, own, HEAD).decode(values)
        if writer == self.kind:
            return Decoded(frame, bad, faults)
        frame, unlike = convert_records(frame, writer, self.kind)
        faults = renumber_faults(faults, own, self.columns)
        return Decoded(frame.cast(pl.Schema(self.columns)), bad | unlike, faults)


@lru_cache(maxsize=1000)
def _warn(registry: str, number: int, problem: str) -> None:
    """Warn once that messages of a schema are rejected, and why."""
    logger.warning("schema %d of the registry at %s %s: its messages are rejected as malformed",
                   number, registry, problem)  # fmt: skip
