"""Tests that a partition whose batches go to several workers has one state."""

from __future__ import annotations

import asyncio
import operator
from typing import Any

import pytest

from muntin.state.blobs import MemoryBlobs
from muntin.tables import App
from muntin.tables.current import EventCursor
from muntin.tables.partition import Partition

EVENTS = [("a", 1), ("b", 2), ("a", 12), ("a", 31), ("b", 33), ("a", 40), ("b", 47), ("a", 55)]


def make_partition() -> Partition:
    app = App("app", max_ahead=None)
    app.Table("visits", default=list).session(20, expires=600)
    app.SetTable("members")
    app.SetTable("by_window").hopping(20, 10, expires=600)
    app.Table("views", default=int).hopping(20, 10, expires=600)
    app.Table("mixed", default=list).tumbling(20, expires=600)
    app.Table("total", default=int)
    return Partition(app.get_rules())


def run_batch(part: Partition, blobs: MemoryBlobs, key: str, at: int) -> None:
    """Run a batch of one event."""
    part.begin(blobs, 0)
    cursor = EventCursor("agent", "clicks")
    cursor.part, cursor.key, cursor.time = part, key, at * 1_000_000
    shards: dict[str, Any] = dict(part.shards)
    for name, operand in (("visits", [at]), ("views", 1), ("mixed", [at])):
        shards[name].apply(operator.add, key, operand, cursor, None)
    shards["members"].change_members(key, [at], [at - 11], cursor)
    shards["by_window"].change_members(key, [at], [at - 11], cursor, None)
    shards["total"].write(key, shards["total"].read(key) + 1, cursor)
    asyncio.run(part.finish({"clicks": cursor.time}))


def read_tables(part: Partition, blobs: MemoryBlobs) -> dict[str, Any]:
    part.begin(blobs, 0)
    return {
        name: sorted((row.key, row.window, row.value) for row in shard.snapshot())
        for name, shard in part.shards.items()
    }


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_in_turn(workers: int) -> None:
    own_blobs, own_part = MemoryBlobs(), make_partition()
    for key, at in EVENTS:
        run_batch(own_part, own_blobs, key, at)
    shared_blobs = MemoryBlobs()
    parts = [make_partition() for _ in range(workers)]
    for number, (key, at) in enumerate(EVENTS):
        run_batch(parts[number % workers], shared_blobs, key, at)
    expected = read_tables(make_partition(), own_blobs)
    assert expected["visits"][0] == ("a", (1_000_000, 75_000_000), [1, 12, 31, 40, 55])
    assert read_tables(make_partition(), shared_blobs) == expected
    for part in parts:
        assert read_tables(part, shared_blobs) == expected
