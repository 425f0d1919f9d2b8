"""Frames of many bytes lie in several blobs, which nothing that reads state has to know of."""

from __future__ import annotations

import polars as pl
import pytest

from muntin.state import frames
from muntin.state.blobs import MemoryBlobs, draw_number, list_blobs
from muntin.state.frame_cache import FrameCache, Frames
from muntin.state.frames import decode_frame
from muntin.state.manifest import Run, list_overlapping_blobs
from muntin.state.runs import Runs


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_BLOB_BYTES", 400)


def frame(rows: int, first: int = 0) -> pl.DataFrame:
    return pl.DataFrame({"k": range(first, first + rows), "at": range(first, first + rows)})


@pytest.mark.parametrize("rows", [1, 25, 26, 100, 1001])
def test_a_frame_is_read_as_it_was_written_and_removed_whole(rows: int) -> None:
    blobs = MemoryBlobs()
    number, size = Frames(blobs, FrameCache()).write(frame(rows))
    assert [*blobs.blobs] == [*list_blobs(number)]
    assert size == sum(map(len, blobs.blobs.values()))
    assert len(blobs.blobs) == -(-16 * rows // 400)
    parts = [decode_frame(blobs.get(one)) for one in list_blobs(number)]
    assert pl.concat(parts).equals(frame(rows))
    assert max(len(part) for part in parts) <= 25
    again = Frames(blobs, FrameCache())
    assert again.read(number).equals(frame(rows))
    again.remove(number)
    assert blobs.blobs == {}


def test_numbers_of_an_earlier_build_are_of_one_blob() -> None:
    for number in (0, 1, (1 << 62) - 1, draw_number(1)):
        assert [*list_blobs(number)] == [number]
    one, other = draw_number(3), draw_number(3)
    assert len({*list_blobs(one), *list_blobs(other)}) == 6
    assert max(*list_blobs(one)) < 2**63
    assert list_overlapping_blobs([Run(5, 1, 0, 0), Run(one, 9, 0, 0)]) == [5, *list_blobs(one)]


def test_runs_are_folded_whatever_they_lie_in() -> None:
    blobs = MemoryBlobs()
    table = Runs("at", None, blobs, FrameCache(), pl.concat, (), ["k"])
    for batch in range(30):
        table.append(frame(40, 40 * batch))
    entries = table.entries()
    assert {*blobs.blobs} == {blob for run in entries for blob in run.blobs}
    assert any(len(run.blobs) > 1 for run in entries)
    again = Runs("at", None, blobs, FrameCache(), pl.concat, entries, ["k"])
    whole = pl.concat(again.read()).sort("k")
    assert whole.select("k", "at").equals(frame(1200))
    asked = pl.DataFrame({"k": [7, 1199, 5000]})
    found = pl.concat(again.read(only=asked))
    assert sorted(found["k"]) == [7, 1199]
    again.drop_before(None)
    assert blobs.blobs == {}
