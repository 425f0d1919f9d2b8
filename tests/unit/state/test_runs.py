from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from tests.unit.engine.queries import CountingBlobs

from muntin.engine.state import State
from muntin.model.errors import StateCorruptedError
from muntin.state.frames import FrameCache, encode_frame
from muntin.state.manifest import Manifest, PartBlobs, Run
from muntin.state.runs import MAX_RUNS, Runs, join_runs


def add_rows(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames).group_by("pane", "k0").agg(pl.col("n").sum())


def rows(*tuples: tuple[int, str, int]) -> pl.DataFrame:
    return pl.DataFrame(list(tuples), schema=["pane", "k0", "n"], orient="row")


def open_table(
    store: CountingBlobs | None = None, span: int = 10, stored: Any = None, cache: Any = None
) -> Runs:
    return Runs(
        "pane", span, store or CountingBlobs(), cache or FrameCache(), add_rows, stored or ()
    )


def read_content(runs: Runs, low: int | None = None, high: int | None = None) -> list[Any]:
    frames = runs.read(low, high)
    return sorted(add_rows(frames).rows()) if frames else []


def reopen(runs: Runs) -> Runs:
    """Open the same table after a restart, from the store and the manifest only."""
    return open_table(runs.frames.blobs, runs.span, runs.entries())


def group_by_segment(runs: Runs) -> dict[str, list[Run]]:
    runs_by_segment: dict[str, list[Run]] = {}
    for run in runs.entries():
        assert runs.span is not None
        runs_by_segment.setdefault(str(run.low // runs.span), []).append(run)
    return runs_by_segment


def test_rows_are_cut_into_segments() -> None:
    # position -1 | 0 ... 9 | 10 ... 19 | 20
    # rows      a | a     a |        a  |  a
    runs = open_table()
    runs.append(rows((-1, "a", 1), (0, "a", 2), (9, "a", 3), (19, "a", 4), (20, "a", 5)))
    assert {
        s: [list(r[1:4]) for r in segment_runs]
        for s, segment_runs in group_by_segment(runs).items()
    } == {
        "-1": [[1, -1, -1]],
        "0": [[2, 0, 9]],
        "1": [[1, 19, 19]],
        "2": [[1, 20, 20]],
    }
    assert (runs.rows, runs.low, runs.high) == (5, -1, 20)


def test_an_empty_frame_stores_nothing() -> None:
    runs = open_table()
    runs.append(rows((1, "a", 1)).clear())
    assert (runs.entries(), runs.rows, runs.low, runs.high) == ([], 0, None, None)
    assert runs.read() == []


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (None, None, [3, 15, 27]),
        (4, None, [15, 27]),
        (3, 3, [3]),
        (None, 14, [3]),
        (16, 26, []),
        (15, 27, [15, 27]),
    ],
)
def test_only_runs_that_overlap_the_range_are_read(
    low: int | None, high: int | None, expected: list[int]
) -> None:
    store = CountingBlobs()
    writer = open_table(store)
    writer.append(rows((3, "a", 1), (15, "a", 1), (27, "a", 1)))
    reader = reopen(writer)
    assert [low for _, low, _ in reader.read_with_ranges(low, high)] == expected
    assert store.calls["get"] == len(expected)


@pytest.mark.parametrize(
    ("low", "high", "is_read"),
    [(5, 6, True), (8, 9, True), (0, 3, True), (0, 2, False), (9, None, False), (None, 2, False)],
)
def test_a_run_covers_its_first_to_its_last_position(
    low: int | None, high: int | None, is_read: bool
) -> None:
    # position 0 1 2 3 4 5 6 7 8 9
    # run            a         a
    runs = open_table()
    runs.append(rows((3, "a", 1), (8, "a", 1)))
    assert bool(runs.read(low, high)) is is_read


def test_runs_are_read_oldest_first_within_a_segment() -> None:
    runs = open_table()
    runs.append(rows((12, "a", 1)))
    runs.append(rows((5, "a", 2)))
    runs.append(rows((3, "a", 3)))
    assert [frame["n"].to_list() for frame in runs.read()] == [[2], [3], [1]]


