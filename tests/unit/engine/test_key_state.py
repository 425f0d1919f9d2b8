"""Tests of reading a key's windows from the state without changing it."""

from __future__ import annotations

import polars as pl
import pytest
from tests.unit.engine.queries import CountingBlobs, batch, combiner, messages

from muntin.engine import key_state
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.operator import open_shard
from muntin.model.errors import OptionError
from muntin.model.policies import Each, EveryRows, Firing
from muntin.model.sliding import Sliding
from muntin.model.windows import Windows
from muntin.state.frames import FrameCache
from muntin.state.hashing import split_by_shard
from muntin.state.manifest import parse_manifest


@pytest.mark.parametrize("shards", [1, 2, 5, 64])
def test_the_shard_of_a_query_without_a_key(shards: int) -> None:
    query = combiner(keys=(), shards=shards)
    combined = query.combine(messages([("a", 1, 1), ("b", 2, 1)]), None)
    (owner,) = split_by_shard(combined.cells, query.keys, shards)
    spec = query.spec
    assert key_state.find_shard(spec, key_state.parse_key(spec.keys, spec.types, [])) == owner


def test_the_shard_of_a_key() -> None:
    query = combiner(shards=7, types={"key": "String"})
    spec = query.spec
    for key in "abcdef":
        (owner,) = split_by_shard(pl.DataFrame({"k0": [key]}), ["k0"], 7)
        assert (
            key_state.find_shard(spec, key_state.parse_key(spec.keys, spec.types, [key])) == owner
        )


def list_windows_of_a(
    query: Combiner,
    *batches: list[tuple[object, ...]],
    between: tuple[int | None, int | None] = (None, None),
) -> pl.DataFrame:
    """Return the windows of key a after some batches."""
    spec, store = query.spec, CountingBlobs()
    shard = open_shard(query, store, FrameCache())
    for rows in batches:
        shard.step(batch(query, shard.state.watermark, *rows), 0)
    manifest = parse_manifest(store.load() or "")
    blobs_by_table = key_state.find_blobs(spec, manifest.tables, *between)
    key = key_state.parse_key(spec.keys, spec.types, ["a"])
    return key_state.list_key_windows(spec, blobs_by_table, store.blobs, key, between, manifest)


def test_null_is_written_as_a_text_that_no_key_has_by_chance() -> None:
    names, types = ["k", "n"], {"k": "String", "n": "Int64"}
    assert key_state.parse_key(names, types, [r"\N", r"\N"]).rows() == [(None, None)]
    assert key_state.parse_key(names, types, ["NULL", "0"]).rows() == [("NULL", 0)]
    with pytest.raises(OptionError, match="isn't a Int64"):
        key_state.parse_key(names, types, ["a", "NULL"])


HOPPING = Windows(20, 10)
ROWS: list[tuple[object, ...]] = [("a", 1, 1), ("a", 5, 1), ("a", 12, 1), ("a", 13, 1)]


@pytest.mark.parametrize(
    ("firing", "expected"),
    [
        # Window 10 still needs the pane of 10 to 20, which is half of what window 0 had.
        (Firing(), [(0, None, None, "expired"), (10, 3, 0, "current")]),
        (
            Firing(retention=15),
            [(-10, None, None, "expired"), (0, 4, 1, "closed"), (10, 3, 0, "current")],
        ),
        (
            Firing(early=Each(), retention=15),
            [(-10, None, None, "expired"), (0, 4, None, "closed"), (10, 3, 2, "current")],
        ),
        (
            Firing(grace=12, retention=12, late=EveryRows(9)),
            [(-10, None, None, "expired"), (0, 4, 1, "past"), (10, 3, 0, "current")],
        ),
    ],
)
def test_a_partly_deleted_window_has_no_number_of_messages(
    firing: Firing, expected: list[tuple[object, ...]]
) -> None:
    query = combiner(HOPPING, firing=firing, types={"key": "String"}, shards=1)
    windows = list_windows_of_a(query, ROWS, [("a", 28, 1)])
    current = (20, 1, 1 if firing.early else 0, "current")
    assert windows.select("window_start", "messages", "fired", "stage").rows() == [
        *expected,
        current,
    ]


def test_windows_that_the_limit_of_rows_deleted_are_not_shown_as_closed() -> None:
    firing = Firing(retention=900, rows=2)
    query = combiner(Windows(10, 10), firing=firing, types={"key": "String"}, shards=1)
    windows = list_windows_of_a(query, ROWS, [("a", 400, 1)], [("a", 800, 1)])
    closed = windows.filter(pl.col("stage") == "closed")
    assert closed.select("window_start", "messages", "fired").rows() == [(400, 1, 1)]


def test_past_windows_show_no_messages_that_wait() -> None:
    # Window 0 waits for a third message until its time has passed.
    firing = Firing(early=EveryRows(3), late=Each(), grace=20, retention=900)
    types = {"key": "String"}
    query = combiner(Windows(10, 10), firing=firing, lateness=15, types=types, shards=1)
    windows = list_windows_of_a(query, [("a", 1, 1), ("a", 21, 1), ("a", -40, 1)], [("a", 26, 1)])
    assert windows.select("window_start", "messages", "unemitted", "stage").rows() == [
        (-40, 1, 0, "closed"),
        (0, 1, 0, "past"),
        (20, 2, 2, "current"),
    ]


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (Sliding(10**9), [(1 - 10**9, 1, 1), (2, 2 + 10**9, 1), (5 - 10**9, 5, 2)]),
        (Sliding(10**9, "time", "right"), [(1 - 10**9, 1, 1), (5 - 10**9, 5, 2)]),
        (Sliding(3, "time", "both"), [(-2, 1, 1), (2, 5, 1)]),
    ],
)
def test_sliding_windows_are_those_of_their_messages(
    windows: Sliding, expected: list[tuple[int, int, int]]
) -> None:
    query = combiner(windows, lateness=900, types={"key": "String"}, shards=1)
    window_frame = list_windows_of_a(query, [("a", 1, 1), ("a", 5, 1)])
    rows = window_frame.select("window_start", "window_end", "messages").sort("window_end").rows()
    assert sorted(rows) == sorted(expected)


def test_a_range_has_the_sliding_windows_of_its_messages() -> None:
    query = combiner(Sliding(100), lateness=900, types={"key": "String"}, shards=1)
    rows = [("a", position, 1) for position in (1, 400, 430, 900)]
    window_frame = list_windows_of_a(query, rows, between=(400, 440))
    bounds = window_frame.select("window_start", "window_end", "messages").sort("window_end").rows()
    assert bounds == [(300, 400, 1), (330, 430, 2), (401, 501, 1)]
