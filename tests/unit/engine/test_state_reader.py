"""Tests that state read from outside equals the shard's own snapshot."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.unit.engine.queries import batch, combiner

from muntin.engine.state_reader import StateReader, compare_rows, make_key
from muntin.engine.windows.operator import open_shard
from muntin.model.errors import OptionError, StateCorruptedError
from muntin.model.policies import Each, Firing
from muntin.model.windows import Windows
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache
from muntin.state.manifest import parse_manifest

HOPPING = Windows(10, 5)
FIRING = Firing(early=Each(), grace=20, retention=1000)
TYPES = {"key": "String", "value": "Int64"}
BATCHES = [
    [("a", 1, 1), ("b", 12, 2)],
    [("a", 3, 4), ("a", 140, 1)],
    [("c", 151, 7), ("b", 160, 3)],
]


def open_stored_state(windows: Any = HOPPING) -> tuple[MemoryBlobs, StateReader]:
    """Return a shard's store after some batches, and its reader."""
    query = combiner(windows, firing=FIRING, types=TYPES, shards=1)
    store = MemoryBlobs()
    for rows in BATCHES:
        shard = open_shard(query, store, FrameCache())
        shard.step(batch(query, shard.state.watermark, *rows), 0)
    return store, StateReader(query.spec)


@pytest.mark.parametrize(
    ("start", "end", "key"),
    [(None, None, None), (None, None, "a"), (135, None, None), (None, 20, None), (141, 142, "a")],
)
def test_a_range_needs_only_its_own_blobs(
    start: int | None, end: int | None, key: str | None
) -> None:
    store, reader = open_stored_state()
    manifest = store.load() or ""
    needed = reader.find_blobs(parse_manifest(manifest), start, end)
    key_frame = None if key is None else reader.make_key(key)
    blobs = {number: store.blobs[number] for number in needed}
    snapshot = reader.snapshot(manifest, blobs, start, end, key_frame)
    direct = open_shard(reader.combiner, store, FrameCache()).snapshot(start, end, key_frame)
    assert_frame_equal(snapshot, direct)
    assert len(snapshot)
    if (start, end) != (None, None):
        assert len(needed) < len(reader.find_blobs(parse_manifest(manifest)))


def test_a_missing_blob_is_named() -> None:
    store, reader = open_stored_state()
    with pytest.raises(StateCorruptedError, match="isn't in the state store"):
        reader.snapshot(store.load() or "", {})


def test_keys_are_listed_from_blobs() -> None:
    store, reader = open_stored_state()
    keys = reader.list_keys(list(store.blobs.values()))
    assert keys is not None
    assert sorted(keys["k0"]) == ["a", "b", "c"]
    assert reader.list_keys([]) is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (("a", "b"), r"isn't 1 values; give \(key\)"),
        (7, "isn't a key; give a value of type String"),
        ({"other": "a"}, "isn't a key"),
    ],
)
def test_a_value_that_is_no_key_is_refused(value: Any, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        make_key(["key"], {"key": pl.String()}, value)


def test_keys_by_name_and_in_order() -> None:
    types = {"k": pl.String(), "n": pl.Int32()}
    by_name = make_key(["k", "n"], types, {"n": 4, "k": "a"})
    assert_frame_equal(by_name, make_key(["k", "n"], types, ("a", 4)))
    assert by_name.schema == pl.Schema({"k0": pl.String(), "k1": pl.Int32()})


def test_differences() -> None:
    schema = {"k": pl.String, "at": pl.Int64, "v": pl.Float64, "all": pl.List(pl.Int64)}
    old_rows = pl.DataFrame(
        [("a", 1, None, [1]), ("b", 1, 2.0, None), ("c", 1, 3.0, [3]), ("d", 1, 4.0, [4])],
        schema=schema,
        orient="row",
    )
    new_rows = pl.DataFrame(
        [("a", 1, None, [1]), ("b", 1, None, None), ("c", 1, 3.0, [3, 3]), ("a", 2, 9.0, [])],
        schema=schema,
        orient="row",
    )
    differences = compare_rows(old_rows, new_rows, ["k", "at"])
    assert sorted(differences.select("k", "at", "v", "change").rows()) == [
        ("a", 2, 9.0, "new"),
        ("b", 1, None, "changed"),
        ("c", 1, 3.0, "changed"),
        ("d", 1, 4.0, "gone"),
    ]
    assert not len(compare_rows(new_rows, new_rows, ["k", "at"]))
