"""The windowing application in this process: packing, and every bucket after it."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import polars as pl

from muntin.apps.windowing import Bucket, Options, TableProgress, pack
from muntin.apps.windowing.tuples import SCHEMA
from muntin.state.blobs import MemoryBlobs
from muntin.state.runs import FrameCache

Given = tuple[int, int, int]


def tuples(rows: Sequence[Given]) -> pl.DataFrame:
    """Rows of an id, a value and a time in milliseconds."""
    return pl.DataFrame([(i, i, v, t) for i, v, t in rows], schema=SCHEMA, orient="row")


class Machine:
    """All buckets, each opened anew for each batch as Spark does."""

    def __init__(self, **options: object) -> None:
        self.options = Options(**options)  # type: ignore[arg-type]
        self.stores = [MemoryBlobs() for _ in range(self.options.buckets)]

    def opened(self, bucket: int) -> Bucket:
        return Bucket(self.options, bucket, self.stores[bucket], FrameCache())

    def step(self, clock: int, *tasks: pl.DataFrame) -> list[TableProgress]:
        packed = [
            pack(task, self.options.buckets, ledger=bool(self.options.maxrows)) for task in tasks
        ]
        return [self.opened(b).step(packed, clock) for b in range(self.options.buckets)]

    def copied(self) -> Machine:
        made = copy.copy(self)
        made.stores = copy.deepcopy(self.stores)
        return made

    def rows(self) -> list[list[Given]]:
        """What each bucket holds, oldest first."""
        return [
            self.opened(bucket).history.rows().select("low", "val", "ts").rows()
            for bucket in range(self.options.buckets)
        ]

    def times(self) -> list[int]:
        """The times of all rows."""
        return sorted(time for bucket in self.rows() for _, _, time in bucket)
