"""One stream of messages: single ones are buffered, and the types of its fields are remembered."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from muntin.standalone.frame_builder import FrameBuilder
from muntin.standalone.input_fields import InputFields
from muntin.standalone.message_buffer import MessageBuffer
from muntin.state.frames import decode, encode
from muntin.stores import KeyValue, KeyValueBlobs


class InputStream:
    """One stream of messages on its way into an operator."""

    def __init__(
        self,
        read: InputFields,
        clock: Callable[[], int],
        schema: Mapping[str, Any] | None,
        store: KeyValue,
        name: str,
    ) -> None:
        self.buffer = MessageBuffer(read, clock)
        self.builder = FrameBuilder(read, clock, schema)
        self._columns = KeyValueBlobs(store, name=f"{name}.columns")
        stored = self._columns.load()
        if stored is not None:
            self.builder.adopt(decode(base64.b64decode(stored)).schema)

    @property
    def known(self) -> bool:
        """Whether the types of all fields are known."""
        return self.builder.columns is not None

    def waiting(self) -> pl.DataFrame:
        """The messages that wait; they go on waiting until ``buffer.clear()``."""
        buffer = self.buffer
        return self.builder.rows(buffer.cells(), len(buffer), buffer.sample, buffer.future)

    def none(self) -> pl.DataFrame:
        """No messages, with the columns of all others."""
        return pl.DataFrame(schema=self.builder.schema)

    def settle(self) -> None:
        """Take these fields and no others from now on, and remember their types."""
        assert self.builder.columns is not None
        empty = pl.DataFrame(schema=self.builder.columns)
        self._columns.save(base64.b64encode(encode(empty)).decode())
        self.buffer.settle(self.builder.columns)
