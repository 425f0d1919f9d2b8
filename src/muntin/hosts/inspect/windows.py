"""Reads the windows of a query from another process while it runs, for `open_state`.

Source: the Samza SQL window operator design (reading window state); KIP-94's `fetch(key)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any

import polars as pl

from muntin.engine import columns, key_state
from muntin.engine.state_reader import StateReader
from muntin.hosts.inspect.snapshot import OpenState, StateSnapshot, StateView
from muntin.model.axis import read_position, to_datetime
from muntin.model.errors import OptionError
from muntin.model.spec import WindowSpec
from muntin.state.manifest import parse_manifest

StatePosition = datetime | str | int | None
"""A time, as a datetime (a naive one is UTC) or ISO 8601; on the rows axis an offset."""


class OpenWindows(OpenState[WindowSpec]):
    """The windows or sessions of a query at one batch, as `open_state` returns them."""

    def __init__(self, snapshot: StateSnapshot, spec: WindowSpec) -> None:
        super().__init__(snapshot, spec)
        self._reader = StateReader(spec)

    @cached_property
    def schema(self) -> Any:
        """The columns of windows: those of results without `emission` and `revision`."""
        return self.checkpoint.window_schema(self._reader)

    @property
    def watermark(self) -> datetime | None:
        """The watermark in force; `None` before the first message, and on the rows axis."""
        watermark = self.checkpoint.watermark
        return None if watermark is None else to_datetime(watermark)

    def fetch(
        self, key: Any = None, *, start: StatePosition = None, end: StatePosition = None
    ) -> pl.DataFrame:
        """Return the windows (or sessions) within retention, as a Polars frame.

        Args:
            key: Only return windows of this key. Give a tuple or a dictionary by column for several
                columns, and `(None,)` for a single NULL.
            start: Only return windows that end after this position.
            end: Only return windows that begin at this position or before.

        Returns:
            The keys, `window_start`, `window_end` and the current aggregates, by window start, then
            key.

        Raises:
            OptionError: When the key or a position isn't valid for this query.
        """
        return self.checkpoint.fetch(self._view(key, start, end))

    def frame(
        self, key: Any = None, *, start: StatePosition = None, end: StatePosition = None
    ) -> Any:
        """Return the windows as a frame of the host, in no order.

        On Spark it is a DataFrame that workers read; on the local host a Polars frame.
        """
        return self.checkpoint.frame(self._view(key, start, end))

    def windows(
        self, key: Any, *, start: StatePosition = None, end: StatePosition = None
    ) -> pl.DataFrame:
        """Return the windows of a key: their bounds, messages and emissions.

        Args:
            key: The key.
            start: Only return windows that end after this position.
            end: Only return windows that begin at this position or before.

        Returns:
            `window_start`, `window_end`, `messages`, `fired` (the number of emissions), `late` (the
            number of late messages), `unemitted` (the number of messages that wait for their
            policy), and the `stage`: `current`; `past` (takes late messages); `closed` (is within
            retention, but `fired` may be null) or `expired` (has no state of its own, though other
            windows still need some of its messages).

        Raises:
            OptionError: When the windows are measured in rows, or the key isn't valid.
        """
        spec = self.spec
        if spec.axis == "rows":
            hint = "use fetch(): partitions have no watermark in common"
            raise OptionError("windows", str(spec.windows), "aren't measured in time", hint)
        low, high, only, owner = self._range(key, start, end)
        named = only if only is not None else pl.DataFrame()
        frames = [pl.DataFrame(schema=key_state.KEY_WINDOWS)]
        for shard, manifest in self.checkpoint.manifest_by_shard.items():
            if owner not in (None, shard):
                continue
            own, part = key_state.select_part(spec, manifest, named)
            numbers = key_state.find_blobs(own, part.tables, low, high)
            wanted = {shard: [n for mine in numbers.values() for n in mine]}
            blobs = self.checkpoint.read_blobs(wanted)[shard]
            frames.append(key_state.list_key_windows(own, numbers, blobs, named, (low, high), part))
        bounds = pl.col(columns.WINDOW_START, columns.WINDOW_END)
        frame = pl.concat(frames).sort(columns.WINDOW_START, columns.WINDOW_END)
        return frame.with_columns(bounds.cast(pl.Datetime("us", "UTC")))

    def changes(self, since: int) -> pl.DataFrame:
        """Return the changes since an earlier batch, from the change feed of the state.

        Args:
            since: The number of that batch.

        Returns:
            The columns of `fetch` and `change`: current rows of `new` or `changed` windows, and
            `gone` with the earlier row of a session that was merged into another. Windows that only
            expired aren't included.

        Raises:
            OptionError: When the batch isn't stored any more, or the state store keeps no changes.
        """
        return self.checkpoint.changes(self._view(), since)

    def _view(
        self, key: Any = None, start: StatePosition = None, end: StatePosition = None
    ) -> StateView:
        low, high, only, owner = self._range(key, start, end)
        order = [columns.WINDOW_START, *self.spec.keys, columns.WINDOW_END]
        reader = self._reader
        return StateView(
            self.schema,
            reader.empty,
            order,
            lambda manifest: reader.find_blobs(manifest, low, high),
            partial(reader.snapshot, start=low, end=high, only=only),
            order,
            owner,
            partial(_restrict, reader),
            _with_clock,
        )

    def _range(
        self, key: Any, start: StatePosition, end: StatePosition
    ) -> tuple[int | None, int | None, pl.DataFrame | None, int | None]:
        """Return the bounds of a range, the keys to read, and the number of their shard."""
        axis, owner = self.spec.axis, None
        only = None if key is None else self._reader.make_key(key)
        if only is not None and len(only.columns):
            shards = self.checkpoint.number_shards(self.spec.shards or 1)
            owner = shards[key_state.find_shard(self.spec, only)]
        return read_position("start", start, axis), read_position("end", end, axis), only, owner


def _restrict(reader: StateReader, view: StateView, written: Sequence[bytes]) -> StateView | None:
    """Return the view of the keys that have rows in some blobs; `None` where none have."""
    only = reader.list_keys(written)
    return None if only is None else replace(view, read_rows=partial(reader.snapshot, only=only))


def _with_clock(then: str, now: str) -> str:
    """Return an earlier manifest with the watermark of a later one."""
    return replace(parse_manifest(then), watermark=parse_manifest(now).watermark).dumps()
