"""What payloads are decoded by: many messages in one call, and which of them can't be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import polars as pl

# A message whose list has more items than this is malformed: they are read one after the other.
MOST_ITEMS = 100_000
# What a registry's serializers write before each payload: a byte of nothing, and four of the
# schema's number, the most significant first.
HEAD = 5


class UnreadableError(ValueError):
    """A schema, or a part of one, that isn't decoded in columns."""


class Payloads(Protocol):
    """A form of payloads, as a worker decodes it."""

    @property
    def columns(self) -> dict[str, pl.DataType]:
        """The columns of a payload, and their types."""

    def decode(self, values: Sequence[bytes | None]) -> tuple[pl.DataFrame, pl.Series]:
        """Payloads as columns.

        What a payload becomes depends on nothing but itself, whatever it is decoded with.

        Returns:
            A row a payload, and which payloads couldn't be read: null, or not what their form and
            their schema say. Their rows are null.
        """
