"""Compresses the contents of stored blobs by LZ4."""

from __future__ import annotations

import struct

import pyarrow as pa

_SIZE = struct.Struct("<Q")
_CODEC = "lz4"
# A byte of LZ4 yields at most 255 bytes of content.
_GREATEST_RATIO = 255
# Smaller contents aren't compressed, bytes.
_LARGE = 4096


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
