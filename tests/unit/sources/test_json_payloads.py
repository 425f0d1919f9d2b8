"""Tests that a JSON message is read alike whatever is read with it, and that bad ones are found."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sources.damage import damage

from muntin.engine.session_zone import SessionZone
from muntin.sources.json_payloads import JsonPayloads
from muntin.sources.text_values import is_readable

SCHEMA: dict[str, pl.DataType] = {
    "small": pl.Int8(),
    "id": pl.Int64(),
    "price": pl.Float64(),
    "half": pl.Float32(),
    "name": pl.String(),
    "paid": pl.Boolean(),
    "at": pl.Datetime("us", "UTC"),
    "local": pl.Datetime("us"),
    "day": pl.Date(),
}
NULLS = dict.fromkeys(SCHEMA)
DEEP = 10_000
MALFORMED = [
    None,
    b"",
    b"   ",
    b"{",
    b"null",
    b"[1]",
    b"17",
    b'{"id": 1} {"id": 2}',
    b'{"id": 1}\n{"id": 2}',
    b"\xff\xfe",
    b'{"name": "\xff"}',
    b'{"id": "1"}',
    b'{"id": 1.5}',
    b'{"id": 1e3}',
    b'{"id": true}',
    b'{"id": 9223372036854775808}',
    b'{"small": 128}',
    b'{"price": "1"}',
    b'{"price": NaN}',
    b'{"price": 1e400}',
    b'{"price": 1e10000000}',
    b'{"unknown": 1e-100000000x}',
    b'{"paid": 1}',
    b'{"at": 17}',
    b'{"at": "yesterday"}',
    b'{"at": "57971-01-01T00:00:00Z"}',
    b'{"at": "2026-02-30T00:00:00Z"}',
    b'{"local": "2026-01-01T00:00:00Z"}',
    b'{"day": "2026-01-01T00:00:00"}',
    b'{"name": "a\nb"}',
    b'{"name": "\\ud800"}',
    b'{"name": "\\uDFFF!"}',
    b'{"unknown": ' + b"[" * DEEP + b"]" * DEEP + b"}",
]
READABLE: list[tuple[bytes, dict[str, Any]]] = [
    (b"{}", {}),
    (b'{"id": null, "unknown": {"id": "x"}}', {}),
    (b'{"id": -9223372036854775808}', {"id": -(2**63)}),
    (b'{\n"id":\n 7}', {"id": 7}),
    (b'{"small": -128, "paid": false}', {"small": -128, "paid": False}),
    (b'{"price": 1, "half": 0.5}', {"price": 1.0, "half": 0.5}),
    (b'{"name": "\\ud83d\\ude00 a\\u0000b"}', {"name": "😀 a\0b"}),
    (b'{"name": 5}', {"name": "5"}),
    (b'{"at": "2026-01-01T10:00:00Z"}', {"at": datetime(2026, 1, 1, 10, tzinfo=UTC)}),
    (b'{"at": "2026-01-01 10:00:00.5+02:00"}',
     {"at": datetime(2026, 1, 1, 8, 0, 0, 500_000, tzinfo=UTC)}),
    # A time without a zone is in Berlin's.
    (b'{"at": "2026-01-01T10:00"}', {"at": datetime(2026, 1, 1, 9, tzinfo=UTC)}),
    (b'{"at": "2026-01-01"}', {"at": datetime(2025, 12, 31, 23, tzinfo=UTC)}),
    (b'{"local": "2026-01-01 10:00:00.25"}', {"local": datetime(2026, 1, 1, 10, 0, 0, 250_000)}),
    (b'{"day": "2026-01-31"}', {"day": date(2026, 1, 31)}),
]  # fmt: skip


def decode_rows(values: list[bytes | None]) -> list[dict[str, Any] | None]:
    """Return the row of each payload; ``None`` where it is malformed."""
    frame, bad, _ = JsonPayloads(SCHEMA, SessionZone("Europe/Berlin")).decode(values)
    assert frame.schema == pl.Schema(SCHEMA)
    assert len(frame) == len(bad) == len(values)
    return [None if wrong else row for row, wrong in zip(frame.to_dicts(), bad, strict=True)]


@pytest.mark.parametrize("value", MALFORMED, ids=lambda v: repr(v)[:40])
def test_what_isnt_the_columns_is_malformed(value: bytes | None) -> None:
    assert decode_rows([value]) == [None]
    frame, _, _ = JsonPayloads(SCHEMA, SessionZone()).decode([value])
    assert frame.to_dicts() == [NULLS]


@pytest.mark.parametrize(("value", "members"), READABLE, ids=lambda v: repr(v)[:40])
def test_a_payload_becomes_its_columns(value: bytes, members: dict[str, Any]) -> None:
    assert decode_rows([value]) == [NULLS | members]


ALL_VALUES = [*MALFORMED, *(value for value, _ in READABLE)]
ROWS_BY_VALUE = {value: decode_rows([value])[0] for value in ALL_VALUES}


@given(
    st.lists(st.sampled_from(ALL_VALUES), max_size=40),
    st.integers(0, 1500),
    st.randoms(use_true_random=False),
)
def test_a_message_is_the_same_whatever_it_is_read_with(
    mixed: list[bytes | None], good_count: int, random: Any
) -> None:
    """Messages are read alike also in blocks that are large enough to be divided."""
    values = [*mixed, *[b'{"id": 7}'] * good_count]
    random.shuffle(values)
    assert decode_rows(values) == [ROWS_BY_VALUE.get(value, NULLS | {"id": 7}) for value in values]


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.text(st.characters(exclude_categories=["Cs"])),
            st.floats(allow_nan=False, allow_infinity=False),
            st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
        ),
        max_size=20,
    ),
    st.booleans(),
)
def test_what_python_writes_is_read_back(messages: list[Any], ascii_only: bool) -> None:
    values = [
        json.dumps(
            {"id": n, "name": text, "price": real, "at": f"{at.isoformat()}+00:00"},
            ensure_ascii=ascii_only,
        ).encode()
        for n, text, real, at in messages
    ]
    assert decode_rows(list(values)) == [
        NULLS | {"id": n, "name": text, "price": real, "at": at.replace(tzinfo=UTC)}
        for n, text, real, at in messages
    ]


def test_times_may_be_written_in_several_ways_in_one_block() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    moments = [start + timedelta(milliseconds=7 * n) for n in range(300)]
    formats = [
        lambda t: t.strftime("%Y-%m-%dT%H:%M:%S.") + f"{t.microsecond // 1000:03d}Z",
        lambda t: t.isoformat(sep=" "),
        lambda t: t.isoformat(timespec="microseconds"),
    ]
    values = [json.dumps({"at": formats[n % 3](t)}).encode() for n, t in enumerate(moments)]
    assert [row and row["at"] for row in decode_rows(list(values))] == moments


def test_other_types_are_for_sparks_reader() -> None:
    assert not is_readable(pl.Decimal(10, 2))
    assert not is_readable(pl.List(pl.Int64))
    assert all(is_readable(dtype) for dtype in SCHEMA.values())


def test_text_alone_takes_every_value_and_no_broken_message() -> None:
    frame, bad, _ = JsonPayloads({"page": pl.String()}, SessionZone()).decode(
        [b'{"page": "a"}', b"broken", b"{}"]
    )
    assert frame.to_dicts() == [{"page": "a"}, {"page": None}, {"page": None}]
    assert bad.to_list() == [False, True, False]


@settings(max_examples=6)
@given(st.randoms(use_true_random=False))
def test_damaged_messages_are_what_pythons_reader_says(random: Any) -> None:
    """A readable message is an object with these values, whatever it is read with."""
    values: list[bytes | None] = []
    for _ in range(12):
        members = {name: random.choice(choices) for name, choices in _MEMBERS.items()}
        chosen = {name: member for name, member in members.items() if random.random() < 0.5}
        message = json.dumps(chosen, ensure_ascii=random.random() < 0.5).encode()
        values.append(message if random.random() < 0.3 else damage(message, random))
    for value, row in zip(values, decode_rows(values), strict=True):
        assert repr([row]) == repr(decode_rows([value]))
        if row is None or value is None:
            continue
        pairs = json.loads(value, object_pairs_hook=list)
        names = [name for name, _ in pairs]
        for name, member in pairs:
            # Either value of a repeated name may count.
            if name in ("id", "paid", "price", "name") and names.count(name) == 1:
                assert isinstance(member, list) or row[name] == (
                    member if name != "name" or isinstance(member, str) else row[name]
                )


_MEMBERS: dict[str, list[Any]] = {
    "id": [1, -9],
    "small": [127, -5],
    "price": [1.5, 2, 1e3],
    "name": ["x", 'a"b', "é", "😀", "\\", "a\nb"],
    "paid": [True, False],
    "at": ["2026-01-01T10:00:00Z"],
    "day": ["2026-01-31"],
    "other": [{"a": [1, {"b": None}]}],
}


@pytest.mark.parametrize("others", [[], [b'{"x": [], "id": null}', b'{"x": "\\n", "id": "a"}']])
def test_a_missing_number_is_told_from_a_value_of_another_type(others: list[bytes | None]) -> None:
    """The name may also be a value, be followed by blanks, or be in another object."""
    values = [
        b'{"id": "7"}', b'{"id"\r:\n"x"}', b'{"name": "id"}', b'{"name": "id:"}', b'{"x": 1}',
        b'{"id": 18446744073709551616}', b'{"name": "null", "id": true}', *others,
        *[b'{"x": {"id": 1}}' for _ in others],
    ]  # fmt: skip
    _, bad, faults = JsonPayloads({"id": pl.Int64()}, SessionZone()).decode(values)
    expected = [True, True, False, False, False, True, True]
    expected += [False, True, False, False] if others else []
    assert bad.to_list() == expected
    assert faults.tolist() == [0 if is_bad else -1 for is_bad in expected]
