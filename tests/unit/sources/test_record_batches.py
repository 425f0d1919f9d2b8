"""Tests that record batches are read as they were encoded, and that damage never goes unseen."""

from __future__ import annotations

import struct
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sources.batch_encoder import (
    CODECS,
    Record,
    compress_xerial,
    compute_checksum,
    encode_batch,
    encode_marker,
    encode_record,
)

from muntin.sources import record_batches
from muntin.sources.byte_values import ByteValues, join_values
from muntin.sources.record_batches import (
    Aborted,
    DamagedBatchError,
    RecordBatch,
    UnknownFormatError,
    read_records,
    select_messages,
    split_batches,
)

BYTES = st.none() | st.binary(max_size=20) | st.sampled_from([b"x" * 63, b"y" * 64, b"z" * 9000])
HEADERS = st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=5), BYTES), max_size=3)


@st.composite
def draw_partitions(draw: st.DrawFn) -> list[tuple[int, int, list[Record]]]:
    """Draw a partition's batches with gaps: base, last offset and records of each."""
    offset, batches = draw(st.integers(0, 2**40)), []
    for count in draw(st.lists(st.integers(0, 6), min_size=1, max_size=5)):
        offset += draw(st.integers(0, 3))
        base, records = offset, []
        for _ in range(count):
            offset += draw(st.sampled_from([0, 0, 0, 5, 200]))
            time = draw(st.integers(-1, 2**43))
            records.append(Record(draw(BYTES), draw(BYTES), offset, time, draw(HEADERS)))
            offset += 1
        last = max(offset - 1, base) + draw(st.integers(0, 2))
        batches.append((base, last, records))
        offset = last + 1
    return batches


def list_messages(batches: list[RecordBatch]) -> list[tuple[Any, ...]]:
    """Return the messages of batches, one tuple each."""
    records = read_records(batches)
    return list(
        zip(
            records.offsets.tolist(), records.timestamps.tolist(), records.append_time.tolist(),
            records.keys, records.values, records.headers(), strict=True,
        )
    )  # fmt: skip


@given(draw_partitions(), st.sampled_from(sorted(CODECS)), st.none() | st.integers(0, 2**43))
def test_what_was_written_is_read(
    drawn: list[tuple[int, int, list[Record]]], codec: int, append_time: int | None
) -> None:
    data = b"".join(
        encode_batch(records, base, last=last, codec=codec, append_time=append_time)
        for base, last, records in drawn
    )
    read = list(split_batches(data))
    assert [(batch.base, batch.last, batch.count) for batch in read] == [
        (base, last, len(records)) for base, last, records in drawn
    ]
    expected = [
        (r.offset, r.time if append_time is None else append_time, append_time is not None,
         r.key, r.value, [(name, value) for name, value in r.headers])
        for _, _, records in drawn for r in records
    ]  # fmt: skip
    assert list_messages(read) == expected
    # This many batches are decoded together.
    assert list_messages(read * 70) == expected * 70


def test_a_batch_that_is_cut_off_is_left_out() -> None:
    first = encode_batch([Record(b"a"), Record(b"b", offset=1)])
    second = encode_batch([Record(b"c", offset=2)], 2)
    for size in range(len(second)):
        assert len(list(split_batches(first + second[:size]))) == 1


def test_snappy_of_javas_clients_is_read() -> None:
    records = [Record(bytes([n]) * 900, offset=n) for n in range(5)]
    [batch] = split_batches(encode_batch(records, codec=2, compress=compress_xerial))
    assert list(read_records([batch]).values) == [r.value for r in records]


