"""Avro with a schema registry: a byte of nothing, the schema's number, and then the record.

That is the wire format of Confluent's registry, and of those that speak its protocol: Karapace,
Apicurio, Redpanda's. The workers ask for a schema once, by its number, and keep it.
"""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request, urlopen

import polars as pl

from muntin.model.errors import OptionError, SourceError
from muntin.sources.avro_evolution import converted
from muntin.sources.avro_payloads import AvroPayloads
from muntin.sources.avro_schema import AvroType, record
from muntin.sources.byte_values import binary_column
from muntin.sources.payloads import HEAD, UnreadableError
from muntin.sources.text_values import sound

logger = logging.getLogger(__name__)

_PATIENCE, _TIMEOUT = 60.0, 10.0
# Numbers are given out from 1 on. Behind so many that don't exist one after the other, none does.
_UNKNOWN = 20
_SCHEMAS: dict[tuple[str, int], AvroType | None] = {}


@dataclass(frozen=True)
class Registry:
    """Where schemas are asked for."""

    url: str = field(repr=False)

    def latest(self, topic: str) -> str:
        """The newest schema of a topic's values.

        Raises:
            SourceError: When there is none, or the registry doesn't answer for a minute.
        """
        subject = f"{topic}-value"
        found = self._get(f"subjects/{quote(subject, safe='')}/versions/latest")
        if found is None:
            raise SourceError(
                f"the registry at {self.place} has no schema of {subject!r}; register one, or give "
                "the one to read by: schema='{…}'"
            )
        return str(found["schema"])

    def register(self, topic: str, schema: str) -> int:
        """The number of the schema by which a topic's values are written.

        Raises:
            SourceError: When the registry refuses it, as it does where readers of what was written
                before couldn't read on, or doesn't answer for a minute.
        """
        path = f"subjects/{quote(f'{topic}-value', safe='')}/versions"
        found = self._get(path, {"schema": schema})
        if found is None:
            raise SourceError(f"the registry at {self.place} takes no schemas")
        return int(found["id"])

    def schema(self, number: int) -> AvroType | None:
        """The schema of a number; ``None`` where there is none, or it isn't decoded in columns."""
        known = (self.url, number)
        if known not in _SCHEMAS:
            found = self._get(f"schemas/ids/{number}")
            if found is None:
                return None
            _SCHEMAS[known] = self._read(number, found)
        return _SCHEMAS[known]

    @property
    def place(self) -> str:
        """The address, without what is secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"

    def _read(self, number: int, found: dict[str, Any]) -> AvroType | None:
        try:
            if found.get("schemaType", "AVRO") != "AVRO" or found.get("references"):
                raise UnreadableError("is no Avro that stands by itself")
            return record(str(found["schema"]))
        except UnreadableError as error:
            _warn(self.place, number, str(error))
            return None

    def _get(self, path: str, sent: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """What the registry answers; ``None`` where it knows of no such thing."""
        parts, headers = urlsplit(self.url), {"Accept": "application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        where = f"{self.place}{parts.path.rstrip('/')}/{path}"
        body = None if sent is None else json.dumps(sent).encode()
        if body is not None:
            headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                with urlopen(Request(where, body, headers), timeout=_TIMEOUT) as answer:
                    found: dict[str, Any] = json.load(answer)
                    return found
            except HTTPError as error:
                if error.code == 404:
                    return None
                said = error.read(1000).decode(errors="replace")
                problem, final = f"answers {error.code} {error.reason}: {said}", error.code < 500
            except (URLError, TimeoutError, OSError, ValueError) as error:
                problem, final = f"doesn't answer: {error}", False
            if final or time.monotonic() > deadline:
                raise SourceError(f"the schema registry at {self.place} {problem}")
            time.sleep(0.5)


def registry_at(url: str | None) -> Registry | None:
    """The registry at an address, if one is given."""
    if url is None:
        return None
    if not urlsplit(url).hostname or urlsplit(url).scheme not in ("http", "https"):
        hint = "give its address: registry='http://localhost:8081'"
        raise OptionError("registry", url, "isn't an address", hint)
    return Registry(url)


@dataclass(frozen=True)
class RegisteredAvro:
    """Decodes records that say by which schema they were written."""

    registry: Registry
    kind: AvroType
    columns: dict[str, pl.DataType]

    def decode(self, values: Sequence[bytes | None]) -> tuple[pl.DataFrame, pl.Series]:
        """See ``Payloads``; the schema of each has to be there, and readable as the one wanted.

        Raises:
            SourceError: When the registry doesn't answer for a minute.
        """
        heads = binary_column(values).bin.head(HEAD)
        left = pl.repeat(True, len(values), dtype=pl.Boolean, eager=True)
        frames, wrong, rows = [], [], []
        for number, writer in self._writers(heads.unique()).items():
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
        """The schemas whose numbers messages begin with, as far as they are there."""
        whole = (head for head in heads if head is not None and len(head) == HEAD)
        found, unknown = {}, 0
        for number in sorted(int.from_bytes(head[1:], "big") for head in whole if not head[0]):
            writer = self.registry.schema(number) if unknown < _UNKNOWN else None
            unknown = unknown + 1 if writer is None else 0
            if writer is not None and self._converts(number, writer):
                found[number] = writer
        return found

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
    """Say once why messages of a schema are rejected."""
    logger.warning("schema %d of the registry at %s %s: its messages are rejected as malformed",
                   number, place, problem)  # fmt: skip
