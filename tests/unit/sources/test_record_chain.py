"""Tests of finding records: a guess by zeros is right or refused, whatever the payloads are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.sources import record_chain
from muntin.sources.byte_values import ROOM
from muntin.sources.record_chain import BrokenChainError, find_records

PAYLOADS = st.binary(max_size=12) | st.binary(min_size=60, max_size=300) | st.just(bytes(9000))
# Payloads that look like records: zeros, and numbers that are lengths of others.
TRAPS = st.lists(st.sampled_from([0, 0, 0, 12, 14, 16, 1]), max_size=40).map(bytes)


def encode_varint(number: int) -> bytes:
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*out, rest])


def encode_record(number: int, payload: bytes, headers: int) -> bytes:
    body = b"\0" + encode_varint(3 * number) + encode_varint(number) + encode_varint(-1)
    body += encode_varint(len(payload)) + payload + encode_varint(headers) + b"\2a\2b" * headers
    return encode_varint(len(body)) + body


def lay_out_batches(batches: list[list[bytes]]) -> tuple[np.ndarray, ...]:
    bodies = [b"".join(batch) for batch in batches]
    data = np.frombuffer(bytes(ROOM) + b"".join(bodies) + bytes(ROOM), np.uint8)
    sizes, counts = (
        np.array([len(body) for body in items], np.int64) for items in (bodies, batches)
    )
    ends = np.cumsum(sizes) + ROOM
    return data, ends - sizes, ends, counts


@given(
    batches=st.lists(
        st.lists(st.tuples(PAYLOADS | TRAPS, st.sampled_from([0, 0, 0, 2])), max_size=8), max_size=5
    ),
    in_step=st.sampled_from([1, 3, 256]),
)
def test_places_are_those_that_records_were_written_at(
    batches: list[list[tuple[bytes, int]]], in_step: int
) -> None:
    encoded = [[encode_record(n, *item) for n, item in enumerate(batch)] for batch in batches]
    sizes = [len(item) for batch in encoded for item in batch]
    expected = [ROOM + sum(sizes[:n]) for n in range(len(sizes))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_chain, "_IN_STEP", in_step)
        assert find_records(*lay_out_batches(encoded)).starts.tolist() == expected


def test_records_with_zeros_in_their_payloads_are_guessed() -> None:
    """Numbers in binary payloads have zeros; the guess drops those that look like records."""
    batch = [encode_record(n, bytes([0, 14, 0, n % 7, 0, 0, 9, 0, 0, 0]), 0) for n in range(500)]
    guess = record_chain._guess_records(*lay_out_batches([batch, batch]))
    assert guess is not None
    assert len(guess.starts) == 1000


@pytest.mark.parametrize("in_step", [1, 256])
@pytest.mark.parametrize("size", [b"\x7e", b"\xfe\x7e", b"\xff" * 12])
def test_a_record_that_leaves_its_batch_is_refused(
    size: bytes, in_step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_chain, "_IN_STEP", in_step)
    good = encode_record(0, b"payload", 0)
    with pytest.raises(BrokenChainError):
        find_records(*lay_out_batches([[good, size + good[1:]]]))
