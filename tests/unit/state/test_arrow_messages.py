"""Sizes that a stream of Arrow announces and doesn't have are refused before they cost memory."""

from __future__ import annotations

import io
import struct

import polars as pl
import pytest

from muntin.state.arrow_messages import check_messages

FRAME = pl.DataFrame({"k": ["a", "b" * 30, None], "n": [1, None, 3], "l": [[1.5], [], None]})


def stream(frame: pl.DataFrame = FRAME) -> bytes:
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer)
    return buffer.getvalue()


def test_what_polars_writes_is_taken() -> None:
    nulls = pl.DataFrame({"x": [None] * 9})
    for frame in (FRAME, FRAME.clear(), nulls, FRAME.cast({"k": pl.Categorical})):
        check_messages(memoryview(stream(frame)))


def test_each_size_is_compared_with_the_bytes_that_there_are() -> None:
    """A large number at any place is refused, or is none that memory is allocated by."""
    whole, refused = stream(), 0
    for place in range(0, len(whole) - 8, 4):
        body = bytearray(whole)
        struct.pack_into("<q", body, place, 1 << 56)
        try:
            check_messages(memoryview(body))
            pl.read_ipc_stream(io.BytesIO(body))
        except (ValueError, pl.exceptions.PolarsError, OSError, pl.exceptions.PanicException):
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("left", range(1, 12))
def test_a_stream_that_is_cut_off_is_refused(left: int) -> None:
    whole = stream()
    with pytest.raises(ValueError, match=r"message|body"):
        check_messages(memoryview(whole[: len(whole) * left // 12]))
