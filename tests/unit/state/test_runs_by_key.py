from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from unittest import mock

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.queries import CountingBlobs

from muntin.state import lookup
from muntin.state import runs as runs_module
from muntin.state.frames import FrameCache
from muntin.state.lookup import HASH_COLUMN
from muntin.state.runs import MAX_RUNS, Runs

Row = tuple[int, str, int, str]
"""Two key columns, a position and a value."""

SCHEMA = {"k0": pl.Int64, "k1": pl.String, "position": pl.Int64, "value": pl.String}
KEYS = ["k0", "k1"]


def rows(*tuples: Row) -> pl.DataFrame:
    return pl.DataFrame(list(tuples), schema=SCHEMA, orient="row")


def select_newest(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames).unique(KEYS, keep="last", maintain_order=True)


def open_table(
    store: CountingBlobs | None = None, stored: object = None, cached: int = 0, merge: object = None
) -> Runs:
    cache = FrameCache(cached)
    return Runs(
        "position",
        None,
        store or CountingBlobs(),
        cache,
        merge or select_newest,
        stored or (),
        KEYS,
    )  # type: ignore[arg-type]


def reopen(runs: Runs, store: CountingBlobs | None = None) -> Runs:
    return open_table(store or runs.frames.blobs, runs.entries())  # type: ignore[arg-type]


def read_content(runs: Runs) -> dict[tuple[int, str], tuple[int, str]]:
    frames = runs.read()
    return {row[:2]: row[2:] for row in select_newest(frames).rows()} if frames else {}


def build_keys(*keys: tuple[int, str]) -> pl.DataFrame:
    return pl.DataFrame(list(keys), schema={k: SCHEMA[k] for k in KEYS}, orient="row")


def test_an_empty_frame_stores_nothing() -> None:
    store = CountingBlobs()
    runs = open_table(store)
    runs.append(rows())
    assert (runs.entries(), runs.rows, runs.read()) == ([], 0, [])
    assert runs.read(only=build_keys((1, "a"))) == []
    runs.drop_before(None)
    assert store.calls.total() == 0


def test_rows_of_keys_are_read_from_the_oldest_run_first() -> None:
    runs = open_table()
    runs.append(rows((1, "a", 5, "old"), (2, "a", 5, "else"), (1, "b", 5, "else")))
    runs.append(rows((2, "b", 5, "else")))
    runs.append(rows((1, "a", 2, "new"), (1, "a", 9, "and newer")))
    frames = runs.read(only=build_keys((1, "a"), (7, "z")))
    assert [frame["value"].to_list() for frame in frames] == [["old"], ["new", "and newer"]]
    assert all(frame.columns == list(SCHEMA) for frame in frames)
    assert all(HASH_COLUMN not in frame.columns for frame in runs.read())


def test_keys_with_the_same_hash_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lookup.hash_rows
    monkeypatch.setattr(lookup, "hash_rows", lambda columns: real(columns) % 2)
    runs = open_table()
    runs.append(rows(*((n, "a", n, "") for n in range(8))))
    (selected,) = runs.read(only=build_keys((3, "a"), (5, "a")))
    assert sorted(selected["k0"]) == [3, 5]


APPENDED = st.lists(
    st.lists(
        st.tuples(st.integers(-2, 3), st.sampled_from("ab"), st.integers(-9, 9)),
        max_size=9,
        unique_by=lambda row: row[:2],
    ),
    max_size=30,
)


@given(APPENDED, st.sampled_from([0, 1 << 20]), st.sampled_from([8, runs_module.UNDIVIDED_ROWS]))
def test_the_newest_row_of_a_key_is_read_however_runs_were_merged(
    batches: list[list[tuple[int, str, int]]], cached: int, undivided: int
) -> None:
    runs, expected = open_table(cached=cached), {}
    for number, batch in enumerate(batches):
        batch_rows = [(*row, str(number)) for row in batch]
        with mock.patch.multiple(runs_module, MAX_RUNS=2, UNDIVIDED_ROWS=undivided):
            runs.append(rows(*batch_rows))
        expected |= {row[:2]: row[2:] for row in batch_rows}
    assert read_content(runs) == read_content(reopen(runs)) == expected
    for key, row in expected.items():
        newest_row = select_newest(runs.read(only=build_keys(key)))
        assert newest_row.rows() == [(*key, *row)]
    assert runs.rows == sum(len(frame) for frame in runs.read())
    assert {run[0] for run in runs.entries()} == set(runs.frames.blobs.blobs)  # type: ignore[attr-defined]


