"""Tests of values that are converted for PostgreSQL; test_postgres has those of a server."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from muntin.sinks.postgres_types import to_psycopg_values


def refuse(constant: str) -> None:
    raise AssertionError(f"jsonb refuses {constant}")


def convert_to_json(kind: pa.DataType, *values: Any) -> list[Any]:
    """Convert nested values, and return them as jsonb reads them."""
    texts = to_psycopg_values(pa.chunked_array([pa.array(list(values), kind)]))
    return [None if text is None else json.loads(text, parse_constant=refuse) for text in texts]


def test_numbers_that_are_none_become_text_within_jsonb() -> None:
    kind = pa.struct({"x": pa.float64(), "deep": pa.list_(pa.struct({"y": pa.float32()}))})
    row = {"x": float("nan"), "deep": [{"y": float("-inf")}, {"y": 0.5}, None]}
    expected = {"x": "nan", "deep": [{"y": "-inf"}, {"y": 0.5}, None]}
    assert convert_to_json(kind, row, None, {"x": 1.0, "deep": None}) == [
        expected,
        None,
        {"x": 1, "deep": None},
    ]
    pairs = convert_to_json(pa.map_(pa.string(), pa.float64()), [("a\0", float("inf"))])
    assert pairs == [[["a␀", "inf"]]]


def test_only_the_character_nul_is_replaced_within_jsonb() -> None:
    """The six characters of its escape are text like any other."""
    kind = pa.list_(pa.struct({"k": pa.string(), "b": pa.binary(), "flag": pa.bool_()}))
    rows = convert_to_json(kind, [{"k": "nul\0, \\u0000, \\\\u0000", "b": b"\xff", "flag": True}])
    assert rows == [[{"k": "nul␀, \\u0000, \\\\u0000", "b": "ff", "flag": True}]]
