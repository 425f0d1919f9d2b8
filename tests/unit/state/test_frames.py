from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from muntin.model.errors import StateCorruptedError
from muntin.state.blobs import ENVELOPE_FORMAT, seal
from muntin.state.frames import decode_frame, encode_frame

EVERYTHING = pl.DataFrame(
    [
        pl.Series("i8", [-128, 127, None], dtype=pl.Int8),
        pl.Series("i16", [1, None, 2], dtype=pl.Int16),
        pl.Series("i32", [1, None, 2], dtype=pl.Int32),
        pl.Series("i64", [-(2**63), 2**63 - 1, None]),
        pl.Series("u8", [0, 255, None], dtype=pl.UInt8),
        pl.Series("u32", [0, 2**32 - 1, None], dtype=pl.UInt32),
        pl.Series("u64", [0, 2**64 - 1, None], dtype=pl.UInt64),
        pl.Series("f32", [0.5, float("inf"), None], dtype=pl.Float32),
        pl.Series("f64", [0.1, float("nan"), None]),
        pl.Series("boolean", [True, False, None]),
        pl.Series("string", ["", "é日本", None]),
        pl.Series("binary", [b"", b"\0\xff", None]),
        pl.Series("date", [date(1, 1, 1), date(9999, 12, 31), None]),
        pl.Series("time", [time(0), time(23, 59, 59, 999_999), None]),
        pl.Series("timestamp", [datetime(2026, 1, 1, tzinfo=UTC), None, None]),
        pl.Series("naive", [datetime(2026, 1, 1), None, None]),
        pl.Series("millis", [datetime(2026, 1, 1), None, None], dtype=pl.Datetime("ms")),
        pl.Series("duration", [timedelta(days=-1), timedelta(0), None]),
        pl.Series("decimal", [Decimal("1.50"), Decimal("-2.25"), None], dtype=pl.Decimal(20, 2)),
        pl.Series("doubles", [[0.1, None], [], None], dtype=pl.List(pl.Float64)),
        pl.Series("blobs", [[b"x"], [], None], dtype=pl.List(pl.Binary)),
        pl.Series("registers", [[1, 2], [], None], dtype=pl.List(pl.UInt32)),
        pl.Series("null", [None, None, None], dtype=pl.Null),
    ]
)


@pytest.mark.parametrize("name", EVERYTHING.columns)
def test_a_column_of_every_type_is_read_back(name: str) -> None:
    frame = EVERYTHING.select(name)
    assert_frame_equal(decode_frame(encode_frame(frame)), frame)


@pytest.mark.parametrize(
    "frame",
    [
        EVERYTHING,
        EVERYTHING.clear(),
        EVERYTHING[1:2],
        pl.concat([EVERYTHING, EVERYTHING], rechunk=False),
    ],
    ids=["whole", "empty", "slice", "chunks"],
)
def test_frames_are_read_back(frame: pl.DataFrame) -> None:
    assert_frame_equal(decode_frame(encode_frame(frame)), frame)


def test_golden_header() -> None:
    # "MNTN", the format, the checksum of the body, its length: little-endian, 18 bytes.
    blob = encode_frame(pl.DataFrame({"v": [1]}))
    magic, version, checksum, length = struct.unpack_from("<4sHIQ", blob)
    assert (magic, version, length) == (b"MNTN", 1, len(blob) - 18)
    assert checksum == zlib.crc32(blob[18:])


BLOB = encode_frame(pl.DataFrame({"v": range(50)}))


@pytest.mark.parametrize("left", [18, 19, len(BLOB) // 2, len(BLOB) - 1])
def test_a_cut_blob(left: int) -> None:
    with pytest.raises(StateCorruptedError, match=rf"was cut: {left - 18} of {len(BLOB) - 18} by"):
        decode_frame(BLOB[:left])


@pytest.mark.parametrize("blob", [b"", b"MNTN", BLOB[:17], b"PAR1" + BLOB[4:], b"\x80\x04K\x01."])
def test_a_foreign_blob(blob: bytes) -> None:
    with pytest.raises(StateCorruptedError, match="doesn't start as one of muntin's"):
        decode_frame(blob)


def test_a_blob_with_extra_bytes() -> None:
    with pytest.raises(StateCorruptedError, match="bytes are left"):
        decode_frame(BLOB + b"\0")


@pytest.mark.parametrize("position", [18, 100, len(BLOB) - 1])
def test_a_changed_blob(position: int) -> None:
    changed = bytearray(BLOB)
    changed[position] ^= 1
    with pytest.raises(StateCorruptedError, match="its checksum doesn't fit"):
        decode_frame(bytes(changed))


@given(st.lists(st.tuples(st.integers(0, len(BLOB) - 19), st.integers(0, 255)), max_size=4))
def test_damage_under_a_valid_checksum(changes: list[tuple[int, int]]) -> None:
    body = bytearray(BLOB[18:])
    for position, byte in changes:
        body[position] = byte
    with suppress(StateCorruptedError):
        assert isinstance(decode_frame(seal(b"MNTN", bytes(body))), pl.DataFrame)


def test_a_blob_that_is_no_table_is_named() -> None:
    for body in (b"", b"\xff" * 300, BLOB[18:-200]):
        with pytest.raises(StateCorruptedError, match="a stored blob holds no table: "):
            decode_frame(seal(b"MNTN", body))


def test_a_blob_of_a_newer_format() -> None:
    newer = BLOB[:4] + struct.pack("<H", ENVELOPE_FORMAT + 1) + BLOB[6:]
    with pytest.raises(
        StateCorruptedError, match=f"has format {ENVELOPE_FORMAT + 1}.*use the muntin"
    ):
        decode_frame(newer)
