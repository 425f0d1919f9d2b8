"""Tests that the checks of JSON's syntax accept what Polars reads one by one, and nothing else."""

from __future__ import annotations

import io
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from polars.exceptions import PolarsError

from muntin.engine.utf8 import decode_text
from muntin.sources.json_syntax import find_half_pairs, find_objects

PIECES = [
    '"a"', '"\\n"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00"', '"\\x"', '"é😀"',
    "1", "-0", "12.5", "1e5", "1e400", "1e-400", "01", "-", "1.", ".5", "+1", "9" * 25, "9" * 39,
    "1" + "0" * 38, str(2**128 - 1), str(2**128), f"-{2**127}", f"-{2**127 + 1}", "1e999", "0e999",
    "1e9999999999", "1e99999999999", "1e00000000005", "true", "false", "null", "nul", "NaN", "{",
    "}", "[", "]", ":", ",", " ", "\t", "\r", "\\", '"', "s", "\x01", "\x00", "{}", "[]",
    '{"a":1}', '"a":', '"a":"x",', "[[[[", '{"a":{"b":{"c":', "}}}", "\x0b", "\u2028",
]  # fmt: skip
SCALARS = st.sampled_from(
    ['"a"', '"é"', '"\\ud83d\\ude00"', "1", "-2.5e7", "9" * 39, "null", "1e310"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{' ,'.join(items)}]"),
        st.lists(inner, max_size=3).map(
            lambda items: "{" + ",".join(f'"k{n}" : {v}' for n, v in enumerate(items)) + "}"
        ),
    ),
    max_leaves=12,
)


@st.composite
def draw_document(draw: st.DrawFn) -> bytes:
    """Draw an object in which some pieces are inserted or removed."""
    text = '{"m":' + draw(VALUES) + ',"n":' + draw(VALUES) + "}"
    for piece in draw(st.lists(st.sampled_from(PIECES), max_size=2)):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + piece + text[at + draw(st.integers(0, 2)) :]
    return text.encode()


def read_alone(document: bytes) -> bool:
    """Return whether Polars reads a document as one message, without half a surrogate pair."""
    try:
        frame = pl.read_ndjson(io.BytesIO(document), schema={"unknown": pl.String})
    except PolarsError:
        return False
    return len(frame) == 1 and not find_half_pairs(pl.Series([document.decode()])).any()


def find_valid(*texts: bytes) -> list[bool]:
    return find_objects(decode_text(pl.Series(texts, dtype=pl.Binary))).to_list()


@given(st.lists(draw_document(), min_size=1, max_size=8))
@example([b'{"a":s}', b'{"a":\x01}', b'{"a":"\t"}', b'{"a":1}}', b'{"a" "b"}', b"{}{}", b"[{}]"])
@example([b'{"a":1e4294967296}', b'{"a":0e42949672970}', b'{"a":1e-4009999999}'])
def test_what_polars_reads_alone_is_taken(texts: list[bytes]) -> None:
    assert find_valid(*texts) == [read_alone(text) for text in texts]


@pytest.mark.parametrize("levels", [3, 4, 7, 8, 9, 300, 1000, 1022, 1023, 1024, 1100])
def test_the_depth_is_the_one_that_polars_takes(levels: int) -> None:
    lists = b'{"a":' + b"[" * levels + b"]" * levels + b"}"
    nested = b'{"a":' * levels + b"1" + b"}" * levels
    broken = b'{"a":' + b"[" * levels + b"]" * (levels - 1) + b"}}"
    texts = [lists, nested, broken, lists[:-1]]
    assert find_valid(*texts) == [read_alone(text) for text in texts]
    assert find_valid(*texts) == [levels < 1024, levels <= 1024, False, False]


@pytest.mark.parametrize(
    ("text", "half"),
    [
        (r'{"a":"\ud83d\ude00"}', False),
        (r'{"a":"\\ud83d"}', False),
        (r'{"a":"\\\ud83d"}', True),
        (r'{"a":"\ude00\ud83d"}', True),
        (r'{"a":"\uD83D\u0041"}', True),
        (r'{"a":"\ud7ff"}', False),
    ],
)
def test_half_a_pair_is_told_from_a_whole_one(text: str, half: bool) -> None:
    assert find_half_pairs(pl.Series([text, "{}"])).to_list() == [half, False]
    assert find_valid(text.encode()) == [not half]


BYTES: list[Any] = [
    None, b"", b"a\n", b"\xc3\xa9", b"\xc3", b"\xa9", b"\xf0\x9f\x98\x80", b"\xf0\x9f",
    b"\x98\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80",
]  # fmt: skip


@given(st.lists(st.lists(st.sampled_from(BYTES), max_size=3), max_size=8))
def test_bytes_that_arent_text_are_null(values: list[list[bytes | None]]) -> None:
    joined = [None if None in parts else b"".join(filter(None, parts)) for parts in values]
    expected = []
    for value in joined:
        try:
            expected.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            expected.append(None)
    assert decode_text(pl.Series(joined, dtype=pl.Binary)).to_list() == expected
