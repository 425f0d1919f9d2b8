"""Tests of JSON with decimals, structs, arrays and maps."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from tests.unit.sources.buffers import put_in_buffer

from muntin.engine.session_zone import SessionZone
from muntin.sources.csv_payloads import CsvPayloads
from muntin.sources.decimals import decimal_of
from muntin.sources.json_nested import NestedJsonPayloads, is_nested_json
from muntin.sources.message_patterns import FEWEST

TWO = pl.Decimal(10, 2)
POINT = pl.Struct({"x": pl.Int64, "at": pl.Datetime("us", "UTC"), "price": TWO})


def decode(dtype: Any, *values: bytes | None) -> list[Any]:
    """Return ``v`` of each message; ``malformed`` where the message is malformed."""
    payloads = NestedJsonPayloads({"id": pl.Int64(), "v": dtype}, SessionZone())
    frame, bad, _ = payloads.decode(list(values))
    assert frame.schema == pl.Schema({"id": pl.Int64, "v": dtype})
    expected_values = [
        "malformed" if is_bad else v for v, is_bad in zip(list_values(frame), bad, strict=True)
    ]
    # The same message has the same answer alone, and among others that are written alike.
    for value, expected in zip(values, expected_values, strict=True):
        single_frame, is_bad, _ = payloads.decode([value])
        assert ("malformed" if is_bad[0] else list_values(single_frame)[0]) == expected
    repeated_frame, is_bad, _ = payloads.decode(
        put_in_buffer([*values] * -(-FEWEST // len(values)))
    )
    repeated_values = [
        "malformed" if bad else v
        for v, bad in zip(list_values(repeated_frame), is_bad, strict=True)
    ]
    assert repeated_values[: len(values)] == repeated_values[-len(values) :] == expected_values
    return expected_values


def list_values(frame: pl.DataFrame) -> list[Any]:
    return [row["v"] for row in frame.to_dicts()]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12.30", "12.30"), ("12", "12.00"), ("1.005", "1.01"), ("-1.005", "-1.01"),
        ("1e3", "1000.00"), ("1.2e-1", "0.12"), ('"12.3"', "12.30"), ("0.004", "0.00"),
        ("99999999.99", "99999999.99"), ("12345678.91", "12345678.91"), ("-0", "0.00"),
        ("1e-999999999", "0.00"), ("0e999999999", "0.00"), ("null", None),
    ],
)  # fmt: skip
def test_decimals_are_exact(text: str, number: str | None) -> None:
    expected = None if number is None else Decimal(number)
    assert decode(TWO, b'{"v":%s}' % text.encode()) == [expected]


@pytest.mark.parametrize(
    "text",
    ["100000000", "99999999.995", "1e999999999", '"x"', "true", "[1]", "{}", '"NaN"', '""',
     '"Infinity"', "9" * 500, '"' + "9" * 500 + '"'],
)  # fmt: skip
def test_what_no_decimal_is(text: str) -> None:
    good = b'{"v":1}'
    assert decode(TWO, good, b'{"v":%s}' % text.encode(), good) == [
        Decimal("1.00"), "malformed", Decimal("1.00")
    ]  # fmt: skip


def test_large_decimals_keep_every_digit() -> None:
    number = "12345678901234567890123456789.012345678"
    assert decode(pl.Decimal(38, 9), b'{"v":%s}' % number.encode()) == [Decimal(number)]


def test_structs_arrays_and_maps() -> None:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert decode(
        POINT,
        b'{"v":{"x":1,"at":"2026-01-31T12:00:00Z","price":1.5,"more":[]}}',
        b'{"v":{}}', b'{"v":null}', b"{}",
    ) == [{"x": 1, "at": at, "price": Decimal("1.50")},
          {"x": None, "at": None, "price": None}, None, None]  # fmt: skip
    assert decode(pl.List(pl.List(pl.Int32)), b'{"v":[[1,2],[],null]}', b'{"v":[]}') == [
        [[1, 2], [], None], []
    ]  # fmt: skip
    assert decode(pl.List(POINT), b'{"v":[{"x":1},null]}')[0][1] is None
    assert decode(pl.List(pl.String), b'{"v":["a",1.50,{"b":[1]},true]}') == [
        ["a", "1.50", '{"b":[1]}', "true"]
    ]  # fmt: skip
    assert decode(pl.Map(pl.String, TWO), b'{"v":{"a":1,"b":2.5}}', b'{"v":{}}') == [
        {"a": Decimal("1.00"), "b": Decimal("2.50")}, {}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (POINT, "[]"), (POINT, '"x"'), (POINT, '{"x":"1"}'), (POINT, '{"x":1.5}'),
        (POINT, '{"at":"soon"}'), (POINT, '{"at":5}'), (POINT, '{"price":"x"}'),
        (pl.List(pl.Int8), "[128]"), (pl.List(pl.Int64), "{}"), (pl.List(pl.Int64), "[true]"),
        (pl.List(pl.Float64), "[1e999]"), (pl.List(pl.Float64), "[" + "9" * 400 + "]"),
        (pl.List(pl.Float64), '["1"]'), (pl.List(pl.Boolean), "[1]"),
        (pl.List(pl.String), '["\\ud800"]'), (pl.Map(pl.String, pl.Int64), '{"\\udfff":1}'),
        (pl.Map(pl.String, pl.Int64), "[]"), (pl.List(pl.Int64), "[NaN]"),
    ],
)  # fmt: skip
def test_what_isnt_of_its_type_is_malformed(dtype: Any, text: str) -> None:
    good = b'{"id":1}'
    assert decode(dtype, good, b'{"v":%s}' % text.encode(), good, None, b"x") == [
        None, "malformed", None, "malformed", "malformed"
    ]  # fmt: skip


def test_plain_columns_beside_them_are_as_ever() -> None:
    payloads = NestedJsonPayloads({"id": pl.Int64(), "v": TWO}, SessionZone())
    frame, bad, _ = payloads.decode([b'{"id":1,"v":1}', b'{"id":"x","v":1}', b'{"id":2,"v":"x"}'])
    assert frame.rows() == [(1, Decimal("1.00")), (None, None), (None, None)]
    assert bad.to_list() == [False, True, True]


def test_which_types_are_read() -> None:
    assert is_nested_json(pl.List(pl.Struct({"a": TWO, "b": pl.Map(pl.String, pl.Date)})))
    for dtype in (pl.Duration("us"), pl.List(pl.Binary), pl.Map(pl.Int64, pl.Int64), pl.Struct({})):
        assert not is_nested_json(dtype)


def test_csv_has_decimals() -> None:
    payloads = CsvPayloads({"id": pl.Int64(), "v": TWO}, SessionZone())
    frame, bad, _ = payloads.decode([b"1,12.345", b"2,", b"3,x", b"4,1e9"])
    assert bad.to_list() == [False, False, True, True]
    assert frame["v"].to_list() == [Decimal("12.35"), None, None, None]
    assert decimal_of("1_0", TWO) is None


@settings(max_examples=4 * settings.default.max_examples, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.decimals(-(10**9), 10**9, places=4).map(str),
            st.decimals(allow_nan=False, allow_infinity=False).map(str),
            st.floats(allow_nan=False, allow_infinity=False).map(repr),
            st.integers().map(str),
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([pl.Decimal(38, 0), TWO, pl.Decimal(20, 4), pl.Decimal(38, 18)]),
    st.booleans(),
)
def test_many_decimals_are_each_as_written(
    texts: list[str], dtype: pl.Decimal, quoted: bool
) -> None:
    template = '{"v":"%s"}' if quoted else '{"v":%s}'
    payloads = NestedJsonPayloads({"v": dtype}, SessionZone())
    frame, bad, _ = payloads.decode([(template % text).encode() for text in texts])
    expected = [decimal_of(text, dtype) for text in texts]
    assert frame["v"].to_list() == expected
    assert bad.to_list() == [number is None for number in expected]


_LEAVES = [pl.Int8(), pl.Int64(), pl.Float64(), pl.Boolean(), pl.String(), TWO, pl.Date()]
_TYPES = st.recursive(
    st.sampled_from(_LEAVES),
    lambda inner: st.one_of(
        inner.map(pl.List), st.builds(lambda a, b: pl.Struct({"a": a, "b": b}), inner, inner)
    ),
    max_leaves=4,
)
_TEXTS = st.sampled_from(
    ["null", "true", "1", "-0", "0", "300", "1.0", "1.50", "1e2", "1e400", "9" * 25, '"1"', '"x"',
     '"true"', '"1.50"', '"007"', '"2026-01-31"', '"\\u00e9"', '"\\ud83d"', "[]", "{}", "[1]",
     '["x",null]', "[true,1.5]", "[[1]]", '[{"a":1}]', '{"a":1}', '{"a":"x","b":[1]}',
     '{"b":true,"a":null}', '{"a":1,"a":"x"}', '{"a":{"a":1.5,"b":"y"},"b":{}}', "nonsense", "["]
)  # fmt: skip


@settings(max_examples=5 * settings.default.max_examples, deadline=None)
@given(_TYPES, st.lists(_TEXTS, min_size=1, max_size=8))
def test_many_messages_are_read_as_each_alone(dtype: Any, texts: list[str]) -> None:
    payloads = NestedJsonPayloads({"id": pl.Int64(), "v": dtype}, SessionZone())
    messages = [b'{"id":%d,"v":%s}' % (n, text.encode()) for n, text in enumerate(texts)]
    frame, bad, faults = payloads.decode(messages)
    expected, expected_bad, expected_faults = payloads._decode_each(messages)
    assert bad.to_list() == expected_bad.to_list()
    assert_frame_equal(frame, expected)
    assert faults.tolist() == expected_faults.tolist()
