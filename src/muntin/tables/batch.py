"""Runs a batch of events through agents, and ends it in the partitions of this process.

A shard on Spark is one partition. An app in this process has all of them, and agents that run on
from batch to batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muntin.engine.function_times import measure_function
from muntin.tables.agent import AgentRun
from muntin.tables.copartition import WHOLE, find_partition
from muntin.tables.partition import Partition
from muntin.tables.shard import TableEntry, TableShard
from muntin.tables.timers import TimerQueue


async def run_batch(
    parts: Sequence[Partition],
    runs: Sequence[AgentRun],
    watermarks: Mapping[str, int],
    *,
    errors: str,
    emit: frozenset[str],
    timers: TimerQueue | None = None,
    final: bool = False,
) -> list[dict[str, list[TableEntry]]]:
    """Run agents, one after another, over the events in their inboxes, and end the batch.

    Due timers run once the events are processed, and windows close by the ``watermarks`` after the
    batch, or all of them if it is the final one.

    Returns:
        For each partition, the changes of the tables in ``emit``, with their closed windows.
    """
    for run in runs:
        with measure_function(run.agent.function):
            await run.process_events(errors)
    for part in parts:
        part.return_all()
    if timers is not None:
        await timers.run(parts[0].wall, parts[0].sent)
    share_partitionings(parts)
    return [await part.finish(watermarks, emit=emit, final=final) for part in parts]


def share_partitionings(parts: Sequence[Partition]) -> None:
    """Share among partitions the clocks and partitionings that each recorded for a table.

    A partition sees only its own events, but these facts concern the table, and must not depend on
    the number of partitions.

    Raises:
        PartitionError: When several partitions have a key.
    """
    if len(parts) == 1:
        return
    for name in parts[0].shards:
        shards = [part.shards[name] for part in parts]
        feeds = dict.fromkeys(feed for shard in shards for feed in shard.feeds)
        partitionings = dict.fromkeys(one for shard in shards for one in shard.partitionings)
        for shard in shards:
            shard.feeds, shard.partitionings = dict(feeds), dict(partitionings)
        if any(way != WHOLE for _, way in partitionings):
            _check_single_owner(name, shards)


def _check_single_owner(table: str, shards: Sequence[TableShard]) -> None:
    """Refuse keys that this batch has written while another partition has them."""
    if sum(any(entries.has_any() for entries in shard.entries.values()) for shard in shards) < 2:
        return
    for key in {emitted.key for shard in shards for emitted in shard.changes()}:
        find_partition(table, key, shards)
