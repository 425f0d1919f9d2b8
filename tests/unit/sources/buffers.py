"""Helpers of the payload tests: values in one buffer, and equality of decoded values."""

from __future__ import annotations

import numpy as np
import polars as pl

from muntin.sources.byte_values import ROOM, ByteValues
from muntin.sources.payloads import Decoded


def put_in_buffer(values: list[bytes | None], gap: bytes = b"\x00\x81") -> ByteValues:
    """Put values into one buffer, with some bytes between them."""
    sizes = np.array([-1 if value is None else len(value) for value in values], np.int64)
    parts = np.maximum(sizes, 0) + len(gap)
    starts = ROOM + np.cumsum(parts) - parts
    data = bytes(ROOM) + b"".join((value or b"") + gap for value in values) + bytes(ROOM)
    return ByteValues(np.frombuffer(data, np.uint8), starts, sizes)


def assert_equal(decoded: Decoded, expected: Decoded) -> None:
    # As texts, since -0.0 equals 0.0; Python has no year 0.
    rows, expected_rows = (
        values.rows.select(pl.all().to_physical()).rows() for values in (decoded, expected)
    )
    assert repr(rows) == repr(expected_rows)
    assert decoded.rows.schema == expected.rows.schema
    assert decoded.bad.to_list() == expected.bad.to_list()
    assert decoded.faults.tolist() == expected.faults.tolist()
