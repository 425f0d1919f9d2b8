"""Tests of columns that are written as in SQL."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import muntin as mt
from muntin.sources.ddl import parse_columns, plain_columns


def test_types_in_sparks_words() -> None:
    text = """
        id LONG NOT NULL, `a ``b` decimal(10, 2), x: struct<a: int, b array<string>>,
        m map<string, bigint>, v varchar, at timestamp(3), local timestamp_ntz, d decimal
    """
    assert parse_columns(text) == {
        "id": pl.Int64(), "a `b": pl.Decimal(10, 2),
        "x": pl.Struct({"a": pl.Int32(), "b": pl.List(pl.String())}),
        "m": pl.Map(pl.String(), pl.Int64()), "v": pl.String(),
        "at": pl.Datetime("us", "UTC"), "local": pl.Datetime("us"), "d": pl.Decimal(10, 0),
    }  # fmt: skip
    assert plain_columns({"n": pl.Int8}) == {"n": pl.Int8()}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" ", "names no columns; write names and types"),
        ("id", "can't be read near 'the end'"),
        ("id lng", "columns='lng' isn't a type; give boolean, int"),
        ("id decimal(39, 1)", r"columns='decimal\(39, 1\)' isn't a type; give up to 38 digits"),
        ("id decimal(4, 5)", r"columns='decimal\(4, 5\)' isn't a type"),
        ("id long,, b int", "near"),
        ("a int, A int", "columns='A' appears twice"),
        ("a decimal(x)", "near"),
        ("a array<int", "near 'the end'"),
        ("a int; b int", "near '; b int'"),
        ("a varchar(9)", r"columns='varchar\(9\)' has a length, which isn't checked; write"),
        ("a array<char(3)>", r"columns='char\(3\)' has a length"),
        ("a int(11)", r"columns='int\(11\)' has a length, which isn't checked; write int,"),
    ],
)
def test_what_cant_be_read_says_where(text: str, words: str) -> None:
    with pytest.raises(mt.OptionError, match=words):
        parse_columns(text)


def test_a_mapping_has_types_as_text_or_of_polars() -> None:
    mixed: dict[str, Any] = {
        "id": "bigint",
        "tags": "array<string>",
        "at": pl.Date,
        "x": pl.Decimal(10, 2),
    }
    assert plain_columns(mixed) == {
        "id": pl.Int64,
        "tags": pl.List(pl.String),
        "at": pl.Date,
        "x": pl.Decimal(10, 2),
    }


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("lng", "columns='lng' isn't a type; give boolean, int"),
        ("long, b int", "near ', b int'"),
        (7, "columns=7 isn't a type of 'id'; give boolean"),
    ],
)
def test_a_mapping_with_another_type_is_refused(kind: Any, words: str) -> None:
    with pytest.raises(mt.OptionError, match=words):
        plain_columns({"id": kind})


def test_classes_of_polars_types_have_their_defaults() -> None:
    columns = plain_columns({"page": pl.String, "at": pl.Datetime, "n": int})  # type: ignore[dict-item]
    assert columns == {"page": pl.String(), "at": pl.Datetime("us"), "n": pl.Int64()}