def test_merging_keeps_content_and_removes_the_merged_runs() -> None:
    store = CountingBlobs()
    runs = open_table(store)
    for number in range(100):
        runs.append(rows((number % 10, "a", 1), (number % 7, "b", number)))
    expected = [(position, "a", 10) for position in range(10)]
    expected += [(position, "b", sum(range(position, 100, 7))) for position in range(7)]
    assert read_content(runs) == read_content(reopen(runs)) == sorted(expected)
    run_numbers = [run.number for run in runs.entries()]
    assert set(run_numbers) == set(store.blobs)
    assert len(run_numbers) <= MAX_RUNS
    for frame, low, high in runs.read_with_ranges():
        assert (frame["pane"].min(), frame["pane"].max()) == (low, high)


@pytest.mark.parametrize("batches", [100, 1000])
def test_merging_costs_a_logarithm(batches: int) -> None:
    # Every batch brings a new key, so nothing ever shrinks by merging: the worst case.
    store = CountingBlobs()
    runs = open_table(store)
    for number in range(batches):
        runs.append(rows((number % 10, f"key {number}", 1)))
        longest = max(len(segment_runs) for segment_runs in group_by_segment(runs).values())
        assert longest <= MAX_RUNS + math.log2(batches)
    assert store.calls["put"] <= 2 * batches
    assert store.written < 2000 * batches * math.log2(batches)
    assert runs.rows == batches


def test_a_large_run_is_not_rewritten_for_small_ones() -> None:
    store = CountingBlobs()
    runs = open_table(store)
    runs.append(
        pl.DataFrame({"pane": [5] * 10_000, "k0": map(str, range(10_000)), "n": [1] * 10_000})
    )
    large_run = next(iter(store.blobs))
    for number in range(50):
        runs.append(rows((5, str(number), 1)))
    assert large_run in store.blobs
    assert sum(n for _, _, n in read_content(runs)) == 10_050


def test_a_run_is_dropped_when_all_of_it_lies_before_a_position() -> None:
    # segments   [-10, 0)  [0, 10)  [10, 20)
    store = CountingBlobs()
    runs = open_table(store)
    runs.append(rows((-1, "a", 1), (5, "a", 1), (12, "a", 1)))
    for position, remaining in [(-1, 3), (0, 2), (5, 2), (6, 1), (12, 1), (13, 0)]:
        runs.drop_before(position)
        assert (runs.rows, len(store.blobs)) == (remaining, remaining)


def test_rows_before_a_position_are_deleted_when_their_run_is_merged() -> None:
    store = CountingBlobs()
    runs = open_table(store)
    runs.append(rows((1, "a", 1), (8, "a", 1)))
    runs.drop_before(5)
    assert runs.rows == 2
    for number in range(MAX_RUNS):
        runs.append(rows((9, str(number), 1)))
    assert (runs.low, runs.rows) == (8, MAX_RUNS + 1)
    runs.drop_before(10)
    assert (runs.entries(), store.blobs) == ([], {})


def test_all_runs_are_dropped() -> None:
    store = CountingBlobs()
    runs = open_table(store)
    runs.append(rows((-(10**9), "a", 1), (10**9, "a", 1)))
    runs.drop_before(None)
    assert (runs.entries(), store.blobs, runs.frames.cache.bytes) == ([], {}, 0)


def test_rewriting_replaces_everything() -> None:
    store = CountingBlobs()
    runs = open_table(store)
    runs.append(rows((1, "a", 1), (11, "a", 1)))
    runs.rewrite(rows((2, "b", 7)))
    assert read_content(runs) == read_content(reopen(runs)) == [(2, "b", 7)]
    assert len(store.blobs) == 1
    runs.rewrite(rows().cast({"pane": pl.Int64}))
    assert store.blobs == {}


def test_a_warm_table_reads_nothing_from_the_store() -> None:
    store = CountingBlobs()
    runs = open_table(store)
    for number in range(30):
        runs.append(rows((number, "a", 1)))
    read_content(runs)
    assert store.calls["get"] == 0


def test_a_damaged_blob_is_named_not_read() -> None:
    store = CountingBlobs()
    writer = open_table(store)
    writer.append(rows((1, "a", 1)))
    number = next(iter(store.blobs))
    store.blobs[number] = store.blobs[number][:-1]
    with pytest.raises(StateCorruptedError, match="was cut"):
        reopen(writer).read()


def test_two_tables_of_one_store_draw_different_numbers() -> None:
    store = CountingBlobs()
    for _ in range(3):
        open_table(store).append(rows((1, "a", 1)))
    assert len(store.blobs) == 3
    assert all(0 <= number < 2**62 for number in store.blobs)