@given(draw_partitions(), st.sampled_from(sorted(CODECS)), st.data())
def test_damage_is_never_read_in_silence(
    drawn: list[tuple[int, int, list[Record]]], codec: int, data: st.DataObject
) -> None:
    """A changed byte after the offsets and lengths is an error, or changes nothing."""
    base, last, records = drawn[0]
    whole = encode_batch(records, base, last=last, codec=codec)
    at = data.draw(st.integers(8, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[at] ^= data.draw(st.integers(1, 255))
    try:
        read = list(split_batches(bytes(damaged)))
        assert not read or list_messages(read) == list_messages(list(split_batches(whole)))
    except (DamagedBatchError, UnknownFormatError):
        pass


@given(draw_partitions(), st.data())
def test_records_that_dont_add_up_are_refused_under_a_right_checksum(
    drawn: list[tuple[int, int, list[Record]]], data: st.DataObject
) -> None:
    """Records are read only if they encode to the body."""
    base, last, records = drawn[0]
    time = records[0].time if records else -1
    body = bytearray(b"".join(encode_record(record, base, time) for record in records))
    for _ in range(data.draw(st.integers(1, 3)) if body else 0):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    whole = encode_batch(records, base, last=last, body=bytes(body))
    for copies in (1, 70):
        try:
            read = list_messages(list(split_batches(whole)) * copies)
        except DamagedBatchError:
            continue
        assert len(read) == len(records) * copies
        assert all(base <= offset <= last for offset, *_ in read)
        sizes = sum(len(key or b"") + len(value or b"") for *_, key, value, _ in read)
        assert sizes <= len(body) * copies


def test_older_formats_and_unknown_codecs_are_left_to_others() -> None:
    old = bytearray(encode_batch([Record(b"a")]))
    old[16] = 1
    with pytest.raises(UnknownFormatError):
        list(split_batches(bytes(old)))
    with pytest.raises(UnknownFormatError):
        list(split_batches(encode_batch([Record(b"a")], codec=5, compress=bytes)))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_bytes_that_arent_compressed_are_damage(codec: int) -> None:
    with pytest.raises(DamagedBatchError):
        list(
            split_batches(encode_batch([Record(b"a")], codec=codec, compress=lambda b: b"\xff" * 9))
        )


def set_largest(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(record_batches, "LARGEST_BODY", size)
    monkeypatch.setattr(record_batches, "_ROOM_BY_THREAD", threading.local())


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [1, 63, 64, 65, 9000])
def test_a_batch_that_explodes_is_messages_without_a_value(
    codec: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_largest(monkeypatch, 100_000)
    records = [Record(bytes(200_000 // count), b"k", offset=7 + n) for n in range(count)]
    data = encode_batch(records, 7, codec=codec) + encode_batch(
        [Record(b"next", offset=7 + count)], 7 + count
    )
    explodes, following = split_batches(data)
    assert list_messages([explodes]) == [
        (7 + n, records[0].time, False, None, None, []) for n in range(count)
    ]
    assert list(read_records([following]).values) == [b"next"]


def test_blocks_of_snappy_explode_together(monkeypatch: pytest.MonkeyPatch) -> None:
    set_largest(monkeypatch, 10_000)
    [batch] = split_batches(
        encode_batch([Record(bytes(20_000))], codec=2, compress=compress_xerial)
    )
    assert list(read_records([batch]).values) == [None]


def test_a_batch_has_no_more_messages_than_would_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    set_largest(monkeypatch, 10_000)
    records = [Record(b"x" * 9, offset=n) for n in range(2000)]
    with pytest.raises(DamagedBatchError, match="has 2000 records"):
        list(split_batches(encode_batch(records, codec=4)))


def test_messages_of_aborted_transactions_are_left_out() -> None:
    data = b"".join(
        [
            encode_batch([Record(b"plain")], 0),
            encode_batch([Record(b"aborted", offset=1)], 1, producer=7),
            encode_batch([Record(b"committed", offset=2)], 2, producer=8),
            encode_marker(3, 7, commits=False),
            encode_batch([Record(b"again", offset=4)], 4, producer=7),
            encode_marker(5, 8, commits=True),
            encode_marker(6, 7, commits=True),
        ]
    )
    batches = list(split_batches(data))
    all_values = [b"plain", b"aborted", b"committed", b"again"]
    assert list(read_records(select_messages(batches)).values) == all_values
    committed = select_messages(batches, [Aborted(7, 1)])
    assert list(read_records(committed).values) == [b"plain", b"committed", b"again"]


@given(st.lists(st.binary(min_size=1, max_size=70), min_size=1, max_size=20), st.integers(1, 3))
def test_values_become_lines_in_place(values: list[bytes], headers: int) -> None:
    records = [
        Record(value, offset=n, headers=[("h", b"\n")] * (n % headers))
        for n, value in enumerate(values)
    ]
    payloads = read_records(list(split_batches(encode_batch(records)))).values
    lines = payloads.as_lines()
    if any(b"\n" in value for value in values):
        assert lines is None
    else:
        assert lines is not None
        read = bytes(lines).split(b"\n")
        assert len(read) == len(values)
        assert all(
            line.startswith(value) and not line[len(value) :].strip(b" ")
            for line, value in zip(read, values, strict=True)
        )


@given(st.lists(st.lists(BYTES, max_size=6), min_size=1, max_size=4))
def test_values_are_a_sequence_and_a_column(parts: list[list[bytes | None]]) -> None:
    parts_read = [
        read_records(
            list(split_batches(encode_batch([Record(v, offset=n) for n, v in enumerate(part)])))
        ).values
        for part in parts
    ]
    joined, plain = join_values(parts_read), [value for part in parts for value in part]
    assert list(joined) == [joined[n] for n in range(len(joined))] == plain
    assert joined.to_series().to_list() == plain
    assert list(joined[1:]) == plain[1:]
    odd = np.arange(0, len(plain), 2)
    assert list(joined.select(odd)) == plain[::2]
    assert isinstance(joined[1:], ByteValues)


def test_the_encoders_checksum_is_crc32c() -> None:
    assert compute_checksum(b"123456789") == 0xE3069283
    assert struct.unpack(">I", encode_batch([])[17:21])[0] == compute_checksum(
        encode_batch([])[21:]
    )
