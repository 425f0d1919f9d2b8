"""Tests that JSON messages of one pattern are read as they are one by one."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sources.buffers import assert_equal, put_in_buffer
from tests.unit.sources.damage import damage
from tests.unit.sources.test_json_payloads import SCHEMA

from muntin.engine.session_zone import SessionZone
from muntin.sources import message_patterns
from muntin.sources.json_patterns import JSON, find_pattern
from muntin.sources.json_payloads import JsonPayloads
from muntin.sources.message_patterns import read_alike

COLUMNS: dict[str, pl.DataType] = {**SCHEMA, "missing": pl.String(), "cost": pl.Decimal(9, 2)}
FEWEST, SHARE = message_patterns.FEWEST, message_patterns._SHARE
BERLIN = SessionZone("Europe/Berlin")
PAYLOADS = JsonPayloads(COLUMNS, BERLIN)
INTEGERS = st.integers(-(2**63) - 1, 2**63)
REALS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-(10**9), 10**9, places=6).map(str),
    st.integers(-(10**16), 10**16).map(str),
    st.sampled_from(["-0", "-0.0", "0.1", "00.5", "1.", ".5", "1e5", "+1", "NaN", "1.5.5"]),
)
TEXTS = st.one_of(st.text(max_size=20), st.text("abc \x7f", max_size=200)).map(json.dumps)
TIMES = st.one_of(
    st.datetimes().map(lambda t: f'"{t.isoformat(timespec="milliseconds")}Z"'),
    st.datetimes().map(lambda t: f'"{t.isoformat(timespec="milliseconds")}"'),
    st.datetimes().map(lambda t: f'"{t.isoformat(sep=" ", timespec="microseconds")}Z"'),
    st.datetimes().map(lambda t: f'"{t.isoformat(sep=" ", timespec="seconds")}"'),
    st.sampled_from([
        '"2026-02-29T00:00:00.000Z"', '"2024-02-29T23:59:59.999Z"', '"2026-13-01T00:00:00.000Z"',
        '"2026-01-00T00:00:00.000Z"', '"2026-01-01T24:00:00.000Z"', '"2026-01-01T00:60:00.000Z"',
        '"2026-01-01T00:00:60.000Z"', '"0000-01-01T00:00:00.000Z"', '"2026-0a-01T00:00:00.000Z"',
        '"2026-01-01T00:00:00.000+02:00"', '"2026-01-01T00:00:0\u00e9.000Z"',
    ]),
)  # fmt: skip
OBJECTS = st.lists(st.tuples(st.sampled_from(["a", "id", "b c"]), st.one_of(REALS, TEXTS))).map(
    lambda members: "{" + ", ".join(f'"{name}": {value}' for name, value in members) + "}"
)
VALUES = {
    "small": st.one_of(INTEGERS.map(str), OBJECTS),
    "id": st.one_of(INTEGERS.map(str), REALS, st.sampled_from(['"1"', '""', "true", "9" * 38])),
    "price": st.one_of(REALS, OBJECTS, st.sampled_from(['"1.5"', '{"a":{"b":1}}', "{}"])),
    "half": REALS,
    "cost": st.one_of(REALS, st.sampled_from(['"dear"', "1e12", "12345678"])),
    "name": TEXTS,
    "paid": st.sampled_from(["true", "false", "truf", "fals", "1", '"true"']),
    "at": st.one_of(TIMES, st.sampled_from(["1767225600000", "-1.5"])),
    "local": TIMES,
    "day": st.one_of(st.dates().map(lambda d: f'"{d}"'), st.just('"2026-02-30"')),
    "unknown": st.one_of(
        TEXTS, REALS, st.sampled_from(["true", "null", '{"id":1}', "[1]", "NaN", "-Infinity"])
    ),
}
SEPARATORS = st.tuples(st.sampled_from(["", " ", "\t \r"]), st.sampled_from([":", ": ", " :"]))


@st.composite
def draw_alike(draw: st.DrawFn) -> list[bytes | None]:
    """Draw messages that one producer writes, some of them damaged or missing."""
    names = draw(st.lists(st.sampled_from([*VALUES]), min_size=1, unique=draw(st.booleans())))
    blank, colon = draw(SEPARATORS)
    rows = draw(st.lists(st.tuples(*(VALUES[name] for name in names)), min_size=1, max_size=20))
    messages: list[bytes | None] = []
    dice = Random(draw(st.integers(0, 2**32)))
    for row in rows:
        members = [f'{blank}"{n}"{colon}{v}' for n, v in zip(names, row, strict=True)]
        message = ("{" + ",".join(members) + blank + "}").encode()
        match dice.randrange(12):
            case 0:
                messages.append(damage(message, dice))
            case 1:
                messages.append(dice.choice([None, b"", message[: len(message) // 2]]))
            case _:
                messages.append(message)
    return messages


@pytest.fixture(scope="module", autouse=True)
def read_by_patterns() -> Any:
    """Read by patterns however few the messages are, and however many differ."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_patterns, "FEWEST", 1)
        patch.setattr(message_patterns, "_SHARE", 0)
        patch.setattr(message_patterns, "_AT_ONCE", 7)
        yield


