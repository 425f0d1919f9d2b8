"""The windowing application in this process: packing, and every shard after it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import polars as pl

from muntin.apps.windowing import Options, TableProgress, TableShard, pack
from muntin.apps.windowing.tuples import TUPLE_SCHEMA
from muntin.engine.operator import Part
from muntin.state.blobs import MemoryBlobs
from muntin.state.runs import FrameCache

Given = tuple[int, int, int]


def tuples(rows: Sequence[Given]) -> pl.DataFrame:
    """Rows of an id, a value and a time in milliseconds."""
    return pl.DataFrame([(i, i, v, t) for i, v, t in rows], schema=TUPLE_SCHEMA, orient="row")


def call(name: str = "a", **limits: int) -> dict[str, Any]:
    """A call to delete."""
    return {"id": name, "before": None, "shardrows": None, "most": None, **limits}


def held(shard: TableShard) -> list[Given]:
    """What a shard holds, oldest first."""
    history = shard.history
    stored = pl.concat([pl.DataFrame(schema=TUPLE_SCHEMA), *history.read_stored()])
    rows = stored.sort("ts", maintain_order=True).select("low", "val", "ts").rows()
    if history.mark is None:
        return rows
    there = [row for row in rows if row[2] == history.mark.time]
    return there[history.mark.gone :] + [row for row in rows if row[2] > history.mark.time]


class Machine:
    """All shards, each opened anew for each batch as Spark does."""

    def __init__(self, **options: object) -> None:
        self.options = Options(**options)  # type: ignore[arg-type]
        self.stores = [MemoryBlobs() for _ in range(self.options.shards)]

    def opened(self, shard: int) -> TableShard:
        return TableShard(self.options, shard, self.stores[shard], FrameCache())

    def step(
        self, clock: int, *tasks: pl.DataFrame, calls: Sequence[dict[str, Any]] = ()
    ) -> list[TableProgress]:
        shards, found = range(self.options.shards), []
        counted = bool(self.options.maxrows)
        packed = [p for task in tasks for p in pack(task, len(shards), ledger=counted)]
        packed += [Part(shard, {"calls": [call]}) for call in calls for shard in shards]
        for shard in shards:
            mine = [part for part in packed if part.shard == shard]
            found.append(self.opened(shard).step(mine, clock))
        return found

    def copied(self) -> Machine:
        made = copy.copy(self)
        made.stores = copy.deepcopy(self.stores)
        return made

    def rows(self) -> list[list[Given]]:
        """What each shard holds, oldest first."""
        return [held(self.opened(shard)) for shard in range(self.options.shards)]

    def times(self) -> list[int]:
        """The times of all rows."""
        return sorted(time for shard in self.rows() for _, _, time in shard)
