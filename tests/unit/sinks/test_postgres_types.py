"""Values on their way to PostgreSQL; the server's side is in test_postgres."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from muntin.sinks.postgres_types import to_psycopg_values


def refuse(constant: str) -> None:
    raise AssertionError(f"jsonb refuses {constant}")


def read(kind: pa.DataType, *given: Any) -> list[Any]:
    """Nested values as jsonb reads them."""
    emitted = to_psycopg_values(pa.chunked_array([pa.array(list(given), kind)]))
    return [None if text is None else json.loads(text, parse_constant=refuse) for text in emitted]


def test_numbers_that_are_none_become_text_within_jsonb() -> None:
    kind = pa.struct({"x": pa.float64(), "deep": pa.list_(pa.struct({"y": pa.float32()}))})
    one = {"x": float("nan"), "deep": [{"y": float("-inf")}, {"y": 0.5}, None]}
    emitted = {"x": "nan", "deep": [{"y": "-inf"}, {"y": 0.5}, None]}
    assert read(kind, one, None, {"x": 1.0, "deep": None}) == [
        emitted,
        None,
        {"x": 1, "deep": None},
    ]
    pairs = read(pa.map_(pa.string(), pa.float64()), [("a\0", float("inf"))])
    assert pairs == [[["a␀", "inf"]]]


def test_only_the_character_nul_is_replaced_within_jsonb() -> None:
    """The six characters of its escape are text like any other."""
    kind = pa.list_(pa.struct({"k": pa.string(), "b": pa.binary(), "flag": pa.bool_()}))
    found = read(kind, [{"k": "nul\0, \\u0000, \\\\u0000", "b": b"\xff", "flag": True}])
    assert found == [[{"k": "nul␀, \\u0000, \\\\u0000", "b": "ff", "flag": True}]]
