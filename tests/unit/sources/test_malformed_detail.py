"""Tests that a rejected message names the column of the wrong type, in each format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.services.kafka import Kafka
from tests.unit.sources.protos import All

import muntin as mt
from muntin.engine.session_zone import SessionZone
from muntin.sources.avro_payloads import AvroPayloads
from muntin.sources.avro_schema import record
from muntin.sources.csv_payloads import CsvPayloads
from muntin.sources.ddl import parse_columns
from muntin.sources.json_nested import NestedJsonPayloads
from muntin.sources.json_payloads import JsonPayloads
from muntin.sources.payloads import Payloads, describe_faults
from muntin.sources.protobuf_payloads import ProtobufPayloads
from muntin.sources.protobuf_schema import message_of

PLAIN = parse_columns("id long, at timestamp, page string, x double")
NESTED = parse_columns("id long, tags array<int>, price decimal(10, 2), at timestamp")
UTC = SessionZone()


def list_details(payloads: Payloads, *values: bytes | None) -> list[str | None]:
    """Return the detail of each payload, which is the same with others and alone."""
    expected = describe_faults(payloads, values, *payloads.decode(values)[1:]).to_list()
    singles = [
        describe_faults(payloads, [value], *payloads.decode([value])[1:])[0] for value in values
    ]
    assert expected == singles
    return expected


def test_json() -> None:
    assert list_details(
        JsonPayloads(PLAIN, UTC),
        b'{"id": 1, "at": "2026-01-01", "page": "home", "x": 0.5}',
        b'{"id": "one"}',
        b'{"id": 2, "at": "yesterday"}',
        b'{"at": "yesterday", "x": "half"}',
        b'{"id": 3',
        b"[]",
        None,
    ) == [
        None,
        "id is not a long",
        "at is not a timestamp",
        "x is not a double",
        *["not a JSON object"] * 3,
    ]


def test_nested_json() -> None:
    assert list_details(
        NestedJsonPayloads(NESTED, UTC),
        b'{"id": 1, "tags": [1], "price": 1.5}',
        b'{"tags": [1, "two"]}',
        b'{"price": "dear"}',
        b'{"at": "yesterday", "tags": 7}',
        b"{",
    ) == [
        None,
        "tags is not an array of its items",
        "price is not a decimal(10, 2)",
        "at is not a timestamp",
        "not a JSON object",
    ]


def test_csv() -> None:
    assert list_details(
        CsvPayloads(PLAIN, UTC),
        b"1,2026-01-01,home,0.5",
        b"one,2026-01-01,home,0.5",
        b'1,2026-01-01,"home, sweet",half',
        b"1,2026-01-01",
        b"id,at,page,x",
        b'\xef\xbb\xbf"ID","AT","PAGE","X"\r\n',
        b"page,at,id,x,more",
        b"id,2026-01-01,home,0.5",
    ) == [
        None,
        "id is not a long",
        "x is not a double",
        "not a CSV record of 4 fields",
        *["a header of column names, not a record; for files, give header=true"] * 3,
        "id is not a long",
    ]


def test_avro() -> None:
    fields = [{"name": "n", "type": "long"}, {"name": "b", "type": "boolean"},
              {"name": "t", "type": "string"}]  # fmt: skip
    kind = record(json.dumps({"type": "record", "name": "r", "fields": fields}))
    assert list_details(
        AvroPayloads(kind, kind.columns()),
        b"\2\1\2a", b"\2\7\2a", b"\2\1\2\xff", b"\2\1\2a more", b"",
    ) == [
        None,
        "b is not a boolean",
        "t is not a string",
        *["not an Avro record of its schema"] * 2,
    ]  # fmt: skip


def test_protobuf() -> None:
    kind = message_of(All)
    whole = All(int64=7, string="abc").SerializeToString()
    assert list_details(
        ProtobufPayloads(kind, kind.columns()),
        whole,
        whole.replace(b"abc", b"a\xffc"),
        whole + b"\0",
    ) == [None, "string is not a string", "not a Protobuf message of its type"]


def test_a_topic_and_a_file_have_the_detail_beside_the_payload(
    broker: Kafka, tmp_path: Path
) -> None:
    lines: list[bytes] = [b'{"id": 1}', b'{"id": "one"}', b"broken"]
    topic = broker.topic(1)
    broker.send(topic, [(0, None, line) for line in lines])
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    sources: list[Any] = [
        mt.kafka(broker.servers, topic, columns="id long"),
        mt.files(tmp_path / "*.jsonl", columns="id long"),
    ]
    for source in sources:
        reader = source.open()
        while not (planned := reader.plan(None, None)).has_new:
            reader.wait(None, 0.1)
        rows = pl.concat(reader.read(None, planned.end))
        assert rows.select("id", "malformed", "malformed_detail").rows() == [
            (1, None, None),
            (None, lines[1], "id is not a long"),
            (None, lines[2], "not a JSON object"),
        ]


@pytest.mark.parametrize("name", ["malformed", "malformed_detail"])
def test_a_column_of_these_names_is_refused(name: str) -> None:
    with pytest.raises(mt.OptionError, match="is reserved for malformed payloads"):
        mt.kafka("h:1", "t", columns={name: pl.Int64()}).message_types()
