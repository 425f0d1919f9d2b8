"""State of a query on the local host, read from outside while it runs: `open_state`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from muntin.engine import columns, key_state
from muntin.engine.joins.joiner import ID
from muntin.engine.state_reader import (
    MATCHED,
    WAITS,
    StateReader,
    kept_messages,
    key_of,
    types_of,
)
from muntin.hosts.local.log import Log
from muntin.hosts.local.log_contents import LogContents
from muntin.hosts.local.messages import moment_type
from muntin.model.aggregates import Aggregate
from muntin.model.axis import as_datetime, position
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec, SideName
from muntin.model.recall import recalled, with_functions
from muntin.model.spec import WindowSpec
from muntin.state.lookup import join_null_safe
from muntin.state.manifest import Manifest, parse_manifest
from muntin.state.shards import assign_shards

Position = datetime | str | int | None


def is_local_checkpoint(folder: str) -> bool:
    """Whether a folder is a checkpoint of the local host."""
    return any(Path(folder).glob("*.log"))


class OperatorState:
    """One operator of a checkpoint at its newest batch.

    Args:
        folder: The checkpoint; its query may be running.
        operator: Which operator of a chain, counted from the last one.

    Attributes:
        batch: The batch.
        manifests: The manifest of each shard, as text.

    Raises:
        OptionError: When there is no such operator, or no batch was committed.
        StateCorruptedError: When the checkpoint is damaged.
    """

    def __init__(self, folder: str, operator: int) -> None:
        self._contents = LogContents(Log(Path(folder)))
        done = self._contents.committed
        if done.number < 0:
            hint = "give the folder that start(checkpoint=…) got, after its first batch"
            raise OptionError("CHECKPOINT", folder, "holds no windows", hint)
        if not 0 <= operator < len(done.shards):
            problem = f"isn't one of the {len(done.shards)} operators of this query"
            raise OptionError("operator", operator, problem, "count from the last one, which is 0")
        self.batch = done.number
        self._operator = operator
        shards = range(done.shards[operator])
        self.manifests = {shard: done.manifests[operator, shard] for shard in shards}

    @cached_property
    def read(self) -> dict[int, Manifest]:
        """The manifest of each shard."""
        return {shard: parse_manifest(text) for shard, text in self.manifests.items()}

    @property
    def counts(self) -> dict[str, int]:
        """Messages since the checkpoint began, by what became of them."""
        return dict(sum((Counter(m.counts) for m in self.read.values()), Counter()))

    def blobs(self, shard: int, numbers: list[int]) -> dict[int, bytes]:
        """Blobs of a shard, by number."""
        key = (self._operator, shard)
        return {number: self._contents.blob((*key, number)) for number in numbers}


def open_local_state(
    folder: str, *, aggregates: Mapping[str, Aggregate] | None = None, operator: int = 0
) -> OpenLocalWindows | OpenLocalJoin:
    """Read the state of a query on the local host; see `muntin.open_state`."""
    opened = OperatorState(folder, operator)
    spec = recalled(opened.read[0].spec)
    if isinstance(spec, JoinSpec):
        return OpenLocalJoin(opened, spec)
    return OpenLocalWindows(opened, with_functions(spec, aggregates or {}))


class OpenLocalWindows:
    """The windows or sessions of a query at its newest batch; made by `open_state`.

    Attributes:
        batch: The batch.
        spec: The query, as the checkpoint remembers it.
    """

    def __init__(self, opened: OperatorState, spec: WindowSpec) -> None:
        self.batch = opened.batch
        self.spec = spec
        self._opened = opened
        self._reader = StateReader(spec)

    def __repr__(self) -> str:
        return f"<{self.spec.title} at batch {self.batch}>"

    @property
    def watermark(self) -> datetime | None:
        """The watermark in force; `None` before the first message, and on the rows axis."""
        marks = [m.watermark for m in self._opened.read.values() if m.watermark is not None]
        return as_datetime(max(marks)) if marks else None

    @property
    def counts(self) -> dict[str, int]:
        """Messages since the checkpoint began, by what became of them."""
        return self._opened.counts

    def fetch(
        self, key: Any = None, *, start: Position = None, end: Position = None
    ) -> pl.DataFrame:
        """The windows (or sessions) within retention.

        Args:
            key: Only those of this key; a tuple, or a dictionary by column, where it has several,
                or its one column is NULL: `(None,)`.
            start: Only those that reach beyond this position.
            end: Only those that begin there or before.

        Returns:
            The keys, `window_start`, `window_end` and the aggregates as they are now, by window
            start, then key.

        Raises:
            OptionError: When the key or the positions can't be this query's.
        """
        low, high, only, owner = self._asked(key, start, end)
        reader, rows = self._reader, [self._reader.nothing]
        for shard, text in self._opened.manifests.items():
            if owner in (None, shard):
                numbers = reader.wanted(self._opened.read[shard], low, high)
                blobs = self._opened.blobs(shard, numbers)
                rows.append(reader.snapshot(text, blobs, low, high, only))
        whole = pl.concat(rows, how="diagonal")
        whole = whole.sort(columns.WINDOW_START, *self.spec.keys, columns.WINDOW_END)
        if self.spec.axis == "rows":
            return whole
        time = self._reader.types.get(str(self.spec.time))
        bounds = pl.col(columns.WINDOW_START, columns.WINDOW_END)
        return whole.with_columns(bounds.cast(moment_type(time)))

    def windows(self, key: Any, *, start: Position = None, end: Position = None) -> pl.DataFrame:
        """What is known of the windows of a key: when, how many messages, how often they emitted.

        Args:
            key: The key.
            start: Only windows that reach beyond this position.
            end: Only those that begin there or before.

        Returns:
            `window_start`, `window_end`, `messages`, `fired`, `late`, `unemitted` and `stage`:
            `current`, `past`, `closed` or `expired`.

        Raises:
            OptionError: When the windows are measured in rows, or the key isn't one.
        """
        spec = self.spec
        if spec.axis == "rows":
            hint = "use fetch(): partitions have no watermark in common"
            raise OptionError("windows", str(spec.windows), "aren't measured in time", hint)
        low, high, only, owner = self._asked(key, start, end)
        seen = [pl.DataFrame(schema=key_state.SEEN)]
        for shard, manifest in self._opened.read.items():
            if owner in (None, shard):
                numbers = key_state.wanted(spec, manifest.tables, low, high)
                blobs = self._opened.blobs(shard, [n for one in numbers.values() for n in one])
                named = pl.DataFrame() if only is None else only
                seen.append(key_state.known(spec, numbers, blobs, named, (low, high), manifest))
        bounds = pl.col(columns.WINDOW_START, columns.WINDOW_END)
        frame = pl.concat(seen).sort(columns.WINDOW_START, columns.WINDOW_END)
        return frame.with_columns(bounds.cast(pl.Datetime("us", "UTC")))

    def _asked(
        self, key: Any, start: Position, end: Position
    ) -> tuple[int | None, int | None, pl.DataFrame | None, int | None]:
        """Where a stretch begins and ends, which keys are wanted, and the shard that owns them."""
        axis, owner = self.spec.axis, None
        only = None if key is None else self._reader.key(key)
        if only is not None and len(only.columns):
            owner = key_state.bucket_of(self.spec, only)
        return position("start", start, axis), position("end", end, axis), only, owner


class OpenLocalJoin:
    """The messages that a join keeps at its newest batch; made by `open_state`.

    Attributes:
        batch: The batch.
        spec: The join, as the checkpoint remembers it.
    """

    def __init__(self, opened: OperatorState, spec: JoinSpec) -> None:
        self.batch = opened.batch
        self.spec = spec
        self._opened = opened

    def __repr__(self) -> str:
        return f"<{self.spec.title} at batch {self.batch}>"

    @property
    def counts(self) -> dict[str, int]:
        """Messages since the checkpoint began, by what became of them."""
        return self._opened.counts

    def fetch(
        self, side: SideName, key: Any = None, *, start: Position = None, end: Position = None
    ) -> pl.DataFrame:
        """The messages of one side that may still find partners.

        Args:
            side: `left` or `right`.
            key: Only those with these values in the columns that the join compares.
            start: Only those from this position on.
            end: Only those up to this position, included.

        Returns:
            The side's own columns, and `waits`: whether the message waits for its policy to be let
            in. By time, then arrival.

        Raises:
            OptionError: When there is no such side, or the key or positions can't be its own.
        """
        if side not in SIDES:
            raise OptionError("side", side, "isn't one", f"give one of {', '.join(SIDES)}")
        own, types = self.spec.side(side), types_of(self.spec.side(side).types)
        only, owner = None, None
        if key is not None:
            only = key_of(own.keys, types, key)
            owner = int(assign_shards(only, only.columns, len(self._opened.manifests))[0])
            only = only.rename(dict(zip(only.columns, own.keys, strict=True)))
        engine = {columns.TIME: pl.Int64(), ID: pl.Int64(), WAITS: pl.Boolean()}
        rows = pl.DataFrame(schema={**types, **engine})
        for shard, manifest in self._opened.read.items():
            if owner in (None, shard):
                numbers = kept_messages(manifest, side)[0]
                frames = kept_messages(manifest, side, self._opened.blobs(shard, numbers))[1]
                frames = [frame.drop(MATCHED, strict=False) for frame in frames]
                rows = pl.concat([rows, *frames], how="diagonal").select(rows.columns)
        if only is not None:
            rows = join_null_safe(rows, only, own.keys, "semi")
        low, high = (position("start", start, self.spec.axis), position("end", end, self.spec.axis))
        if low is not None:
            rows = rows.filter(pl.col(columns.TIME) >= low)
        if high is not None:
            rows = rows.filter(pl.col(columns.TIME) <= high)
        return rows.sort(columns.TIME, ID).select(*types, WAITS)
