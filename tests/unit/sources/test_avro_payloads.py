"""Tests of Avro in columns against another library's writer, and of broken messages."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.sources import avro_payloads, avro_scalar, byte_cursor
from muntin.sources.avro_payloads import AvroPayloads
from muntin.sources.avro_schema import record
from muntin.sources.payloads import UnreadableError


@pytest.fixture(params=["together", "alone"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run each test with messages read together, and again with lists read one by one."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "alone":
            patch.setattr(byte_cursor, "_STEPS", 0)
        yield


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
SHORT = st.integers(-(2**31), 2**31 - 1)
# Types of fields, and their values.
KINDS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", SHORT),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("long", st.integers(0, 63).map(lambda bits: -(2**bits))),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", TEXTS),
    ("bytes", st.binary(max_size=30)),
    ({"type": "int", "logicalType": "date"}, st.dates()),
    ({"type": "long", "logicalType": "timestamp-micros"},
     MOMENTS.map(lambda at: at.replace(tzinfo=UTC))),
    ({"type": "long", "logicalType": "timestamp-millis"},
     MOMENTS.map(lambda at: at.replace(tzinfo=UTC, microsecond=at.microsecond // 1000 * 1000))),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, MOMENTS),
    ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9},
     st.integers(1 - 10**38, 10**38 - 1).map(lambda n: Decimal((n < 0, list_digits(n), -9)))),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
     st.integers(1 - 10**9, 10**9 - 1).map(lambda n: Decimal((n < 0, list_digits(n), -2)))),
    ({"type": "long", "logicalType": "made-up"}, st.integers(-5, 5)),
]  # fmt: skip

LISTS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ({"type": "array", "items": "long"}, st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6)),
    ({"type": "array", "items": ["null", "string"]}, st.lists(st.none() | TEXTS, max_size=6)),
    ({"type": "array", "items": {"type": "array", "items": "boolean"}},
     st.lists(st.lists(st.booleans(), max_size=3), max_size=3)),
    ({"type": "map", "values": "double"},
     st.dictionaries(TEXTS, st.floats(allow_nan=False), max_size=4)),
    ({"type": "map", "values": ["int", "null"]},
     st.dictionaries(TEXTS, st.none() | SHORT, max_size=4)),
]  # fmt: skip


def list_digits(number: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(number))))


def list_named_types(number: int) -> list[tuple[Any, st.SearchStrategy[Any]]]:
    """Return the types with names, each of which a schema defines once, and their values."""
    inner = {"type": "record", "name": f"R{number}", "fields": [
        {"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}]}  # fmt: skip
    return [
        ({"type": "enum", "name": f"E{number}", "symbols": ["A", "B"]}, st.sampled_from("AB")),
        ({"type": "fixed", "name": f"F{number}", "size": 5}, st.binary(min_size=5, max_size=5)),
        ({"type": "fixed", "name": f"D{number}", "size": 6, "logicalType": "decimal",
          "precision": 12, "scale": 3},
         st.integers(1 - 10**12, 10**12 - 1).map(lambda n: Decimal((n < 0, list_digits(n), -3)))),
        (inner, st.fixed_dictionaries({"a": SHORT, "b": st.none() | TEXTS})),
        ({"type": "array", "items": {**inner, "name": f"I{number}"}},
         st.lists(st.fixed_dictionaries({"a": SHORT, "b": st.none() | TEXTS}), max_size=3)),
    ]  # fmt: skip


@st.composite
def draw_topic(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Draw a schema, and records of it."""
    fields, values = [], {}
    for number in range(draw(st.integers(1, 6))):
        kind, values[f"f{number}"] = draw(
            st.sampled_from([*KINDS, *LISTS, *list_named_types(number)])
        )
        null = draw(st.sampled_from([None, "first", "last"]))
        if null is not None:
            kind = ["null", kind] if null == "first" else [kind, "null"]
            values[f"f{number}"] |= st.none()
        fields.append({"name": f"f{number}", "type": kind})
    schema = {"type": "record", "name": "Row", "namespace": "a.b", "fields": fields}
    return schema, draw(st.lists(st.fixed_dictionaries(values), max_size=12))


