from __future__ import annotations

import os
import struct
import zlib

import pytest

from muntin.model.errors import StateCorruptedError
from muntin.state.blobs import ENVELOPE_FORMAT, seal, unseal
from muntin.state.frames import compress, decompress

MAGIC = b"TEST"
LARGE = bytes(range(256)) * 100
COMPRESSED = seal(MAGIC, LARGE, compress)


@pytest.mark.parametrize(
    ("body", "version"),
    [(LARGE, 2), (LARGE[:4096], 2), (LARGE[:4095], 1), (os.urandom(5000), 1), (b"", 1)],
    ids=["large", "just large", "small", "incompressible", "empty"],
)
def test_a_large_body_is_compressed_where_it_gets_smaller(body: bytes, version: int) -> None:
    blob = seal(MAGIC, body, compress)
    assert struct.unpack_from("<H", blob, 4) == (version,)
    assert (len(blob) < len(body)) == (version == ENVELOPE_FORMAT)
    assert bytes(unseal(MAGIC, blob, "blob 7", "a test", decompress)) == body


@pytest.mark.parametrize("position", range(18, len(COMPRESSED), 7))
def test_a_changed_compressed_body_is_named(position: int) -> None:
    changed = bytearray(COMPRESSED)
    changed[position] ^= 1
    with pytest.raises(StateCorruptedError, match="blob 7 was changed"):
        unseal(MAGIC, bytes(changed), "blob 7", "a test", decompress)


@pytest.mark.parametrize(
    "stored",
    [b"", b"1234567", struct.pack("<Q", 1 << 60) + COMPRESSED[26:]]
    + [struct.pack("<Q", len(LARGE) + more) + COMPRESSED[26:] for more in (-1, 1)],
    ids=["empty", "without a size", "a huge size", "a lesser size", "a greater size"],
)
def test_a_compressed_body_of_another_size_is_named(stored: bytes) -> None:
    header = struct.pack("<4sHIQ", MAGIC, ENVELOPE_FORMAT, zlib.crc32(LARGE), len(stored))
    with pytest.raises(StateCorruptedError, match="blob 7 was changed"):
        unseal(MAGIC, header + stored, "blob 7", "a test", decompress)


def test_a_kind_without_compression_refuses_compressed_bodies() -> None:
    with pytest.raises(StateCorruptedError, match="has format 2, this muntin reads format 1"):
        unseal(MAGIC, COMPRESSED, "blob 7", "a test")
