"""Converts frames to bytes and back: Arrow IPC in an envelope, without pickle."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable

import polars as pl
import pyarrow as pa

from muntin.model.errors import StateCorruptedError
from muntin.state.arrow_messages import check_messages
from muntin.state.envelope import seal, unseal
from muntin.state.rows import stack_rows

_MAGIC = b"MNTN"
# The JVM holds a whole blob in memory, perhaps with Spark's default heap.
_BLOB_BYTES = 8 << 20
# Polars raises these for bytes that aren't Arrow's; a panic isn't an `Exception`.
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OSError)
_SIZE = struct.Struct("<Q")
_CODEC = "lz4"
# A byte of LZ4 yields at most 255 bytes of content.
_GREATEST_RATIO = 255
# Smaller contents aren't compressed, bytes.
_LARGE = 4096


def encode_frame(frame: pl.DataFrame) -> bytes:
    """Write a frame as one blob."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer)
    # A JVM takes far longer to pass a blob on than it takes to compress it here.
    return seal(_MAGIC, buffer.getvalue(), compress)


def encode_blobs(frame: pl.DataFrame) -> list[bytes]:
    """Write a frame as blobs of bounded size, each with consecutive rows."""
    count = max(1, -(-int(frame.estimated_size()) // _BLOB_BYTES))
    rows = -(-len(frame) // count)
    return [encode_frame(frame.slice(index * rows, rows)) for index in range(count)]


def decode_blobs(blobs: Iterable[bytes]) -> pl.DataFrame:
    """Read all blobs that ``encode_blobs`` wrote, as one frame."""
    parts = [*map(decode_frame, blobs)]
    return parts[0] if len(parts) == 1 else stack_rows(parts)


def decode_frame(blob: bytes) -> pl.DataFrame:
    """Read a blob of ``encode_frame``, or raise ``StateCorruptedError`` for anything else."""
    body = unseal(_MAGIC, blob, "a stored blob", "one of muntin's", decompress)
    try:
        check_messages(body)
        return pl.read_ipc_stream(io.BytesIO(body))
    except _UNREADABLE as error:
        # Whoever writes a checkpoint can compute a checksum, too.
        raise StateCorruptedError(f"a stored blob holds no table: {error}") from error


def compress(content: bytes) -> bytes | None:
    """Return the size of a content and its LZ4 frame; ``None`` unless that is smaller.

    Example:
        >>> decompress(memoryview(compress(b"spam" * 2000))) == b"spam" * 2000
        True
    """
    if len(content) < _LARGE:
        return None
    compressed: bytes = _SIZE.pack(len(content)) + pa.compress(content, _CODEC, asbytes=True)
    return compressed if len(compressed) < len(content) else None


def decompress(compressed: memoryview) -> memoryview:
    """Return the content that ``compress`` compressed.

    Raises:
        ValueError: When it says a size that it can't have, or isn't an LZ4 frame.
    """
    if len(compressed) < _SIZE.size:
        raise ValueError("it has no size")
    (size,) = _SIZE.unpack_from(compressed)
    if size > _GREATEST_RATIO * len(compressed):
        raise ValueError(f"{len(compressed)} bytes can't hold {size}")
    try:
        return memoryview(pa.decompress(compressed[_SIZE.size :], size, _CODEC))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)) from error
