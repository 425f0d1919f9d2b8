from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable

import pytest

from muntin.model.errors import StateCorruptedError
from muntin.state.envelope import ENVELOPE_FORMAT, seal, unseal

MAGIC = b"TEST"
BLOB = seal(MAGIC, b"body")


def test_a_body_comes_back() -> None:
    assert bytes(unseal(MAGIC, BLOB, "blob 7", "a test")) == b"body"
    assert bytes(unseal(MAGIC, seal(MAGIC, b""), "blob 7", "a test")) == b""


LARGE = bytes(range(256)) * 100
COMPRESSED = seal(MAGIC, LARGE, compresses=True)


@pytest.mark.parametrize(
    ("body", "version"),
    [(LARGE, 2), (LARGE[:4096], 2), (LARGE[:4095], 1), (os.urandom(5000), 1), (b"", 1)],
    ids=["large", "just large", "small", "incompressible", "empty"],
)
def test_a_large_body_is_compressed_where_it_gets_smaller(body: bytes, version: int) -> None:
    blob = seal(MAGIC, body, compresses=True)
    assert struct.unpack_from("<H", blob, 4) == (version,)
    assert (len(blob) < len(body)) == (version == ENVELOPE_FORMAT)
    assert bytes(unseal(MAGIC, blob, "blob 7", "a test")) == body


@pytest.mark.parametrize("place", range(18, len(COMPRESSED), 7))
def test_a_changed_compressed_body_is_named(place: int) -> None:
    changed = bytearray(COMPRESSED)
    changed[place] ^= 1
    with pytest.raises(StateCorruptedError, match="blob 7 was changed"):
        unseal(MAGIC, bytes(changed), "blob 7", "a test")


@pytest.mark.parametrize(
    "stored",
    [b"", b"1234567", struct.pack("<Q", 1 << 60) + COMPRESSED[26:]]
    + [struct.pack("<Q", len(LARGE) + more) + COMPRESSED[26:] for more in (-1, 1)],
    ids=["empty", "without a size", "a huge size", "a lesser size", "a greater size"],
)
def test_a_compressed_body_of_another_size_is_named(stored: bytes) -> None:
    header = struct.pack("<4sHIQ", MAGIC, ENVELOPE_FORMAT, zlib.crc32(LARGE), len(stored))
    with pytest.raises(StateCorruptedError, match="blob 7 was changed"):
        unseal(MAGIC, header + stored, "blob 7", "a test")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda blob: b"", "blob 7 doesn't start as a test: it was replaced"),
        (lambda blob: b"ELSE" + blob[4:], "blob 7 doesn't start as a test: it was replaced"),
        (lambda blob: blob[:-1], "blob 7 was cut: 3 of 4 bytes are left"),
        (lambda blob: blob + b"?", "blob 7 was cut: 5 of 4 bytes are left"),
        (lambda blob: blob[:-1] + b"?", "blob 7 was changed: its checksum doesn't fit"),
        (
            lambda blob: blob[:4] + bytes([ENVELOPE_FORMAT + 1]) + blob[5:],
            f"blob 7 has format {ENVELOPE_FORMAT + 1}, this muntin reads format {ENVELOPE_FORMAT}",
        ),
    ],
)
def test_what_was_damaged_is_named(damage: Callable[[bytes], bytes], message: str) -> None:
    with pytest.raises(StateCorruptedError, match=message):
        unseal(MAGIC, damage(BLOB), "blob 7", "a test")
