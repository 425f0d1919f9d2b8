"""State moved into another number of shards: every run is partitioned by the owners of its keys.

The runs of a key keep their order, so each new shard is what it would be had it owned its keys from
the beginning. Which rows belong to whom, and what else a manifest has to say then, is for the kind
of query to know: its ``Division``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import polars as pl

from muntin.model.errors import OptionError
from muntin.state.frames import decode, encode
from muntin.state.manifest import Manifest, Run, loads

Moved = Mapping[int, Mapping[int, tuple[int, int]]]
"""By the number of a blob: the number and rows of its part in each new shard that has one."""


class Division(Protocol):
    """Divides the state of one kind of query among another number of shards.

    It is made of the manifests of the old shards, in their order, and sent to workers.
    """

    def divided(self, blob: int, rows: pl.DataFrame, shards: int) -> Mapping[int, pl.DataFrame]:
        """The rows of a run's blob by the new shards that need them."""

    def extra(self, manifests: Sequence[Manifest]) -> dict[str, Any]:
        """Return the state of a new shard outside its tables, from the old shards' manifests."""


def parts(
    number: int, blob: bytes, division: Division, shards: int
) -> Iterator[tuple[int, int, bytes]]:
    """A run's blob, partitioned: shard, rows and blob of each part."""
    for shard, part in division.divided(number, decode(blob), shards).items():
        if len(part):
            yield shard, len(part), encode(part)


def resplit(
    manifests: Sequence[Manifest], moved: Moved, shards: int, division: Division
) -> list[str]:
    """The manifests of the new shards."""
    marks = {manifest.watermark for manifest in manifests}
    if len(marks) != 1:
        hint = "let the query run one batch, and stop it"
        raise OptionError("CHECKPOINT", sorted(marks, key=str), "are its watermarks", hint)
    return [_whole(manifests, moved, shard, shards, division).dumps() for shard in range(shards)]


def _whole(
    manifests: Sequence[Manifest], moved: Moved, shard: int, shards: int, division: Division
) -> Manifest:
    found = _one(manifests, moved, shard, shards, division)
    parts: dict[Any, list[Manifest]] = {}
    for manifest in manifests:
        for partition, text in manifest.parts:
            parts.setdefault(partition, []).append(loads(text))
    made = [
        (name, _one(mine, moved, shard, shards, division).dumps()) for name, mine in parts.items()
    ]
    return replace(found, parts=made)


def _one(
    manifests: Sequence[Manifest], moved: Moved, shard: int, shards: int, division: Division
) -> Manifest:
    first = manifests[0]
    names = dict.fromkeys(name for manifest in manifests for name in manifest.tables)
    # What the old shards have counted is in one of the new ones, each of which counts anew.
    counts: Counter[str] = Counter()
    for manifest in manifests if shard == 0 else ():
        counts.update(manifest.counts)
    # All shards know which offsets were taken.
    return replace(
        first,
        spec={**first.spec, "buckets": shards} if "buckets" in first.spec else first.spec,
        wall=max((m.wall for m in manifests if m.wall is not None), default=None),
        counts=dict(counts),
        tables={
            name: [
                Run(*part, run.low, run.high)
                for manifest in manifests
                for run in manifest.tables.get(name, ())
                for blob in run.blobs
                if (part := moved.get(blob, {}).get(shard)) is not None
            ]
            for name in names
        },
        extra=division.extra(manifests),
    )
