"""The state of a join read from outside: the messages that it keeps of either side."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BooleanType, StructField, StructType

from muntin.engine import columns
from muntin.engine.joins.joiner import ID
from muntin.engine.reading import kept_messages, key_of, types_of
from muntin.model.axis import instant
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec, SideName
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.internals.versions import arrow_schema
from muntin.spark.host.schema import to_batches
from muntin.spark.host.shards import slots
from muntin.spark.host.state import MANIFEST
from muntin.state.manifest import loads
from muntin.state.shards import owners

WAITS = "waits"


class OpenJoin:
    """The messages that a join keeps at one batch; made by ``open_state``.

    Attributes:
        batch: The batch.
        spec: The join, as the checkpoint remembers it.
    """

    def __init__(self, opened: Checkpoint, spec: JoinSpec) -> None:
        self.checkpoint = opened
        self.batch = opened.batch
        self.spec = spec
        self._types = {side: types_of(spec.side(side).types) for side in SIDES}
        self._slots = slots(spec.buckets or 1)

    def __repr__(self) -> str:
        return f"<{self.spec.how} join {self.spec.bound} at batch {self.batch}>"

    @property
    def watermarks(self) -> dict[SideName, datetime | None]:
        """The watermark of each side; ``None`` before its first message."""
        found: dict[SideName, datetime | None] = {}
        for side in SIDES:
            marks = [m.extra.get("marks", {}) for m in self.checkpoint.read.values()]
            known = [mark[side] for mark in marks if mark.get(side) is not None]
            times = pl.Series([max(known)] if known else [None], dtype=pl.Datetime("us", "UTC"))
            found[side] = times[0]
        return found

    def fetch(
        self,
        side: SideName,
        key: Any = None,
        *,
        start: datetime | str | int | None = None,
        end: datetime | str | int | None = None,
    ) -> pl.DataFrame:
        """The messages of one side that may still find partners, as a Polars frame.

        Args:
            side: ``left`` or ``right``.
            key: Only those with these values in the columns that the join compares.
            start: Only those from this place on: an event time, or a row where the join counts.
            end: Only those up to this place, included.

        Returns:
            The side's own columns, and ``waits``: whether the message waits for its policy to be
            let in. By time, then arrival.

        Raises:
            OptionError: When there is no such side, or the key or places can't be its own.
        """
        only = self._key(side, key)
        wanted = {
            slot: kept_messages(self.checkpoint.read[slot], side)[0] for slot in self._of(only)
        }
        blobs = self.checkpoint.blobs(wanted)
        frames = [
            frame
            for slot, mine in blobs.items()
            for frame in kept_messages(self.checkpoint.read[slot], side, mine)[1]
        ]
        rows = pl.concat([self._nothing(side), *frames], how="diagonal")
        low, high = _place("start", start), _place("end", end)
        rows = _within(rows, self._keys(side), only, low, high).sort(columns.TIME, ID)
        return rows.select(*self._types[side], WAITS)

    def frame(self, side: SideName, key: Any = None) -> DataFrame:
        """The same as a Spark DataFrame, in no order."""
        only = self._key(side, key)
        here, schema = self._of(only), self.schema(side)
        arrow = arrow_schema(schema)
        manifests = {slot: self.checkpoint.read[slot] for slot in here}
        numbers = [n for m in manifests.values() for n in kept_messages(m, side)[0]]
        asked = F.col("slot").isin(here) & F.col("number").isin([MANIFEST, *numbers])
        nothing, keys = self._nothing(side), self._keys(side)

        def emitted(table: pa.Table) -> pa.Table:
            rows = zip(table["number"].to_pylist(), table["blob"].to_pylist(), strict=True)
            blobs = dict(rows)
            frames = kept_messages(manifests[table["slot"][0].as_py()], side, blobs)[1]
            kept = _within(pl.concat([nothing, *frames], how="diagonal"), keys, only)
            return pa.Table.from_batches(to_batches(kept, schema), schema=arrow)

        return self.checkpoint.state().where(asked).groupBy("slot").applyInArrow(emitted, schema)

    def schema(self, side: SideName) -> StructType:
        """The columns of one side's messages."""
        empty = pl.DataFrame(schema=self._types[side])
        fields = from_arrow_schema(empty.to_arrow().schema).fields
        return StructType([*fields, StructField(WAITS, BooleanType(), False)])

    def changes(self, side: SideName, since: int) -> pl.DataFrame:
        """The messages of a side that came after an earlier batch and are kept.

        Args:
            side: ``left`` or ``right``.
            since: The number of that batch.

        Returns:
            The columns of ``fetch``.

        Raises:
            OptionError: When the batch isn't kept.
        """
        self._known(side)
        opened = self.checkpoint
        opened.earlier(since)
        upstream = opened.upstream(since)
        then = {slot: loads(text) for slot, text in opened.texts(since).items()}
        found = [self._nothing(side)]
        for slot in upstream:
            numbers = kept_messages(opened.read[slot], side)[0]
            blobs = opened.blobs({slot: numbers})[slot]
            found += kept_messages(opened.read[slot], side, blobs, then.get(slot))[1]
        rows = pl.concat(found, how="diagonal").sort(columns.TIME, ID)
        return rows.select(*self._types[side], WAITS)

    def _known(self, side: SideName) -> None:
        if side not in SIDES:
            raise OptionError("side", side, "isn't one", f"give one of {', '.join(SIDES)}")

    def _key(self, side: SideName, key: Any) -> pl.DataFrame | None:
        self._known(side)
        return None if key is None else key_of(self._keys(side), self._types[side], key)

    def _keys(self, side: SideName) -> tuple[str, ...]:
        return self.spec.side(side).keys

    def _of(self, only: pl.DataFrame | None) -> list[int]:
        """The slots of the shards that hold a key, or all."""
        if only is None:
            return list(self.checkpoint.read)
        slot = self._slots[int(owners(only, only.columns, len(self._slots))[0])]
        return [slot] if slot in self.checkpoint.read else []

    def _nothing(self, side: SideName) -> pl.DataFrame:
        own = {columns.TIME: pl.Int64(), ID: pl.Int64(), WAITS: pl.Boolean()}
        return pl.DataFrame(schema={**self._types[side], **own})


def _within(
    rows: pl.DataFrame,
    keys: Sequence[str],
    only: pl.DataFrame | None,
    low: int | None = None,
    high: int | None = None,
) -> pl.DataFrame:
    if only is not None:
        named = dict(zip(only.columns, keys, strict=True))
        rows = rows.join(only.rename(named), on=list(keys), how="semi")
    if low is not None:
        rows = rows.filter(pl.col(columns.TIME) >= low)
    return rows if high is None else rows.filter(pl.col(columns.TIME) <= high)


def _place(option: str, given: Any) -> int | None:
    if given is None or isinstance(given, int):
        return given
    return instant(option, given)
