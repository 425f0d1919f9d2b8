"""Reads the state of a join from another process: the stored messages of each side."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import ID
from muntin.engine.state_reader import (
    CHANGE,
    MATCHED,
    NEW,
    WAITS,
    make_key,
    parse_types,
    read_side_messages,
)
from muntin.hosts.inspect.snapshot import OpenState, StateSnapshot, StateView
from muntin.hosts.inspect.windows import StatePosition
from muntin.model.axis import read_position, to_datetime
from muntin.model.bounds import SideName
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec
from muntin.state.hashing import assign_shards
from muntin.state.lookup import join_null_safe
from muntin.state.manifest import parse_manifest


class OpenJoin(OpenState[JoinSpec]):
    """The stored messages of a join as of one batch, as `open_state` returns them."""

    def __init__(self, snapshot: StateSnapshot, spec: JoinSpec) -> None:
        super().__init__(snapshot, spec)
        self._types = {side: parse_types(spec.side(side).types) for side in SIDES}

    @property
    def watermarks(self) -> dict[SideName, datetime | None]:
        """The watermark of each side; `None` before its first message."""
        watermarks: dict[SideName, datetime | None] = {}
        for side in SIDES:
            by_shard = [
                m.extra.get("marks", {}) for m in self.checkpoint.manifest_by_shard.values()
            ]
            present = [mark[side] for mark in by_shard if mark.get(side) is not None]
            watermarks[side] = to_datetime(max(present)) if present else None
        return watermarks

    def fetch(
        self,
        side: SideName,
        key: Any = None,
        *,
        start: StatePosition = None,
        end: StatePosition = None,
    ) -> pl.DataFrame:
        """Return the messages of one side that may still find partners, as a Polars frame.

        Args:
            side: `left` or `right`.
            key: Only return messages with these values in the columns that the join compares.
            start: Only return messages from this position on: an event time, or a row number where
                the join counts rows.
            end: Only return messages up to this position, included.

        Returns:
            The side's own columns, and `waits`: whether the message waits for the join's policy.
            Ordered by time, then arrival.

        Raises:
            OptionError: When the side, the key or a position isn't valid.
        """
        return self.checkpoint.fetch(self._make_view(side, key, start, end))

    def read_messages(self, side: SideName, key: Any) -> pl.DataFrame:
        """Return messages with the engine's columns: position, and whether it has partners."""
        return self.checkpoint.read_rows(self._make_view(side, key, partners=True))

    def frame(self, side: SideName, key: Any = None) -> Any:
        """Return the messages as a frame of the host, in no order.

        On Spark it is a DataFrame that workers read; on the local host a Polars frame.
        """
        return self.checkpoint.frame(self._make_view(side, key))

    def find_shard(self, key: Any, side: SideName = "left") -> int:
        """Return the number of the shard that owns a key."""
        keys = make_key(self.spec.side(side).keys, self._types[side], key)
        shards = self.spec.shards or 1
        return self.checkpoint.number_shards(shards)[
            int(assign_shards(keys, keys.columns, shards)[0])
        ]

    def schema(self, side: SideName) -> Any:
        """Return the columns of one side's messages."""
        return self._make_view(side).schema

    def changes(self, side: SideName, since: int) -> pl.DataFrame:
        """Return the messages of a side that arrived after an earlier batch and are still stored.

        Args:
            side: `left` or `right`.
            since: The number of that batch.

        Returns:
            The columns of `fetch`.

        Raises:
            OptionError: When the batch isn't stored any more.
        """
        changes = self.checkpoint.changes(self._make_view(side), since)
        return changes.filter(pl.col(CHANGE) == NEW).drop(CHANGE)

    def _make_view(
        self,
        side: SideName,
        key: Any = None,
        start: Any = None,
        end: Any = None,
        *,
        partners: bool = False,
    ) -> StateView:
        if side not in SIDES:
            raise OptionError("side", side, "isn't a side", f"give one of {', '.join(SIDES)}")
        types, side_spec, keys, owner = self._types[side], self.spec.side(side), None, None
        engine_columns = {columns.TIME: pl.Int64(), ID: pl.Int64()}
        flags = dict.fromkeys([WAITS, MATCHED], pl.Boolean())
        empty = pl.DataFrame(schema={**types, **engine_columns, **flags})
        if key is not None:
            keys, owner = make_key(side_spec.keys, types, key), self.find_shard(key, side)
            keys = keys.rename(dict(zip(keys.columns, side_spec.keys, strict=True)))
        bounds, position = [], pl.col(columns.TIME)
        if (low := read_position("start", start, self.spec.axis)) is not None:
            bounds.append(position >= low)
        if (high := read_position("end", end, self.spec.axis)) is not None:
            bounds.append(position <= high)

        def read_rows(manifest: str, blobs: Mapping[int, bytes]) -> pl.DataFrame:
            frames = read_side_messages(parse_manifest(manifest), side, blobs, partners=partners)[1]
            messages = pl.concat([empty, *frames], how="diagonal").select(empty.columns)
            messages = (
                messages if keys is None else join_null_safe(messages, keys, side_spec.keys, "semi")
            )
            return messages.filter(*bounds) if bounds else messages

        # On the rows axis, numbers of messages are only unique within a partition.
        identity = [ID, *(side_spec.offset or ())[:1]]
        return StateView(
            self.checkpoint.message_schema(types, WAITS),
            empty,
            identity,
            lambda manifest: read_side_messages(manifest, side, partners=partners)[0],
            read_rows,
            (columns.TIME, ID),
            owner,
        )
