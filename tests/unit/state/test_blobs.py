from __future__ import annotations

from collections.abc import Callable

import pytest

from muntin.model.errors import StateCorruptedError
from muntin.state.blobs import ENVELOPE_FORMAT, seal, unseal

MAGIC = b"TEST"
BLOB = seal(MAGIC, b"body")


def test_a_sealed_body_is_read_back() -> None:
    assert bytes(unseal(MAGIC, BLOB, "blob 7", "a test")) == b"body"
    assert bytes(unseal(MAGIC, seal(MAGIC, b""), "blob 7", "a test")) == b""


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
            f"blob 7 has format {ENVELOPE_FORMAT + 1}, this muntin reads format 1",
        ),
    ],
)
def test_damage_is_named(damage: Callable[[bytes], bytes], message: str) -> None:
    with pytest.raises(StateCorruptedError, match=message):
        unseal(MAGIC, damage(BLOB), "blob 7", "a test")
