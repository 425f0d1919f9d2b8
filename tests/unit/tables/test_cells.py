"""Tests that entries of any type come back from frames unchanged."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.model.errors import OptionError, StateCorruptedError
from muntin.tables import packed
from muntin.tables.cells import GONE, from_frame, keep_newest_entries, to_frame
from muntin.tables.typed import make_codec

PLAIN = make_codec(None)
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.decimals(allow_nan=False),
)
HASHABLE = st.one_of(ATOMS, st.tuples(st.integers(), st.text()), st.frozensets(st.integers()))
VALUES = st.recursive(
    st.one_of(ATOMS, st.sets(st.integers()), st.uuids(), st.timedeltas(), st.times()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(), inner, max_size=3),
        st.dictionaries(HASHABLE, inner, max_size=3),
        st.tuples(inner, inner),
    ),
    max_leaves=8,
)
KEYS = st.one_of(st.text(), st.integers(), st.tuples(st.text(), st.integers()), st.booleans())
# Batches of one type are kept in columns of that type.
ONE_KIND = st.one_of(
    st.just(st.integers()), st.just(st.text()), st.just(st.floats(allow_nan=False))
)
GROUPS = st.one_of(
    ONE_KIND.flatmap(lambda kind: st.dictionaries(st.text(), st.one_of(kind, st.just(GONE)))),
    st.dictionaries(st.integers(), st.one_of(st.integers(), st.just(GONE))),
    st.dictionaries(KEYS, st.one_of(VALUES, st.just(GONE))),
)


def is_same(value: Any, expected: Any) -> bool:
    return type(value) is type(expected) and value == expected


@given(st.dictionaries(st.integers(-5, 5), GROUPS, max_size=3))
def test_entries_come_back(entries: dict[int, dict[Any, Any]]) -> None:
    entries_read: dict[int, dict[Any, Any]] = {position: {} for position in entries}
    for position, key, value in from_frame(to_frame(entries, PLAIN), PLAIN):
        entries_read[position][key] = value
    assert entries_read == entries
    for position, values in entries.items():
        assert all(is_same(entries_read[position][key], value) for key, value in values.items())


@given(st.lists(st.dictionaries(st.integers(0, 2), GROUPS, max_size=2), min_size=1, max_size=4))
def test_the_newest_value_of_an_entry_wins(batches: list[dict[int, dict[Any, Any]]]) -> None:
    expected: dict[tuple[int, Any], Any] = {}
    for entries in batches:
        for position, values in entries.items():
            expected.update({(position, key): value for key, value in values.items()})
    frames = [to_frame(entries, PLAIN) for entries in batches]
    all_entries = {
        (p, k): v for p, k, v in from_frame(keep_newest_entries(frames, keep_deleted=True), PLAIN)
    }
    assert all_entries == expected
    present = {
        (p, k): v for p, k, v in from_frame(keep_newest_entries(frames, keep_deleted=False), PLAIN)
    }
    assert present == {position: value for position, value in expected.items() if value is not GONE}


def test_a_deletion_is_known_under_every_form_of_its_key() -> None:
    frames = [to_frame({0: {1: 5}}, PLAIN), to_frame({0: {1: GONE, "a": 6}}, PLAIN)]
    assert list(from_frame(keep_newest_entries(frames, keep_deleted=False), PLAIN)) == [(0, "a", 6)]


def test_numbers_and_text_are_columns() -> None:
    assert to_frame({0: {"a": 1}}, PLAIN).columns == ["place", "key_str", "value_int"]
    assert to_frame({0: {1: 0.5}}, PLAIN).columns == ["place", "key_int", "value_float"]
    assert to_frame({0: {1 << 70: "a"}}, PLAIN).columns == ["place", "key_any", "value_str"]
    assert to_frame({0: {("a", 1): 1 << 70}}, PLAIN).columns == ["place", "key_any", "value_json"]
    assert to_frame({0: {"\ud800": True}}, PLAIN).columns == ["place", "key_any", "value_json"]


@given(VALUES)
def test_values_are_packed_and_unpacked(value: Any) -> None:
    assert is_same(packed.read_json(packed.write_json(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        Counter(a=2),
        {"$": "set", "v": [1]},
        {1: "a", (2, 3): {4}},
        datetime(2026, 1, 1, 12, tzinfo=UTC),
        [date(2026, 1, 1), time(1, 2), timedelta(microseconds=3), Decimal("1.10")],
        UUID(int=7),
        float("inf"),
    ],
)
def test_types_are_kept(value: Any) -> None:
    assert is_same(packed.read_json(packed.write_json(value)), value)


def test_other_types_are_refused() -> None:
    with pytest.raises(OptionError, match=r"object.*value_type"):
        packed.write_json([object()])


@pytest.mark.parametrize(
    "text", ["{", '{"$":"pickle","v":1}', '{"$":"date","v":"x"}', '{"$":"set"}']
)
def test_damaged_values_are_named(text: str) -> None:
    with pytest.raises(StateCorruptedError):
        packed.read_json(text)
