"""Reads the state of one operator as of one committed batch.

A host implements how manifests and blobs are read, and the types of rows. A `StateView` selects the
blobs that it needs of a shard, and builds rows from them. Everything else is common to windows,
joins and tables, and to both hosts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import polars as pl

from muntin.engine.state_reader import CHANGE, StateReader, compare_rows
from muntin.model.attribute_hints import NextWords
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.model.spec import WindowSpec
from muntin.state.manifest import Manifest, parse_manifest

ShardBlobs = dict[int, dict[int, bytes]]
"""Blobs by the numbers of their shard and their own."""


@dataclass(frozen=True)
class StateView:
    """A view of a query's state: the rows and columns to read. Spark sends it to workers.

    Attributes:
        schema: The columns of the view, in the host's terms.
        list_blobs: Returns the numbers of the blobs that the view needs of a shard.
        read_rows: Returns the rows of a shard from its manifest and these blobs.
        order: The columns by which rows are sorted; without any, rows stay in the shards' order.
        shard: The number of the only shard that may have such rows; `None` where each may.
        restrict: Restricts the view to rows that some blobs may have changed; returns `None` if
            there are none.
        set_clock: Returns an earlier manifest with the clock of a later one, so that rows which
            only expired in between aren't changes.
    """

    schema: Any
    empty: pl.DataFrame
    identity: Sequence[str]
    list_blobs: Callable[[Manifest], list[int]]
    read_rows: Callable[[str, Mapping[int, bytes]], pl.DataFrame]
    order: Sequence[str] = ()
    shard: int | None = None
    restrict: Callable[[StateView, Sequence[bytes]], StateView | None] = lambda view, written: view
    set_clock: Callable[[str, str], str] = lambda then, now: then


_Spec = TypeVar("_Spec", WindowSpec, JoinSpec)


class OpenState(NextWords, Generic[_Spec]):
    """The state of a query as of one batch, as `open_state` returns it.

    Attributes:
        checkpoint: The snapshot that is read.
        batch: The number of the batch.
        spec: The query, as it is stored in the checkpoint.
    """

    _kind_of_words = "state"

    def __init__(self, snapshot: StateSnapshot, spec: _Spec) -> None:
        self.checkpoint = snapshot
        self.batch = snapshot.batch
        self.spec: _Spec = spec

    def __repr__(self) -> str:
        return f"<{self.spec.title} at batch {self.batch}>"

    @property
    def counts(self) -> dict[str, int]:
        """The number of messages since the checkpoint began, by outcome."""
        return self.checkpoint.counts


class StateSnapshot(ABC):
    """The state of one operator of a query as of one committed batch.

    Attributes:
        folder: The folder, as the caller wrote it.
        batch: The batch that is read; later commits don't change it.
        oldest: The oldest batch that can be read.
    """

    folder: str
    batch: int
    oldest: int
    newest: int

    @abstractmethod
    def read_manifests(self, batch: int | None = None) -> dict[int, str]:
        """Read the manifest of each shard as text, by number, of this batch or another."""

    @abstractmethod
    def read_blobs(
        self, wanted: Mapping[int, Sequence[int]], batch: int | None = None
    ) -> ShardBlobs:
        """Read blobs, by the numbers of their shard and their own."""

    @abstractmethod
    def read_lease(self) -> str | None:
        """Read the lease of the query that runs from the folder; ``None`` where there is none."""

    @abstractmethod
    def measure_blobs(self) -> dict[int, dict[int, int]]:
        """Measure the bytes of each blob, by the numbers of its shard and its own."""

    @abstractmethod
    def read_written_since(self, since: int) -> dict[int, list[bytes]]:
        """Read the blobs that were written after a batch, by the shard's number."""

    @abstractmethod
    def check_batch(self, option: str, batch: int) -> int:
        """Return the batch if it can be read, else raise an error that names the option."""

    @abstractmethod
    def number_shards(self, count: int) -> Sequence[int]:
        """Return the numbers under which `count` shards are stored, in the shards' order."""

    @abstractmethod
    def window_schema(self, reader: StateReader) -> Any:
        """Describe the columns of windows: those of results without `emission` and `revision`."""

    @abstractmethod
    def message_schema(self, types: Mapping[str, pl.DataType], flag: str) -> Any:
        """Describe the columns of messages of these types, with a boolean column `flag`."""

    @abstractmethod
    def fit_to_schema(self, rows: pl.DataFrame, schema: Any) -> pl.DataFrame:
        """Convert rows to the columns and types of a schema."""

    @abstractmethod
    def frame(self, view: StateView) -> Any:
        """Return the rows of a view as a frame of the host, in no order."""

    @cached_property
    def manifests(self) -> dict[int, str]:
        """The manifest of each shard at this batch, as text."""
        return self.read_manifests()

    @cached_property
    def manifest_by_shard(self) -> dict[int, Manifest]:
        """The manifest of each shard at this batch."""
        return {shard: parse_manifest(text) for shard, text in self.manifests.items()}

    @property
    def any_manifest(self) -> Manifest:
        """The manifest of any shard, for the facts that all have in common."""
        return next(iter(self.manifest_by_shard.values()))

    @property
    def counts(self) -> dict[str, int]:
        """The number of messages of all shards since the checkpoint began, by outcome."""
        counts: Counter[str] = Counter()
        for manifest in self.manifest_by_shard.values():
            counts.update(manifest.counts)
            # The counts of a shard of windows include those of its partitions; a join's don't.
            for part in manifest.by_part().values() if manifest.kind == "join" else ():
                counts.update(part.counts if part is not manifest else {})
        return dict(counts)

    @property
    def watermark(self) -> int | None:
        """The greatest watermark of the shards; `None` before the first message."""
        watermarks = (manifest.watermark for manifest in self.manifest_by_shard.values())
        return max((mark for mark in watermarks if mark is not None), default=None)

    def check_earlier(self, since: int) -> None:
        """Refuse a batch that isn't earlier than this snapshot's, or isn't stored any more."""
        if self.check_batch("since", since) >= self.batch:
            hint = f"give one before {self.batch}"
            raise OptionError("since", since, "isn't before the batch that is read", hint)

    def fetch(self, view: StateView) -> pl.DataFrame:
        """Return the rows of a view in its columns and types."""
        return self.fit_to_schema(self.read_rows(view), view.schema)

    def read_rows(self, view: StateView) -> pl.DataFrame:
        """Return the rows of a view with the engine's own columns."""
        return self._rows(view, self.select_manifests(view))

    def select_manifests(self, view: StateView) -> dict[int, str]:
        """Return the manifests of the shards that a view needs."""
        texts = self.manifests
        return texts if view.shard is None else {s: t for s, t in texts.items() if s == view.shard}

    def changes(self, view: StateView, since: int) -> pl.DataFrame:
        """Return the changes since an earlier batch, from the change feed of the state.

        Returns:
            The current rows that are new or changed, and the earlier rows that are gone; `change`
            says which of them each row is.

        Raises:
            OptionError: When the batch isn't stored any more, or the state store keeps no changes.
        """
        self.check_earlier(since)
        written, earlier_texts = self.read_written_since(since), self.read_manifests(since)
        frames = [view.empty.with_columns(pl.lit("").alias(CHANGE))]
        for shard, blobs in written.items():
            changed_view = view.restrict(view, blobs)
            if changed_view is None:
                continue
            text = self.manifests[shard]
            before = (
                {shard: changed_view.set_clock(earlier_texts[shard], text)}
                if shard in earlier_texts
                else {}
            )
            earlier_rows = self._rows(changed_view, before, since)
            frames.append(
                compare_rows(earlier_rows, self._rows(changed_view, {shard: text}), view.identity)
            )
        changes = _sort(pl.concat(frames, how="diagonal"), view)
        return self.fit_to_schema(changes, view.schema).with_columns(changes[CHANGE])

    def _rows(
        self, view: StateView, texts: Mapping[int, str], batch: int | None = None
    ) -> pl.DataFrame:
        wanted = {shard: view.list_blobs(parse_manifest(text)) for shard, text in texts.items()}
        blobs = self.read_blobs(wanted, batch)
        frames = [view.read_rows(text, blobs[shard]) for shard, text in texts.items()]
        return _sort(pl.concat([view.empty, *frames], how="diagonal"), view)


def _sort(rows: pl.DataFrame, view: StateView) -> pl.DataFrame:
    return rows.sort(view.order, maintain_order=True) if view.order else rows
