"""The windowing application as an operator: splits tuples into buckets and runs their steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

import polars as pl

from muntin.apps.windowing.bucket import Bucket
from muntin.apps.windowing.options import Options
from muntin.apps.windowing.packing import convert_rows, pack
from muntin.apps.windowing.tuples import TupleRange, generate_tuples
from muntin.engine.operator import Part, ShardState, Task
from muntin.state.runs import FrameCache

# The input of calls to delete, and the fields of a call; the input of rows has no name.
CALLS, _CALL = "calls", ("id", "before", "bucketrows", "most")
_DUE = [field.name for field in fields(TupleRange)]


class TableOperator:
    """The operator of the application's table."""

    def __init__(self, options: Options, *, random: bool) -> None:
        self.options = options
        self.random = random
        # Rows are rarely read again (if a limit splits a millisecond), cells in every batch.
        self.cache = FrameCache(64 << 20)

    def prepare(self, messages: Iterable[pl.DataFrame], task: Task) -> list[Part]:
        if task.input == CALLS:
            frames = (frame.select(_CALL).drop_nulls("id") for frame in messages)
            calls = [call for frame in frames for call in frame.to_dicts()]
            # Each bucket deletes its own rows.
            buckets = range(self.options.buckets if calls else 0)
            return [Part(bucket, {"calls": calls}) for bucket in buckets]
        return [part for frame in messages for part in self._build_parts(frame)]

    def _build_parts(self, frame: pl.DataFrame) -> Iterator[Part]:
        buckets, ledger = self.options.buckets, bool(self.options.maxrows)
        if not self.random:
            # A UUID that isn't UTF-8 is escaped, and so invalid.
            tuples, rejected = convert_rows(frame)
            yield from pack(tuples, buckets, ledger=ledger, rejected=rejected)
            return
        for row in frame.select(_DUE).iter_rows(named=True):
            due = TupleRange(**row)
            tuples = generate_tuples(self.options.seed, due)
            yield from pack(tuples, buckets, ledger=ledger, wall=due.clock)

    def open(self, state: ShardState) -> Bucket:
        return Bucket(self.options, state.shard, state.blobs, self.cache)
