"""The envelope of every stored blob: its kind, format, length and checksum.

A blob that was truncated, swapped or damaged raises an error that names it; it is never read as
wrong rows.
"""

from __future__ import annotations

import struct
import zlib

from muntin.model.errors import StateCorruptedError

ENVELOPE_FORMAT = 1
_HEADER = struct.Struct("<4sHIQ")


def seal(magic: bytes, body: bytes) -> bytes:
    """Wrap a blob in an envelope."""
    return _HEADER.pack(magic, ENVELOPE_FORMAT, zlib.crc32(body), len(body)) + body


def unseal(magic: bytes, blob: bytes, name: str, kind: str) -> memoryview:
    """Return the content that ``seal`` wrapped, or raise ``StateCorruptedError``."""
    if len(blob) < _HEADER.size or blob[:4] != magic:
        raise StateCorruptedError(f"{name} doesn't start as {kind}: it was replaced")
    _, version, checksum, length = _HEADER.unpack_from(blob)
    if version != ENVELOPE_FORMAT:
        raise StateCorruptedError(
            f"{name} has format {version}, this muntin reads format {ENVELOPE_FORMAT}: "
            "use the muntin that wrote it"
        )
    body = memoryview(blob)[_HEADER.size :]
    if length != len(body):
        raise StateCorruptedError(f"{name} was cut: {len(body)} of {length} bytes are left")
    if zlib.crc32(body) != checksum:
        raise StateCorruptedError(f"{name} was changed: its checksum doesn't fit")
    return body
