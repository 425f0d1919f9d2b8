from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.model.errors import OptionError, StateCorruptedError
from muntin.stores.keys import AFTER, decode_key, decode_part, encode_key

ZONES = st.timezones() | st.just(UTC) | st.just(timezone(timedelta(hours=-7)))
# Far enough from the ends of Python's calendar that every zone can say it.
LATEST, EARLIEST = datetime(9998, 1, 1), datetime(2, 1, 1)

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int": st.integers() | st.integers(-(2**128), 2**128) | st.integers(-300, 300),
    "float": st.floats(allow_nan=False),
    "str": st.text(st.characters(exclude_categories=[])) | st.text("a\x00\xff\U0001f600"),
    "bytes": st.binary() | st.lists(st.sampled_from([0, 1, 254, 255])).map(bytes),
    "date": st.dates(),
    "datetime": st.datetimes(),
    "instant": st.datetimes(EARLIEST, LATEST, timezones=ZONES),
    "decimal": st.decimals(allow_nan=False) | st.integers(-30, 30).map(lambda n: Decimal(n) / 10),
}
TUPLES = {
    "(int, str)": st.tuples(SCALARS["int"], SCALARS["str"]),
    "(bytes, bytes)": st.tuples(SCALARS["bytes"], SCALARS["bytes"]),
    "(decimal, str)": st.tuples(SCALARS["decimal"], SCALARS["str"]),
    "tuple of str": st.lists(st.text("a\x00b", max_size=3), max_size=3).map(tuple),
}
PARTS = {**SCALARS, **TUPLES}
ANY = st.none() | st.one_of(*PARTS.values())


@pytest.mark.parametrize("kind", PARTS)
@given(data=st.data())
def test_keys_compare_as_values_do(kind: str, data: st.DataObject) -> None:
    first, second = data.draw(PARTS[kind]), data.draw(PARTS[kind])
    assert (encode_key((first,)) < encode_key((second,))) is (first < second)
    assert (encode_key((first,)) == encode_key((second,))) is (first == second)


@given(data=st.data())
def test_tuples_compare_part_by_part(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=4))
    # The first parts are equal as often as not, so that the later ones decide.
    choices = [data.draw(st.lists(PARTS[kind], min_size=1, max_size=2)) for kind in kinds]
    first, second = (tuple(data.draw(st.sampled_from(part)) for part in choices) for _ in range(2))
    assert (encode_key(first) < encode_key(second)) is (first < second)


@given(st.lists(ANY, max_size=4))
def test_a_tuple_is_read_back(parts: list[Any]) -> None:
    decoded = decode_key(encode_key(tuple(parts)))
    assert decoded == tuple(parts)
    assert [type(part) for part in decoded] == [type(part) for part in parts]


@given(ANY, ANY, ANY)
def test_no_encoded_part_is_a_prefix_of_another(
    first_part: Any, second_part: Any, next_part: Any
) -> None:
    first_key, second_key = encode_key((first_part,)), encode_key((second_part,))
    assert first_key == second_key or not second_key.startswith(first_key)
    # Exactly the keys that begin with a part are between the part and AFTER.
    assert first_key < first_key + encode_key((next_part,)) < first_key + AFTER
    assert (first_key <= second_key + encode_key((next_part,)) < first_key + AFTER) is (
        first_key == second_key
    )


@given(ANY.filter(lambda part: part is not None))
def test_nulls_come_first(part: Any) -> None:
    assert encode_key((None,)) < encode_key((part,))


@pytest.mark.parametrize("nan", [math.nan, -math.nan, float("nan")])
def test_nan_comes_last(nan: float) -> None:
    assert encode_key((nan,)) > encode_key((math.inf,))
    assert math.isnan(decode_key(encode_key((nan,)))[0])
    assert (
        encode_key((Decimal("NaN"),))
        == encode_key((Decimal("-sNaN"),))
        > encode_key((Decimal("Infinity"),))
    )


def test_values_that_are_normalized() -> None:
    assert math.copysign(1, decode_key(encode_key((-0.0,)))[0]) == 1
    assert str(decode_key(encode_key((Decimal("-10.500"),)))[0]) == "-10.5"
    assert str(decode_key(encode_key((Decimal("1200"),)))[0]) == "1.2E+3"
    noon = datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert decode_key(encode_key((noon,))) == (noon,)
    assert decode_key(encode_key((noon,)))[0].tzinfo is UTC


def test_long_decimals_keep_their_digits() -> None:
    # Longer than the 28 digits of Python's decimal context.
    number = Decimal("1" * 40 + ".5")
    assert decode_key(encode_key((number,))) == (number,)
    assert encode_key((number,)) < encode_key((Decimal("1" * 40 + ".6"),))


def test_subclasses_are_encoded_as_their_base_type() -> None:
    class Port(int):
        pass

    assert encode_key((Port(7),)) == encode_key((7,))
    assert encode_key((True,)) != encode_key((1,))
    assert encode_key((datetime(2026, 1, 1),)) != encode_key((date(2026, 1, 1),))


def test_values_that_are_no_key_are_refused() -> None:
    with pytest.raises(OptionError, match="is a list, not a key; use None, bool"):
        encode_key(([1],))
    assert decode_key(encode_key((-(2**1008) + 1,))) == (-(2**1008) + 1,)
    with pytest.raises(OptionError, match="1009 bits"):
        encode_key((2**1008,))


@given(ANY.filter(lambda part: not isinstance(part, bool) and part is not None), st.data())
def test_a_key_that_was_cut_is_named(part: Any, data: st.DataObject) -> None:
    key = encode_key((part,))
    with pytest.raises(StateCorruptedError, match="can't be read at byte"):
        decode_key(key[: data.draw(st.integers(1, len(key) - 1))] if len(key) > 1 else b"\x99")


def test_a_single_part_can_be_decoded() -> None:
    data = encode_key((1, "a"))
    number, at = decode_part(data)
    assert (number, decode_part(data, at)) == (1, ("a", len(data)))
