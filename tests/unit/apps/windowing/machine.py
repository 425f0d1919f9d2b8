"""The windowing application in this process: packing, and every bucket after it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import polars as pl

from muntin.apps.windowing import Bucket, Options, TableProgress, pack
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
    return {"id": name, "before": None, "bucketrows": None, "most": None, **limits}


def held(bucket: Bucket) -> list[Given]:
    """What a bucket holds, oldest first."""
    history = bucket.history
    stored = pl.concat([pl.DataFrame(schema=TUPLE_SCHEMA), *history.read_stored()])
    rows = stored.sort("ts", maintain_order=True).select("low", "val", "ts").rows()
    if history.mark is None:
        return rows
    there = [row for row in rows if row[2] == history.mark.time]
    return there[history.mark.gone :] + [row for row in rows if row[2] > history.mark.time]


class Machine:
    """All buckets, each opened anew for each batch as Spark does."""

    def __init__(self, **options: object) -> None:
        self.options = Options(**options)  # type: ignore[arg-type]
        self.stores = [MemoryBlobs() for _ in range(self.options.buckets)]

    def opened(self, bucket: int) -> Bucket:
        return Bucket(self.options, bucket, self.stores[bucket], FrameCache())

    def step(
        self, clock: int, *tasks: pl.DataFrame, calls: Sequence[dict[str, Any]] = ()
    ) -> list[TableProgress]:
        buckets, found = range(self.options.buckets), []
        counted = bool(self.options.maxrows)
        packed = [p for task in tasks for p in pack(task, len(buckets), ledger=counted)]
        packed += [Part(bucket, {"calls": [call]}) for call in calls for bucket in buckets]
        for bucket in buckets:
            mine = [part for part in packed if part.shard == bucket]
            found.append(self.opened(bucket).step(mine, clock))
        return found

    def copied(self) -> Machine:
        made = copy.copy(self)
        made.stores = copy.deepcopy(self.stores)
        return made

    def rows(self) -> list[list[Given]]:
        """What each bucket holds, oldest first."""
        return [held(self.opened(bucket)) for bucket in range(self.options.buckets)]

    def times(self) -> list[int]:
        """The times of all rows."""
        return sorted(time for bucket in self.rows() for _, _, time in bucket)
