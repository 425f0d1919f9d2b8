"""Frames as bytes and back: Arrow IPC in an envelope. No pickle is ever written or read."""

from __future__ import annotations

import io
from collections.abc import Iterable

import polars as pl

from muntin.state.envelope import seal, unseal

_MAGIC = b"MNTN"
# A blob passes through the JVM whole, whose heap may be that of Spark's default.
_BLOB_BYTES = 8 << 20


def encode(frame: pl.DataFrame) -> bytes:
    """Write a frame as one blob."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer)
    return seal(_MAGIC, buffer.getvalue())


def encoded(frame: pl.DataFrame) -> list[bytes]:
    """Write a frame as blobs of bounded size, each with some of its rows, in their order."""
    count = max(1, -(-int(frame.estimated_size()) // _BLOB_BYTES))
    rows = -(-len(frame) // count)
    return [encode(frame.slice(place * rows, rows)) for place in range(count)]


def decoded(blobs: Iterable[bytes]) -> pl.DataFrame:
    """Read what ``encoded`` wrote, all of it."""
    parts = [*map(decode, blobs)]
    return parts[0] if len(parts) == 1 else pl.concat(parts)


def decode(blob: bytes) -> pl.DataFrame:
    """Read a blob that ``encode`` wrote.

    Raises:
        StateCorruptedError: When it isn't one, was written by a newer format, was cut or changed.
    """
    body = unseal(_MAGIC, blob, "a stored blob", "one of muntin's")
    return pl.read_ipc_stream(io.BytesIO(body))
