"""State of a query read from outside, while it runs: ``open_state``.

Source: the Samza SQL window operator design (reading window state); KIP-94's ``fetch(key)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from os import PathLike
from typing import Any

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from muntin.engine import columns, key_state
from muntin.engine.state_reader import StateReader
from muntin.model.aggregates import Aggregate
from muntin.model.axis import as_datetime, position
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.model.recall import with_functions
from muntin.model.spec import WindowSpec
from muntin.spark.host.checkpoint import Checkpoint, spec_of
from muntin.spark.host.schema import result_schema
from muntin.spark.host.shards import slots
from muntin.spark.inspect.joins import OpenJoin
from muntin.spark.inspect.reader import StateView, changed, fetched, framed
from muntin.state.manifest import parse_manifest

Given = datetime | str | int | None
"""A time, as a datetime (a naive one is UTC) or ISO 8601; on the rows axis an offset."""


def open_state(
    checkpoint: str | PathLike[str],
    *,
    batch: int | None = None,
    aggregates: Mapping[str, Aggregate] | None = None,
    operator: int = 0,
    spark: SparkSession | None = None,
) -> OpenWindows | OpenJoin:
    """Read the state of a query on Spark; ``muntin.open_state`` says what each option means."""
    opened = Checkpoint(active(spark), checkpoint, batch, operator)
    spec = spec_of(opened)
    if isinstance(spec, JoinSpec):
        return OpenJoin(opened, spec)
    return OpenWindows(opened, with_functions(spec, aggregates or {}))


def active(spark: SparkSession | None) -> SparkSession:
    """The session that was given, the active one, or a new one."""
    from muntin.spark.session import session

    return spark or SparkSession.getActiveSession() or session()


class OpenWindows:
    """The windows or sessions of a query at one batch; made by ``open_state``.

    Attributes:
        batch: The batch.
        spec: The query, as the checkpoint remembers it.
    """

    def __init__(self, opened: Checkpoint, spec: WindowSpec) -> None:
        self.checkpoint = opened
        self.batch = opened.batch
        self.spec = spec
        self._reader = StateReader(self.spec)

    def __repr__(self) -> str:
        return f"<{self.spec.title} at batch {self.batch}>"

    @cached_property
    def schema(self) -> StructType:
        """The columns of windows: those of results but ``emission`` and ``revision``."""
        empty = pl.DataFrame(schema=self._reader.types)
        source = from_arrow_schema(empty.to_arrow().schema)
        whole = result_schema(source, self._reader.combiner)
        return StructType(whole.fields[:-2])

    @property
    def watermark(self) -> datetime | None:
        """The watermark in force; ``None`` before the first message, and on the rows axis."""
        marks = [m.watermark for m in self.checkpoint.read.values() if m.watermark is not None]
        return as_datetime(max(marks)) if marks else None

    @property
    def counts(self) -> dict[str, int]:
        """Messages since the checkpoint began, by what became of them."""
        return self.checkpoint.counts

    def fetch(self, key: Any = None, *, start: Given = None, end: Given = None) -> pl.DataFrame:
        """The windows (or sessions) within retention, as a Polars frame.

        Args:
            key: Only those of this key; a tuple, or a dictionary by column, where it has several,
                or its one column is NULL: ``(None,)``.
            start: Only those that reach beyond this place.
            end: Only those that begin there or before.

        Returns:
            The keys, ``window_start``, ``window_end`` and the aggregates as they are now, by
            window start, then key.

        Raises:
            OptionError: When the key or the places can't be this query's.
        """
        return fetched(self.checkpoint, self._view(key, start, end))

    def frame(self, key: Any = None, *, start: Given = None, end: Given = None) -> DataFrame:
        """Return the windows as a Spark DataFrame that workers read, in no order."""
        return framed(self.checkpoint, self._view(key, start, end))

    def windows(self, key: Any, *, start: Given = None, end: Given = None) -> pl.DataFrame:
        """Return the windows of a key: their bounds, messages and emissions.

        Args:
            key: The key.
            start: Only windows that reach beyond this place.
            end: Only those that begin there or before.

        Returns:
            ``window_start``, ``window_end``, ``messages``, ``fired`` (how often it has),
            ``late`` (messages that came late), ``unemitted`` (messages that wait for their policy),
            and the ``stage``: ``current``, ``past`` (takes late messages), ``closed`` (is kept,
            but how often it fired may be forgotten: null) or ``expired`` (isn't kept, so nothing
            is known of it, though other windows still need some of its messages).

        Raises:
            OptionError: When the windows are measured in rows, or the key isn't one.
        """
        spec = self.spec
        if spec.axis == "rows":
            hint = "use fetch(): partitions have no watermark in common"
            raise OptionError("windows", str(spec.windows), "aren't measured in time", hint)
        low, high, only, shard = self._asked(key, start, end)
        named = only if only is not None else pl.DataFrame()
        seen = [pl.DataFrame(schema=key_state.SEEN)]
        for slot, manifest in self.checkpoint.read.items():
            if shard not in (None, slot):
                continue
            numbers = key_state.wanted(spec, manifest.tables, low, high)
            asked = {slot: [n for mine in numbers.values() for n in mine]}
            blobs = self.checkpoint.blobs(asked)[slot]
            seen.append(key_state.known(spec, numbers, blobs, named, (low, high), manifest))
        bounds = pl.col(columns.WINDOW_START, columns.WINDOW_END)
        frame = pl.concat(seen).sort(columns.WINDOW_START, columns.WINDOW_END)
        return frame.with_columns(bounds.cast(pl.Datetime("us", "UTC")))

    def changes(self, since: int) -> pl.DataFrame:
        """Return the changes since an earlier batch, from the change feed of the state.

        Args:
            since: The number of that batch.

        Returns:
            The columns of ``fetch`` and ``change``: ``new`` or ``changed`` windows as they are now,
            and ``gone`` for a session that has grown into another, as it was. What only expired
            isn't shown.

        Raises:
            OptionError: When the batch isn't kept, or the state store keeps no changes.
        """
        return changed(self.checkpoint, self._view(), since)

    def _view(self, *asked: Any) -> StateView:
        low, high, only, slot = self._asked(*asked)
        order = [columns.WINDOW_START, *self.spec.keys, columns.WINDOW_END]
        reader = self._reader
        return StateView(
            self.schema,
            reader.nothing,
            order,
            lambda manifest: reader.wanted(manifest, low, high),
            partial(reader.snapshot, start=low, end=high, only=only),
            order,
            slot,
            partial(_touched, reader),
            _judged,
        )

    def _asked(
        self, key: Any = None, start: Given = None, end: Given = None
    ) -> tuple[int | None, int | None, pl.DataFrame | None, int | None]:
        """Return the bounds of a range, the keys to read, and the slot of their shard."""
        axis, slot = self.spec.axis, None
        only = None if key is None else self._reader.key(key)
        if only is not None and len(only.columns):
            slot = slots(self.spec.buckets or 1)[key_state.bucket_of(self.spec, only)]
        ends = position("start", start, axis), position("end", end, axis)
        return *ends, only, slot


def _touched(reader: StateReader, view: StateView, written: Sequence[bytes]) -> StateView | None:
    only = reader.touched(written)
    return None if only is None else replace(view, rows=partial(reader.snapshot, only=only))


def _judged(then: str, now: str) -> str:
    return replace(parse_manifest(then), watermark=parse_manifest(now).watermark).dumps()
