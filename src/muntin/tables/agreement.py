"""What the partitions of an app in one process agree on before a batch is committed.

A partition sees only its own events. What a table goes by is the table's, though: which clocks
drive it, and how its keys lie. So what one partition has learned, all of them know at the end of
the batch, and a table is the same however many partitions it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muntin.tables import copartition
from muntin.tables.partition import Partition


def agree(parts: Sequence[Partition]) -> None:
    """Let all partitions know what one has learned of a table.

    Raises:
        PartitionError: When a key is in several partitions.
    """
    if len(parts) == 1:
        return
    for name in parts[0].shards:
        shards = [part.shards[name] for part in parts]
        feeds = {feed: None for shard in shards for feed in shard.feeds}
        partitionings = dict.fromkeys(one for shard in shards for one in shard.partitionings)
        for shard in shards:
            shard.feeds, shard.partitionings = dict(feeds), dict(partitionings)
        if any(way != copartition.WHOLE for _, way in partitionings):
            _check(name, parts)


def _check(name: str, parts: Sequence[Partition]) -> None:
    """Refuse keys that this batch has written while another partition has them."""
    shards = [part.shards[name] for part in parts]
    if sum(any(entries.any() for entries in shard.entries.values()) for shard in shards) < 2:
        return
    for key in {emitted.key for shard in shards for emitted in shard.changes()}:

        def holds(number: int, key: Any = key) -> bool:
            return shards[number].holds(key)

        copartition.home(name, key, shards[0].partitionings, len(parts), holds)
