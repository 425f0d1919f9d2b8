"""Fetch requests and their answers, byte by byte as Kafka's protocol describes them."""

from __future__ import annotations

import struct

import pytest

from muntin.sources.fetch import FetchProgress
from muntin.sources.fetch_requests import (
    Fetched,
    decode_by_id,
    decode_by_name,
    encode_by_id,
    encode_by_name,
    parse_topic_id,
)
from muntin.sources.kafka_connection import FetchError
from muntin.sources.record_batches import Aborted

ID = bytes(range(16))
RANGES = [FetchProgress("t", 0, 7, 9, wanted=50), FetchProgress("t", 300, 8, 9, wanted=60)]
LIMITS = struct.pack(">iiiibii", -1, 20, 1, 16 << 20, 1, 0, -1)


def test_a_request_by_name_has_no_optional_fields() -> None:
    request = encode_by_name(RANGES, committed=True, wait=20)
    partitions = b"".join(
        struct.pack(">iiqqi", p, -1, start, -1, wanted)
        for p, start, wanted in [(0, 7, 50), (300, 8, 60)]
    )
    assert request == LIMITS + b"\0\0\0\1\0\1t\0\0\0\2" + partitions + bytes(6)


def test_a_request_by_id_has_lengths_and_optional_fields_of_variable_size() -> None:
    request = encode_by_id(RANGES, {"t": ID}, committed=True, wait=20)
    partitions = b"".join(
        struct.pack(">iiqiqi", p, -1, start, -1, -1, wanted) + b"\0"
        for p, start, wanted in [(0, 7, 50), (300, 8, 60)]
    )
    assert request == LIMITS + b"\2" + ID + b"\3" + partitions + b"\0" + b"\1\1\0"


def test_many_partitions_have_a_length_of_two_bytes() -> None:
    ranges = [FetchProgress("t", n, 0, 9) for n in range(200)]
    request = encode_by_id(ranges, {"t": ID}, committed=False, wait=0)
    at = len(LIMITS) + 1 + 16
    assert request[at : at + 2] == bytes([201 & 127 | 128, 1])


def answer_by_id(data: bytes, *, aborted: bytes = b"\0", tags: bytes = b"\0") -> memoryview:
    """An answer for one partition whose high watermark is 90, of which 80 are stable."""
    partition = struct.pack(">ihqqq", 3, 0, 90, 80, 5) + aborted + struct.pack(">i", -1)
    size = bytes([len(data) + 1])
    body = struct.pack(">ihi", 0, 0, 0) + b"\2" + ID + b"\2" + partition + size + data + tags
    return memoryview(b"\0" + body + b"\0\0")


@pytest.mark.parametrize("committed", [False, True])
def test_an_answer_by_id_is_decoded(committed: bool) -> None:
    aborted = b"\2" + struct.pack(">qq", 11, 60) + b"\0"
    # The place of a new leader, which nobody needs.
    tags = b"\1\1\3abc"
    answer = answer_by_id(b"records", aborted=aborted, tags=tags)
    (fetched,) = decode_by_id(answer, {"t": ID}, committed=committed)
    ends = [Aborted(11, 60)] if committed else []
    assert fetched == Fetched("t", 3, 0, 80 if committed else 90, ends, memoryview(b"records"))


def test_an_answer_by_name_is_decoded() -> None:
    partition = struct.pack(">ihqqqi", 3, 0, 90, 80, 5, 1) + struct.pack(">qq", 11, 60)
    body = struct.pack(">ihii", 0, 0, 0, 1) + b"\0\1t\0\0\0\1" + partition
    answer = memoryview(body + struct.pack(">ii", -1, 7) + b"records")
    (fetched,) = decode_by_name(answer, committed=True)
    assert fetched == Fetched("t", 3, 0, 80, [Aborted(11, 60)], memoryview(b"records"))
    (fetched,) = decode_by_name(answer, committed=False)
    assert (fetched.newest, fetched.aborted) == (90, [])


def test_an_answer_that_is_cut_off_is_refused() -> None:
    whole = answer_by_id(b"records")
    assert [one.data for one in decode_by_id(whole, {"t": ID}, committed=False)] == [b"records"]
    # Nothing of the last byte is needed.
    for end in range(len(whole) - 1):
        with pytest.raises((FetchError, struct.error, KeyError)):
            list(decode_by_id(whole[:end], {"t": ID}, committed=False))


def test_an_error_of_the_whole_answer_is_raised() -> None:
    for decode in (
        lambda: decode_by_id(memoryview(b"\0" + struct.pack(">ihi", 0, 9, 0)), {}, committed=False),
        lambda: decode_by_name(memoryview(struct.pack(">ihii", 0, 9, 0, 0)), committed=False),
    ):
        with pytest.raises(FetchError, match="error 9"):
            list(decode())


def test_ids_are_written_in_either_alphabet() -> None:
    assert parse_topic_id("-_-_AAAAAAAAAAAAAAAAAA") == parse_topic_id("+/+/AAAAAAAAAAAAAAAAAA")
    assert len(parse_topic_id("MkU3OEVBNTcwNTJENDM2Qg")) == 16
