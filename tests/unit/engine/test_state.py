from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.engine.queries import CountingBlobs, combiner

from muntin.engine.state import State
from muntin.engine.windows.combine import Combined
from muntin.model.errors import SpecChangedError, StateCorruptedError
from muntin.state.frames import FrameCache
from muntin.state.manifest import MANIFEST_FORMAT, Run

QUERY = combiner(lateness=5)


class FixedTable:
    """A table with fixed entries."""

    def __init__(self, *entries: Any) -> None:
        self.entries = lambda: list(entries)


def batch(latest: int | None = None, clock: int | None = None) -> Combined:
    return Combined(QUERY.no_cells, rejected=QUERY.nothing_rejected, latest=latest, clock=clock)


def test_a_new_state_is_empty() -> None:
    state = State(CountingBlobs(), FrameCache(), QUERY.spec)
    assert (state.watermark, state.wall, state.counts) == (None, None, {})
    assert (state.stored, state.extra) == ({}, {})


def test_a_saved_state_is_read_back() -> None:
    store = CountingBlobs()
    state = State(store, FrameCache(), QUERY.spec)
    state.watermark = state.follow(None, [batch(latest=12)], QUERY.spec, 0)
    state.wall = 99
    state.count({"seen": 3})
    state.extra = {"rows": 7}
    run = Run(1, 2, 3, 4, size=50)
    state.tables = {"cells": FixedTable(run), "marks": FixedTable()}  # type: ignore[dict-item]
    state.save()
    reopened = State(store, FrameCache(), QUERY.spec)
    assert (reopened.watermark, reopened.wall, reopened.counts) == (7, 99, {"seen": 3})
    assert (reopened.stored, reopened.extra) == ({"cells": [run], "marks": []}, {"rows": 7})
    assert state.size == 50


def test_the_bytes_of_runs_of_an_earlier_build_arent_guessed() -> None:
    state = State(CountingBlobs(), FrameCache(), QUERY.spec)
    state.tables = {"cells": FixedTable(Run(1, 2, 3, 4, size=50), Run(5, 6, 7, 8))}  # type: ignore[dict-item]
    state.save()
    stored = State(state.blobs, FrameCache(), QUERY.spec).stored
    assert stored == {"cells": [Run(1, 2, 3, 4, size=50), Run(5, 6, 7, 8)]}
    assert state.size is None


def test_the_watermark_trails_the_greatest_time_and_never_goes_back() -> None:
    state = State(CountingBlobs(), FrameCache(), QUERY.spec)
    assert state.follow(None, [batch()], QUERY.spec, 0) is None
    arrivals = [batch(latest=3), batch(), batch(latest=1)]
    assert state.follow(None, arrivals, QUERY.spec, 0) == -2
    assert state.follow(-2, [batch(latest=2)], QUERY.spec, 0) == -2
    assert state.follow(-2, [], QUERY.spec, 0) == -2


def test_the_messages_own_clock_takes_precedence_and_never_goes_back() -> None:
    state = State(CountingBlobs(), FrameCache(), QUERY.spec)
    assert state.clock([batch()], 40) == 40
    assert state.clock([batch(clock=7), batch(clock=9), batch()], 40) == 9
    state.wall = 30
    assert state.clock([batch(clock=9)], 40) == 30
    assert state.clock([batch(clock=31)], 40) == 31


def test_counts_add() -> None:
    state = State(CountingBlobs(), FrameCache(), QUERY.spec)
    state.count({"seen": 3, "late": 1})
    state.count({"seen": 2, "future": 0})
    assert state.counts == {"seen": 5, "late": 1, "future": 0}


def save_empty_state() -> CountingBlobs:
    store = CountingBlobs()
    State(store, FrameCache(), QUERY.spec).save()
    return store


@pytest.mark.parametrize("manifest", ["", "{", "[]", "7", "null", '{"spec": "{}"}'])
def test_a_manifest_that_cannot_be_read(manifest: str) -> None:
    store = CountingBlobs()
    store.manifest = manifest
    with pytest.raises(StateCorruptedError, match="can't be read"):
        State(store, FrameCache(), QUERY.spec)


def test_a_manifest_of_another_format() -> None:
    store = save_empty_state()
    assert store.manifest is not None
    store.manifest = json.dumps(json.loads(store.manifest) | {"format": MANIFEST_FORMAT + 1})
    with pytest.raises(
        StateCorruptedError, match=f"has format {MANIFEST_FORMAT + 1}, .* reads format"
    ):
        State(store, FrameCache(), QUERY.spec)


def test_a_manifest_of_another_spec() -> None:
    with pytest.raises(SpecChangedError, match="lateness: was 5 microseconds, is 6 microseconds"):
        State(save_empty_state(), FrameCache(), replace(QUERY.spec, lateness=6))
