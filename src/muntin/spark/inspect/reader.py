"""State read from outside, whatever keeps it: fetched, read by the workers, or compared.

What is asked of a query is a ``StateView``: it says which blobs of a shard it needs, and puts rows
together out of them. Everything else is the same for windows, joins and tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.engine.state_reader import CHANGE, differences
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.internals.versions import arrow_schema
from muntin.spark.host.schema import to_batches
from muntin.spark.host.state import MANIFEST
from muntin.state.manifest import Manifest, parse_manifest


@dataclass(frozen=True)
class StateView:
    """A view of a query's state: the rows and columns to read. It is sent to workers.

    Attributes:
        schema: The columns that are shown.
        nothing: No rows, with all of their columns.
        identity: The columns that name a row.
        wanted: The blobs that are needed of a shard with this manifest.
        rows: The rows of a shard, out of its manifest and these blobs.
        order: What rows are sorted by; nothing where they stay as the shards give them.
        slot: The only shard that has such rows; ``None`` where each may.
        touched: The same of what some blobs may have changed; ``None`` where that is nothing.
        judged: An earlier manifest with the clock of a later one: what has expired is no change.
    """

    schema: StructType
    nothing: pl.DataFrame
    identity: Sequence[str]
    wanted: Callable[[Manifest], list[int]]
    rows: Callable[[str, Mapping[int, bytes]], pl.DataFrame]
    order: Sequence[str] = ()
    slot: int | None = None
    touched: Callable[[StateView, Sequence[bytes]], StateView | None] = lambda view, written: view
    judged: Callable[[str, str], str] = lambda then, now: then


def fetched(opened: Checkpoint, view: StateView) -> pl.DataFrame:
    """The rows of a view."""
    return shown(held(opened, view), view.schema)


def held(opened: Checkpoint, view: StateView) -> pl.DataFrame:
    """Return the rows of a view with the engine's own columns."""
    return _rows(opened, view, _texts(opened, view))


def framed(opened: Checkpoint, view: StateView) -> DataFrame:
    """Return the rows of a view as a Spark DataFrame that workers read, in no order."""
    texts, schema = _texts(opened, view), view.schema
    numbers = [n for text in texts.values() for n in view.wanted(parse_manifest(text))]
    asked = F.col("slot").isin(list(texts)) & F.col("number").isin([MANIFEST, *numbers])

    def rows_of(table: pa.Table) -> pa.Table:
        rows = zip(table["number"].to_pylist(), table["blob"].to_pylist(), strict=True)
        blobs = dict(rows)
        return _table(view.rows(blobs.pop(MANIFEST).decode(), blobs), schema)

    return opened.state().where(asked).groupBy("slot").applyInArrow(rows_of, schema)


def changed(opened: Checkpoint, view: StateView, since: int) -> pl.DataFrame:
    """Return the changes since an earlier batch, from the change feed of the state.

    Returns:
        The rows that are new or changed as they are now, those that are gone as they were, and in
        ``change`` which of them each is.

    Raises:
        OptionError: When the batch isn't kept, or the state store keeps no changes.
    """
    opened.earlier(since)
    changes, then = opened.written_since(since), opened.texts(since)
    found = [view.nothing.with_columns(pl.lit("").alias(CHANGE))]
    for slot, written in changes.items():
        mine = view.touched(view, written)
        if mine is None:
            continue
        text = opened.manifests[slot]
        before = {slot: mine.judged(then[slot], text)} if slot in then else {}
        was = _rows(opened, mine, before, since)
        found.append(differences(was, _rows(opened, mine, {slot: text}), view.identity))
    whole = _sorted(pl.concat(found, how="diagonal"), view)
    return shown(whole, view.schema).with_columns(whole[CHANGE])


def shown(rows: pl.DataFrame, schema: StructType) -> pl.DataFrame:
    """Rows in the columns and types of a schema."""
    frame = pl.from_arrow(_table(rows, schema))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _texts(opened: Checkpoint, view: StateView) -> dict[int, str]:
    """The manifests of the shards that are asked."""
    texts = opened.manifests
    return texts if view.slot is None else {s: t for s, t in texts.items() if s == view.slot}


def _rows(
    opened: Checkpoint, view: StateView, texts: Mapping[int, str], batch: int | None = None
) -> pl.DataFrame:
    wanted = {slot: view.wanted(parse_manifest(text)) for slot, text in texts.items()}
    blobs = opened.blobs(wanted, batch)
    found = [view.rows(text, blobs[slot]) for slot, text in texts.items()]
    return _sorted(pl.concat([view.nothing, *found], how="diagonal"), view)


def _sorted(rows: pl.DataFrame, view: StateView) -> pl.DataFrame:
    return rows.sort(view.order, maintain_order=True) if view.order else rows


def _table(rows: pl.DataFrame, schema: StructType) -> pa.Table:
    batches = to_batches(rows.select(schema.names), schema)
    return pa.Table.from_batches(batches, schema=arrow_schema(schema))