def encode_messages(schema: Any, messages: list[dict[str, Any]]) -> list[bytes]:
    parsed, encoded = fastavro.parse_schema(schema), []
    for message in messages:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, message)
        encoded.append(buffer.getvalue())
    return encoded


def make_payloads(schema: Any) -> AvroPayloads:
    kind = record(json.dumps(schema))
    return AvroPayloads(kind, kind.columns())


@given(draw_topic())
@settings(max_examples=30)
def test_what_another_library_writes_is_read_back(topic: tuple[Any, list[dict[str, Any]]]) -> None:
    schema, messages = topic
    frame, bad, _ = make_payloads(schema).decode(encode_messages(schema, messages))
    assert frame.to_dicts() == messages
    assert not bad.any()


@settings(max_examples=20)
@given(draw_topic(), st.randoms(use_true_random=False))
def test_what_is_broken_is_malformed_and_disturbs_nothing(topic: Any, random: Any) -> None:
    schema, messages = topic
    encoded = list(zip(encode_messages(schema, messages), messages, strict=True))
    broken = [None, *(value + b"\0" for value, _ in encoded)]
    broken += [value[: random.randrange(len(value))] for value, _ in encoded if value]
    mixed: list[Any] = [*encoded, *((value, None) for value in broken)]
    random.shuffle(mixed)
    frame, bad, _ = make_payloads(schema).decode([value for value, _ in mixed])
    assert bad.to_list() == [message is None for _, message in mixed]
    nulls = dict.fromkeys(frame.columns)
    assert frame.to_dicts() == [message or nulls for _, message in mixed]


@settings(max_examples=20)
@given(
    st.lists(st.sampled_from([kind for kind, _ in KINDS[:8]]), min_size=1, max_size=4),
    st.lists(st.binary(max_size=40), max_size=20),
)
def test_what_is_taken_of_any_bytes_is_what_another_library_takes(
    kinds: list[Any], values: list[bytes]
) -> None:
    fields = [{"name": f"f{n}", "type": ["null", kind]} for n, kind in enumerate(kinds)]
    schema = {"type": "record", "name": "Row", "fields": fields}
    frame, bad, _ = make_payloads(schema).decode(list(values))
    parsed = fastavro.parse_schema(schema)
    for value, row, wrong in zip(values, frame.to_dicts(), bad, strict=True):
        if not wrong:
            # Compared as text, since NaN doesn't equal itself.
            assert repr(fastavro.schemaless_reader(io.BytesIO(value), parsed, None)) == repr(row)


def wrap_type(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": "x", "type": kind}]}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", b"\2"),
        ("int", b"\x80\x80\x80\x80\x10"),
        ("long", b"\xff" * 9 + b"\2"),
        ("long", b"\xff" * 10),
        ("long", b"\x80" * 30),
        ("string", b"\1"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1"),
        ("string", b"\4a"),
        ("string", b"\2\xff"),
        ("string", b"\6\xed\xa0\x80"),
        (["null", "long"], b"\4\2"),
        (["null", "long"], b"\1"),
        ({"type": "array", "items": "long"}, b"\4\2"),
        ({"type": "array", "items": "long"}, b"\2\2"),
        ({"type": "array", "items": "long"}, b"\6\2\2\0"),
        ({"type": "array", "items": "long"}, b"\xff" * 9 + b"\1\2\0"),
        ({"type": "array", "items": "boolean"}, b"\2\2\0"),
        ({"type": "map", "values": "long"}, b"\2\4a\2\0"),
        ({"type": "map", "values": "string"}, b"\2\2\xff\2b\0"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\2"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\1"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xfe" + b"\xff" * 8 + b"\1"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xff" * 9 + b"\1"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, b"\2\x64"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, b"\2\x9c"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, b"\0"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
         b"\x20\x7f" + b"\xff" * 15),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
         b"\x22" + b"\0" * 17),
    ],
)  # fmt: skip
def test_values_that_a_type_hasnt_are_malformed(kind: Any, value: bytes) -> None:
    frame, bad, _ = make_payloads(wrap_type(kind)).decode([value, None])
    assert bad.to_list() == [True, True]
    assert frame["x"].to_list() == [None, None]