def test_a_batch_merges_a_few_ranges_of_a_large_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch merges the whole table, and no range has too many runs for long."""
    monkeypatch.setattr(runs_module, "UNDIVIDED_ROWS", 1000)
    store, runs = CountingBlobs(), open_table(merge=select_newest)
    runs.frames.blobs = store
    read, per_batch = [0], 400
    merge = runs.merge

    def count_rows(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        read[0] += sum(map(len, frames))
        return merge(frames)

    runs.merge = count_rows
    merged = []
    for number in range(100):
        rows_before = read[0]
        runs.append(rows(*((number * per_batch + n, "a", n, "") for n in range(per_batch))))
        merged.append(read[0] - rows_before)
    total = 100 * per_batch
    assert runs.rows == total
    # At most the undivided rows, three times the batch's own, and one range more.
    assert max(merged) <= 1000 + per_batch + 3 * per_batch + total / 8
    assert sum(merged) < 5 * total
    counts = Counter(run.hash_range for run in runs.entries())
    assert len(counts) in (16, 17)
    assert max(counts.values()) <= 3 * MAX_RUNS


def test_a_look_up_in_a_large_table_reads_one_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "UNDIVIDED_ROWS", 1000)
    store = CountingBlobs()
    runs = open_table(store)
    runs.append(rows(*((n, "a", n, "") for n in range(2000))))
    assert len(runs.entries()) == 16
    reopened, store = reopen(runs), runs.frames.blobs  # type: ignore[assignment]
    store.calls.clear()
    assert [frame.rows() for frame in reopened.read(only=build_keys((7, "a")))] == [
        [(7, "a", 7, "")]
    ]
    assert store.calls == {"get": 1}


def test_a_restart_reads_the_rows_as_of_the_manifest() -> None:
    store = CountingBlobs()
    runs = open_table(store)
    for number in range(MAX_RUNS):
        runs.append(rows((number, "a", 0, "committed")))
    committed, entries = store.copy(), runs.entries()
    runs.append(rows((0, "a", 0, "lost")))
    runs.drop_before(None)
    reopened = open_table(committed, entries)
    assert set(read_content(reopened).values()) == {(0, "committed")}
    assert len(read_content(reopened)) == MAX_RUNS


@pytest.mark.parametrize("batches", [100, 1000])
def test_rows_are_rewritten_a_few_times_in_their_life(batches: int) -> None:
    store = CountingBlobs()
    runs = open_table(store, merge=pl.concat, cached=1 << 20)
    for number in range(batches):
        runs.append(rows((number, "a", number, "")))
    assert len(runs.entries()) <= 2 * MAX_RUNS
    levels = batches.bit_length()
    assert store.calls["put"] <= 2 * batches
    assert runs.rows == batches
    blob_size = len(store.copy().blobs[runs.entries()[-1][0]])
    assert store.written <= blob_size * batches * levels


def test_a_batch_costs_no_more_blobs_when_much_is_stored() -> None:
    """Most batches write one run; only a few, which complete runs of like size, also merge."""
    store = CountingBlobs()
    runs = open_table(store, merge=pl.concat)
    runs.append(rows(*((n, "a", n, "") for n in range(10_000))))
    store.calls.clear()
    for number in range(MAX_RUNS - 1):
        runs.append(rows((number, "b", number, "")))
        assert dict(store.calls) == {"put": number + 1}
    size = store.written
    runs.append(rows((0, "c", 0, "")))
    assert store.calls["get"] == store.calls["remove"] == MAX_RUNS
    assert store.written - size < 10_000
    assert [run[1] for run in runs.entries()] == [10_000, MAX_RUNS]


def test_a_look_up_reads_each_run_once_and_with_a_cache_none() -> None:
    cold, warm = CountingBlobs(), CountingBlobs()
    for store, cached in ((cold, 0), (warm, 1 << 20)):
        runs = open_table(store, cached=cached)
        for number in range(5):
            runs.append(rows((number, "a", number, "")))
        runs.read(only=build_keys((3, "a")))
    assert (cold.calls["get"], warm.calls["get"]) == (5, 0)


def test_runs_whose_rows_have_all_expired_go_unread() -> None:
    store = CountingBlobs()
    runs = open_table(store)
    for low, high in [(0, 4), (3, 9), (-5, 1), (7, 7)]:
        runs.append(rows((low, "a", low, ""), (high, "b", high, "")))
    runs.drop_before(4)
    assert [list(run[2:4]) for run in runs.entries()] == [[0, 4], [3, 9], [7, 7]]
    runs.drop_before(5)
    assert [list(run[2:4]) for run in runs.entries()] == [[3, 9], [7, 7]]
    assert (store.calls["get"], store.calls["remove"], len(store.blobs)) == (0, 2, 2)
    runs.drop_before(None)
    assert (runs.entries(), store.blobs) == ([], {})


def test_rows_that_merge_to_nothing_leave_no_run() -> None:
    store = CountingBlobs()
    runs = open_table(store, merge=lambda frames: pl.concat(frames).clear())
    for number in range(MAX_RUNS + 1):
        runs.append(rows((number, "a", 0, "")))
    assert (runs.entries(), runs.rows, store.blobs) == ([], 0, {})
    runs.append(rows((1, "a", 0, "")))
    assert runs.rows == 1


def test_a_merged_run_covers_only_the_positions_of_its_rows() -> None:
    runs = open_table()
    for number in range(MAX_RUNS + 1):
        runs.append(rows((0, "a", 10 - number, "")))
    # Only the newest row of the key is left, so the run covers no other position.
    assert [list(run[1:4]) for run in runs.entries()] == [[1, 10 - MAX_RUNS, 10 - MAX_RUNS]]
