"""The windowing application as an operator: splits tuples into shards and runs their steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

import polars as pl

from muntin.apps.windowing.options import Options
from muntin.apps.windowing.packing import convert_rows, pack
from muntin.apps.windowing.table_shard import TableShard
from muntin.apps.windowing.tuples import TupleRange, generate_tuples
from muntin.engine.operator import Part, ShardState, Task
from muntin.state.runs import FrameCache

# The input of calls to delete, and the fields of a call; the input of rows has no name.
CALLS, _CALL = "calls", ("id", "before", "shardrows", "most")
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
            # Each shard deletes its own rows.
            shards = range(self.options.shards if calls else 0)
            return [Part(shard, {"calls": calls}) for shard in shards]
        return [part for frame in messages for part in self._build_parts(frame)]

    def _build_parts(self, frame: pl.DataFrame) -> Iterator[Part]:
        shards, ledger = self.options.shards, bool(self.options.maxrows)
        if not self.random:
            # A UUID that isn't UTF-8 is escaped, and so invalid.
            tuples, rejected = convert_rows(frame)
            yield from pack(tuples, shards, ledger=ledger, rejected=rejected)
            return
        for row in frame.select(_DUE).iter_rows(named=True):
            due = TupleRange(**row)
            tuples = generate_tuples(self.options.seed, due)
            yield from pack(tuples, shards, ledger=ledger, wall=due.clock)

    def open(self, state: ShardState) -> TableShard:
        return TableShard(self.options, state.shard, state.blobs, self.cache)
