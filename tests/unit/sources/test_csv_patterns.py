"""Tests that CSV records of one pattern are read as they are one by one."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sources.buffers import assert_equal, put_in_buffer
from tests.unit.sources.damage import damage

from muntin.engine.session_zone import SessionZone
from muntin.sources import message_patterns
from muntin.sources.csv_payloads import CsvPayloads, find_record_pattern
from muntin.sources.message_patterns import read_alike

COLUMNS: dict[str, pl.DataType] = {
    "small": pl.Int8(),
    "id": pl.Int64(),
    "at": pl.Datetime("us", "UTC"),
    "local": pl.Datetime("us"),
    "note": pl.String(),
    "price": pl.Float64(),
    "cost": pl.Decimal(9, 2),
    "paid": pl.Boolean(),
    "day": pl.Date(),
}
FIELDS = [*COLUMNS, "unknown"]
PAYLOADS = CsvPayloads(COLUMNS, SessionZone("Europe/Berlin"), FIELDS)
INTEGERS = st.integers(-(2**63) - 1, 2**63).map(str)
NUMBERS = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.decimals(-(10**9), 10**9, places=3).map(str),
    st.sampled_from(["-0", "-0.0", "00.5", "1.", ".5", "1e5", "+1", " 1", "1.5.5", "007"]),
)
TIMES = st.one_of(
    st.datetimes().map(lambda time: time.isoformat(timespec="milliseconds") + "Z"),
    st.datetimes().map(lambda time: time.isoformat(sep=" ", timespec="microseconds")),
    st.sampled_from(["2026-02-29T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00.0000"]),
)
TEXTS = st.one_of(
    st.text("ab\\ '\t", max_size=9), st.text("xy", max_size=200), st.text('é,"', max_size=3)
)
VALUES = {
    "small": INTEGERS,
    "id": INTEGERS,
    "at": TIMES,
    "local": TIMES,
    "note": TEXTS,
    "price": NUMBERS,
    "cost": NUMBERS,
    "paid": st.sampled_from(["true", "false", "TRUE", "1"]),
    "day": st.one_of(st.dates().map(str), st.just("2026-02-30")),
    "unknown": TEXTS,
}


@st.composite
def draw_records(draw: st.DrawFn) -> list[bytes | None]:
    """Draw the records of one producer, some of them damaged or missing."""
    end = draw(st.sampled_from(["", "\n", "\r\n"]))
    is_empty = draw(st.fixed_dictionaries({name: st.booleans() for name in FIELDS}))
    row_strategy = st.fixed_dictionaries(
        {name: st.just("") if is_empty[name] else VALUES[name] for name in FIELDS}
    )
    dice = Random(draw(st.integers(0, 2**32)))
    quoted = draw(st.sets(st.sampled_from(FIELDS)))
    values: list[bytes | None] = []
    for row in draw(st.lists(row_strategy, min_size=1, max_size=20)):
        fields = [f'"{text}"' if name in quoted else text for name, text in row.items()]
        record = (",".join(fields) + end).encode()
        match dice.randrange(12):
            case 0:
                values.append(damage(record, dice))
            case 1:
                values.append(dice.choice([None, b"", record[: len(record) // 2]]))
            case _:
                values.append(record)
    return values


@pytest.fixture(scope="module", autouse=True)
def read_by_patterns() -> Any:
    """Read by patterns however few the records are, and however many differ."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_patterns, "FEWEST", 1)
        patch.setattr(message_patterns, "_SHARE", 0)
        patch.setattr(message_patterns, "_AT_ONCE", 7)
        yield


@settings(max_examples=8 * settings.default.max_examples)
@given(draw_records())
def test_alike_records_are_read_as_any_others(values: list[bytes | None]) -> None:
    assert_equal(PAYLOADS.decode(put_in_buffer(values)), PAYLOADS.decode(values))


@given(st.lists(st.one_of(TEXTS.map(str.encode), st.just(b"\n"), st.none()), min_size=1))
def test_records_of_one_field(values: list[bytes | None]) -> None:
    payloads = CsvPayloads({"note": pl.String()}, SessionZone())
    assert_equal(payloads.decode(put_in_buffer(values)), payloads.decode(values))


def test_plain_records_are_read_by_their_pattern() -> None:
    values = [
        f"{n % 100},{n * -(10**12)},2026-01-{1 + n % 28:02}T10:00:00.{n:03}Z,2026-01-01 00:00:00,"
        f"{'x' * (n % 50)},{n / 8},{n}.25,{'true' if n % 2 else 'false'},2026-01-31,-\r\n".encode()
        for n in range(1, 100)
    ]
    (group,) = read_alike(
        put_in_buffer([*values]),
        COLUMNS,
        PAYLOADS.form,
        [],
    )
    assert group.positions.tolist() == [*range(99)]
    assert not PAYLOADS.decode(put_in_buffer([*values])).bad.any()


RECORD = b"1,2,2026-01-01T00:00:00Z,2026-01-01 00:00:00,a,1.5,2.5,true,2026-01-01,x"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"1,2", b"1;2"), (b"1,2", b"1,,2"), (b"1,2", b"01,2"), (b"1,2", b"128,2"), (b"1,2", b",2"),
        (b",a,", b",,"), (b",a,", b',"a",'), (b",a,", b',a"b,'), (b",a,", b",a\\b,"),
        (b",a,", b",\xff,"), (b",a,", b",a\nb,"), (b",a,", b",a\tb,"), (b",1.5,", b",1.,"),
        (b",1.5,", b",-0,"), (b",1.5,", b',"1.5",'), (b",1.5,", b",,"),
        (b"2026-01-01,x", b'" 2",x'),
        (b",2.5,", b",2.505,"), (b",2.5,", b",1e2,"), (b",true,", b",True,"), (b",x", b",x,"),
        (b",x", b""), (b",x", b","), (b",x", b",x\n"), (b",x", b",x\r"), (b"00Z", b"00"),
    ],
)  # fmt: skip
def test_a_record_near_the_patterns_rules(old: bytes, new: bytes) -> None:
    assert RECORD.count(old) == 1
    values: list[bytes | None] = [RECORD, RECORD.replace(old, new), RECORD]
    assert_equal(PAYLOADS.decode(put_in_buffer(values)), PAYLOADS.decode(values))


@pytest.mark.parametrize("record", [b"", b'"1"', b"1", b"1,2,3", b"1,\xff", b"1,a\n\n"])
def test_a_record_without_a_pattern(record: bytes) -> None:
    columns = {"id": pl.Int64(), "note": pl.String()}
    assert find_record_pattern(record, columns, [*columns]) is None


@pytest.mark.parametrize(
    ("record", "names"),
    [
        (b"1,a", ["id", "note"]), (b",a", ["id", "note"]), (b"-7,", ["id", "note"]),
        (b",\r\n", ["id", "note"]), (b"a,", ["note", "id"]), (b"a b,\n", ["note", "id"]),
        (b"x,y", ["id", "note"]), (b"1.5,a", ["id", "note"]),
        (b'"1","a, b"\n', ["id", "note"]), (b'"",1', ["note", "id"]),
    ],
)  # fmt: skip
def test_a_record_has_its_own_pattern(record: bytes, names: list[str]) -> None:
    columns = {"note": pl.String(), "id": pl.Int64()}
    form = CsvPayloads(columns, SessionZone(), names).form
    groups = read_alike(put_in_buffer([record, record]), columns, form, [])
    assert [group.positions.tolist() for group in groups] == [[0, 1]]
