"""Tests that entries equal a dictionary of the commits, whichever worker commits or fails."""

from __future__ import annotations

from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from muntin.state import runs
from muntin.state.blobs import MemoryBlobs
from muntin.state.manifest import Run
from muntin.tables.cells import GONE, MISSING
from muntin.tables.entries import Entries
from muntin.tables.typed import make_codec

PLAIN = make_codec(None)
SPAN = 3
WRITES = st.lists(
    st.tuples(st.integers(0, 10), st.sampled_from("abc"), st.integers(0, 9) | st.just(GONE)),
    max_size=8,
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "commit", "fail before", "fail after", "drop"]),
        st.integers(0, 2),
        WRITES,
    ),
    max_size=12,
)


class Checkpoint:
    """Blobs as of the last commit, as Spark's state keeps them."""

    def __init__(self) -> None:
        self.blobs = MemoryBlobs()
        self.stored: list[Run] = []

    def copy(self) -> MemoryBlobs:
        blobs = MemoryBlobs()
        blobs.blobs = dict(self.blobs.blobs)
        return blobs


def write(entries: Entries, writes: list[tuple[int, str, Any]], low: int) -> None:
    for position, key, value in writes:
        if position > low:
            entries.pair(position)[0][key] = value


def read_all(entries: Entries) -> dict[tuple[int, str], int]:
    return {(p, k): v for p in entries.list_positions() for k, v in entries.values_at(p).items()}


@given(STEPS)
def test_three_workers_take_turns(steps: list[tuple[str, int, list[tuple[int, str, Any]]]]) -> None:
    """A worker finds what the others committed, whichever worker a batch goes to."""
    checkpoint, low = Checkpoint(), -1
    model: dict[tuple[int, str], Any] = {}
    workers = [Entries(SPAN, PLAIN) for _ in range(3)]
    with mock.patch.object(runs, "MAX_RUNS", 2):
        for action, number, writes in steps:
            worker, blobs = workers[number], checkpoint.copy()
            worker.begin(blobs, checkpoint.stored, low)
            write(worker, writes, low)
            if action == "fail before":
                continue
            if action == "drop":
                low += 2
                worker.drop_through(low)
            worker.commit()
            if action == "fail after":
                continue
            checkpoint.blobs, checkpoint.stored = blobs, worker.journal.entries()
            model.update({(at, key): value for at, key, value in writes})
            model = {(at, key): v for (at, key), v in model.items() if at > low and v is not GONE}
            assert read_all(worker) == model
        for worker in [*workers, Entries(SPAN, PLAIN)]:
            worker.begin(checkpoint.copy(), checkpoint.stored, low)
            assert read_all(worker) == model


def test_only_what_is_asked_for_is_read() -> None:
    checkpoint = Checkpoint()
    entries = Entries(SPAN, PLAIN)
    entries.begin(checkpoint.blobs, [])
    write(entries, [(0, "a", 1), (4, "b", 2), (9, "c", 3)], -1)
    entries.commit()
    assert len(checkpoint.blobs.blobs) == 3
    reader = Entries(SPAN, PLAIN)
    with mock.patch.object(checkpoint.blobs, "get", wraps=checkpoint.blobs.get) as get:
        reader.begin(checkpoint.blobs, entries.journal.entries())
        assert get.call_count == 0
        assert reader.get(4, "b") == 2
        assert reader.get(5, "b") is MISSING
        assert get.call_count == 1
        reader.drop_through(8)
        assert get.call_count == 1
        assert read_all(reader) == {(9, "c"): 3}
        assert get.call_count == 2
    assert len(checkpoint.blobs.blobs) == 1


def test_a_commit_writes_what_changed() -> None:
    checkpoint = Checkpoint()
    entries = Entries(1, PLAIN)
    entries.begin(checkpoint.blobs, [])
    write(entries, [(0, f"key {n}", n) for n in range(1000)], -1)
    entries.commit()
    entries.begin(checkpoint.blobs, None)
    write(entries, [(0, "key 7", 70)], -1)
    with mock.patch.object(checkpoint.blobs, "put", wraps=checkpoint.blobs.put) as put:
        entries.commit()
    assert [run.rows for run in entries.journal.list_runs(0)] == [1000, 1]
    assert put.call_count == 1


def test_without_blobs_nothing_is_written_and_all_is_remembered() -> None:
    entries = Entries(SPAN, PLAIN)
    entries.begin(None, None)
    write(entries, [(0, "a", 1), (7, "b", 2)], -1)
    entries.commit()
    entries.begin(None, None)
    write(entries, [(0, "a", GONE), (7, "c", 3)], -1)
    assert read_all(entries) == {(7, "b"): 2, (7, "c"): 3}
    entries.begin(None, None)
    assert read_all(entries) == {(0, "a"): 1, (7, "b"): 2}
    entries.shrink()
    assert read_all(entries) == {(0, "a"): 1, (7, "b"): 2}


def test_what_was_read_can_be_forgotten_and_read_again() -> None:
    checkpoint = Checkpoint()
    entries = Entries(SPAN, PLAIN)
    entries.begin(checkpoint.blobs, [])
    write(entries, [(0, "a", 1), (7, "b", 2)], -1)
    entries.commit()
    entries.shrink()
    assert entries.rows == 0
    assert read_all(entries) == {(0, "a"): 1, (7, "b"): 2}
