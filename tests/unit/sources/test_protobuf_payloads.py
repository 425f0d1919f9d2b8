"""Tests of Protobuf in columns against Google's own reader and writer, and of broken messages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sources.protos import NUMBERS, All, compile_message, described

from muntin.model.errors import OptionError
from muntin.sources import byte_cursor, protobuf_payloads, protobuf_scalar
from muntin.sources.protobuf_payloads import ProtobufPayloads
from muntin.sources.protobuf_schema import message_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NARROW, WIDE = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "double": st.floats(allow_nan=False), "float": st.floats(width=32, allow_nan=False),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), WIDE),
    **dict.fromkeys(("uint64", "fixed64"), st.integers(0, 2**63 - 1)),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), NARROW),
    **dict.fromkeys(("uint32", "fixed32"), st.integers(0, 2**32 - 1)),
    "bool": st.booleans(), "string": TEXTS, "bytes": st.binary(max_size=20),
}  # fmt: skip
INNER = st.fixed_dictionaries({"n": WIDE, "note": TEXTS})
SIDES = {0: "NONE", 1: "BUY", -3: "SELL", 7: "7"}
MICROS = st.integers(-(2**55), 2**55)
EITHER = st.sampled_from(["either", "or_text", ""])


@pytest.fixture(params=["together", "alone"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run each test with messages read together, and again one by one."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "alone":
            patch.setattr(byte_cursor, "_STEPS", 0)
        yield


@st.composite
def draw_row(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a message as a row of the columns that it is read into."""
    row: dict[str, Any] = {kind: draw(values) for kind, values in VALUES.items()}
    row |= {f"many_{kind}": draw(st.lists(VALUES[kind], max_size=4)) for kind in NUMBERS}
    member = draw(EITHER)
    return {
        **row,
        "maybe": draw(st.none() | WIDE),
        "either": draw(WIDE) if member == "either" else None,
        "or_text": draw(TEXTS) if member == "or_text" else None,
        "side": draw(st.sampled_from([*SIDES.values()])),
        "inner": draw(st.none() | INNER),
        "inners": draw(st.lists(INNER, max_size=3)),
        "at": draw(st.none() | MICROS.map(lambda n: EPOCH + timedelta(microseconds=n))),
        "took": draw(st.none() | MICROS.map(lambda n: timedelta(microseconds=n))),
        "wrapped": draw(st.none() | WIDE),
        "counts": draw(
            st.dictionaries(TEXTS, WIDE, max_size=4).map(lambda d: dict(sorted(d.items())))
        ),
        "words": draw(st.lists(TEXTS, max_size=4)),
    }


