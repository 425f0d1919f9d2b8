from __future__ import annotations

import polars as pl
import pytest

from muntin.state.hashing import assign_shards, split_by_shard

FRAME = pl.DataFrame({"k0": [f"user-{n % 900}" for n in range(3000)], "v": range(3000)})


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 64])
def test_every_row_is_in_one_shard_and_a_key_in_no_other(shards: int) -> None:
    parts = split_by_shard(FRAME, ["k0"], shards)
    assert set(parts) <= set(range(shards))
    assert pl.concat(parts.values()).sort("v").equals(FRAME)
    keys_by_shard = [set(part["k0"]) for part in parts.values()]
    assert sum(map(len, keys_by_shard)) == 900


def test_rows_keep_their_order_within_a_shard() -> None:
    assert all(part["v"].is_sorted() for part in split_by_shard(FRAME, ["k0"], 5).values())


def test_shards_are_of_like_size() -> None:
    sizes = [part["k0"].n_unique() for part in split_by_shard(FRAME, ["k0"], 8).values()]
    assert min(sizes) > 900 / 8 * 0.7
    assert max(sizes) < 900 / 8 * 1.3


def test_a_shard_without_rows_is_absent() -> None:
    assert len(split_by_shard(FRAME[:1], ["k0"], 100)) == 1
    assert split_by_shard(FRAME.clear(), ["k0"], 4) == {}


def test_golden_owners() -> None:
    # Checkpoints depend on the shard of a key, so it can never change.
    frame = pl.DataFrame({"k0": ["a", "b", "c", "é"], "k1": [1, 2, 3, 4]})
    assert assign_shards(frame, ["k0"], 8).tolist() == [4, 7, 5, 1]
    assert assign_shards(frame, ["k0", "k1"], 8).tolist() == [4, 2, 4, 3]


def test_one_shard_owns_everything() -> None:
    assert assign_shards(FRAME[:3], ["k0"], 1).tolist() == [0, 0, 0]


def test_integer_keys_of_any_width_have_one_owner() -> None:
    narrow = pl.DataFrame({"k0": pl.Series([1, 2, 3], dtype=pl.Int16)})
    wide = narrow.cast(pl.Int64)
    assert assign_shards(narrow, ["k0"], 5).tolist() == assign_shards(wide, ["k0"], 5).tolist()
