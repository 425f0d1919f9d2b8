from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.state import lookup
from muntin.state.blobs import MemoryBlobs
from muntin.state.frame_cache import FrameCache
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


def table(rows: list[Row]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema={"k0": pl.Int64, "k1": pl.String}, orient="row")
    return frame.with_row_index("at")


@pytest.mark.parametrize("scanned", [0, 1 << 20], ids=["by order", "at once"])
@given(st.lists(ROWS, min_size=1, max_size=4), ROWS.filter(bool))
def test_rows_of_keys_in_their_order(scanned: int, rows: list[list[Row]], asked: list[Row]) -> None:
    keys = ["k0", "k1"]
    only = add_hashes(table(asked).select(keys), keys)
    hashes = hash_keys(only, keys)
    assert (hashes == hash_keys(table(asked), keys)).all()
    frames = [sort_by_hash(table(some), keys) for some in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "_SCANNED_ROWS", scanned)
        selected = select_keys(frames, only, keys, hashes)
    for some, found in zip(rows, selected, strict=True):
        expected = [(n, *row) for n, row in enumerate(some) if row in asked]
        assert sorted(found.rows()) == expected
        for key in set(some):
            places = [at for at, *rest in found.rows() if tuple(rest) == key]
            assert places == sorted(places)


def test_rows_of_another_key_with_the_same_hash_are_left_out() -> None:
    frame = table([(1, "a"), (2, "b")]).hstack([pl.Series(HASH_COLUMN, [7, 7], dtype=pl.UInt64)])
    only = pl.DataFrame({"k0": [2]})
    (found,) = select_keys([frame], only, ["k0"], np.array([7], dtype=np.uint64))
    assert found.rows() == [(1, 2, "b")]


@given(ROWS, st.booleans())
def test_rows_are_divided_by_ranges_of_their_hashes(rows: list[Row], sort: bool) -> None:
    keys = ["k0", "k1"]
    divided = dict(divide_by_hash(table(rows), keys, sort=sort))
    assert list(divided) == sorted(divided)
    assert sorted(row for part in divided.values() for row in part["at"]) == [*range(len(rows))]
    for number, part in divided.items():
        assert len(part)
        assert list_hash_ranges(hash_keys(part, keys)) == {number}
        if sort:
            assert part[HASH_COLUMN].is_sorted()
        else:
            assert part["at"].is_sorted()


def test_a_table_made_for_it_is_asked_by_key_and_stretch() -> None:
    def merge(frames: list[pl.DataFrame]) -> pl.DataFrame:
        return pl.concat(frames).group_by("k0", "place").agg(pl.col("n").sum())

    runs = Runs("place", 10, MemoryBlobs(), FrameCache(0), merge, (), ["k0"])
    for n in range(40):
        places = [n, n + 20]
        runs.append(pl.DataFrame({"k0": [n % 4, n % 3], "place": places, "n": [1, 1]}))
    only = pl.DataFrame({"k0": [1]})
    asked = pl.concat(runs.read(25, 49, only))
    whole = pl.concat(runs.read(25, 49))
    assert set(asked["k0"]) == {1}
    assert sorted(asked.rows()) == sorted(whole.filter(pl.col("k0") == 1).rows())
    assert whole.columns == asked.columns == ["k0", "place", "n"]


@given(ROWS, ROWS)
def test_null_matches_null_and_nothing_else(rows: list[Row], others: list[Row]) -> None:
    keys = ["k0", "k1"]
    frame, other = table(rows), table(others).select(keys).unique().with_columns(there=True)
    inside = [(n, *row) for n, row in enumerate(rows) if row in others]
    outside = [(n, *row) for n, row in enumerate(rows) if row not in others]
    assert sorted(join_null_safe(frame, other, keys, "semi")["at"]) == [n for n, *_ in inside]
    assert sorted(join_null_safe(frame, other, keys, "anti")["at"]) == [n for n, *_ in outside]
    assert sorted(join_null_safe(frame, other, keys, "inner")["at"]) == [n for n, *_ in inside]
    both = join_null_safe(frame, other, keys, "left").sort("at")
    assert both["there"].to_list() == [row in others or None for row in rows]


@given(ROWS)
def test_rows_whose_identity_occurs_once_are_alone(rows: list[Row]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "_MANY_ROWS", 0)
        patch.setattr(lookup, "_SAMPLE", 1)
        alone, repeated = split_repeated(table(rows), ["k0", "k1"])
    counts = Counter(rows)
    if len(counts) < len(rows) // 2:
        # Where most rows are repeated, looking for the others doesn't pay.
        counts.update(rows)
    indexed = [(at, *row) for at, row in enumerate(rows)]
    assert alone.rows() == [row for row in indexed if counts[row[1:]] == 1]
    assert repeated.rows() == [row for row in indexed if counts[row[1:]] > 1]


def test_few_rows_are_not_searched_for_repeated_ones() -> None:
    rows = table([(1, "a"), (2, "b")])
    alone, repeated = split_repeated(rows, ["k0"])
    assert (len(alone), repeated.rows()) == (0, rows.rows())
