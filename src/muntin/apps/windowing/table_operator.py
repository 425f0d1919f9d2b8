"""The windowing application as an operator: tuples are cut into buckets, and each takes a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

import polars as pl

from muntin.apps.windowing.bucket import Bucket
from muntin.apps.windowing.options import Options
from muntin.apps.windowing.packing import pack, taken
from muntin.apps.windowing.tuples import TupleRange, made
from muntin.engine.operator import Part, ShardState, Task
from muntin.state.runs import FrameCache

# The input of calls to delete, and what one says; the other input, of rows, has no name.
CALLS, _CALL = "calls", ("id", "before", "bucketrows", "most")
_DUE = [field.name for field in fields(TupleRange)]


class TableOperator:
    """The application's table."""

    def __init__(self, options: Options, *, random: bool) -> None:
        self.options = options
        self.random = random
        # Rows are seldom read again (where a limit cuts a millisecond in two), cells in every
        # batch.
        self.cache = FrameCache(64 << 20)

    def prepare(self, messages: Iterable[pl.DataFrame], task: Task) -> list[Part]:
        if task.input == CALLS:
            frames = (frame.select(_CALL).drop_nulls("id") for frame in messages)
            calls = [call for frame in frames for call in frame.to_dicts()]
            # Each bucket deletes of its own.
            buckets = range(self.options.buckets if calls else 0)
            return [Part(bucket, {"calls": calls}) for bucket in buckets]
        return [part for frame in messages for part in self._parts(frame)]

    def _parts(self, frame: pl.DataFrame) -> Iterator[Part]:
        buckets, ledger = self.options.buckets, bool(self.options.maxrows)
        if not self.random:
            # A UUID that isn't UTF-8 is escaped, and so none.
            tuples, rejected = taken(frame)
            yield from pack(tuples, buckets, ledger=ledger, rejected=rejected)
            return
        for row in frame.select(_DUE).iter_rows(named=True):
            due = TupleRange(**row)
            tuples = made(self.options.seed, due)
            yield from pack(tuples, buckets, ledger=ledger, wall=due.clock)

    def open(self, state: ShardState) -> Bucket:
        return Bucket(self.options, state.shard, state.blobs, self.cache)
