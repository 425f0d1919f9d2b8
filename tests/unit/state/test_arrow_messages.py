"""Tests that Arrow streams with wrong sizes are refused before memory is allocated for them."""

from __future__ import annotations

import io
import struct

import polars as pl
import pytest

from muntin.state.frames import check_messages

FRAME = pl.DataFrame({"k": ["a", "b" * 30, None], "n": [1, None, 3], "l": [[1.5], [], None]})


def write_stream(frame: pl.DataFrame = FRAME) -> bytes:
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer)
    return buffer.getvalue()


def test_streams_of_polars_are_accepted() -> None:
    nulls = pl.DataFrame({"x": [None] * 9})
    for frame in (FRAME, FRAME.clear(), nulls, FRAME.cast({"k": pl.Categorical})):
        check_messages(memoryview(write_stream(frame)))


def test_each_size_is_compared_with_the_actual_bytes() -> None:
    """A large number at any position is refused or doesn't determine an allocation."""
    valid_stream, refused_count = write_stream(), 0
    for position in range(0, len(valid_stream) - 8, 4):
        body = bytearray(valid_stream)
        struct.pack_into("<q", body, position, 1 << 56)
        try:
            check_messages(memoryview(body))
            pl.read_ipc_stream(io.BytesIO(body))
        except (ValueError, pl.exceptions.PolarsError, OSError, pl.exceptions.PanicException):
            refused_count += 1
    assert refused_count > 100


@pytest.mark.parametrize("left", range(1, 12))
def test_a_stream_that_is_cut_off_is_refused(left: int) -> None:
    valid_stream = write_stream()
    with pytest.raises(ValueError, match=r"message|body"):
        check_messages(memoryview(valid_stream[: len(valid_stream) * left // 12]))
