"""The protocol of payload formats: many messages are decoded in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import polars as pl

# A message whose list has more items than this is malformed, since items are read one by one.
MOST_ITEMS = 100_000
# The size of the prefix that a registry's serializers write: a zero byte, and the number of the
# schema in four bytes, the most significant first.
HEAD = 5


class UnreadableError(ValueError):
    """A schema, or a part of one, can't be decoded in columns."""


class Payloads(Protocol):
    """A format of payloads that a worker decodes."""

    @property
    def columns(self) -> dict[str, pl.DataType]:
        """The names and types of a payload's columns."""

    def decode(self, values: Sequence[bytes | None]) -> tuple[pl.DataFrame, pl.Series]:
        """Decode payloads into columns.

        The result of a payload depends only on itself, not on the others in the same call.

        Returns:
            A row per payload, and which payloads are malformed: null, or not of their format and
            schema. The rows of these are null.
        """
