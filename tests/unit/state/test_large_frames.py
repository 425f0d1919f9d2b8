"""Tests that large frames are stored in several blobs, and readers don't notice."""

from __future__ import annotations

import polars as pl
import pytest

from muntin.state import frames
from muntin.state.blobs import MemoryBlobs, draw_number, list_blobs
from muntin.state.frames import FrameCache, Frames, decode_frame
from muntin.state.manifest import Run, list_overlapping_blobs
from muntin.state.runs import Runs


@pytest.fixture(autouse=True)
def small_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_BLOB_BYTES", 400)


def build_frame(rows: int, first: int = 0) -> pl.DataFrame:
    return pl.DataFrame({"k": range(first, first + rows), "at": range(first, first + rows)})


@pytest.mark.parametrize("rows", [1, 25, 26, 100, 1001])
def test_a_frame_is_read_and_removed_with_all_its_blobs(rows: int) -> None:
    blobs = MemoryBlobs()
    number, size = Frames(blobs, FrameCache()).write(build_frame(rows))
    assert [*blobs.blobs] == [*list_blobs(number)]
    assert size == sum(map(len, blobs.blobs.values()))
    assert len(blobs.blobs) == -(-16 * rows // 400)
    parts = [decode_frame(blobs.get(blob_number)) for blob_number in list_blobs(number)]
    assert pl.concat(parts).equals(build_frame(rows))
    assert max(len(part) for part in parts) <= 25
    reopened = Frames(blobs, FrameCache())
    assert reopened.read(number).equals(build_frame(rows))
    reopened.remove(number)
    assert blobs.blobs == {}


def test_numbers_of_an_earlier_build_stand_for_one_blob() -> None:
    for number in (0, 1, (1 << 62) - 1, draw_number(1)):
        assert [*list_blobs(number)] == [number]
    first, second = draw_number(3), draw_number(3)
    assert len({*list_blobs(first), *list_blobs(second)}) == 6
    assert max(*list_blobs(first)) < 2**63
    assert list_overlapping_blobs([Run(5, 1, 0, 0), Run(first, 9, 0, 0)]) == [5, *list_blobs(first)]


def test_runs_of_several_blobs_are_merged() -> None:
    blobs = MemoryBlobs()
    table = Runs("at", None, blobs, FrameCache(), pl.concat, (), ["k"])
    for batch in range(30):
        table.append(build_frame(40, 40 * batch))
    entries = table.entries()
    assert {*blobs.blobs} == {blob for run in entries for blob in run.blobs}
    assert any(len(run.blobs) > 1 for run in entries)
    reopened = Runs("at", None, blobs, FrameCache(), pl.concat, entries, ["k"])
    all_rows = pl.concat(reopened.read()).sort("k")
    assert all_rows.select("k", "at").equals(build_frame(1200))
    keys = pl.DataFrame({"k": [7, 1199, 5000]})
    frame = pl.concat(reopened.read(only=keys))
    assert sorted(frame["k"]) == [7, 1199]
    reopened.drop_before(None)
    assert blobs.blobs == {}
