"""The windowing application as an operator: tuples are cut into buckets, and each takes a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any

import polars as pl

from muntin.apps.windowing.bucket import Bucket
from muntin.apps.windowing.options import Options
from muntin.apps.windowing.packing import Packed, pack, taken
from muntin.apps.windowing.tuples import TupleRange, made
from muntin.engine.operator import Part, ShardState, StepOutput, Task
from muntin.model.axis import MILLISECOND
from muntin.state.runs import FrameCache

# What a bucket gets of a task: its tuples, and what every bucket has to know of all of them.
_ROWS, _LEDGER = "rows", "ledger"
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
        return [part for one in self._tuples(messages) for part in self._parts(*one)]

    def _tuples(
        self, messages: Iterable[pl.DataFrame]
    ) -> Iterator[tuple[pl.DataFrame, dict[str, int], int | None]]:
        """Tuples with how many were rejected, and the clock."""
        for frame in messages:
            if not self.random:
                # A UUID that isn't UTF-8 is escaped, and so none.
                yield *taken(frame), None
                continue
            for row in frame.select(_DUE).iter_rows(named=True):
                due = TupleRange(**row)
                yield made(self.options.seed, due), {}, due.clock * MILLISECOND

    def _parts(
        self, tuples: pl.DataFrame, rejected: dict[str, int], wall: int | None
    ) -> Iterator[Part]:
        buckets = self.options.buckets
        packed = pack(tuples, buckets, ledger=bool(self.options.maxrows))
        whole = {} if packed.ledger is None else {_LEDGER: packed.ledger}
        for bucket in range(buckets):
            # What was rejected is counted once, by the first bucket.
            header = {"latest": packed.latest, "wall": wall, "rejected": {} if bucket else rejected}
            mine = {_ROWS: packed.parts[bucket]} if bucket in packed.parts else {}
            yield Part(bucket, header, {**mine, **whole})

    def open(self, state: ShardState) -> TableStep:
        return TableStep(Bucket(self.options, state.shard, state.blobs, self.cache))


class TableStep:
    """A bucket, opened for a batch."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket

    def run(self, parts: Sequence[Part], wall: int | None, *, final: bool) -> StepOutput:
        walls = [part.header["wall"] for part in parts] + [wall]
        clock = max((w // MILLISECOND for w in walls if w is not None), default=self.bucket.wall)
        progress = self.bucket.step([self._packed(part) for part in parts], clock)
        return StepOutput({}, asdict(progress))

    def _packed(self, part: Part) -> Packed:
        frames, header = part.frames, part.header
        mine: dict[Any, pl.DataFrame] = {part.shard: frames[_ROWS]} if _ROWS in frames else {}
        return Packed(mine, header["latest"], frames.get(_LEDGER), header["rejected"])
