"""Division of a join's state among another number of shards, when a query is rescaled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import ID
from muntin.engine.joins.sessions import LAST, rename_last_position
from muntin.model.bounds import AsOf, ByArrival, SessionBound, SideName
from muntin.model.joins import SIDES, JoinSpec
from muntin.model.recall import load_spec
from muntin.state.hashing import split_by_shard
from muntin.state.manifest import Manifest
from muntin.state.rows import stack_rows

_ROW_COUNTS = "kept"


class _Origin(NamedTuple):
    """The side and table of a join's run, and how its shard numbered messages.

    Attributes:
        side: The side of the messages.
        name: The name of the table.
        base: The offset of the messages' numbers that makes them unique among all old shards.
        first: The first position of messages that haven't expired; ``None`` for any.
    """

    side: SideName
    name: str
    base: int
    first: int | None


class JoinDivision:
    """The division of a join's state, whose messages have a key and a number within their shard."""

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        spec = load_spec(manifests[0].spec)
        assert isinstance(spec, JoinSpec)
        self.spec = spec
        self._blobs: dict[int, _Origin] = {}
        parts: dict[Any, list[Manifest]] = {}
        for manifest in manifests:
            for partition, one in manifest.by_part().items():
                parts.setdefault(partition, []).append(one)
        for mine in parts.values():
            for side in SIDES:
                # A shard without messages of any partition has no numbers.
                counted = [one.extra.get("next", {}).get(side, 0) for one in mine]
                for one, base in zip(mine, accumulate(counted, initial=0), strict=False):
                    self._record_origins(one, side, base)

    def _record_origins(self, one: Manifest, side: SideName, base: int) -> None:
        first = one.extra.get("from", {}).get(side)
        for table, runs in one.tables.items():
            owner, _, name = table.partition(" ")
            for run in runs if owner == side else ():
                self._blobs |= dict.fromkeys(run.blobs, _Origin(side, name, base, first))

    def divide(self, blob: int, rows: pl.DataFrame, shards: int) -> Mapping[int, pl.DataFrame]:
        side, name, base, first = self._blobs[blob]
        joint = isinstance(self.spec.bound, SessionBound)
        if joint:
            rows = rename_last_position(rows, list(self.spec.side(side).types))
        if ID in rows.columns:
            rows = rows.with_columns(pl.col(ID) + base)
        keys = self.spec.side(side).keys
        if name == "matched":
            return _divide_matched(rows, keys, shards)
        versions = isinstance(self.spec.bound, AsOf | ByArrival) and side == "right"
        if name == "messages" and first is not None and not versions:
            # This shard may have dropped rows for a limit that another shard still has room for.
            rows = rows.filter(pl.col(LAST if joint else columns.TIME) >= first)
        return split_by_shard(rows, keys, shards)

    def extra(self, manifests: Sequence[Manifest]) -> dict[str, Any]:
        extra = dict(manifests[0].extra)
        extra.pop(_ROW_COUNTS, None)
        if "next" in extra:
            positions = {side: [one.extra["from"][side] for one in manifests] for side in SIDES}
            extra["next"] = {side: sum(m.extra["next"][side] for m in manifests) for side in SIDES}
            extra["from"] = {
                side: None if None in mine else min(mine) for side, mine in positions.items()
            }
        return extra


def _divide_matched(
    rows: pl.DataFrame, keys: Sequence[str], shards: int
) -> dict[int, pl.DataFrame]:
    """Divide the numbers of matched messages by the shards that own their keys.

    Earlier versions stored no keys. Then every shard gets all numbers: those that it doesn't own
    have no effect, and are dropped when they expire.
    """
    if not set(keys) <= {*rows.columns}:
        return dict.fromkeys(range(shards), rows)
    # Rows without keys that were merged with others. A matched message never has NULL in its key.
    without_keys = rows.filter(pl.col(keys[0]).is_null())
    with_keys = split_by_shard(rows.filter(pl.col(keys[0]).is_not_null()), keys, shards)
    return {n: stack_rows([without_keys, with_keys.get(n, rows.clear())]) for n in range(shards)}
