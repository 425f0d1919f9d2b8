"""Tests that plain records are read without the general reader, and as it reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sources.batch_encoder import Record, encode_batch

from muntin.sources import record_batches
from muntin.sources.record_batches import DamagedBatchError, read_records, split_batches

# Longer records aren't found at once.
SIZES = [0, 1, 61, 62, 63, 64, 65, 66, 8100]
TEXTS = st.none() | st.sampled_from([b"x" * size for size in SIZES])
VALUES = TEXTS | st.binary(max_size=9)
KEYS = st.none() | st.sampled_from([b"", b"k", b"k" * 63])


def list_records(data: bytes) -> list[tuple[Any, ...]]:
    """Return the records of batches, one tuple each."""
    records = read_records(list(split_batches(data)))
    columns = records.offsets.tolist(), records.timestamps.tolist()
    return list(zip(*columns, records.keys, records.values, records.headers(), strict=True))


def refuse(*_: Any) -> None:
    raise AssertionError("the general reader is used")


@given(
    st.lists(st.tuples(TEXTS, KEYS, st.integers(0, 2**26)), min_size=1, max_size=9),
    st.sampled_from([1, 60, 70, 8190]),
)
def test_plain_records_need_no_general_reader(
    drawn: list[tuple[bytes | None, bytes | None, int]], before: int
) -> None:
    records = [Record(b"{}", None, n, 1000) for n in range(before)]
    records += [
        Record(value, key, before + n, 1000 + time) for n, (value, key, time) in enumerate(drawn)
    ]
    data = encode_batch(records) + encode_batch([Record(b"", None, len(records), 5)], len(records))
    expected = [(r.offset, r.time, r.key, r.value, []) for r in records]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batches, "_read_fields", refuse)
        assert list_records(data) == [*expected, (len(records), 5, None, b"", [])]


@given(st.data())
def test_damaged_framing_is_read_as_by_the_general_reader(data: st.DataObject) -> None:
    """Under a right checksum, a byte that differs is read alike, or refused alike."""
    keys = data.draw(st.lists(KEYS, min_size=3, max_size=3))
    values = data.draw(st.lists(VALUES, min_size=3, max_size=3))
    records = [Record(values[n], keys[n], n, n) for n in range(3)]
    body = bytearray(encode_batch(records)[61:])
    for _ in range(data.draw(st.integers(1, 2))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    batch = encode_batch(records, body=bytes(body))

    def read() -> list[tuple[Any, ...]] | None:
        try:
            return list_records(batch)
        except DamagedBatchError:
            return None

    fast = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batches, "read_plain", lambda *_: None)
        assert fast == read()


@pytest.mark.parametrize(
    "record",
    [
        Record(b"x", b"k" * 64, 1),
        Record(b"x" * 8192, None, 1),
        Record(b"x", None, 1, 2**40),
        Record(b"x", None, 1, 0, [("name", b"value")]),
        Record(b"x", None, 2),
    ],
    ids=["a long key", "a long value", "a late time", "a header", "a gap"],
)
def test_other_records_are_left_to_the_general_reader(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = encode_batch([Record(b"x"), record])
    headers = [list(record.headers)]
    assert list_records(data)[1:] == [
        (record.offset, record.time, record.key, record.value, *headers)
    ]
    monkeypatch.setattr(record_batches, "_read_fields", refuse)
    with pytest.raises(AssertionError):
        list_records(data)


def test_values_of_every_size_are_read() -> None:
    sizes = np.arange(300)
    records = [Record(b"x" * size, None, size) for size in sizes.tolist()]
    assert [len(record[3]) for record in list_records(encode_batch(records))] == sizes.tolist()
