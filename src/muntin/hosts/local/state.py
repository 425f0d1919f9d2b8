"""Reads the state of a query on the local host from another process while the query runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import polars as pl

from muntin.engine import columns
from muntin.engine.state_reader import StateReader
from muntin.hosts.inspect.snapshot import ShardBlobs, StateSnapshot, StateView
from muntin.hosts.leases import LocalLeaseFile
from muntin.hosts.local.log import Log
from muntin.hosts.local.log_contents import LogContents
from muntin.hosts.local.messages import result_time_type
from muntin.model.errors import OptionError


def is_local_checkpoint(folder: str) -> bool:
    """Return whether a folder is a checkpoint of the local host."""
    return any(Path(folder).glob("*.log"))


def refuse_other_folder(folder: str) -> None:
    """Refuse a folder that doesn't exist, or that has the checkpoints of several local queries.

    With Spark, a folder that isn't on this machine may be one of its default file system.

    Raises:
        OptionError: When it is such a folder; the error names those of the queries.
    """
    if not Path(folder).is_dir():
        if find_spec("pyspark") is None:
            raise OptionError("checkpoint", folder, "doesn't exist", "give the folder of a query")
        return
    children = [one for one in sorted(Path(folder).iterdir()) if is_local_checkpoint(str(one))]
    if children and not is_local_checkpoint(folder):
        hint = f"give one of {', '.join(map(str, children))}"
        raise OptionError("checkpoint", folder, "has a folder for each of its queries", hint)


class LogSnapshot(StateSnapshot):
    """A snapshot of one operator of a checkpoint, at its newest batch.

    Args:
        folder: The checkpoint; its query may be running.
        batch: The number of the newest batch; no other number is accepted.
        operator: The number of the operator in its chain, counted from the last one.

    Raises:
        OptionError: When the operator doesn't exist, or the batch isn't the newest one.
        StateCorruptedError: When the checkpoint is damaged.
    """

    def __init__(self, folder: str, batch: int | None = None, operator: int = 0) -> None:
        self._contents = LogContents(Log(Path(folder)))
        done = self._contents.last_commit
        if done.number < 0:
            hint = "give the folder that start(checkpoint=…) got, after its first batch"
            raise OptionError("CHECKPOINT", folder, "holds no windows", hint)
        if not 0 <= operator < len(done.shards):
            problem = f"isn't one of the {len(done.shards)} operators of this query"
            raise OptionError("operator", operator, problem, "count from the last one, which is 0")
        self.folder = folder
        self.oldest = self.newest = done.number
        self.batch = done.number if batch is None else self.check_batch("batch", batch)
        self._operator = operator

    def check_batch(self, option: str, batch: int) -> int:
        if batch != self.newest:
            problem = f"isn't kept: there is batch {self.newest}"
            raise OptionError(option, batch, problem, "leave it out")
        return batch

    def read_lease(self) -> str | None:
        return LocalLeaseFile(Path(self.folder)).read()

    def read_manifests(self, batch: int | None = None) -> dict[int, str]:
        done = self._contents.last_commit
        shards = range(done.shards[self._operator])
        return {shard: done.manifests[self._operator, shard] for shard in shards}

    def read_blobs(
        self, wanted: Mapping[int, Sequence[int]], batch: int | None = None
    ) -> ShardBlobs:
        read, operator = self._contents.read_blob, self._operator
        return {
            shard: {number: read((operator, shard, number)) for number in numbers}
            for shard, numbers in wanted.items()
        }

    def measure_blobs(self) -> dict[int, dict[int, int]]:
        sizes: dict[int, dict[int, int]] = {shard: {} for shard in self.manifests}
        for (operator, shard, number), size in self._contents.list_blob_sizes().items():
            if operator == self._operator:
                sizes[shard][number] = size
        return sizes

    def read_written_since(self, since: int) -> dict[int, list[bytes]]:
        # Only the newest batch is stored, and `check_batch` has refused any other.
        raise AssertionError(since)

    def number_shards(self, count: int) -> Sequence[int]:
        return range(count)

    def window_schema(self, reader: StateReader) -> pl.Schema:
        schema = dict(reader.empty.schema)
        if reader.spec.axis == "time":
            bound = result_time_type(reader.types.get(str(reader.spec.time)))
            schema |= dict.fromkeys((columns.WINDOW_START, columns.WINDOW_END), bound)
        return pl.Schema(schema)

    def message_schema(self, types: Mapping[str, pl.DataType], flag: str) -> pl.Schema:
        return pl.Schema({**types, flag: pl.Boolean()})

    def fit_to_schema(self, rows: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
        return rows.select(pl.col(name).cast(kind) for name, kind in schema.items())

    def frame(self, view: StateView) -> pl.DataFrame:
        return self.fetch(view)
