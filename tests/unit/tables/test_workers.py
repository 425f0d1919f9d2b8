"""A partition that several workers take in turn is one partition."""

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


def partition() -> Partition:
    app = App("app", max_ahead=None)
    app.Table("visits", default=list).session(20, expires=600)
    app.SetTable("members")
    app.SetTable("by_window").hopping(20, 10, expires=600)
    app.Table("views", default=int).hopping(20, 10, expires=600)
    app.Table("mixed", default=list).tumbling(20, expires=600)
    app.Table("total", default=int)
    return Partition(app.get_rules())


def work(part: Partition, blobs: MemoryBlobs, key: str, at: int) -> None:
    """One batch of one event."""
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


def held(part: Partition, blobs: MemoryBlobs) -> dict[str, Any]:
    part.begin(blobs, 0)
    return {
        name: sorted((one.key, one.window, one.value) for one in shard.snapshot())
        for name, shard in part.shards.items()
    }


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_in_turn(workers: int) -> None:
    alone, one = MemoryBlobs(), partition()
    for key, at in EVENTS:
        work(one, alone, key, at)
    shared = MemoryBlobs()
    parts = [partition() for _ in range(workers)]
    for number, (key, at) in enumerate(EVENTS):
        work(parts[number % workers], shared, key, at)
    expected = held(partition(), alone)
    assert expected["visits"][0] == ("a", (1_000_000, 75_000_000), [1, 12, 31, 40, 55])
    assert held(partition(), shared) == expected
    for part in parts:
        assert held(part, shared) == expected
