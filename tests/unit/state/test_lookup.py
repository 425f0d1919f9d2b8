from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.state import lookup
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache
from muntin.state.lookup import (
    HASH_COLUMN,
    add_hashes,
    divide_by_hash,
    hash_keys,
    join_null_safe,
    list_hash_ranges,
    select_keys,
    sort_by_hash,
    split_repeated,
)
from muntin.state.runs import Runs

Row = tuple[int | None, str | None]
NUMBERS, WORDS = st.none() | st.integers(-3, 3), st.sampled_from([None, "a", "null", ""])
ROWS = st.lists(st.tuples(NUMBERS, WORDS), max_size=30)


def build_table(rows: list[Row]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema={"k0": pl.Int64, "k1": pl.String}, orient="row")
    return frame.with_row_index("at")


@pytest.mark.parametrize("scanned", [0, 1 << 20], ids=["by order", "at once"])
@given(st.lists(ROWS, min_size=1, max_size=4), ROWS.filter(bool))
def test_rows_of_keys_are_selected_in_their_order(
    scanned: int, rows: list[list[Row]], keys: list[Row]
) -> None:
    key_columns = ["k0", "k1"]
    only = add_hashes(build_table(keys).select(key_columns), key_columns)
    hashes = hash_keys(only, key_columns)
    assert (hashes == hash_keys(build_table(keys), key_columns)).all()
    frames = [sort_by_hash(build_table(own_rows), key_columns) for own_rows in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "_SCANNED_ROWS", scanned)
        parts = select_keys(frames, only, key_columns, hashes)
    for own_rows, selected in zip(rows, parts, strict=True):
        assert HASH_COLUMN not in selected.columns
        expected = [(n, *row) for n, row in enumerate(own_rows) if row in keys]
        assert sorted(selected.rows()) == expected
        for key in set(own_rows):
            indices = [at for at, *rest in selected.rows() if tuple(rest) == key]
            assert indices == sorted(indices)


def test_rows_of_another_key_with_the_same_hash_are_left_out() -> None:
    hashes = pl.Series(HASH_COLUMN, [7, 7], dtype=pl.UInt64)
    frame = build_table([(1, "a"), (2, "b")]).hstack([hashes])
    only = pl.DataFrame({"k0": [2]})
    (selected,) = select_keys([frame], only, ["k0"], np.array([7], dtype=np.uint64))
    assert selected.rows() == [(1, 2, "b")]


def test_times_that_differ_by_a_nanosecond_are_different_keys() -> None:
    frame = pl.DataFrame({"k0": pl.Series([1_000, 1_001]).cast(pl.Datetime("ns"))})
    assert len(join_null_safe(frame, frame.head(1), ["k0"], "semi")) == 1
    assert len(join_null_safe(frame, frame.head(1), ["k0"], "anti")) == 1


def test_no_keys_have_no_rows() -> None:
    runs = Runs("place", 10, MemoryBlobs(), FrameCache(0), pl.concat, (), ["k0"])
    runs.append(pl.DataFrame({"k0": [1], "place": [5]}))
    assert runs.read(only=pl.DataFrame({"k0": []}, schema={"k0": pl.Int64})) == []


@given(ROWS, st.booleans())
def test_rows_are_divided_by_ranges_of_their_hashes(rows: list[Row], sort: bool) -> None:
    keys = ["k0", "k1"]
    parts_by_range = dict(divide_by_hash(build_table(rows), keys, sort=sort))
    assert list(parts_by_range) == sorted(parts_by_range)
    assert sorted(row for part in parts_by_range.values() for row in part["at"]) == [
        *range(len(rows))
    ]
    for number, part in parts_by_range.items():
        assert len(part)
        assert list_hash_ranges(hash_keys(part, keys)) == {number}
        if sort:
            assert part[HASH_COLUMN].is_sorted()
        else:
            assert part["at"].is_sorted()


def test_a_table_sorted_by_hash_is_read_by_key_and_range() -> None:
    def merge(frames: list[pl.DataFrame]) -> pl.DataFrame:
        return pl.concat(frames).group_by("k0", "position").agg(pl.col("n").sum())

    runs = Runs("position", 10, MemoryBlobs(), FrameCache(0), merge, (), ["k0"])
    for n in range(40):
        positions = [n, n + 20]
        runs.append(pl.DataFrame({"k0": [n % 4, n % 3], "position": positions, "n": [1, 1]}))
    key = pl.DataFrame({"k0": [1]})
    selected = pl.concat(runs.read(25, 49, key))
    expected = pl.concat(runs.read(25, 49))
    assert set(selected["k0"]) == {1}
    assert sorted(selected.rows()) == sorted(expected.filter(pl.col("k0") == 1).rows())
    assert expected.columns == selected.columns == ["k0", "position", "n"]


@given(ROWS, ROWS)
def test_null_matches_null_and_nothing_else(rows: list[Row], others: list[Row]) -> None:
    keys = ["k0", "k1"]
    frame, other_frame = (
        build_table(rows),
        build_table(others).select(keys).unique().with_columns(is_matched=True),
    )
    inside = [(n, *row) for n, row in enumerate(rows) if row in others]
    outside = [(n, *row) for n, row in enumerate(rows) if row not in others]
    assert sorted(join_null_safe(frame, other_frame, keys, "semi")["at"]) == [n for n, *_ in inside]
    assert sorted(join_null_safe(frame, other_frame, keys, "anti")["at"]) == [
        n for n, *_ in outside
    ]
    assert sorted(join_null_safe(frame, other_frame, keys, "inner")["at"]) == [
        n for n, *_ in inside
    ]
    joined = join_null_safe(frame, other_frame, keys, "left").sort("at")
    assert joined["is_matched"].to_list() == [row in others or None for row in rows]


@given(ROWS)
def test_rows_whose_identity_occurs_once_are_split_off(rows: list[Row]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "_MANY_ROWS", 0)
        patch.setattr(lookup, "_SAMPLE", 1)
        unique, repeated = split_repeated(build_table(rows), ["k0", "k1"])
    counts = Counter(rows)
    if len(counts) < len(rows) // 2:
        # Where most rows are repeated, looking for the others doesn't pay.
        counts.update(rows)
    indexed = [(at, *row) for at, row in enumerate(rows)]
    assert unique.rows() == [row for row in indexed if counts[row[1:]] == 1]
    assert repeated.rows() == [row for row in indexed if counts[row[1:]] > 1]


def test_few_rows_are_not_searched_for_repeated_ones() -> None:
    rows = build_table([(1, "a"), (2, "b")])
    unique, repeated = split_repeated(rows, ["k0"])
    assert (len(unique), repeated.rows()) == (0, rows.rows())
