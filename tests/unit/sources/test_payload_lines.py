"""Tests of lines of JSON that are read in one call."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from polars.exceptions import PolarsError
from tests.unit.sources.test_json_syntax import draw_document, find_valid

from muntin.sources.payload_lines import PayloadLines


def join_lines(values: list[bytes]) -> PayloadLines:
    return PayloadLines.from_values(values)[0]


SCHEMA = pl.Schema({"": pl.String(), "m": pl.Int64()})


def test_a_line_feed_in_a_payload_ends_no_line() -> None:
    lines = join_lines([b'{"m":\n1}', b'{"m":2}\n'])
    assert lines.read(SCHEMA)["m"].to_list() == [1, 2]


def test_what_begins_or_ends_otherwise_is_no_line() -> None:
    values = [
        b'{"m":1}',
        b" ",
        None,
        b"",
        b"[{}]",
        b"\xff{}",
        b"\xef\xbb\xbf{}",
        b"{",
        b"\t{}\r\n ",
    ]
    lines, rows = PayloadLines.from_values(values)
    assert (lines.texts.to_list(), rows.tolist()) == (['{"m":1}', "\t{}\r\r "], [0, 8])


def test_a_value_of_another_type_is_null_where_reading_is_lenient() -> None:
    lines = join_lines([b'{"m":"x"}', b'{"m":1}'])
    with pytest.raises(PolarsError):
        lines.read(SCHEMA)
    assert lines.read(SCHEMA, lenient=True)["m"].to_list() == [None, 1]


def test_some_of_the_lines_are_those_payloads_alone() -> None:
    lines = join_lines([b'{"m":1}', b"{x}", b'{"m":3}'])
    assert lines.select(np.array([0, 2])).read(SCHEMA)["m"].to_list() == [1, 3]
    assert lines.select(np.arange(3)) is lines


def test_half_a_pair_is_no_line() -> None:
    values = [b"{}", rb'{"m":"\ud83d"}', rb'{"m":"\ud83d\ude00"}', b'{"m":\n1}']
    lines, rows = PayloadLines.from_values(values)
    assert rows.tolist() == [0, 2, 3]
    assert lines.texts.to_list() == ["{}", r'{"m":"\ud83d\ude00"}', '{"m":\r1}']


@given(st.lists(draw_document(), min_size=1, max_size=4))
@example([rb'{"m":1}', rb'{"m":"\ud83d"}'])
@example([b'{"m":' + b"9" * 39 + b"}"])
def test_lenient_reading_takes_objects_and_no_others(texts: list[bytes]) -> None:
    lines = join_lines(texts)
    try:
        lines.read(SCHEMA, lenient=True)
    except PolarsError:
        is_read = False
    else:
        is_read = True
    # A drawn document may begin with another piece than a brace, or have half a pair.
    if len(lines) == len(texts):
        assert is_read == all(find_valid(*texts))
    else:
        assert not all(find_valid(*texts))
