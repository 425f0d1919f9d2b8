"""Reads state from outside of a query, from a shard's manifest and some of its blobs.

The reader opens the shard itself over a read-only store. So it returns what the next emission
would contain, without a second implementation of windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.dtypes import dtype_of
from muntin.engine.joins.as_of import drop_replaced
from muntin.engine.joins.by_arrival import ARRIVED, build_deletion_test, select_last_rows
from muntin.engine.joins.joiner import ID
from muntin.engine.joins.newest import select_greatest_revisions
from muntin.engine.joins.sessions import HAS_PARTNER, LAST, rename_last_position
from muntin.engine.key_state import find_blobs
from muntin.engine.results import build_values
from muntin.engine.windows.operator import make_combiner, open_shard
from muntin.model.bounds import AsOf, ByArrival
from muntin.model.errors import OptionError
from muntin.model.grouping_sets import GROUPING_ID
from muntin.model.joins import JoinSpec
from muntin.model.recall import load_spec
from muntin.model.spec import WindowSpec
from muntin.state.blobs import ReadBlobs
from muntin.state.frames import FrameCache, decode_frame
from muntin.state.lookup import HASH_COLUMN
from muntin.state.manifest import Manifest, list_overlapping_blobs
from muntin.state.rows import stack_rows

CHANGE, NEW = "change", "new"
# Columns of a join's messages: whether they wait for their policy, and whether they have a partner.
WAITS, MATCHED = "waits", "__muntin_matched"


class StateReader:
    """Reads the state of one query."""

    def __init__(self, spec: WindowSpec) -> None:
        self.spec = spec
        self.types = parse_types(spec.types)
        self.combiner = make_combiner(spec, pl.Schema({**self.types, columns.TIME: pl.Int64()}))

    @property
    def empty(self) -> pl.DataFrame:
        """An empty frame of windows, with all columns and types."""
        return build_values(self.combiner.no_windows, self.combiner)

    def make_key(self, key: Any) -> pl.DataFrame:
        """Convert a key to one row with the types of its columns and the engine's names."""
        return make_key(self.spec.state_keys, {GROUPING_ID: pl.Int64(), **self.types}, key)

    def find_blobs(
        self, manifest: Manifest, start: int | None = None, end: int | None = None
    ) -> list[int]:
        """Return the numbers of the blobs that ``snapshot`` needs for a range of the axis."""
        windows = self.spec.windows
        if self.spec.by_arrival or windows.moves or windows.result_key is not None:
            start = end = None
        by_table = [
            find_blobs(self.spec.in_zone(part), tables.tables, start, end)
            for part, tables in manifest.by_part().items()
        ]
        return [
            n for tables in by_table for kind in ("cells", "sessions") for n in tables.get(kind, ())
        ]

    def snapshot(
        self,
        manifest: str,
        blobs: Mapping[int, bytes],
        start: int | None = None,
        end: int | None = None,
        only: pl.DataFrame | None = None,
    ) -> pl.DataFrame:
        """Return the values of one shard's windows, as ``Shard.snapshot`` does."""
        shard = open_shard(self.combiner, ReadBlobs(manifest, lambda: blobs), FrameCache())
        return shard.snapshot(start, end, only)

    def list_keys(self, blobs: Sequence[bytes]) -> pl.DataFrame | None:
        """Return the distinct keys of the rows in some blobs; ``None`` if there are none."""
        names = self.combiner.keys
        frames = [frame for frame in map(decode_frame, blobs) if set(names) <= {*frame.columns}]
        frames = [frame.select(names) for frame in frames if len(frame)]
        return stack_rows(frames).unique() if frames else None


def parse_types(words: Mapping[str, str]) -> dict[str, pl.DataType]:
    """Parse the types of columns."""
    types = {}
    for name, text in words.items():
        try:
            types[name] = dtype_of(text)
        except ValueError as error:
            hint = "read the results that the query has written"
            problem = "has a type that can't be read from a checkpoint"
            raise OptionError("CHECKPOINT", f"{name}: {text}", problem, hint) from error
    return types


def make_key(names: Sequence[str], types: Mapping[str, pl.DataType], key: Any) -> pl.DataFrame:
    """Convert a key to one row with the types of its columns and the engine's names.

    The key is a value, or for several columns a tuple or a dictionary by column.
    """
    if isinstance(key, Mapping) and key.keys() == set(names):
        key = tuple(key[name] for name in names)
    values = key if isinstance(key, tuple) else (key,)
    if len(values) != len(names):
        hint = f"give ({', '.join(names)})" if names else "leave it out: there is no key"
        raise OptionError("key", key, f"isn't {len(names)} values", hint)
    key_columns = []
    for index, (name, value) in enumerate(zip(names, values, strict=True)):
        try:
            key_columns.append(pl.Series(f"k{index}", [value], dtype=types[name], strict=True))
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
            hint = f"give a value of type {types[name]}"
            raise OptionError("key", value, f"isn't a {name}", hint) from error
    return pl.DataFrame(key_columns)


