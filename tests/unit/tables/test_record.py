"""Tests of records: dataclasses whose fields can be named by the class."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import dataclass
from typing import Any

import pytest

import muntin as mt
from muntin.model.errors import OptionError
from muntin.tables.record import Field, parse_keying
from muntin.tables.typed import InvalidValueError, make_codec, make_reader


class Withdrawal(mt.Record):
    account: str
    amount: float = 0.5


class Foreign(Withdrawal):
    country: str = "NL"


@dataclass(slots=True)
class Slotted:
    country: str


def test_a_record_is_a_dataclass() -> None:
    record = Foreign("a", country="DE")
    assert record == Foreign("a", 0.5, "DE")
    assert dataclasses.asdict(record) == {"account": "a", "amount": 0.5, "country": "DE"}
    assert record.country == "DE"
    assert pickle.loads(pickle.dumps(record)) == record
    assert isinstance(Foreign.country, Field)
    assert repr(Foreign.amount) == "Foreign.amount"


@pytest.mark.parametrize("kind", [Withdrawal, Foreign])
def test_records_are_checked_and_written(kind: Any) -> None:
    read, codec = make_reader(kind), make_codec(kind)
    record = read({"account": "a"})
    assert record == kind("a")
    assert codec.loads(codec.dumps(record)) == record
    with pytest.raises(InvalidValueError, match=r"^amount: .*number"):
        read({"account": "a", "amount": "much"})


@pytest.mark.parametrize(
    ("by", "value"),
    [
        ("country", {"country": "NL"}),
        ("country", Foreign("a")),
        (Foreign.country, Foreign("a")),
        (Foreign.country, {"country": "NL"}),
        (Slotted.country, Slotted("NL")),
        (lambda value: value.country, Slotted("NL")),
    ],
)
def test_what_a_stream_can_be_grouped_by(by: Any, value: Any) -> None:
    assert parse_keying("group_by", by).get_key(value) == "NL"


def test_what_lacks_the_field_has_no_key() -> None:
    assert parse_keying("group_by", "country").get_key({}) is None
    assert parse_keying("group_by", "country").get_key(Withdrawal("a")) is None


def test_other_things_are_refused() -> None:
    with pytest.raises(OptionError, match="group_by=7 is no field"):
        parse_keying("group_by", 7)


def test_a_declared_type_must_be_one() -> None:
    with pytest.raises(OptionError, match=r"value_type=.* isn't a type"):
        make_reader(object())
