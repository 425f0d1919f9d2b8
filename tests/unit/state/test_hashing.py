"""Tests of the hashes of keys. Checkpoints store them: a changed value breaks every checkpoint."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest

from muntin.state import hashing
from muntin.state.hashing import hash_rows

NULL = 0x88737FADB88A3A89
GOLDEN = [
    pytest.param(
        pl.Series([0, 1, -1, 2**63 - 1, -(2**63), None]),
        [
            0xA706DD2F4D197E6F,
            0x5E41AB087439611E,
            0x5DC20AA7B2A27137,
            0x69C9D98A86C5CD1E,
            0x86DB92E833B0C1A0,
            NULL,
        ],
        id="integers",
    ),
    pytest.param(
        pl.Series([0, 2**64 - 1], dtype=pl.UInt64),
        [0xA706DD2F4D197E6F, 0x5DC20AA7B2A27137],
        id="unsigned",
    ),
    pytest.param(
        pl.Series(["", "a", "ab", "ba", "é", "naïve 日本", None]),
        [
            0xA706DD2F4D197E6F,
            0x8FEB6418C9D65CE4,
            0x553721AF869C1CAA,
            0x7D855998435E57A5,
            0x7E6E372F7ED5AF91,
            0x63C63B768B3404CE,
            NULL,
        ],
        id="strings",
    ),
    pytest.param(
        pl.Series([b"", b"a", b"\0", b"\0\0"]),
        [0xA706DD2F4D197E6F, 0x8FEB6418C9D65CE4, 0x817665F2D1A07B0A, 0x15C3C91E1DFD5B78],
        id="bytes",
    ),
    pytest.param(
        pl.Series([0.0, 1.5, float("inf"), float("nan"), None]),
        [0xA706DD2F4D197E6F, 0x6A09D17EBA9BF03E, 0x1C980BBC4B761541, 0x5366251C28A3E1FF, NULL],
        id="floats",
    ),
    pytest.param(
        pl.Series([True, False, None]),
        [0x5E41AB087439611E, 0xA706DD2F4D197E6F, NULL],
        id="booleans",
    ),
    pytest.param(
        pl.Series([date(1970, 1, 1), date(2026, 2, 3), None]),
        [0xA706DD2F4D197E6F, 0x194BB597CF647228, NULL],
        id="dates",
    ),
    pytest.param(
        pl.Series([datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=UTC)]),
        [0x5CB6841BF0EB2FE1],
        id="timestamps",
    ),
    pytest.param(
        pl.Series([Decimal("1.50"), Decimal("-2.25"), None], dtype=pl.Decimal(10, 2)),
        [0x8E58BA66CADF836C, 0x940C52160146A7B9, NULL],
        id="decimals",
    ),
]


@pytest.mark.parametrize(("column", "expected"), GOLDEN)
def test_golden(column: pl.Series, expected: list[int]) -> None:
    assert hash_rows([column]).tolist() == expected


def test_golden_over_columns() -> None:
    numbers, letters = pl.Series([1, 2]), pl.Series(["a", "b"])
    assert hash_rows([numbers, letters]).tolist() == [0x5FE705E76E10E2B6, 0x76A26E73F39B94CA]
    assert hash_rows([letters, numbers]).tolist() == [0xF24742F0BF6C0EAC, 0xF31419001AA1BF32]


@pytest.mark.parametrize(
    "dtype", [pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]
)
def test_integers_of_every_width_hash_alike(dtype: Any) -> None:
    values = [0, 1, 100, None]
    wide = hash_rows([pl.Series(values, dtype=pl.Int64)])
    assert hash_rows([pl.Series(values, dtype=dtype)]).tolist() == wide.tolist()


def test_both_zeros_and_both_widths_of_floats_hash_alike() -> None:
    assert len(set(hash_rows([pl.Series([0.0, -0.0])]).tolist())) == 1
    narrow = hash_rows([pl.Series([1.5, -2.25], dtype=pl.Float32)])
    assert narrow.tolist() == hash_rows([pl.Series([1.5, -2.25])]).tolist()


@pytest.mark.parametrize("dtype", [pl.Int64, pl.String, pl.Float64, pl.Date, pl.Decimal(9, 2)])
def test_an_empty_column_has_no_hashes(dtype: Any) -> None:
    assert len(hash_rows([pl.Series([], dtype=dtype)])) == 0


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([f"text {n}" * (n % 4) for n in range(100)]),
        pl.Series([None if n % 7 == 0 else n for n in range(100)]),
        pl.Series([None if n % 7 == 0 else f"é{n}" for n in range(100)]),
    ],
)
def test_a_row_has_the_same_hash_at_any_position(column: pl.Series) -> None:
    hashes = hash_rows([column])
    assert hash_rows([column[40:]]).tolist() == hashes[40:].tolist()
    assert hash_rows([column.reverse()]).tolist() == hashes[::-1].tolist()
    chunked = pl.concat([column[:13], column[13:]], rechunk=False)
    assert hash_rows([chunked]).tolist() == hashes.tolist()


@pytest.mark.parametrize(
    "column",
    [
        pl.Series(range(20_000)),
        pl.Series([n * 2**32 for n in range(20_000)]),
        pl.Series([n / 8 for n in range(20_000)]),
        pl.Series([f"user-{n}" for n in range(20_000)]),
    ],
    ids=["integers", "high bits", "floats", "strings"],
)
def test_hashes_spread_over_every_bit(column: pl.Series) -> None:
    hashes = hash_rows([column])
    assert len(set(hashes.tolist())) == len(column)
    for bit in range(64):
        ones = int(((hashes >> np.uint64(bit)) & np.uint64(1)).sum())
        # Half of them, within five standard deviations.
        assert abs(ones - len(column) / 2) < 5 * (len(column) / 4) ** 0.5


def test_values_in_different_columns_hash_differently() -> None:
    ab, empty = pl.Series(["ab"]), pl.Series([""])
    pairs = [(ab, empty), (empty, ab), (pl.Series(["a"]), pl.Series(["b"])), (ab, ab)]
    assert len({hash_rows(list(pair))[0] for pair in pairs}) == len(pairs)


def hash_bytes(data: bytes) -> int:
    """Return the hash of one value, computed byte by byte."""
    total, power = len(data), 0x100000001B3
    for byte in data:
        total, power = (total + (byte + 1) * power) % 2**64, power * 0x100000001B3 % 2**64
    return total


def test_a_long_value_hashes_by_the_same_rule_portion_by_portion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = ["ab" * n for n in (0, 1, 3, 4, 5, 8, 100, 2, 0, 0, 7, 1000, 1)]
    hashes = hash_rows([pl.Series(texts)])
    sums = np.array([hash_bytes(text.encode()) for text in texts], dtype=np.uint64)
    assert hashing._mix(hashing._mix(sums)).tolist() == hashes.tolist()
    for portion in (1, 2, 7, 8, 64):
        monkeypatch.setattr(hashing, "_PORTION", portion)
        assert hash_rows([pl.Series(texts)]).tolist() == hashes.tolist()
        assert hash_rows([pl.Series(texts)[3:11]]).tolist() == hashes[3:11].tolist()


@pytest.mark.parametrize("column", [["k" * 8_000_000], ["k" * 4_000] * 2_000], ids=["one", "many"])
def test_long_values_take_no_more_memory_than_themselves(column: list[str]) -> None:
    series = pl.Series(column)
    tracemalloc.start()
    try:
        hash_rows([series])
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 32_000_000


def test_nested_values_that_are_equal_hash_alike() -> None:
    nan = float("nan")
    lists = pl.Series([[1.0, nan], [], None, [1.0, -nan], [-0.0], [0.0], [nan, 1.0], [None], []])
    hashes = hash_rows([lists]).tolist()
    assert (hashes[0], hashes[4], hashes[1]) == (hashes[3], hashes[5], hashes[8])
    assert len(set(hashes)) == 6
    pairs = pl.Series([{"a": 1, "b": [1]}, {"a": 1, "b": [1]}, {"a": 1, "b": []}, None])
    nulls = pl.Series([{"a": None, "b": None}], dtype=pairs.dtype)
    hashes = hash_rows([pl.concat([pairs, nulls])]).tolist()
    assert (hashes[0], len(set(hashes))) == (hashes[1], 4)
    # A slice of a column has the same hashes as in the whole column.
    assert hash_rows([lists.slice(3, 4)]).tolist() == hash_rows([lists]).tolist()[3:7]
