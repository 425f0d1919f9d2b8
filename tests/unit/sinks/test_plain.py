"""Tests of values as JSON: nanoseconds, and lists of one length as Polars' ``Array`` has."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from muntin.sinks.plain import format_json_rows
from muntin.sinks.postgres_types import column_type


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.timestamp("ns"), 1, "1970-01-01T00:00:00.000000001"),
        (pa.timestamp("ns", tz="UTC"), -1, "1969-12-31T23:59:59.999999999Z"),
        (pa.timestamp("ns"), 1_500_000_000, "1970-01-01T00:00:01.5"),
        (pa.duration("ns"), 2_000, 2),
        (pa.duration("ns"), -1_500, -1.5),
        (pa.list_(pa.int64(), 2), [1, None], [1, None]),
        (pa.struct({"x": pa.list_(pa.int8(), 1)}), {"x": [0]}, {"x": [0]}),
    ],
)  # fmt: skip
def test_a_value_is_json_of_its_own_kind(kind: pa.DataType, value: Any, expected: Any) -> None:
    (row,) = format_json_rows(pa.table({"v": pa.array([value], kind)}))
    assert json.loads(row) == {"v": expected}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "numeric(20, 0)"),
        (pa.time64("us"), "time"),
        (pa.list_(pa.int64(), 3), "bigint[]"),
    ],
)
def test_a_type_of_postgresql_is_the_nearest_one(kind: pa.DataType, name: str) -> None:
    assert column_type(kind) == name
