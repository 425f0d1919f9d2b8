"""State of a query read from outside, while it runs: ``open_state``.

Source: the Samza SQL window operator design (reading window state); KIP-94's ``fetch(key)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from muntin.engine import columns, witness
from muntin.engine.reading import Reading, differences
from muntin.model.aggregates import Aggregate
from muntin.model.axis import Axis, instant
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.model.recall import with_functions
from muntin.model.spec import WindowSpec
from muntin.spark.host.checkpoint import Checkpoint, spec_of
from muntin.spark.host.internals.versions import arrow_schema
from muntin.spark.host.schema import result_schema, to_batches
from muntin.spark.host.shards import slots
from muntin.spark.host.state import MANIFEST
from muntin.spark.inspect.joins import OpenJoin
from muntin.state.manifest import loads

Place = datetime | str | int | None
"""A time, as a datetime (a naive one is UTC) or ISO 8601; on the rows axis an offset."""


def open_state(
    checkpoint: str,
    *,
    batch: int | None = None,
    aggregates: Mapping[str, Aggregate] | None = None,
    spark: SparkSession | None = None,
) -> OpenWindows | OpenJoin:
    """Read the state of a query from outside, while it runs or after.

    What is read is a snapshot of one committed batch: whatever the query commits afterwards
    doesn't show. Each read is a Spark job of about a second.

    Args:
        checkpoint: The folder that the query was started with.
        batch: The number of a batch that is still kept (Spark keeps a hundred); the newest
            committed one where it isn't given.
        aggregates: The aggregates that run functions of yours, by output name, as the query has
            them: code isn't kept in state.
        spark: The session; the active one, or a new ``muntin.session()``.

    Returns:
        The windows or sessions of an aggregation, or the messages that a join keeps.

    Raises:
        OptionError: When the folder is no checkpoint of windows, has no such batch, or was written
            by another version.

    Example:
        >>> state = open_state("checkpoints/late_flights")  # doctest: +SKIP
        >>> state.fetch("AA", start="2013-01-01 09:00")  # doctest: +SKIP
    """
    opened = Checkpoint(active(spark), checkpoint, batch)
    spec = spec_of(opened)
    if isinstance(spec, JoinSpec):
        return OpenJoin(opened, spec)
    return OpenWindows(opened, with_functions(spec, aggregates or {}))


def active(spark: SparkSession | None) -> SparkSession:
    """The session that was given, the active one, or a new one."""
    from muntin.spark.session import session

    return spark or SparkSession.getActiveSession() or session()


def place(option: str, given: Place, axis: Axis) -> int | None:
    """A place on the axis.

    Raises:
        OptionError: When it is none.
    """
    if given is None:
        return None
    if axis == "time":
        return instant(option, given)  # type: ignore[arg-type]
    if isinstance(given, int):
        return given
    raise OptionError(option, given, "is no offset", "give a whole number")


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
        self._reading = Reading(self.spec)
        self._slots = slots(spec.buckets or 1)

    def __repr__(self) -> str:
        return f"<{self.spec.windows} by {', '.join(self.spec.keys)} at batch {self.batch}>"

    @cached_property
    def schema(self) -> StructType:
        """The columns of windows: those of results but ``emission`` and ``revision``."""
        empty = pl.DataFrame(schema=self._reading.types)
        source = from_arrow_schema(empty.to_arrow().schema)
        whole = result_schema(source, self._reading.combiner)
        return StructType(whole.fields[:-2])

    @property
    def watermark(self) -> datetime | None:
        """The watermark in force; ``None`` before the first message, and on the rows axis."""
        marks = [m.watermark for m in self.checkpoint.read.values() if m.watermark is not None]
        return moment(max(marks)) if marks else None

    @property
    def counts(self) -> dict[str, int]:
        """Messages since the checkpoint began, by what became of them."""
        return self.checkpoint.counts

    def fetch(self, key: Any = None, *, start: Place = None, end: Place = None) -> pl.DataFrame:
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
        low, high, only = self._asked(key, start, end)
        return self._typed(self._held(self._manifests(only), None, low, high, only))

    def frame(self, key: Any = None, *, start: Place = None, end: Place = None) -> DataFrame:
        """The same as a Spark DataFrame, put together by the workers, in no order."""
        low, high, only = self._asked(key, start, end)
        texts = self._manifests(only)
        wanted = self._wanted(texts, low, high)
        numbers = [MANIFEST, *(n for mine in wanted.values() for n in mine)]
        asked = F.col("slot").isin(list(texts)) & F.col("number").isin(numbers)
        reading, schema = self._reading, self.schema

        def emitted(table: pa.Table) -> pa.Table:
            rows = zip(table["number"].to_pylist(), table["blob"].to_pylist(), strict=True)
            blobs = dict(rows)
            held = reading.snapshot(blobs.pop(MANIFEST).decode(), blobs, low, high, only)
            return _table(held, schema)

        return self.checkpoint.state().where(asked).groupBy("slot").applyInArrow(emitted, schema)

    def windows(self, key: Any, *, start: Place = None, end: Place = None) -> pl.DataFrame:
        """What is known of the windows of a key: when, how many messages, how often they emitted.

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
        low, high, only = self._asked(key, start, end)
        named = only if only is not None else pl.DataFrame()
        seen = [pl.DataFrame(schema=witness.SEEN)]
        for slot, text in self._manifests(only).items():
            manifest = loads(text)
            numbers = witness.wanted(spec, manifest.tables, low, high)
            asked = {slot: [n for mine in numbers.values() for n in mine]}
            blobs = self.checkpoint.blobs(asked)[slot]
            seen.append(witness.known(spec, numbers, blobs, named, (low, high), manifest))
        bounds = pl.col(columns.WINDOW_START, columns.WINDOW_END)
        frame = pl.concat(seen).sort(columns.WINDOW_START, columns.WINDOW_END)
        return frame.with_columns(bounds.cast(pl.Datetime("us", "UTC")))

    def changes(self, since: int) -> pl.DataFrame:
        """What has changed since an earlier batch, found by the change feed of the state.

        Args:
            since: The number of that batch.

        Returns:
            The columns of ``fetch`` and ``change``: ``new`` or ``changed`` windows as they are now,
            and ``gone`` for a session that has grown into another, as it was. What only expired
            isn't shown.

        Raises:
            OptionError: When the batch isn't kept, or the state store keeps no changes.
        """
        opened = self.checkpoint
        opened.earlier(since)
        upstream = opened.upstream(since)
        then = opened.texts(since)
        found = [self._reading.nothing.with_columns(change=pl.lit(""))]
        for slot, written in upstream.items():
            only = self._reading.touched(written)
            if only is None:
                continue
            text = opened.manifests[slot]
            now = self._held({slot: text}, None, None, None, only)
            # Judged by the clock of now, so that what has merely expired is no change.
            old = _with_watermark(then[slot], text) if slot in then else None
            before = (
                now.clear() if old is None else self._held({slot: old}, since, None, None, only)
            )
            identity = [*self.spec.keys, columns.WINDOW_START, columns.WINDOW_END]
            found.append(differences(before, now, identity))
        whole = pl.concat(found).sort(columns.WINDOW_START, *self.spec.keys, columns.WINDOW_END)
        return self._typed(whole.drop("change")).with_columns(whole["change"])

    def _asked(
        self, key: Any, start: Place, end: Place
    ) -> tuple[int | None, int | None, pl.DataFrame | None]:
        axis = self.spec.axis
        only = None if key is None else self._reading.key(key)
        return place("start", start, axis), place("end", end, axis), only

    def _manifests(self, only: pl.DataFrame | None) -> dict[int, str]:
        """The manifests of the shards that hold a key, or of all."""
        texts = self.checkpoint.manifests
        if only is None or not len(only.columns):
            return texts
        slot = self._slots[self._reading.bucket(only)]
        return {slot: texts[slot]} if slot in texts else {}

    def _wanted(
        self, texts: Mapping[int, str], low: int | None, high: int | None
    ) -> dict[int, list[int]]:
        return {slot: self._reading.wanted(loads(text), low, high) for slot, text in texts.items()}

    def _held(
        self,
        texts: Mapping[int, str],
        batch: int | None,
        low: int | None,
        high: int | None,
        only: pl.DataFrame | None,
    ) -> pl.DataFrame:
        """What the windows of some shards hold."""
        blobs = self.checkpoint.blobs(self._wanted(texts, low, high), batch)
        held = [
            self._reading.snapshot(text, blobs[slot], low, high, only)
            for slot, text in texts.items()
        ]
        held.append(self._reading.nothing)
        whole = pl.concat(held)
        return whole.sort(columns.WINDOW_START, *self.spec.keys, columns.WINDOW_END)

    def _typed(self, held: pl.DataFrame) -> pl.DataFrame:
        frame = pl.from_arrow(_table(held, self.schema))
        assert isinstance(frame, pl.DataFrame)
        return frame


def moment(micros: int) -> datetime:
    """A time in UTC."""
    found: datetime = pl.Series([micros]).cast(pl.Datetime("us", "UTC")).to_list()[0]
    return found


def _table(held: pl.DataFrame, schema: StructType) -> pa.Table:
    arrow = arrow_schema(schema)
    return pa.Table.from_batches(to_batches(held, schema), schema=arrow)


def _with_watermark(then: str, now: str) -> str:
    return replace(loads(then), watermark=loads(now).watermark).dumps()
