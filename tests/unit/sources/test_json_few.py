"""A few plain objects become what the reader of lines makes of them; others are left to it."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from muntin.sources import json_payloads
from muntin.sources.json_payloads import FEW, make_schema, read_few, read_strictly

SCHEMA = make_schema(
    {"id": pl.Int64(), "price": pl.Float64(), "name": pl.String(), "paid": pl.Boolean()}
)
# Values that two parsers may read in two ways, in the text of JSON.
UNSURE = [
    "-0", "0", "00", "+1", "1.0", "1e2", "-1", "999999999999999999", "1000000000000000000",
    "9223372036854775807", "9223372036854775808", "1" * 40, "1" * 5000, "999999999999999",
    "1000000000000000", "9007199254740993", "NaN", "Infinity", "-Infinity", "1e400", "true", "True",
    "null", '"x"', '"é"', '"\x7f"', '"\t"', '"\\n"', '"\\ud800"', '"\x00"', '"\u2028"', '""', "[]",
    "[1]", "{}", '{"id":1}', "", "'x'", "[" * 2000 + "]" * 2000, "[" * 100_000,
]  # fmt: skip
NAMES = st.sampled_from(["id", "price", "name", "paid", "other", "", "ID", "é"])
SPACE = st.sampled_from(["", "", " ", "\t", "\n", "\r", "\xa0", "\ufeff"])


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """Texts that are objects, or nearly."""
    values = st.sampled_from(UNSURE) | st.integers(-(2**64), 2**64).map(str)
    values |= st.booleans().map(json.dumps) | st.text().map(json.dumps)
    values |= st.text(max_size=4).map(lambda text: json.dumps(text, ensure_ascii=False))
    members = draw(st.lists(st.tuples(NAMES, values), max_size=4))
    text = ",".join(f'{draw(SPACE)}"{name}"{draw(SPACE)}:{value}' for name, value in members)
    close = draw(st.sampled_from(["}", "}", "}", "} ", ",}", "}}", ""]))
    return f"{draw(SPACE)}{{{text}{close}{draw(SPACE)}".encode()


def read_by_lines(values: list[bytes]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_payloads, "FEW", -1)
        return read_strictly(values, SCHEMA)


@given(st.lists(objects(), min_size=1, max_size=4))
def test_few_objects_are_read_as_lines_are(values: list[bytes]) -> None:
    few = read_few(values, SCHEMA)
    if few is None:
        return
    frame, rows = read_by_lines(values)
    assert_frame_equal(few, frame)
    assert rows.tolist() == [*range(len(values))]


@pytest.mark.parametrize("value", UNSURE)
@pytest.mark.parametrize("name", ["id", "price", "name", "paid", "other"])
def test_an_unsure_value_is_read_as_in_lines_or_left_to_them(name: str, value: str) -> None:
    message = f'{{"{name}":{value}}}'.encode()
    few = read_few([message], SCHEMA)
    if few is not None:
        frame, _ = read_by_lines([message])
        assert_frame_equal(few, frame)


def test_plain_objects_are_read_and_others_left() -> None:
    plain = b'{"id":-12,"price":3,"name":"caf\xc3\xa9","paid":true,"other":"x"}'
    rows = read_few([plain, b' {"id" : null}\n', b"{}"], SCHEMA)
    assert rows is not None
    assert rows.rows() == [
        (None, -12, 3.0, "café", True), (None, None, None, None, None), (None,) * 5
    ]  # fmt: skip
    for other in (
        None, b"", b"null", b"[]", b'"x"', b'{"id":1,"id":2}', b'{"id":"1"}', b'{"name":5}',
        b'{"paid":1}', b'{"id":true}', b'{"id":1.5}', b'{"name":"\xff"}', b'{"name":"\\u0041"}',
        b'{"other":{}}', b'{"other":[1]}', b'{"id":1} {"id":2}', b'{"id":1}x',
    ):  # fmt: skip
        assert read_few([plain, other], SCHEMA) is None
    assert read_few([plain], make_schema({"id": pl.Int32()})) is None


def test_many_objects_are_read_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    def count(values: list[bytes], schema: pl.Schema) -> pl.DataFrame | None:
        counts.append(len(values))
        return read_few(values, schema)

    monkeypatch.setattr(json_payloads, "read_few", count)
    for number in (1, FEW, FEW + 1):
        frame, _ = read_strictly([b'{"id":1}'] * number, SCHEMA)
        assert len(frame) == number
    assert counts == [1, FEW]