def read_side_messages(
    manifest: Manifest,
    side: str,
    blobs: Mapping[int, bytes] | None = None,
    *,
    partners: bool = False,
) -> tuple[list[int], list[pl.DataFrame]]:
    """Read the messages of one side in a shard of a join, and return the numbers of their blobs.

    There is a frame for each table, with the stored columns, ``WAITS`` and ``MATCHED``. The latter
    is only computed with ``partners``. Without ``blobs`` only the numbers are returned.
    """
    blob_numbers: list[int] = []
    frames: list[pl.DataFrame] = []
    spec = load_spec(manifest.spec)
    assert isinstance(spec, JoinSpec)
    for part in manifest.each():
        first = part.extra.get("from", {}).get(side)
        matched_blobs = (
            list_overlapping_blobs(part.tables.get(f"{side} matched", ())) if partners else []
        )
        blob_numbers += matched_blobs
        matched = pl.Series(ID, [], pl.Int64)
        if blobs is not None and matched_blobs:
            matched = pl.concat([decode_frame(blobs[number])[ID] for number in matched_blobs])
        for name in ("messages", "held", "waiting"):
            side_blobs = list_overlapping_blobs(part.tables.get(f"{side} {name}", ()))
            blob_numbers += side_blobs
            if blobs is None or not side_blobs:
                continue
            # Messages of the other tables haven't expired.
            expires = name == "messages" or isinstance(spec.bound, AsOf)
            rows = _decode_messages([blobs[number] for number in side_blobs])
            rows = _drop_expired(rows, spec, side, first if expires else None)
            waits = pl.lit(name == "waiting").alias(WAITS)
            rows = rows.with_columns(waits, rows[ID].is_in(matched.implode()).alias(MATCHED))
            frames.append(rows.drop(HASH_COLUMN, strict=False))
    return blob_numbers, frames


def _decode_messages(blobs: Sequence[bytes]) -> pl.DataFrame:
    """Return the latest version of each message, which has the end of its session now."""
    frames = map(decode_frame, blobs)
    # Only messages of session joins have the column ``HAS_PARTNER``.
    current = [
        rename_last_position(frame) if HAS_PARTNER in frame.columns else frame for frame in frames
    ]
    return pl.concat(current, how="diagonal").unique(ID, keep="last")


def _drop_expired(rows: pl.DataFrame, spec: JoinSpec, side: str, first: int | None) -> pl.DataFrame:
    """Return the messages that the join hasn't replaced, from the first position on."""
    bound, keys = spec.bound, spec.left.keys if side == "left" else spec.right.keys
    axis = next((c for c in (LAST, ARRIVED) if c in rows.columns), columns.TIME)
    if isinstance(bound, ByArrival):
        is_deletion = build_deletion_test(spec.right, spec.right.types)
        rows = select_last_rows(rows, keys).filter(~is_deletion)
    if bound.revises:
        rows = select_greatest_revisions(rows, keys)
    if isinstance(bound, AsOf) and side == "right":
        return drop_replaced(rows, keys, first, bound.most)
    return rows if first is None else rows.filter(pl.col(axis) >= first)


def compare_rows(old: pl.DataFrame, new: pl.DataFrame, identity: Sequence[str]) -> pl.DataFrame:
    """Compare two states of some rows.

    Rows that are ``new`` or ``changed`` are returned as they are now, those that are ``gone`` as
    they were, with that word in ``change``.
    """
    values = [name for name in new.columns if name not in identity]
    renamed_old = old.rename({name: f"__then_{name}" for name in values})
    joined = new.join(
        renamed_old.with_columns(__there=pl.lit(True)),
        on=list(identity),
        how="left",
        nulls_equal=True,
    )
    existed = pl.col("__there").is_not_null()
    differs = [pl.col(name).ne_missing(pl.col(f"__then_{name}")) for name in values]
    changed = pl.any_horizontal(differs) if differs else pl.lit(False)
    change = pl.when(existed).then(pl.lit("changed")).otherwise(pl.lit(NEW)).alias(CHANGE)
    changed_rows = joined.filter(~existed | changed).select(*new.columns, change)
    gone = old.join(new, on=list(identity), how="anti", nulls_equal=True)
    return stack_rows([changed_rows, gone.select(*new.columns, pl.lit("gone").alias(CHANGE))])
