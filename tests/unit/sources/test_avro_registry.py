"""Tests of Avro by a registry: schemas that change or are unknown, and unusable answers."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import polars as pl
import pytest
from tests.services.registry import SchemaRegistry

from muntin.sources.avro_registry import RegisteredAvro
from muntin.sources.avro_schema import record
from muntin.sources.schema_registry import Registry


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    registry_service = SchemaRegistry()
    yield registry_service
    registry_service.close()


def make_schema(*fields: Any, **attributes: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields), **attributes}


def make_field(name: str, kind: Any, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **attributes}


def make_reader(registry: SchemaRegistry, schema: Any) -> RegisteredAvro:
    kind = record(json.dumps(schema))
    return RegisteredAvro(Registry(registry.url), kind, kind.columns())


FIRST = make_schema(
    make_field("id", "int"), make_field("note", "string"), make_field("gone", "boolean")
)
NEWEST = make_schema(
    make_field("id", "long"),
    make_field("text", ["null", "string"], aliases=["note"]),
    make_field("price", "double", default=1.5),
    make_field("tag", ["null", "string"], default=None),
)


def test_messages_of_several_schemas_are_read_as_one(registry: SchemaRegistry) -> None:
    first, newest = registry.register("a-value", FIRST), registry.register("a-value", NEWEST)
    old = registry.written(first, {"id": 1, "note": "x", "gone": True})
    new = registry.written(newest, {"id": 2**40, "text": None, "price": 2.0, "tag": "t"})
    payloads = make_reader(registry, NEWEST)
    frame, bad, _ = payloads.decode([new, old, None, new, old])
    assert bad.to_list() == [False, False, True, False, False]
    assert frame.rows() == [
        (2**40, None, 2.0, "t"), (1, "x", 1.5, None), (None,) * 4,
        (2**40, None, 2.0, "t"), (1, "x", 1.5, None),
    ]  # fmt: skip
    assert frame.schema == pl.Schema(payloads.columns)
    # Each schema is requested once, also by a copy of the reader that a worker unpickles.
    pickle.loads(pickle.dumps(payloads)).decode([new, old])
    assert sorted(registry.asked) == [f"/schemas/ids/{first}", f"/schemas/ids/{newest}"]


PLACE = {"type": "record", "name": "Place", "fields": [make_field("city", "string")]}
WIDER = {"type": "record", "name": "Place", "fields": [
    make_field("city", ["null", "string"]), make_field("zip", "int", default=0)]}  # fmt: skip
SIDES = {"type": "enum", "name": "Side", "symbols": ["BUY", "SELL"]}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


def make_array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


@pytest.mark.parametrize(
    ("writer", "reader", "value", "expected"),
    [
        ("int", "double", 7, 7.0),
        ("long", "float", 7, 7.0),
        ("string", "bytes", "ä", "ä".encode()),
        ("bytes", "string", b"a", "a"),
        ("long", ["null", "long"], 7, 7),
        (["null", "long"], "long", 7, 7),
        (PLACE, ["null", WIDER], {"city": "Ulm"}, {"city": "Ulm", "zip": 0}),
        (["null", PLACE], ["null", WIDER], None, None),
        (SIDES, {**SIDES, "symbols": ["SELL", "BUY"]}, "SELL", "SELL"),
        (MONEY, ["null", MONEY], Decimal("1.25"), Decimal("1.25")),
        (make_array("int"), make_array(["null", "double"]), [7, 8], [7.0, 8.0]),
        (make_array("int"), make_array("long"), [], []),
        (["null", make_array("int")], ["null", make_array("long")], None, None),
        (make_array(PLACE), make_array(WIDER), [{"city": "Ulm"}], [{"city": "Ulm", "zip": 0}]),
        (
            make_array(make_array("int")),
            make_array(make_array("long")),
            [[1], [], [2]],
            [[1], [], [2]],
        ),
    ],
)
def test_values_are_converted_as_another_library_converts_them(
    registry: SchemaRegistry, writer: Any, reader: Any, value: Any, expected: Any
) -> None:
    number = registry.register("a-value", make_schema(make_field("x", writer)))
    message = registry.written(number, {"x": value})
    frame, bad, _ = make_reader(registry, make_schema(make_field("x", reader))).decode([message])
    assert (frame.to_dicts(), bad.to_list()) == ([{"x": expected}], [False])
    schemas = [
        fastavro.parse_schema(make_schema(make_field("x", kind))) for kind in (writer, reader)
    ]
    assert fastavro.schemaless_reader(io.BytesIO(message[5:]), *schemas) == {"x": expected}


@pytest.mark.parametrize(
    ("writer", "reader", "value"),
    [
        ("long", "int", 7),
        ("double", "long", 7.0),
        ("string", "long", "7"),
        (["null", "long"], "long", None),
        ({**SIDES, "symbols": ["BUY", "HOLD"]}, SIDES, "HOLD"),
        ("long", {"type": "long", "logicalType": "timestamp-micros"}, 7),
        (MONEY, {**MONEY, "scale": 3}, Decimal("1.25")),
        ("bytes", "string", b"\xff"),
        (make_array("long"), "long", [1]),
        (make_array("long"), {"type": "map", "values": "long"}, [1]),
        (make_array(["null", "long"]), make_array("long"), [1, None]),
        (make_array("string"), make_array("long"), ["7"]),
    ],
)
def test_what_has_no_form_in_the_schema_wanted_is_malformed(
    registry: SchemaRegistry, writer: Any, reader: Any, value: Any
) -> None:
    good = registry.register(
        "a-value", make_schema(make_field("x", reader), make_field("more", "int"))
    )
    number = registry.register(
        "a-value", make_schema(make_field("x", writer), make_field("more", "int"))
    )
    payloads = make_reader(registry, make_schema(make_field("x", reader)))
    frame, bad, _ = payloads.decode([registry.written(number, {"x": value, "more": 1})])
    assert (frame.rows(), bad.to_list()) == ([(None,)], [True])
    assert payloads.decode([b"\0" + good.to_bytes(4, "big")])[1].to_list() == [True]


def test_maps_are_converted_and_lists_have_empty_defaults(registry: SchemaRegistry) -> None:
    writer = make_schema(make_field("x", {"type": "map", "values": "int"}))
    number = registry.register("a-value", writer)
    reader = make_schema(
        make_field("x", {"type": "map", "values": ["null", "double"]}),
        make_field("more", make_array("string"), default=[]),
        make_field("other", {"type": "map", "values": "long"}, default={}),
    )
    values = [{"x": {"a": 1, "b": 2}}, {"x": {}}]
    frame, bad, _ = make_reader(registry, reader).decode(
        [registry.written(number, v) for v in values]
    )
    assert bad.to_list() == [False, False]
    assert frame["x"].to_list() == [{"a": 1.0, "b": 2.0}, {}]
    assert frame["more"].to_list() == [[], []]
    assert frame["other"].to_list() == [{}, {}]


def test_a_field_without_a_default_cant_be_missing(registry: SchemaRegistry) -> None:
    number = registry.register("a-value", make_schema(make_field("x", "int")))
    payloads = make_reader(registry, make_schema(make_field("x", "int"), make_field("y", "int")))
    assert payloads.decode([registry.written(number, {"x": 1})])[1].to_list() == [True]


def test_what_isnt_of_the_wire_format_is_malformed_and_asked_for_once(
    registry: SchemaRegistry,
) -> None:
    number = registry.register("a-value", FIRST)
    good = registry.written(number, {"id": 1, "note": "x", "gone": True})
    garbage = [b"\0" + (7_000 + n).to_bytes(4, "big") + b"x" for n in range(500)]
    values = [b"", b"\0", good[:4], b"\1" + good[1:], good[:-1], good + b"x", good[:5], *garbage]
    frame, bad, _ = make_reader(registry, FIRST).decode([good, *values, good])
    assert bad.to_list() == [False, *[True] * len(values), False]
    assert frame["id"].to_list() == [1, *[None] * len(values), 1]
    request_count = len(registry.asked)
    assert request_count == len({*registry.asked})
    make_reader(registry, FIRST).decode([good, *values, good])
    assert len(registry.asked) == request_count


def test_good_messages_are_read_beside_any_number_of_unknown_schemas(
    registry: SchemaRegistry,
) -> None:
    unknown = [b"\0" + n.to_bytes(4, "big") + b"x" for n in range(10, 35)]
    registry.answers = {number: {"error": "none"} for number in range(1, 10)}
    numbers = [
        registry.register("a-value", make_schema(make_field("id", "int"), doc=f"v{n}"))
        for n in range(40)
    ]
    registry.answers |= {number: [number] for number in range(10, 35)}
    good = [registry.written(number, {"id": number}) for number in (36, 40, *[38] * 1000)]
    values = [*unknown, *good, *unknown]
    frame, bad, _ = make_reader(registry, make_schema(make_field("id", "int"))).decode(values)
    assert bad.to_list() == [*[True] * 25, *[False] * 1002, *[True] * 25]
    assert frame["id"].drop_nulls().to_list() == [36, 40, *[38] * 1000]
    assert numbers[-1] == 40


def test_garbage_costs_a_bounded_number_of_requests(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muntin.sources.avro_registry._MOST_ASKED", 5)
    number = registry.register("a-value", FIRST)
    good = registry.written(number, {"id": 1, "note": "x", "gone": True})
    garbage = [b"\0" + (n).to_bytes(4, "big") for n in range(500, 600)]
    assert make_reader(registry, FIRST).decode([good, good])[1].to_list() == [False, False]
    _, bad, _ = make_reader(registry, FIRST).decode([*garbage, good])
    # A schema that was read before isn't requested again.
    assert bad.to_list() == [*[True] * 100, False]
    assert len(registry.asked) == 6


@pytest.mark.parametrize(
    "answer",
    [
        [1, 2], 5, {}, "x", True, {"schema": 5}, {"schema": None}, {"schema": "["},
        {"schema": "5"}, {"schema": "null"}, {"schema": "{}"}, {"schema": '"int"'},
    ],
)  # fmt: skip
def test_answers_that_are_no_schema_reject_their_messages_once(
    registry: SchemaRegistry, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    number = registry.register("a-value", FIRST)
    good = registry.written(number, {"id": 1, "note": "x", "gone": True})
    registry.answers = {77: answer}
    bad = b"\0" + (77).to_bytes(4, "big") + good[5:]
    for _ in range(2):
        assert make_reader(registry, FIRST).decode([bad, good])[1].to_list() == [True, False]
    assert len([line for line in caplog.messages if "schema 77 of the registry" in line]) == 1
    assert registry.asked.count("/schemas/ids/77") == 1


def test_other_schemas_than_avro_are_malformed_and_said_once(
    registry: SchemaRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    number = registry.register("a-value", FIRST, schemaType="PROTOBUF")
    value = registry.written(number, {"id": 1, "note": "x", "gone": True})
    for _ in range(2):
        assert make_reader(registry, FIRST).decode([value])[1].to_list() == [True]
    assert len(caplog.messages) == 1
    assert f"schema {number} of the registry at {registry.url}" in caplog.messages[0]