def encode_row(row: dict[str, Any]) -> bytes:
    message = All()
    for name, value in row.items():
        field = getattr(message, name)
        if value is None:
            continue
        if name == "side":
            message.side = next(number for number, side_name in SIDES.items() if side_name == value)
        elif name == "inner":
            message.inner.SetInParent()
            message.inner.n, message.inner.note = value["n"], value["note"]
        elif name == "inners":
            for inner_row in value:
                message.inners.add(**inner_row)
        elif name == "at":
            message.at.FromMicroseconds((value - EPOCH) // timedelta(microseconds=1))
            message.at.SetInParent()
        elif name == "took":
            message.took.FromMicroseconds(value // timedelta(microseconds=1))
            message.took.SetInParent()
        elif name == "wrapped":
            message.wrapped.SetInParent()
            message.wrapped.value = value
        elif isinstance(value, dict):
            field.update(value)
        elif isinstance(value, list):
            field.extend(value)
        else:
            setattr(message, name, value)
    data: bytes = message.SerializeToString()
    return data


def make_payloads(message: Any = All, registered: bool = False) -> ProtobufPayloads:
    kind = message_of(message)
    return ProtobufPayloads(kind, kind.columns(), registered)


def decode_rows(values: list[bytes | None]) -> tuple[list[dict[str, Any]], list[bool]]:
    frame, bad, _ = make_payloads().decode(values)
    rows = frame.drop("at").to_dicts()
    for row, micros in zip(rows, frame["at"].to_physical(), strict=True):
        row["at"] = None if micros is None else convert_moment(micros)
        # Maps have no order of entries.
        row["counts"] = row["counts"] and dict(sorted(row["counts"].items()))
    return rows, bad.to_list()


def convert_moment(micros: int) -> datetime | int:
    """Return a time, or its number where a damaged message has one beyond Python's range."""
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return micros


@settings(max_examples=20)
@given(st.lists(draw_row(), max_size=6))
def test_what_googles_writer_writes_is_read_back(given_rows: list[dict[str, Any]]) -> None:
    rows, bad = decode_rows([encode_row(row) for row in given_rows])
    assert rows == given_rows
    assert not any(bad)


def read_as_google(value: bytes) -> bytes | None:
    """Decode and encode a message by Google's reader; ``None`` where it refuses the bytes."""
    message = All()
    try:
        message.ParseFromString(value)
    except DecodeError:
        return None
    message.DiscardUnknownFields()
    data: bytes = message.SerializeToString(deterministic=True)
    return data


@settings(max_examples=20)
@given(st.lists(draw_row(), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_what_is_broken_is_malformed_and_disturbs_nothing(given_rows: Any, random: Any) -> None:
    whole = [encode_row(row) for row in given_rows]
    cut = [value[: random.randrange(len(value))] for value in whole if value]
    changed = []
    for value in whole:
        damaged = bytearray(value or b"x")
        damaged[random.randrange(len(damaged))] = random.randrange(256)
        changed.append(bytes(damaged))
    values: list[bytes | None] = [*cut, *whole, *changed, None]
    random.shuffle(values)
    rows, bad = decode_rows(values)
    for value, row, wrong in zip(values, rows, bad, strict=True):
        reencoded = None if value is None else read_as_google(value)
        assert wrong or reencoded is not None
        alone, alone_bad = decode_rows([value])
        assert (repr(alone), alone_bad) == (repr([row]), [wrong])
        if value in whole:
            assert not wrong


@settings(max_examples=20)
@given(st.lists(st.binary(max_size=40), max_size=20))
def test_what_is_taken_of_any_bytes_is_what_googles_reader_takes(values: list[bytes]) -> None:
    for value, row, wrong in zip(values, *decode_rows(list(values)), strict=True):
        reencoded = read_as_google(value)
        assert wrong or reencoded is not None
        is_out_of_range = isinstance(row["at"], int)
        if not wrong and not is_out_of_range and "itself" not in str(All.FromString(value)):
            # encode_row can't write an enum's number without a name, nor a message within itself.
            side = row["side"] if row["side"] in SIDES.values() else "NONE"
            rows_again = decode_rows([read_as_google(encode_row({**row, "side": side}))])
            assert repr(rows_again) == repr(([{**row, "side": side}], [False]))


def test_an_empty_message_has_the_values_of_its_fields() -> None:
    (row,), bad = decode_rows([b""])
    assert bad == [False]
    assert (row["int32"], row["string"], row["bytes"], row["bool"]) == (0, "", b"", False)
    assert (row["side"], row["maybe"], row["inner"], row["at"]) == ("NONE", None, None, None)
    assert (row["inners"], row["counts"], row["many_int32"]) == ([], {}, [])
    assert "itself" not in row


def test_the_last_value_counts_and_the_order_doesnt() -> None:
    first_message, second_message = (
        All(int32=1, either=5, words=["a"]),
        All(int32=2, or_text="x", words=["b"]),
    )
    forward = first_message.SerializeToString() + second_message.SerializeToString()
    backward = second_message.SerializeToString() + first_message.SerializeToString()
    (first, second), bad = decode_rows([forward, backward])
    assert bad == [False, False]
    names = ("int32", "either", "or_text", "words")
    assert [first[name] for name in names] == [2, None, "x", ["a", "b"]]
    assert [second[name] for name in names] == [1, 5, None, ["b", "a"]]


def test_packed_or_not_a_list_is_a_list() -> None:
    # Field 103 is int64, unpacked here, and 104 uint64, packed: each as the other is written.
    loose, packed = b"\xb8\x06\x05\xb8\x06\x07", b"\xba\x06\x02\x05\x07"
    assert [row["many_int64"] for row in decode_rows([loose, packed])[0]] == [[5, 7], [5, 7]]
    for broken in (b"\xba\x06\x02\x05\x87", b"\xba\x06\x0b" + b"\xff" * 10 + b"\1"):
        assert decode_rows([broken])[1] == [True]
    assert decode_rows([b"\xaa\x06\x03\0\0\0"])[1] == [True]  # doubles of three bytes


@pytest.mark.parametrize(
    "value",
    [
        All(uint64=2**63).SerializeToString(),
        All(fixed64=2**63).SerializeToString(),
        All(inner=All.Inner(n=1)).SerializeToString() * 2,
        b"\x4a\1\xff",  # a text that isn't UTF-8
        b"\xaa\x02\x02\x08",  # a time that ends within a number
        b"\xaa\x02\x0b\x08" + b"\xff" * 9 + b"\x7f",
        b"\xaa\x02\x0a\x08" + b"\xff" * 8 + b"\x7f",  # a time beyond all times
        b"\0\0",  # a field 0
        b"\x9b\1\x9c\1",  # a group
    ],
)
def test_values_that_no_column_holds_are_malformed(value: bytes) -> None:
    rows, bad = decode_rows([value, b""])
    assert bad == [True, False]
    assert set(rows[0].values()) == {None}


def test_a_message_of_endless_fields_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf_payloads, "MOST_ITEMS", 100)
    monkeypatch.setattr(protobuf_scalar, "MOST_ITEMS", 100)
    loose = b"\xb8\x06\x05"
    assert decode_rows([loose * 99, loose * 101, b""])[1] == [False, True, False]


def test_a_message_of_many_unknown_fields_is_read_alone() -> None:
    unknown = b"\xf8\x7f\x05\xfa\x7f\1x\xf9\x7f12345678\xfd\x7f1234"
    whole = unknown * 300 + All(int32=7, words=["a"] * 200).SerializeToString() + unknown * 300
    rows, bad = decode_rows([b"", whole, b"", whole[:-1]])
    assert bad == [False, False, False, True]
    assert (rows[1]["int32"], rows[1]["words"]) == (7, ["a"] * 200)
    assert rows[0] == rows[2]


def test_what_a_later_value_replaces_isnt_looked_into() -> None:
    # A text that isn't UTF-8 and a number that no column holds, and then good ones.
    good = All(string="x", uint64=5)
    bad_text = b"\x4a\1\xff"
    values = [bad_text + good.SerializeToString(), good.SerializeToString() + bad_text]
    assert decode_rows([*values])[1] == [False, True]


def test_what_is_required_has_to_be_there() -> None:
    old = compile_message("""
        name: "old.proto" package: "tests.old" syntax: "proto2"
        message_type { name: "Old"
          field { name: "id" number: 1 type: TYPE_INT32 label: LABEL_REQUIRED }
          field { name: "tag" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL default_value: "x" }
        }""")
    frame, bad, _ = make_payloads(old).decode([b"\x08\x01", b"", b"\x12\x01t"])
    assert bad.to_list() == [False, True, True]
    # A field with presence is null where it is missing, whatever its default.
    assert frame.rows() == [(1, None), (None, None), (None, None)]


def test_what_a_registrys_serializers_write() -> None:
    body = All(int32=7).SerializeToString()
    good = b"\0\0\0\0\x2a\x02\x02" + body  # one number: the second message of its file
    values = [good, b"\1" + good[1:], b"\0\0\0\0\x2a\0" + body, b"\0\0", b"", None, good[:-1]]
    frame, bad, _ = make_payloads(registered=True).decode(values)
    assert bad.to_list() == [False, True, True, True, True, True, True]
    assert frame["int32"].to_list() == [7, *[None] * 6]
    assert make_payloads(All.Inner, registered=True).decode(
        [b"\0\0\0\0\1\x04\x02\0" + All.Inner(n=3).SerializeToString()]
    )[0].rows() == [(3, "")]


def test_a_file_of_descriptors(tmp_path: Path) -> None:
    path = tmp_path / "all.desc"
    path.write_bytes(described().SerializeToString())
    assert message_of(f"{path}#tests.All") == message_of(All)
    with pytest.raises(OptionError, match=r"isn't in .*; give one of .*tests\.First, tests\.All"):
        message_of(f"{path}#tests.Other")
    path.write_bytes(b"no descriptors")
    with pytest.raises(OptionError, match="can't be read"):
        message_of(f"{path}#tests.All")
    with pytest.raises(OptionError, match="describes no message of Protobuf; give a generated"):
        message_of("tests.All")


def test_messages_that_multiply_are_refused() -> None:
    """Each names the next twice, or all of them name each other."""
    field = "field {{ name: 'f{0}' number: {0} type: TYPE_MESSAGE type_name: '.{1}.M{2}' }}"
    deep = "".join(
        f"message_type {{ name: 'M{n}' {field.format(1, 'deep', n + 1)} }}" for n in range(40)
    )
    twice = "".join(
        f"message_type {{ name: 'M{n}' {field.format(1, 'doubled', n + 1)} "
        f"{field.format(2, 'doubled', n + 1)} }}"
        for n in range(20)
    )
    each = "".join(
        f"message_type {{ name: 'M{n}' "
        + " ".join(field.format(m + 1, "each", m) for m in range(12)) + " }"
        for n in range(12)
    )  # fmt: skip
    leaf = "message_type {{ name: 'M{}' field {{ name: 'x' number: 1 type: TYPE_INT32 }} }}"
    for name, text, last, problem in (
        ("deep", deep, 40, "nested more than 32"), ("doubled", twice, 20, "more than 2500 fields"),
        ("each", each, 12, "more than 2500 fields"),
    ):  # fmt: skip
        whole = (
            f"name: '{name}.proto' package: '{name}' syntax: 'proto3' {text} {leaf.format(last)}"
        )
        with pytest.raises(OptionError, match=problem):
            message_of(compile_message(whole))


def test_messages_without_columns_are_refused() -> None:
    empty = compile_message(
        'name: "no.proto" package: "tests.no" syntax: "proto3" message_type { name: "Nothing" }'
    )
    with pytest.raises(OptionError, match="has no fields that are columns"):
        message_of(empty)
    twice = compile_message("""
        name: "twice.proto" package: "tests.twice" syntax: "proto3" message_type { name: "Twice"
          field { name: "a" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL json_name: "a" }
          field { name: "A" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL json_name: "b" }
        }""")
    with pytest.raises(OptionError, match="differ by case only"):
        message_of(twice)
