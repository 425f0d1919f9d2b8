"""The envelope of every stored blob: its kind, format, length and checksum.

A blob that was truncated, swapped or damaged raises an error that names it; it is never read as
wrong rows.
"""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa

from muntin.model.errors import StateCorruptedError

# Format 1 has the content as it is; format 2 has its size, and then the content as an LZ4 frame.
# The checksum is that of the content.
ENVELOPE_FORMAT = 2
_UNCOMPRESSED = 1
_HEADER = struct.Struct("<4sHIQ")
_SIZE = struct.Struct("<Q")
_CODEC = "lz4"
# A byte of LZ4 yields at most 255 bytes of content.
_GREATEST_RATIO = 255
# Smaller contents aren't compressed, bytes.
_LARGE = 4096


def seal(magic: bytes, body: bytes, *, compresses: bool = False) -> bytes:
    """Wrap a blob in an envelope, and compress it if that is wanted and makes it smaller."""
    version, stored = _UNCOMPRESSED, body
    if compresses and len(body) >= _LARGE:
        compressed = _SIZE.pack(len(body)) + pa.compress(body, _CODEC, asbytes=True)
        if len(compressed) < len(body):
            version, stored = ENVELOPE_FORMAT, compressed
    return _HEADER.pack(magic, version, zlib.crc32(body), len(stored)) + stored


def unseal(magic: bytes, blob: bytes, name: str, kind: str) -> memoryview:
    """Return the content that ``seal`` wrapped, or raise ``StateCorruptedError``."""
    if len(blob) < _HEADER.size or blob[:4] != magic:
        raise StateCorruptedError(f"{name} doesn't start as {kind}: it was replaced")
    _, version, checksum, length = _HEADER.unpack_from(blob)
    if version not in (_UNCOMPRESSED, ENVELOPE_FORMAT):
        raise StateCorruptedError(
            f"{name} has format {version}, this muntin reads format {ENVELOPE_FORMAT}: "
            "use the muntin that wrote it"
        )
    body = memoryview(blob)[_HEADER.size :]
    if length != len(body):
        raise StateCorruptedError(f"{name} was cut: {len(body)} of {length} bytes are left")
    if version == ENVELOPE_FORMAT:
        body = _decompress(body, name)
    if zlib.crc32(body) != checksum:
        raise StateCorruptedError(f"{name} was changed: its checksum doesn't fit")
    return body


def _decompress(body: memoryview, name: str) -> memoryview:
    """Return the content of a compressed body.

    Raises:
        StateCorruptedError: When it says a size that it can't have, or can't be decompressed.
    """
    problem = f"{name} was changed: it can't be decompressed"
    if len(body) < _SIZE.size:
        raise StateCorruptedError(problem)
    (size,) = _SIZE.unpack_from(body)
    if size > _GREATEST_RATIO * len(body):
        raise StateCorruptedError(problem)
    try:
        return memoryview(pa.decompress(body[_SIZE.size :], size, _CODEC))
    except (pa.ArrowException, OSError) as error:
        raise StateCorruptedError(problem) from error
