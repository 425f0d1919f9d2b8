"""Frames as bytes and back: Arrow IPC behind a header with a format version and a checksum.

No pickle is ever written or read. A blob that was cut, swapped or damaged is named, never decoded
into wrong rows.
"""

from __future__ import annotations

import io
import struct
import zlib

import polars as pl

from muntin.model.errors import StateCorruptedError

FORMAT = 1
_HEADER = struct.Struct("<4sHIQ")
_MAGIC = b"MNTN"


def encode(frame: pl.DataFrame) -> bytes:
    """Write a frame as one blob."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer)
    body = buffer.getvalue()
    return _HEADER.pack(_MAGIC, FORMAT, zlib.crc32(body), len(body)) + body


def decode(blob: bytes) -> pl.DataFrame:
    """Read a blob that ``encode`` wrote.

    Raises:
        StateCorruptedError: When it isn't one, was written by a newer format, was cut or changed.
    """
    body = memoryview(blob)[_HEADER.size :]
    if len(blob) < _HEADER.size or blob[:4] != _MAGIC:
        raise StateCorruptedError("a stored blob doesn't start as one of muntin's: it was replaced")
    _, version, checksum, length = _HEADER.unpack_from(blob)
    if version != FORMAT:
        raise StateCorruptedError(
            f"a stored blob has format {version}, this muntin reads format {FORMAT}: "
            "use the muntin that wrote it"
        )
    if length != len(body):
        raise StateCorruptedError(f"a stored blob was cut: {len(body)} of {length} bytes are left")
    if zlib.crc32(body) != checksum:
        raise StateCorruptedError("a stored blob was changed: its checksum doesn't fit")
    return pl.read_ipc_stream(io.BytesIO(body))