def test_lists_of_several_blocks() -> None:
    array, entries = {"type": "array", "items": "int"}, {"type": "map", "values": "int"}
    # Two items and one; two with their size in bytes, and one; none.
    values = [b"\4\2\4\2\6\0", b"\3\4\2\4\2\6\0", b"\0"]
    frame, bad, _ = make_payloads(wrap_type(array)).decode(values)
    assert frame["x"].to_list() == [[1, 2, 3], [1, 2, 3], []]
    assert not bad.any()
    # Of a repeated key the last value counts, also across blocks.
    values = [b"\4\2a\2\2b\4\2\2a\6\0", b"\0"]
    frame, bad, _ = make_payloads(wrap_type(entries)).decode(values)
    assert frame.to_dicts() == [{"x": {"a": 3, "b": 2}}, {"x": {}}]
    assert not bad.any()


def test_a_list_of_endless_items_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_payloads, "MOST_ITEMS", 3)
    monkeypatch.setattr(avro_scalar, "MOST_ITEMS", 3)
    array = {"type": "array", "items": "int"}
    three, four = b"\6\2\2\2\0", b"\4\2\2\4\2\2\0"
    frame, bad, _ = make_payloads(wrap_type(array)).decode([three, four, three])
    assert bad.to_list() == [False, True, False]
    assert frame["x"].to_list() == [[1, 1, 1], None, [1, 1, 1]]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "array", "items": "long"}, [*range(-50_000, 50_000)]),
        ({"type": "array", "items": "int"}, [1, -(2**31), 2**31 - 1] * 100),
        ({"type": "array", "items": ["null", "string"]}, ["", None, "ä"] * 10_000),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, [[*range(300)]] * 300),
        ({"type": "map", "values": {"type": "array", "items": "double"}},
         {str(n): [n / 7] * 70 for n in range(300)}),
        ({"type": "array", "items": {"type": "long", "logicalType": "local-timestamp-millis"}},
         [datetime(2026, 1, 1, 0, 0, n % 60) for n in range(1000)]),
        ({"type": "array", "items": {"type": "bytes", "logicalType": "decimal", "precision": 38,
                                     "scale": 3}}, [Decimal((n % 2, list_digits(10**37 + n), -3))
                                                    for n in range(200)]),
    ],
)  # fmt: skip
def test_a_message_unlike_the_others_is_read_alone(kind: Any, value: Any) -> None:
    schema = wrap_type(kind)
    short_value = type(value)() if isinstance(value, dict) else value[:1]
    messages = [{"x": short_value}, {"x": value}, {"x": short_value}]
    frame, bad, _ = make_payloads(schema).decode([*encode_messages(schema, messages), b"\2"])
    assert bad.to_list() == [False, False, False, True]
    assert frame.to_dicts() == [*messages, {"x": None}]


def test_a_long_list_is_malformed_wherever_it_is_broken() -> None:
    schema = wrap_type({"type": "array", "items": "int"})
    (whole,) = encode_messages(schema, [{"x": [*range(500)]}])
    too_large = whole.replace(b"\x02\x04", b"\x02\x80\x80\x80\x80\x10", 1)
    broken = [whole[:-1], whole[:-2], whole[:50], whole + b"\0", too_large]
    assert make_payloads(schema).decode([*broken, whole])[1].to_list() == [*[True] * 5, False]


def test_lists_in_blocks_of_one_item_cost_no_step_each() -> None:
    schema = wrap_type({"type": "array", "items": "int"})
    frame, bad, _ = make_payloads(schema).decode([b"\2\4" * 50_000 + b"\0", b"\0"])
    assert (frame["x"].list.len().to_list(), bad.to_list()) == ([50_000, 0], [False, False])


def nest_arrays(kind: Any, depth: int) -> Any:
    for _ in range(depth):
        kind = {"type": "array", "items": kind}
    return kind


def make_doubling_record(levels: int) -> Any:
    """Return a record that has the record of the next level twice, at each level."""
    kind: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}
    for n in range(1, levels):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"R{n - 1}"}]
        kind = {"type": "record", "name": f"R{n}", "fields": fields}
    return kind


def test_many_messages_with_lists_of_many_lengths() -> None:
    schema = wrap_type({"type": "array", "items": ["null", "string"]})
    messages = [{"x": [None if i % 5 == 0 else f"text {i} of {n}" for i in range(n % 40)]}
                for n in range(25_000)]  # fmt: skip
    frame, bad, _ = make_payloads(schema).decode(encode_messages(schema, messages))
    assert frame.to_dicts() == messages
    assert not bad.any()


