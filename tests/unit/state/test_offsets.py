from __future__ import annotations

import json
from unittest import mock

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.state import offsets
from muntin.state.offsets import MAX_TIMES, TakenOffsets, find_greatest, merge_greatest, to_ranges

OFFSETS = st.tuples(st.sampled_from("ab"), st.integers(-3, 25))


def build_frame(
    pairs: list[tuple[str | None, int | None]], times: list[int | None]
) -> pl.DataFrame:
    columns = {"p": [p for p, _ in pairs], "o": [o for _, o in pairs], "t": times}
    return pl.DataFrame(columns, schema={"p": pl.String(), "o": pl.Int64(), "t": pl.Int64()})


def build_messages(pairs: list[tuple[str | None, int | None]]) -> pl.DataFrame:
    return build_frame(pairs, [0] * len(pairs))


@given(st.lists(st.lists(OFFSETS, max_size=12), max_size=5))
def test_offsets_that_were_taken_are_known(batches: list[list[tuple[str, int]]]) -> None:
    taken, taken_pairs = TakenOffsets(), set[tuple[str, int]]()
    for batch in batches:
        expected, seen_pairs = [], set(taken_pairs)
        for pair in batch:
            expected.append(pair in seen_pairs)
            seen_pairs.add(pair)
        assert taken.find_repeated(build_messages(batch), "p", "o").tolist() == expected
        taken.add(to_ranges(build_messages(batch), "p", "o"))
        taken_pairs = seen_pairs
        taken = TakenOffsets(json.loads(json.dumps(taken.dumps())))
        for partition in "abc":
            partition_offsets = [offset for p, offset in taken_pairs if p == partition]
            assert taken.next_offset(partition) == (
                max(partition_offsets) + 1 if partition_offsets else None
            )
            for offset in range(-5, 28):
                assert taken.has_taken(partition, offset) == ((partition, offset) in taken_pairs)


def test_adjacent_offsets_form_one_range() -> None:
    taken = TakenOffsets([("a", 0, 3), ("a", 9, 9)])
    taken.add(to_ranges(build_messages([("a", 4), ("a", 6), ("b", 5), ("a", 5)]), "p", "o"))
    assert sorted(taken.dumps()) == [("a", 0, 6), ("a", 9, 9), ("b", 5, 5)]
    assert list(taken.ends) == ["a", "b"]


def test_messages_without_an_offset_are_never_repeated() -> None:
    pairs = [(None, 1), ("a", None), (None, 1), ("a", None)]
    taken = TakenOffsets(to_ranges(build_messages(pairs), "p", "o"))
    assert taken.dumps() == []
    assert taken.find_repeated(build_messages(pairs), "p", "o").tolist() == [False] * 4
    assert not taken.has_taken("a", None)


def test_of_too_many_gaps_the_oldest_count_as_taken() -> None:
    with mock.patch.object(offsets, "MAX_RANGES", 3):
        taken = TakenOffsets([("a", 2 * n, 2 * n) for n in range(6)])
    assert taken.dumps() == [("a", 0, 6), ("a", 8, 8), ("a", 10, 10)]


def test_the_latest_time_is_that_of_a_new_message() -> None:
    greatest_times = find_greatest(
        build_frame([("a", 1), ("a", 2), ("b", 1), (None, 9)], [5, 9, 7, 3]), "p", "o", "t"
    )
    assert greatest_times == [("a", 2, 9), ("b", 1, 7), ("a", 1, 5), (None, 9, 3)]
    assert TakenOffsets().latest(greatest_times) == 9
    assert TakenOffsets([("a", 0, 5)]).latest(greatest_times) == 7
    assert TakenOffsets([("a", 0, 5), ("b", 1, 1)]).latest(greatest_times) == 3
    assert TakenOffsets([("a", 0, 5)]).latest(greatest_times[:1]) is None
    assert TakenOffsets().latest([]) is None


def test_only_some_of_the_greatest_times_are_reported() -> None:
    messages = build_frame(
        [("a", n) for n in range(999)], [n if n % 2 else None for n in range(999)]
    )
    greatest_times = find_greatest(messages, "p", "o", "t")
    assert [time for _, _, time in greatest_times] == list(range(997, 997 - 2 * MAX_TIMES, -2))
    assert merge_greatest([greatest_times[1::2], greatest_times[::2]]) == greatest_times
    assert merge_greatest([greatest_times, greatest_times])[:4] == [
        greatest_times[0],
        greatest_times[0],
        greatest_times[1],
        greatest_times[1],
    ]
    assert len(merge_greatest([greatest_times, greatest_times])) == MAX_TIMES


@pytest.mark.parametrize("kind", [pl.Int32(), pl.Int64(), pl.String()], ids=str)
def test_partitions_of_every_type(kind: pl.DataType) -> None:
    messages = build_messages([("1", 4), ("2", 4)]).with_columns(pl.col("p").cast(kind))
    taken = TakenOffsets(json.loads(json.dumps(to_ranges(messages[:1], "p", "o"))))
    assert taken.find_repeated(messages, "p", "o").tolist() == [True, False]