def test_a_removed_number_is_never_served() -> None:
    cache, store = FrameCache(), CountingBlobs()
    runs = open_table(store, cache=cache)
    seen: set[int] = set()
    for number in range(60):
        runs.append(rows((number, "a", 1)))
        runs.drop_before(number - 15)
        seen |= set(store.blobs)
        assert all(cache.get(removed_number) is None for removed_number in seen - set(store.blobs))
    assert len(seen) > len(store.blobs)


class TestJoiningRuns:
    def join(self, *frames: pl.DataFrame) -> tuple[list[Any], list[int]]:
        """Return the joined rows and the positions that were merged."""
        merged: list[int] = []

        def merge(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
            result = add_rows(parts)
            merged.extend(result["pane"].unique().sort().to_list())
            return result

        bounds = [(f["pane"].min(), f["pane"].max()) for f in frames]
        ranged = [(f, int(a), int(b)) for f, (a, b) in zip(frames, bounds, strict=True)]
        return sorted(join_runs(ranged, "pane", merge).rows()), merged

    def test_runs_that_do_not_overlap_are_not_merged(self) -> None:
        joined, merged = self.join(rows((1, "a", 1), (2, "a", 2)), rows((3, "a", 3)))
        assert joined == [(1, "a", 1), (2, "a", 2), (3, "a", 3)]
        assert merged == []

    def test_one_run_is_itself(self) -> None:
        assert self.join(rows((1, "a", 1), (1, "a", 1)))[0] == [(1, "a", 1)] * 2

    def test_only_the_overlapping_range_is_merged(self) -> None:
        # position 1 2 3 4 5
        # first    1 1 1 .        merged: 3
        # second       1 1 1
        first = rows((1, "a", 1), (2, "a", 1), (3, "a", 1))
        joined, merged = self.join(first, rows((3, "a", 1), (4, "a", 1), (5, "a", 1)))
        assert joined == [(1, "a", 1), (2, "a", 1), (3, "a", 2), (4, "a", 1), (5, "a", 1)]
        assert merged == [3]

    def test_a_run_within_another(self) -> None:
        # position 1 2 3 4 5 6 7 8 9
        # first    1               1
        # second       1 1           merged: 3, 4 and 8, 9
        # third                  1 1
        first = rows((1, "a", 1), (9, "a", 1))
        second, third = rows((3, "a", 1), (4, "a", 1)), rows((8, "a", 1), (9, "b", 1))
        joined, merged = self.join(first, second, third)
        assert [position for position, _, _ in joined] == [1, 3, 4, 8, 9, 9]
        assert merged == [3, 4, 8, 9]

    def test_equal_rows_of_three_runs_become_one(self) -> None:
        same = rows((1, "a", 1), (2, "a", 1))
        assert self.join(same, same, same)[0] == [(1, "a", 3), (2, "a", 3)]

    @pytest.mark.parametrize("seed", range(8))
    def test_joining_is_merging_all(self, seed: int) -> None:
        frames = [
            rows(*((7 * n * (seed + 1) % (10 + seed) + 3 * run, "ab"[n % 2], 1) for n in range(6)))
            for run in range(seed + 1)
        ]
        frames = [add_rows([frame]) for frame in frames]
        assert self.join(*frames)[0] == sorted(add_rows(frames).rows())


def test_frames_are_stored_by_the_codec() -> None:
    store = CountingBlobs()
    frame = rows((1, "a", 1))
    open_table(store).append(frame)
    assert list(store.blobs.values()) == [encode_frame(frame)]


def test_a_manifest_names_its_blobs_also_those_of_manifests_within() -> None:
    store = CountingBlobs()
    runs = open_table(store)
    runs.append(rows((1, "a", 1), (25, "b", 2)))
    inner = Manifest("windows", tables={"cells": runs.entries()}).dumps()
    spec = SimpleNamespace(to_dict=dict, check_same=lambda stored: None)
    state = State(CountingBlobs(), FrameCache(), spec)
    state.stored = {"cells": runs.entries()}
    assert set(store.blobs) <= state.list_blobs()
    state.stored, state.partitions = {}, {"p": PartBlobs(store, inner)}
    assert set(store.blobs) <= state.list_blobs()
