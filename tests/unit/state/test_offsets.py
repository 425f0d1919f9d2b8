from __future__ import annotations

import json
from unittest import mock

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.state import offsets
from muntin.state.offsets import MAX_TIMES, TakenOffsets, find_greatest, merge_greatest, to_ranges

PLACES = st.tuples(st.sampled_from("ab"), st.integers(-3, 25))


def frame(places: list[tuple[str | None, int | None]], times: list[int | None]) -> pl.DataFrame:
    columns = {"p": [p for p, _ in places], "o": [o for _, o in places], "t": times}
    return pl.DataFrame(columns, schema={"p": pl.String(), "o": pl.Int64(), "t": pl.Int64()})


def placed(places: list[tuple[str | None, int | None]]) -> pl.DataFrame:
    return frame(places, [0] * len(places))


@given(st.lists(st.lists(PLACES, max_size=12), max_size=5))
def test_what_has_been_taken_is_known(batches: list[list[tuple[str, int]]]) -> None:
    taken, before = TakenOffsets(), set[tuple[str, int]]()
    for batch in batches:
        wanted, seen = [], set(before)
        for place in batch:
            wanted.append(place in seen)
            seen.add(place)
        assert taken.find_repeated(placed(batch), "p", "o").tolist() == wanted
        taken.add(to_ranges(placed(batch), "p", "o"))
        before = seen
        taken = TakenOffsets(json.loads(json.dumps(taken.dumps())))
        for partition in "abc":
            mine = [offset for p, offset in before if p == partition]
            assert taken.next_offset(partition) == (max(mine) + 1 if mine else None)
            for offset in range(-5, 28):
                assert taken.has_taken(partition, offset) == ((partition, offset) in before)


def test_neighbours_are_one_stretch() -> None:
    taken = TakenOffsets([("a", 0, 3), ("a", 9, 9)])
    taken.add(to_ranges(placed([("a", 4), ("a", 6), ("b", 5), ("a", 5)]), "p", "o"))
    assert sorted(taken.dumps()) == [("a", 0, 6), ("a", 9, 9), ("b", 5, 5)]
    assert list(taken.ends) == ["a", "b"]


def test_what_has_no_place_was_never_here() -> None:
    places = [(None, 1), ("a", None), (None, 1), ("a", None)]
    taken = TakenOffsets(to_ranges(placed(places), "p", "o"))
    assert taken.dumps() == []
    assert taken.find_repeated(placed(places), "p", "o").tolist() == [False] * 4
    assert not taken.has_taken("a", None)


def test_of_many_gaps_the_oldest_count_as_taken() -> None:
    with mock.patch.object(offsets, "MAX_RANGES", 3):
        taken = TakenOffsets([("a", 2 * n, 2 * n) for n in range(6)])
    assert taken.dumps() == [("a", 0, 6), ("a", 8, 8), ("a", 10, 10)]


def test_the_latest_time_is_that_of_a_new_message() -> None:
    emitted = find_greatest(
        frame([("a", 1), ("a", 2), ("b", 1), (None, 9)], [5, 9, 7, 3]), "p", "o", "t"
    )
    assert emitted == [("a", 2, 9), ("b", 1, 7), ("a", 1, 5), (None, 9, 3)]
    assert TakenOffsets().latest(emitted) == 9
    assert TakenOffsets([("a", 0, 5)]).latest(emitted) == 7
    assert TakenOffsets([("a", 0, 5), ("b", 1, 1)]).latest(emitted) == 3
    assert TakenOffsets([("a", 0, 5)]).latest(emitted[:1]) is None
    assert TakenOffsets().latest([]) is None


def test_only_some_of_the_greatest_times_are_told() -> None:
    many = frame([("a", n) for n in range(999)], [n if n % 2 else None for n in range(999)])
    emitted = find_greatest(many, "p", "o", "t")
    assert [time for _, _, time in emitted] == list(range(997, 997 - 2 * MAX_TIMES, -2))
    assert merge_greatest([emitted[1::2], emitted[::2]]) == emitted
    assert merge_greatest([emitted, emitted])[:4] == [
        emitted[0],
        emitted[0],
        emitted[1],
        emitted[1],
    ]
    assert len(merge_greatest([emitted, emitted])) == MAX_TIMES


@pytest.mark.parametrize("kind", [pl.Int32(), pl.Int64(), pl.String()], ids=str)
def test_partitions_of_every_type(kind: pl.DataType) -> None:
    messages = placed([("1", 4), ("2", 4)]).with_columns(pl.col("p").cast(kind))
    taken = TakenOffsets(json.loads(json.dumps(to_ranges(messages[:1], "p", "o"))))
    assert taken.find_repeated(messages, "p", "o").tolist() == [True, False]
