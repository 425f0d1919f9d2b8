"""The state of a join read from outside: the messages that it keeps of either side."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BooleanType, StructField, StructType

from muntin.engine import columns
from muntin.engine.joins.joiner import ID
from muntin.engine.state_reader import CHANGE, MATCHED, NEW, WAITS, kept_messages, key_of, types_of
from muntin.model.axis import as_datetime, position
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec, SideName
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.shards import slots
from muntin.spark.inspect.reader import StateView, changed, fetched, framed, held
from muntin.state.lookup import join_null_safe
from muntin.state.manifest import parse_manifest
from muntin.state.shards import assign_shards


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

    def __repr__(self) -> str:
        return f"<{self.spec.title} at batch {self.batch}>"

    @property
    def watermarks(self) -> dict[SideName, datetime | None]:
        """The watermark of each side; ``None`` before its first message."""
        found: dict[SideName, datetime | None] = {}
        for side in SIDES:
            marks = [m.extra.get("marks", {}) for m in self.checkpoint.read.values()]
            known = [mark[side] for mark in marks if mark.get(side) is not None]
            found[side] = as_datetime(max(known)) if known else None
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
        return fetched(self.checkpoint, self._view(side, key, start, end))

    def held(self, side: SideName, key: Any) -> pl.DataFrame:
        """Return messages with the engine's columns: position, and whether it has partners."""
        return held(self.checkpoint, self._view(side, key, partners=True))

    def frame(self, side: SideName, key: Any = None) -> DataFrame:
        """Return the messages as a Spark DataFrame, in no order."""
        return framed(self.checkpoint, self._view(side, key))

    def slot(self, key: Any, side: SideName = "left") -> int:
        """The slot of the shard that owns a key."""
        only = key_of(self.spec.side(side).keys, self._types[side], key)
        shards = self.spec.buckets or 1
        return slots(shards)[int(assign_shards(only, only.columns, shards)[0])]

    def schema(self, side: SideName) -> StructType:
        """The columns of one side's messages."""
        return self._view(side).schema

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
        found = changed(self.checkpoint, self._view(side), since)
        return found.filter(pl.col(CHANGE) == NEW).drop(CHANGE)

    def _view(
        self,
        side: SideName,
        key: Any = None,
        start: Any = None,
        end: Any = None,
        *,
        partners: bool = False,
    ) -> StateView:
        if side not in SIDES:
            raise OptionError("side", side, "isn't one", f"give one of {', '.join(SIDES)}")
        types, own, only, slot = self._types[side], self.spec.side(side), None, None
        fields = from_arrow_schema(pl.DataFrame(schema=types).to_arrow().schema).fields
        schema = StructType([*fields, StructField(WAITS, BooleanType(), False)])
        beside = {columns.TIME: pl.Int64(), ID: pl.Int64()}
        flags = dict.fromkeys([WAITS, MATCHED], pl.Boolean())
        nothing = pl.DataFrame(schema={**types, **beside, **flags})
        if key is not None:
            only, slot = key_of(own.keys, types, key), self.slot(key, side)
            only = only.rename(dict(zip(only.columns, own.keys, strict=True)))
        inside, place = [], pl.col(columns.TIME)
        if (low := position("start", start, self.spec.axis)) is not None:
            inside.append(place >= low)
        if (high := position("end", end, self.spec.axis)) is not None:
            inside.append(place <= high)

        def rows(manifest: str, blobs: Mapping[int, bytes]) -> pl.DataFrame:
            frames = kept_messages(parse_manifest(manifest), side, blobs, partners=partners)[1]
            found = pl.concat([nothing, *frames], how="diagonal").select(nothing.columns)
            found = found if only is None else join_null_safe(found, only, own.keys, "semi")
            return found.filter(*inside) if inside else found

        # On the rows axis each partition numbers its own.
        identity = [ID, *(own.offset or ())[:1]]
        return StateView(
            schema,
            nothing,
            identity,
            lambda manifest: kept_messages(manifest, side, partners=partners)[0],
            rows,
            (columns.TIME, ID),
            slot,
        )
