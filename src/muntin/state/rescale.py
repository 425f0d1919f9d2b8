"""Divides state among another number of shards, by splitting every run by the owners of its keys.

The runs of a key keep their order, so each new shard is the same as if it had owned its keys from
the beginning. The ``Division`` of a kind of query determines which rows a shard gets, and the
rest of its manifest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import polars as pl

from muntin.model.errors import OptionError
from muntin.model.facts import STORED_SHARDS
from muntin.state.frames import decode_frame, encode_frame
from muntin.state.manifest import Manifest, Run, parse_manifest

MovedBlobs = Mapping[int, Mapping[int, tuple[int, int, int]]]
"""By blob number: the number, row count and bytes of its part, by new shard."""


class Division(Protocol):
    """Divides the state of one kind of query among another number of shards.

    It is created from the manifests of the old shards, in order, and sent to workers.
    """

    def divide(self, blob: int, rows: pl.DataFrame, shards: int) -> Mapping[int, pl.DataFrame]:
        """Return the rows of a run's blob by the new shards that need them."""

    def extra(self, manifests: Sequence[Manifest]) -> dict[str, Any]:
        """Return the state of a new shard outside its tables, from the old shards' manifests."""


def split_blob(
    number: int, blob: bytes, division: Division, shards: int
) -> Iterator[tuple[int, int, bytes]]:
    """Split a run's blob; yield shard, number of rows and blob of each part."""
    for shard, part in division.divide(number, decode_frame(blob), shards).items():
        if len(part):
            yield shard, len(part), encode_frame(part)


def build_manifests(
    manifests: Sequence[Manifest], moved: MovedBlobs, shards: int, division: Division
) -> list[str]:
    """Create the manifests of the new shards, of old ones with the same watermark."""
    watermarks = {manifest.watermark for manifest in manifests}
    if len(watermarks) != 1:
        hint = "let the query run one batch, and stop it"
        raise OptionError("CHECKPOINT", sorted(watermarks, key=str), "are its watermarks", hint)
    return [
        _build_manifest(manifests, moved, shard, shards, division).dumps()
        for shard in range(shards)
    ]


def _build_manifest(
    manifests: Sequence[Manifest], moved: MovedBlobs, shard: int, shards: int, division: Division
) -> Manifest:
    merged = _merge_manifests(manifests, moved, shard, shards, division)
    parts: dict[Any, list[Manifest]] = {}
    for manifest in manifests:
        for partition, text in manifest.parts:
            parts.setdefault(partition, []).append(parse_manifest(text))
    part_manifests = [
        (name, _merge_manifests(own_manifests, moved, shard, shards, division).dumps())
        for name, own_manifests in parts.items()
    ]
    return replace(merged, parts=part_manifests)


def _merge_manifests(
    manifests: Sequence[Manifest], moved: MovedBlobs, shard: int, shards: int, division: Division
) -> Manifest:
    first = manifests[0]
    names = dict.fromkeys(name for manifest in manifests for name in manifest.tables)
    # The first of the new shards continues the old counts; the others start at zero.
    counts: Counter[str] = Counter()
    for manifest in manifests if shard == 0 else ():
        counts.update(manifest.counts)
    # All shards keep all taken offsets.
    return replace(
        first,
        spec={**first.spec, STORED_SHARDS: shards} if STORED_SHARDS in first.spec else first.spec,
        wall=max((m.wall for m in manifests if m.wall is not None), default=None),
        counts=dict(counts),
        tables={
            name: [
                Run(number, rows, run.low, run.high, hash_range=run.hash_range, size=size)
                for manifest in manifests
                for run in manifest.tables.get(name, ())
                for blob in run.blobs
                if (part := moved.get(blob, {}).get(shard)) is not None
                for number, rows, size in (part,)
            ]
            for name in names
        },
        extra=division.extra(manifests),
    )