@settings(max_examples=8 * settings.default.max_examples)
@given(draw_alike())
def test_alike_messages_are_read_as_any_others(values: list[bytes | None]) -> None:
    expected, decoded = PAYLOADS.decode(values), PAYLOADS.decode(put_in_buffer(values))
    assert_equal(decoded, expected)


def test_what_producers_write_is_read_by_its_pattern() -> None:
    values = [
        json.dumps({
            "id": n * -(10**12), "unknown": n / 8, "name": "x" * (n % 100), "paid": n % 2 == 0,
            "at": f"2026-{1 + n % 12:02}-{1 + n % 28:02}T{n % 24:02}:00:00.{n:06}Z", "price": n / 7,
        }).encode()
        for n in range(1, 100)
    ]  # fmt: skip
    # The other reader reads doubles of seventeen digits, and texts that are far longer.
    readable = [n - 1 for n in range(1, 100) if len(f"{n / 7!r}") <= 16]
    (group,) = [*read_alike(put_in_buffer([*values]), COLUMNS, JSON, [])][:1]
    assert group.positions.tolist() == readable
    expected = PAYLOADS.decode(values).rows
    assert group.rows.to_dicts() == expected[readable].to_dicts()


@pytest.mark.parametrize(
    ("pattern", "others"),
    [
        (b'{"id":7}', [
            b'{"ie":7}', b'{"id";7}', b'("id":7}', b'{"id":7)', b'{"id":7 }', b'{"id":7}}',
            b'{"id":07}', b'{"id":-0}', b'{"id":+7}', b'{"id":}', b'{"id":7e0}',
            b'{"id":9223372036854775808}', b'{"id": 7}', b'{"id": "7"}', b'{"id": [7]}',
            b'{"id": ]}', b'{"id": "a}', b'{"id":null }', b'{"id":7"}', b'{"id":["\\"]}',
            b'{"id":{"a":"\xff"}}',
        ]),
        (b'{"price":1.5}', [b'{"price":00.5}', b'{"price":1.}', b'{"price":.5}', b'{"price":-.5}',
                            b'{"price":9007199254740993.5}', b'{"price":1.5e3}']),
        (b'{"id":1.5}', [b'{"id":1}', b'{"id":1.}', b'{"id":.5}', b'{"id":-.5}', b'{"id":01.5}',
                         b'{"id":1.5e3}', b'{"id":-1.' + b"5" * 200 + b"}", b'{"id":1.5.5}']),
        (b'{"id":{"a":1,"id":"x"}}', [b'{"id":1}', b'{"id":{"a":1,"id":"x"}', b'{"id":{"a":1}}',
                                      b'{"id":{"a":01,"id":"x"}}', b'{"id":"a":1,"id":"x"}']),
        (b'{"name":"abc"}', [b'{"name":"a\xffc"}', b'{"name":"\xc3("}', b'{"name":"a\nb"}',
                             b'{"name":"a"b"}', b'{"name":"\\"}', b'{"name":"\\u00e9"}',
                             b'{"name":"' + b"x" * 300 + b'"}', b'{"name":"abc', b'{"name":"ab"}']),
        (b'{"cost":1.5}', [b'{"cost":1.505}', b'{"cost":-0}', b'{"cost":12345678.9}',
                           b'{"cost":1e3}', b'{"cost":"1.5"}', b'{"cost":null}',
                           b'{"cost":true}']),
        (b'{"id":null,"name":null}', [b'{"id":1,"name":null}', b'{"id":null,"name":"x"}',
                                      b'{"id":nul,"name":null}', b'{"id":null,"name":null,}']),
        (b'{"paid":true}', [b'{"paid":truE}', b'{"paid":fals}', b'{"paid":false}']),
        (b'{"at":"2026-01-31T23:59:59.999Z"}', [
            b'{"at": "2026-01-31T00:00:00Z"}', b'{"at": 1}', b'{"at":"2026-01-31T00:00:00Z"}',
            b'{"at":"2026-02-29T00:00:00.000Z"}', b'{"at":"2024-02-29T00:00:00.000Z"}',
            b'{"at":"2026-00-01T00:00:00.000Z"}', b'{"at":"2026-13-01T00:00:00.000Z"}',
            b'{"at":"2026-01-00T00:00:00.000Z"}', b'{"at":"2026-01-32T00:00:00.000Z"}',
            b'{"at":"2026-01-01T24:00:00.000Z"}', b'{"at":"2026-01-01T00:60:00.000Z"}',
            b'{"at":"2026-01-01T00:00:60.000Z"}', b'{"at":"2026-01-01T00:00:00.00aZ"}',
            b'{"at":"2026/01/01T00:00:00.000Z"}', b'{"at":"9999-12-31T00:00:00.001Z"}',
        ]),
    ],
)  # fmt: skip
def test_values_near_a_patterns_rules(pattern: bytes, others: list[bytes]) -> None:
    values = [part for other in others for part in (pattern, other)]
    expected, decoded = PAYLOADS.decode([*values]), PAYLOADS.decode(put_in_buffer([*values]))
    assert_equal(decoded, expected)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"id":1',
        b'{"id":1}x',
        b'{"id":1{"name":"x"}',
        b'{"name":1}',
        b'{"name":{"a":1}}',
        b'{"id":{"a":1}',
        b'{"id":{}x}',
        b'{"name":true}',
        b'{"name":"\\n"}',
        '{"name":"é"}'.encode(),
        b'{"other":{"id":1}}',
    ],
)
def test_a_message_without_a_pattern(message: bytes) -> None:
    assert find_pattern(message, COLUMNS) is None


