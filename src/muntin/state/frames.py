"""Converts frames to bytes and back: Arrow IPC in an envelope, without pickle."""

from __future__ import annotations

import io
from collections.abc import Iterable

import polars as pl

from muntin.model.errors import StateCorruptedError
from muntin.state.arrow_messages import check_messages
from muntin.state.envelope import seal, unseal

_MAGIC = b"MNTN"
# The JVM holds a whole blob in memory, perhaps with Spark's default heap.
_BLOB_BYTES = 8 << 20
# Polars raises these for bytes that aren't Arrow's; a panic isn't an `Exception`.
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OSError)


def encode_frame(frame: pl.DataFrame) -> bytes:
    """Write a frame as one blob."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer)
    # A JVM takes far longer to pass a blob on than it takes to compress it here.
    return seal(_MAGIC, buffer.getvalue(), compresses=True)


def encode_blobs(frame: pl.DataFrame) -> list[bytes]:
    """Write a frame as blobs of bounded size, each with consecutive rows."""
    count = max(1, -(-int(frame.estimated_size()) // _BLOB_BYTES))
    rows = -(-len(frame) // count)
    return [encode_frame(frame.slice(index * rows, rows)) for index in range(count)]


def decode_blobs(blobs: Iterable[bytes]) -> pl.DataFrame:
    """Read all blobs that ``encode_blobs`` wrote, as one frame."""
    parts = [*map(decode_frame, blobs)]
    return parts[0] if len(parts) == 1 else pl.concat(parts)


def decode_frame(blob: bytes) -> pl.DataFrame:
    """Read a blob of ``encode_frame``, or raise ``StateCorruptedError`` for anything else."""
    body = unseal(_MAGIC, blob, "a stored blob", "one of muntin's")
    try:
        check_messages(body)
        return pl.read_ipc_stream(io.BytesIO(body))
    except _UNREADABLE as error:
        # Whoever writes a checkpoint can compute a checksum, too.
        raise StateCorruptedError(f"a stored blob holds no table: {error}") from error