def test_decimals_up_to_their_digits_are_numbers() -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1}
    frame, bad, _ = make_payloads(wrap_type(kind)).decode(
        [b"\2\x63", b"\2\x9d", b"\x08\xff\xff\xff\x9d"]
    )
    assert frame["x"].to_list() == [Decimal("9.9"), Decimal("-9.9"), Decimal("-9.9")]
    assert not bad.any()


def test_so_many_messages_that_they_are_read_in_parts() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    schema = {"type": "record", "name": "Row", "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
    ]}  # fmt: skip
    messages = [
        {"at": start + timedelta(seconds=n), "day": date(2026, 1, 1) if n % 3 else None}
        for n in range(45_000)
    ]
    frame, bad, _ = make_payloads(schema).decode(encode_messages(schema, messages))
    assert frame.to_dicts() == messages
    assert not bad.any()


def test_a_name_may_be_used_again_and_a_namespace_is_its_surroundings() -> None:
    kind = record(json.dumps(
        {"type": "record", "name": "x.y.Row", "fields": [
            {"name": "a", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
            {"name": "b", "type": ["null", "E"]},
            {"name": "c", "type": "x.y.E"},
        ]}
    ))  # fmt: skip
    assert kind.columns() == {"a": pl.String, "b": pl.String, "c": pl.String}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "isn't JSON"),
        ('"long"', "isn't the schema of a record"),
        (json.dumps(wrap_type({"type": "array", "items": "Row"})), "isn't decoded in columns"),
        (json.dumps(wrap_type({"type": "array"})), "has None instead of a type"),
        (json.dumps(wrap_type({"type": "map", "values": {"type": "fixed", "name": "F",
         "size": 0}})),
         "a list whose items have no bytes"),
        (json.dumps(wrap_type(["null", "long", "string"])), "union"),
        (json.dumps(wrap_type("Row")), "isn't decoded in columns"),
        (json.dumps(wrap_type({"type": "long", "logicalType": "timestamp-nanos"})),
         "timestamp-nanos"),
        (json.dumps(wrap_type({"type": "int", "logicalType": "time-millis"})), "time-millis"),
        (json.dumps(wrap_type({"type": "bytes", "logicalType": "decimal", "precision": 39})),
         "39 digits"),
        (json.dumps({"type": "record", "name": "R", "fields": []}), "without fields"),
        (json.dumps({"type": "record", "name": "R", "fields": 5}), "5 for the fields"),
        (json.dumps({"type": "record", "name": "R"}), "None for the fields"),
        (json.dumps({"type": "record", "name": "R", "fields": ["a"]}), "for the fields"),
        (json.dumps({"type": "record", "name": "R", "fields": [{"type": "int"}]}), "without a na"),
        (json.dumps({"type": "record", "name": "R", "fields": [{"name": 5, "type": "int"}]}), "a"),
        (json.dumps({"type": "record", "name": "R", "fields": [{"name": "a"}]}), "without a type"),
        (json.dumps({"type": "record", "name": "R", "fields": [
            {"name": "a", "type": "int", "aliases": 5}]}), "5 for the aliases"),
        (json.dumps({"type": "record", "fields": [{"name": "a", "type": "int"}]}), "a record with"),
        (json.dumps(wrap_type({"type": "fixed", "name": "F", "size": -5})), "fixed of -5 bytes"),
        (json.dumps(wrap_type({"type": "fixed", "name": "F", "size": "x"})), "fixed of 'x' bytes"),
        (json.dumps(wrap_type({"type": "fixed", "name": "F", "size": True})),
         "fixed of True bytes"),
        (json.dumps(wrap_type({"type": "fixed", "name": "F"})), "fixed of None bytes"),
        (json.dumps(wrap_type({"type": "fixed", "name": "F", "size": 2**70})), "bytes"),
        (json.dumps(wrap_type({"type": "enum", "name": "E", "symbols": []})), "symbols of an enum"),
        (json.dumps(wrap_type({"type": "enum", "name": "E", "symbols": None})),
         "symbols of an enum"),
        (json.dumps(wrap_type({"type": "enum", "name": "E", "symbols": "AB"})),
         "symbols of an enum"),
        (json.dumps(wrap_type({"type": "enum", "name": "E", "symbols": [1]})),
         "symbols of an enum"),
        (json.dumps(wrap_type({"type": "enum", "name": "E", "symbols": ["A", "A"]})),
         "symbols of an"),
        (json.dumps(wrap_type({"type": ["record"]})), "instead of a type|isn't decoded|union"),
        (json.dumps(wrap_type({"type": {}})), "has None instead of a type"),
        (json.dumps(wrap_type(["null", ["null", "int"]])), "union"),
        (json.dumps(wrap_type(["null", {"type": ["null", "int"]}])), "union"),
        (json.dumps(wrap_type({"type": "record", "name": "Q", "namespace": 5, "fields": []})),
         "space"),
        (json.dumps({"type": "record", "name": "R", "fields": [
            {"name": "a", "type": {"type": "fixed", "name": "F", "size": 1}},
            {"name": "b", "type": {"type": "fixed", "name": "F", "size": 2}}]}), "two types 'F'"),
        (json.dumps(wrap_type(nest_arrays("int", 200))), "nested"),
        (json.dumps(wrap_type(nest_arrays("int", 40))), "nested more than 32 levels"),
        ('{"type":' * 300 + '"int"' + "}" * 300, "nested too deep"),
        ("[" * 100_000, "isn't JSON"),
        ('{"type":' * 100_000, "isn't JSON"),
        (json.dumps(make_doubling_record(14)), "more than 2500 columns"),
        (json.dumps({"type": "record", "name": "R", "fields": [
            {"name": f"f{n}", "type": "int"} for n in range(3000)]}), "more than 2500 columns"),
        (json.dumps({"type": "record", "name": "R", "fields": [
            {"name": "a", "type": "int"}, {"name": "A", "type": "int"}]}), "fields of one name"),
        (json.dumps({"type": "record", "name": "R", "fields": [
            {"name": "\ud800", "type": "int"}]}), "text that isn't Unicode"),
        (json.dumps(wrap_type({"type": "enum", "name": "E", "symbols": ["\udfff"]})),
         "isn't Unicode"),
    ],
)  # fmt: skip
def test_what_isnt_decoded_in_columns_is_said(schema: str, problem: str) -> None:
    with pytest.raises(UnreadableError, match=problem):
        record(schema)


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        ({"type": "long", "logicalType": "no-such"}, pl.Int64),
        ({"type": "long", "logicalType": ["x"]}, pl.Int64),
        ({"type": "long", "logicalType": "date"}, pl.Int64),
        ({"type": "string", "logicalType": "decimal", "precision": 3}, pl.String),
        ({"type": "bytes", "logicalType": "decimal", "precision": "ten"}, pl.Binary),
        ({"type": "bytes", "logicalType": "decimal"}, pl.Binary),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0}, pl.Binary),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 6}, pl.Binary),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": -1}, pl.Binary),
        ({"type": "bytes", "logicalType": "decimal", "precision": True}, pl.Binary),
        ({"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 5},
         pl.Binary),
    ],
)  # fmt: skip
def test_a_logical_type_that_is_unknown_or_invalid_is_ignored(kind: Any, plain: Any) -> None:
    assert record(json.dumps(wrap_type(kind))).columns() == {"x": plain}


def test_deep_and_wide_schemas_are_read_up_to_their_bounds() -> None:
    kind = record(json.dumps(wrap_type(nest_arrays("int", 31))))
    _, bad, _ = AvroPayloads(kind, kind.columns()).decode([b"\0", b"\2\0\0"])
    assert bad.to_list() == [False, False]
    assert record(json.dumps(make_doubling_record(10))).columns_within == 3 * 2**9 - 1


def test_text_is_utf8() -> None:
    assert make_payloads(wrap_type("string")).decode(["\6äb".encode("latin1")])[1].to_list() == [
        True
    ]
    frame, bad, _ = make_payloads(wrap_type("string")).decode(["\6äb".encode()])
    assert (frame["x"].to_list(), bad.to_list()) == (["äb"], [False])
    assert frame.schema == pl.Schema({"x": pl.String()})
