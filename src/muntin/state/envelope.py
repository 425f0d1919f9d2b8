"""The envelope of every stored blob: its kind, format, length and checksum.

A blob that was truncated, swapped or damaged raises an error that names it; it is never read as
wrong rows.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from muntin.model.errors import StateCorruptedError

# Format 1 has the content as it is; format 2 has it compressed. The checksum is of the content.
_UNCOMPRESSED = 1
ENVELOPE_FORMAT = 2
_HEADER = struct.Struct("<4sHIQ")


def seal(
    magic: bytes, body: bytes, compress: Callable[[bytes], bytes | None] | None = None
) -> bytes:
    """Wrap a blob in an envelope.

    Args:
        magic: Four bytes that name the kind of blob.
        body: The content.
        compress: Compresses the content, or returns ``None`` to leave it as it is.
    """
    compressed = None if compress is None else compress(body)
    version, stored = (_UNCOMPRESSED, body) if compressed is None else (ENVELOPE_FORMAT, compressed)
    return _HEADER.pack(magic, version, zlib.crc32(body), len(stored)) + stored


def unseal(
    magic: bytes,
    blob: bytes,
    name: str,
    kind: str,
    decompress: Callable[[memoryview], memoryview] | None = None,
) -> memoryview:
    """Return the content that ``seal`` wrapped.

    Args:
        magic: Four bytes that name the kind of blob.
        blob: The blob.
        name: The name of the blob, for errors.
        kind: The kind of blob, for errors.
        decompress: Reverses ``compress``, or raises ``ValueError``; ``None`` if blobs of this kind
            aren't compressed.

    Raises:
        StateCorruptedError: When the kind, format, length or checksum is wrong.
    """
    if len(blob) < _HEADER.size or blob[:4] != magic:
        raise StateCorruptedError(f"{name} doesn't start as {kind}: it was replaced")
    _, version, checksum, length = _HEADER.unpack_from(blob)
    newest = _UNCOMPRESSED if decompress is None else ENVELOPE_FORMAT
    if not _UNCOMPRESSED <= version <= newest:
        raise StateCorruptedError(
            f"{name} has format {version}, this muntin reads format {newest}: "
            "use the muntin that wrote it"
        )
    body = memoryview(blob)[_HEADER.size :]
    if length != len(body):
        raise StateCorruptedError(f"{name} was cut: {len(body)} of {length} bytes are left")
    if version == ENVELOPE_FORMAT and decompress is not None:
        try:
            body = decompress(body)
        except ValueError as error:
            raise StateCorruptedError(
                f"{name} was changed: it can't be decompressed: {error}"
            ) from error
    if zlib.crc32(body) != checksum:
        raise StateCorruptedError(f"{name} was changed: its checksum doesn't fit")
    return body