def read_groups(values: list[bytes | None]) -> list[list[int]]:
    """Return the positions of the messages that each pattern reads, with the usual limits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_patterns, "FEWEST", FEWEST)
        patch.setattr(message_patterns, "_SHARE", SHARE)
        groups = read_alike(put_in_buffer(values), COLUMNS, JSON, [])
        return [group.positions.tolist() for group in groups]


def test_messages_of_many_kinds_have_no_pattern() -> None:
    kinds = [b'{"id":%d}', b'{"id":%d,"name":"x"}', b'{"name":"x","id":%d}']
    assert read_groups([kinds[n % 3] % n for n in range(3 * FEWEST)]) == []


def test_each_common_kind_of_message_has_a_pattern() -> None:
    kinds = [b'{"id":%d,"name":"x"}', b'{"name":"x","id":%d}']
    groups = read_groups([kinds[n % 4 == 1] % n for n in range(4 * FEWEST)])
    assert groups == [[n for n in range(4 * FEWEST) if (n % 4 == 1) == second] for second in (0, 1)]


def test_nulls_among_values_are_read_by_their_pattern() -> None:
    values = [b'{"name":"x","id":%s,"at":null}' % (b"null" if n % 2 else b"7") for n in range(9)]
    decoded = PAYLOADS.decode(put_in_buffer([*values]))
    assert decoded.rows["id"].to_list() == [None if n % 2 else 7 for n in range(9)]
    (group,) = read_alike(put_in_buffer([*values]), COLUMNS, JSON, [])
    assert len(group.positions) == 9


@pytest.mark.parametrize(
    "value",
    ['"7"', "1.5", "-1e3", "true", "9" * 38, "[]", '[1,"}"]', '{"a":true,"b":-1.5}', '{"id":7}',
     "[[[[[[[[[[]]]]]]]]]]", '{"a":[{"b":{}}]}'],
)  # fmt: skip
@pytest.mark.parametrize("is_alone", [True, False])
def test_values_of_other_types_are_read_by_the_pattern(value: str, is_alone: bool) -> None:
    values = [
        f'{{"name":"{n}","id":{value if is_alone or n % 3 else n},"paid":true}}'.encode()
        for n in range(99)
    ]
    (group,) = read_alike(put_in_buffer([*values]), COLUMNS, JSON, [])
    assert len(group.positions) == 99
    assert group.others is not None
    assert group.others.rows.tolist() == [n for n in range(99) if is_alone or n % 3]
    assert group.others.values.wrong.all()


@pytest.mark.parametrize(
    "value", ["NaN", "None", "1.", "01", "1e999", "9" * 40, "[1,]", '{"a":}', "[}", "nul", ""]
)
def test_values_that_are_no_json_are_read_by_the_pattern(value: str) -> None:
    values = [b'{"id":%d,"paid":%s}' % (n, (value if n % 2 else "true").encode()) for n in range(9)]
    (group,) = read_alike(put_in_buffer([*values]), COLUMNS, JSON, [])
    assert group.others is not None
    assert group.others.rows[group.others.values.broken].tolist() == [1, 3, 5, 7]


def test_of_repeated_members_the_first_one_counts() -> None:
    values = [b'{"id":%d,"name":"x","id":"y","id":null}' % n for n in range(100)]
    (group,) = read_alike(put_in_buffer([*values]), COLUMNS, JSON, [])
    assert group.rows["id"].to_list() == [*range(100)]


def test_a_first_message_of_another_kind_costs_no_pattern() -> None:
    (group,) = read_groups([b"broken", *(b'{"id":%d}' % n for n in range(FEWEST))])
    assert group == [*range(1, FEWEST + 1)]


def test_few_messages_of_a_kind_are_left_to_another_reader() -> None:
    kinds = [b'{"id":%d}', b'{"name":"x","id":%d}']
    (group,) = read_groups([kinds[n % 30 == 7] % n for n in range(2 * FEWEST)])
    assert group == [n for n in range(2 * FEWEST) if n % 30 != 7]


def test_messages_after_others_are_read_by_the_same_pattern_while_it_fits_many() -> None:
    kinds = [b'{"id":%d}', b'{"name":"x","id":%d}']
    frames = [[kinds[kind] % n for n in range(2 * FEWEST)] for kind in (0, 0, 1, 0)]
    frames.append([kinds[n % 3 == 1] % n for n in range(2 * FEWEST)])
    payloads, tried = JsonPayloads(COLUMNS, BERLIN), []
    with pytest.MonkeyPatch.context() as patch:
        find_common = message_patterns._find_common

        def note(*arguments: Any) -> Any:
            tried[-1] += 1
            return find_common(*arguments)

        patch.setattr(message_patterns, "_SHARE", SHARE)
        patch.setattr(message_patterns, "_find_common", note)
        for frame in frames:
            tried.append(0)
            rows, bad, _ = payloads.decode(put_in_buffer([*frame]))
            assert (rows["id"].to_list(), bad.any()) == ([*range(2 * FEWEST)], False)
    assert tried[:4] == [1, 0, 1, 1]


@pytest.mark.parametrize(
    "minute",
    ["2026-01-31T10:59", "2026-02-30T10:00", "2026-01-01T24:00", "2026-01-01T00:60",
     "0000-01-01T00:00", "2026-01-01T0x:00", "1969-12-31T23:59"],
)  # fmt: skip
def test_times_of_one_minute_are_read_as_any_others(minute: str) -> None:
    texts = [f"{minute}:{n % 62:02}.{n:03}Z" for n in range(150)]
    for last in (texts[-1], "2026-01-31T11:00:00.000Z", f"{minute}:0x.000Z", f"{minute}:00.0000"):
        values = [f'{{"at":"{text}"}}'.encode() for text in [*texts, last]]
        assert_equal(PAYLOADS.decode(put_in_buffer([*values])), PAYLOADS._decode_any(values))
