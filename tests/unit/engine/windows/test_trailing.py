"""Tests of trailing windows: their state, the cells they read, and distant times."""

from __future__ import annotations

from unittest import mock

import polars as pl
import pytest

from muntin.engine import columns
from muntin.engine.windows import trailing
from muntin.engine.windows.operator import make_combiner, open_shard
from muntin.model.aggregates import count
from muntin.model.axis import MAX_TIME_DISTANCE, MINUTE
from muntin.standalone import windowed
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache

SPEC = windowed(key="k", time="t").trailing("3 minutes", "10 minutes", every="1 minute")
COMBINER = make_combiner(
    SPEC.agg(n=count()), pl.Schema({"k": pl.String(), columns.TIME: pl.Int64()})
)
Row = tuple[str, str, int, int | None]


def open_trailing(blobs: MemoryBlobs) -> trailing.TrailingShard:
    shard = open_shard(COMBINER, blobs, FrameCache())
    assert isinstance(shard, trailing.TrailingShard)
    return shard


def step(blobs: MemoryBlobs, *messages: tuple[str, int], final: bool = False) -> list[Row]:
    """Return the key, look-back, minute and count of the rows that a batch emits."""
    shard = open_trailing(blobs)
    frame = pl.DataFrame(
        [(key, minute * MINUTE) for key, minute in messages], COMBINER.schema, orient="row"
    )
    emitted = shard.step([COMBINER.combine(frame, shard.state.watermark)], 0, final=final)
    minute = pl.col("window_end") // MINUTE
    return emitted.results.select("k", "look_back", minute, "n").rows()


def test_the_state_is_bounded_by_the_longest_look_back() -> None:
    blobs, rows = MemoryBlobs(), []
    for minute in range(200):
        step(blobs, (f"k{minute}", minute), ("b", minute))
        rows.append(open_trailing(blobs).cells.rows)
    # Runs are dropped as wholes.
    assert max(rows[100:]) <= 60
    emitted = step(blobs, ("b", 300))
    assert {row[0] for row in emitted} == {"b", *(f"k{minute}" for minute in range(189, 200))}
    assert open_trailing(blobs).cells.rows == 1


def test_only_keys_that_change_are_composed() -> None:
    blobs = MemoryBlobs()
    step(blobs, *((f"k{number}", 0) for number in range(500)))
    step(blobs, ("b", 1))
    cell_counts: list[int] = []
    compose = trailing.compute_part

    def count_cells(cells: trailing.SortedCells, *rest: object) -> pl.DataFrame:
        cell_counts.append(len(cells.cells))
        return compose(cells, *rest)  # type: ignore[arg-type]

    with mock.patch.object(trailing, "compute_part", count_cells):
        assert step(blobs, ("b", 2)) == [("b", "10 minutes", 2, 1), ("b", "3 minutes", 2, 1)]
    # The cell of the other batch starts at the newest instant.
    assert cell_counts == [1, 1]


def test_late_messages_wait_in_the_state_until_the_next_instant() -> None:
    blobs = MemoryBlobs()
    step(blobs, ("a", 20))
    assert step(blobs, ("a", 15), ("b", 18)) == []
    assert open_trailing(blobs).late.rows == 2
    assert step(blobs, ("c", 21)) == [
        ("a", "10 minutes", 21, 2),
        ("b", "10 minutes", 21, 1),
        ("a", "3 minutes", 21, 1),
        ("b", "3 minutes", 21, 1),
    ]
    assert open_trailing(blobs).late.rows == 0


@pytest.mark.parametrize("start", [1 - MAX_TIME_DISTANCE, -MINUTE])
def test_a_jump_costs_as_much_as_the_messages(start: int) -> None:
    blobs = MemoryBlobs()
    first, last = -(-start // MINUTE), MAX_TIME_DISTANCE // MINUTE - 1
    step(blobs, ("a", first))
    rows = step(blobs, ("a", last), final=True)
    assert rows == [
        ("a", "10 minutes", first + 1, 1),
        ("a", "3 minutes", first + 1, 1),
        ("a", "3 minutes", first + 4, None),
        ("a", "10 minutes", first + 11, None),
        ("a", "10 minutes", last + 1, 1),
        ("a", "3 minutes", last + 1, 1),
    ]
    assert open_trailing(blobs).cells.rows == 0


def test_a_snapshot_is_as_of_the_newest_instant() -> None:
    blobs = MemoryBlobs()
    assert open_trailing(blobs).snapshot(None, None).is_empty()
    step(blobs, ("a", 0), ("a", 5), ("b", 6))
    shard = open_trailing(blobs)
    rows = shard.snapshot(None, None).select("k", "look_back", "n").rows()
    assert rows == [("a", "10 minutes", 2), ("a", "3 minutes", 1)]
    assert len(shard.snapshot(6 * MINUTE, None)) == 0
    assert len(shard.snapshot(None, 0)) == 1
    assert len(shard.snapshot(None, None, pl.DataFrame({"k0": ["b"]}))) == 0
