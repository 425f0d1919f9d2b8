"""State moved into another number of shards: every run is partitioned by the owners of its keys.

No row changes, and the runs of a key keep their order; so each new shard is what it would be had it
owned its keys from the beginning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.model.spec import WindowSpec
from muntin.state.frames import decode, encode
from muntin.state.manifest import Manifest, Run, loads
from muntin.state.shards import split

Moved = Mapping[int, Mapping[int, tuple[int, int]]]
"""By the number of a run: the number and rows of its part in each new shard that has one."""
_KEPT, _WAITS = "kept", "waits"


def parts(blob: bytes, buckets: int) -> Iterator[tuple[int, int, bytes]]:
    """A blob of windows' state, partitioned: shard, rows and blob of each part."""
    frame = decode(blob)
    keys = sorted((n for n in frame.columns if n[0] == "k" and n[1:].isdigit()), key=_number)
    for bucket, part in split(frame, keys, buckets).items():
        yield bucket, len(part), encode(part)


def _number(key: str) -> int:
    return int(key[1:])


def check(spec: WindowSpec | JoinSpec) -> None:
    """Refuse a query whose state can't be partitioned.

    Raises:
        OptionError: Naming what can't.
    """
    if isinstance(spec, JoinSpec):
        hint = "start the join anew with as many buckets"
        raise OptionError("CHECKPOINT", spec.how, "is a join's, whose messages stay", hint)
    if spec.firing.rows is not None:
        hint = "start the query anew with as many buckets"
        problem = "are kept, a share in each bucket"
        raise OptionError("CHECKPOINT", f"{spec.firing.rows} rows", problem, hint)


def resplit(manifests: Sequence[Manifest], moved: Moved, buckets: int) -> list[str]:
    """The manifests of the new shards.

    Args:
        manifests: Those of the old ones.
        moved: Where their runs are now.
        buckets: How many new shards there are.

    Raises:
        OptionError: When the old shards don't stand at the same watermark.
    """
    marks = {manifest.watermark for manifest in manifests}
    if len(marks) != 1:
        hint = "let the query run one batch, and stop it"
        raise OptionError("CHECKPOINT", sorted(marks, key=str), "are its watermarks", hint)
    return [_whole(manifests, moved, bucket, buckets).dumps() for bucket in range(buckets)]


def _whole(manifests: Sequence[Manifest], moved: Moved, bucket: int, buckets: int) -> Manifest:
    found = _one(manifests, moved, bucket, buckets)
    counts: Counter[str] = Counter()
    for manifest in manifests if bucket == 0 else ():
        counts.update(manifest.counts)
    parts: dict[Any, list[Manifest]] = {}
    for manifest in manifests:
        for partition, text in manifest.parts:
            parts.setdefault(partition, []).append(loads(text))
    # What partitions have counted is in the shards' counts, too.
    made = [(name, _one(mine, moved, bucket, buckets).dumps()) for name, mine in parts.items()]
    return replace(found, counts=dict(counts), parts=made)


def _one(manifests: Sequence[Manifest], moved: Moved, bucket: int, buckets: int) -> Manifest:
    first = manifests[0]
    names = dict.fromkeys(name for manifest in manifests for name in manifest.tables)
    # All shards know which offsets were taken; what each counted of its own it counts anew.
    return replace(
        first,
        spec={**first.spec, "buckets": buckets},
        wall=max((m.wall for m in manifests if m.wall is not None), default=None),
        counts={},
        tables={
            name: [
                Run(*part, run.low, run.high)
                for manifest in manifests
                for run in manifest.tables.get(name, ())
                if (part := moved.get(run.number, {}).get(bucket)) is not None
            ]
            for name in names
        },
        extra={k: value for k, value in first.extra.items() if k not in (_KEPT, _WAITS)},
    )
