"""Tests that a CSV record is read alike whatever is read with it, and that bad ones are found."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sources.damage import damage

from muntin.engine.session_zone import SessionZone
from muntin.sources.csv_payloads import CsvPayloads, parse_fields

SCHEMA: dict[str, pl.DataType] = {
    "id": pl.Int64(),
    "at": pl.Datetime("us", "UTC"),
    "note": pl.String(),
    "price": pl.Float64(),
    "paid": pl.Boolean(),
}
NULLS = dict.fromkeys(SCHEMA)
PAYLOADS = CsvPayloads(SCHEMA, SessionZone())
MALFORMED = [
    None,
    b"",
    b"1",
    b"1,,,",
    b"1,,,,,",
    b"1,,a,2.5,true,",
    b"x,,,,",
    b"1.5,,,,",
    b"9223372036854775808,,,,",
    b"1,yesterday,,,",
    b"1,57971-01-01T00:00:00Z,,,",
    b"1,,,abc,",
    b"1,,,,1",
    b"1,,,,yes",
    b"1,,\xff,,",
    b'1,,"a,,',
    b'1,,"a"b,,',
    b"1,,a\nb,,",
    b'1,,"a",,\n2,,"b",,',
    b'"1",,,,,',
    b"\n",
]
READABLE: list[tuple[bytes, dict[str, Any]]] = [
    (b",,,,", {}),
    (b"-9223372036854775808,,,,", {"id": -(2**63)}),
    (b"1,2026-01-01T10:00:00Z,a,,true",
     {"id": 1, "at": datetime(2026, 1, 1, 10, tzinfo=UTC), "note": "a", "paid": True}),
    (b"1,,a,2.5,FALSE\r\n", {"id": 1, "note": "a", "price": 2.5, "paid": False}),
    (b'"1",,"","2.5",\n', {"id": 1, "note": "", "price": 2.5}),
    (b'1,,"a,b",,', {"id": 1, "note": "a,b"}),
    (b'1,,"a\nb",,', {"id": 1, "note": "a\nb"}),
    (b'1,,"say ""x""",,', {"id": 1, "note": 'say "x"'}),
    (b'1,,"say \\"x\\" \\\\ \\n",,', {"id": 1, "note": 'say "x" \\ \\n'}),
    (b'1,,a"b,,', {"id": 1, "note": 'a"b'}),
    (b"1,, \\ ,,", {"id": 1, "note": " \\ "}),
]  # fmt: skip


def decode_rows(values: list[bytes | None]) -> list[dict[str, Any] | None]:
    """Return the row of each payload; ``None`` where it is malformed."""
    frame, bad, _ = PAYLOADS.decode(values)
    assert frame.schema == pl.Schema(SCHEMA)
    assert len(frame) == len(bad) == len(values)
    return [None if wrong else row for row, wrong in zip(frame.to_dicts(), bad, strict=True)]


@pytest.mark.parametrize("value", MALFORMED, ids=lambda v: repr(v)[:40])
def test_what_isnt_the_columns_is_malformed(value: bytes | None) -> None:
    frame, bad, _ = PAYLOADS.decode([value])
    assert (bad.to_list(), frame.to_dicts()) == ([True], [NULLS])


@pytest.mark.parametrize(("value", "fields"), READABLE, ids=lambda v: repr(v)[:40])
def test_a_payload_becomes_its_columns(value: bytes, fields: dict[str, Any]) -> None:
    assert decode_rows([value]) == [NULLS | fields]


ALL_VALUES = [*MALFORMED, *(value for value, _ in READABLE)]
ROWS_BY_VALUE = {value: decode_rows([value])[0] for value in ALL_VALUES}


@given(st.lists(st.sampled_from(ALL_VALUES), max_size=40))
def test_a_message_is_the_same_whatever_it_is_read_with(values: list[bytes | None]) -> None:
    assert decode_rows(values) == [ROWS_BY_VALUE[value] for value in values]


def test_a_single_column_may_be_null_only_where_it_is_quoted() -> None:
    frame, bad, _ = CsvPayloads({"note": pl.String()}, SessionZone()).decode(
        [b"a", b"", b'""', b"a,b"]
    )
    assert frame["note"].to_list() == ["a", None, "", None]
    assert bad.to_list() == [False, True, False, True]


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
            st.floats(allow_nan=False),
        ),
        max_size=20,
    )
)
def test_what_python_writes_is_read_back(messages: list[tuple[int, str, float]]) -> None:
    values: list[bytes | None] = []
    for number, note, price in messages:
        buffer = io.StringIO()
        csv.writer(buffer).writerow([number, None, note.replace("\\", "/"), price, None])
        values.append(buffer.getvalue().encode())
    assert decode_rows(values) == [
        NULLS | {"id": number, "note": note.replace("\\", "/"), "price": price}
        for number, note, price in messages
    ]


@settings(max_examples=6)
@given(st.randoms(use_true_random=False))
def test_damaged_records_are_the_same_whatever_they_are_read_with(random: Any) -> None:
    """Records without quotes and escapes have the fields that Python's reader finds."""
    values: list[bytes | None] = []
    for _ in range(12):
        text = random.choice(["", '"a,b"', '"x""y"', "plain", '"l\nm"'])
        fields = [str(random.randrange(99)), "2026-01-01T10:00:00Z", text, "2.5", "true"]
        record = ",".join(field if random.random() < 0.7 else "" for field in fields).encode()
        values.append(record if random.random() < 0.3 else damage(record, random))
    for value, row in zip(values, decode_rows(values), strict=True):
        assert repr([row]) == repr(decode_rows([value]))
        if row is not None and value is not None and not {*b'"\\\r\n'} & {*value}:
            (fields,) = csv.reader([value.decode()])
            assert len(fields) == len(SCHEMA)
            assert row["note"] == (fields[2] or None)


PIECES = [
    '"',
    '""',
    "\\",
    "\\\\",
    '\\"',
    ",",
    "\r",
    "\n",
    "\r\n",
    "\x1e",
    "\x1f",
    "\x1ea",
    "a",
    "é",
]


@settings(max_examples=4 * settings.default.max_examples)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), max_size=8))
def test_records_of_any_quotes_have_the_fields_of_single_ones(records: list[str]) -> None:
    names = ["a", "b", "c"]
    payloads = CsvPayloads(dict.fromkeys(names, pl.String()), SessionZone())
    rows, bad, _ = payloads.decode([record.encode() for record in records])
    for record, row, is_bad in zip(records, rows.rows(), bad, strict=True):
        fields = parse_fields(record) if record else []
        assert (is_bad, [*row]) == (
            (False, fields) if len(fields) == len(names) else (True, [None] * len(names))
        )
