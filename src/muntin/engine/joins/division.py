"""How the state of joins is divided among other shards; see ``Division``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import ID
from muntin.engine.joins.sessions import LAST, renamed
from muntin.model.joins import SIDES, AsOf, JoinSpec, Joint, SideName
from muntin.model.recall import recalled
from muntin.state.manifest import Manifest
from muntin.state.shards import split_by_shard

_KEPT = "kept"


class _Kept(NamedTuple):
    """What a run of a join holds.

    Attributes:
        side: Whose messages.
        name: The name of the table.
        base: What is added to a message's number, so that it is one among all old shards.
        first: The first place that is kept; ``None`` where all are.
    """

    side: SideName
    name: str
    base: int
    first: int | None


class JoinDivision:
    """Joins: messages have their key, and are numbered by their shard."""

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        spec = recalled(manifests[0].spec)
        assert isinstance(spec, JoinSpec)
        self.spec = spec
        self._blobs: dict[int, _Kept] = {}
        parts: dict[Any, list[Manifest]] = {}
        for manifest in manifests:
            for partition, one in manifest.by_part().items():
                parts.setdefault(partition, []).append(one)
        for mine in parts.values():
            for side in SIDES:
                # A shard that got no message of any partition has numbered none.
                counted = [one.extra.get("next", {}).get(side, 0) for one in mine]
                for one, base in zip(mine, accumulate(counted, initial=0), strict=False):
                    self._note(one, side, base)

    def _note(self, one: Manifest, side: SideName, base: int) -> None:
        first = one.extra.get("from", {}).get(side)
        for table, runs in one.tables.items():
            whose, _, name = table.partition(" ")
            for run in runs if whose == side else ():
                self._blobs |= dict.fromkeys(run.blobs, _Kept(side, name, base, first))

    def divide(self, blob: int, rows: pl.DataFrame, shards: int) -> Mapping[int, pl.DataFrame]:
        side, name, base, first = self._blobs[blob]
        joint = isinstance(self.spec.bound, Joint)
        if joint:
            rows = renamed(rows, list(self.spec.side(side).types))
        if ID in rows.columns:
            rows = rows.with_columns(pl.col(ID) + base)
        keys = self.spec.side(side).keys
        if name == "matched":
            return _matched(rows, keys, shards)
        versions = isinstance(self.spec.bound, AsOf) and side == "right"
        if name == "messages" and first is not None and not versions:
            # Another shard may keep what this one has let go for a limit of rows.
            rows = rows.filter(pl.col(LAST if joint else columns.TIME) >= first)
        return split_by_shard(rows, keys, shards)

    def extra(self, manifests: Sequence[Manifest]) -> dict[str, Any]:
        found = dict(manifests[0].extra)
        found.pop(_KEPT, None)
        if "next" in found:
            places = {side: [one.extra["from"][side] for one in manifests] for side in SIDES}
            found["next"] = {side: sum(m.extra["next"][side] for m in manifests) for side in SIDES}
            found["from"] = {
                side: None if None in mine else min(mine) for side, mine in places.items()
            }
        return found


def _matched(rows: pl.DataFrame, keys: Sequence[str], shards: int) -> dict[int, pl.DataFrame]:
    """Numbers of messages by the owners of their keys.

    A build before wrote no keys. Then every shard gets them: of a number that isn't one of its
    messages' nothing follows, and it goes when its time is over.
    """
    if not set(keys) <= {*rows.columns}:
        return dict.fromkeys(range(shards), rows)
    # Folded together with some that have one. No message with a partner has a key that is NULL.
    unknown = rows.filter(pl.col(keys[0]).is_null())
    known = split_by_shard(rows.filter(pl.col(keys[0]).is_not_null()), keys, shards)
    return {n: pl.concat([unknown, known.get(n, rows.clear())]) for n in range(shards)}
