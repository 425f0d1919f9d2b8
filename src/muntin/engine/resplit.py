"""State moved into another number of shards: every run is parted by the owners of its keys.

No row changes, and the runs of a key keep their order; so each new shard is what it would be had it
owned its keys from the beginning.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muntin.engine.buckets import split
from muntin.engine.codec import decode, encode
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.model.spec import WindowSpec

Moved = Mapping[int, Mapping[int, tuple[int, int]]]
"""By the number of a run: the number and rows of its part in each new shard that has one."""
_LANES, _TAKEN, _KEPT, _WAITS = "lanes", "taken", "kept", "waits"


def parts(blob: bytes, buckets: int) -> Iterator[tuple[int, int, bytes]]:
    """A blob of windows' state, parted: shard, rows and blob of each part."""
    frame = decode(blob)
    keys = sorted((n for n in frame.columns if n[0] == "k" and n[1:].isdigit()), key=_number)
    for bucket, part in split(frame, keys, buckets).items():
        yield bucket, len(part), encode(part)


def _number(key: str) -> int:
    return int(key[1:])


def check(spec: WindowSpec | JoinSpec) -> None:
    """Refuse a query whose state can't be parted.

    Raises:
        OptionError: Naming what can't.
    """
    if isinstance(spec, JoinSpec):
        cure = "start the join anew with as many buckets"
        raise OptionError("CHECKPOINT", spec.how, "is a join's, whose messages stay", cure)
    if spec.firing.rows is not None:
        cure = "start the query anew with as many buckets"
        problem = "are kept, a share in each bucket"
        raise OptionError("CHECKPOINT", f"{spec.firing.rows} rows", problem, cure)


def resplit(manifests: Sequence[Mapping[str, Any]], moved: Moved, buckets: int) -> list[str]:
    """The manifests of the new shards.

    Args:
        manifests: Those of the old ones.
        moved: Where their runs have gone.
        buckets: How many new shards there are.

    Raises:
        OptionError: When the old shards don't stand at the same watermark.
    """
    marks = {manifest["watermark"] for manifest in manifests}
    if len(marks) != 1:
        cure = "let the query run one batch, and stop it"
        raise OptionError("CHECKPOINT", sorted(marks, key=str), "are its watermarks", cure)
    return [json.dumps(_whole(manifests, moved, bucket, buckets)) for bucket in range(buckets)]


def _whole(
    manifests: Sequence[Mapping[str, Any]], moved: Moved, bucket: int, buckets: int
) -> dict[str, Any]:
    found = _one(manifests, moved, bucket, buckets)
    counts: dict[str, int] = {}
    for manifest in manifests if bucket == 0 else ():
        for name, count in manifest["counts"].items():
            counts[name] = counts.get(name, 0) + count
    found["counts"] = counts
    lanes: dict[Any, list[Mapping[str, Any]]] = {}
    for manifest in manifests:
        for partition, text in manifest.get("extra", {}).get(_LANES, []):
            lanes.setdefault(partition, []).append(json.loads(text))
    if lanes:
        # Counts of lanes were taken into the shards'.
        made = {
            partition: _one(mine, moved, bucket, buckets) | {"counts": {}}
            for partition, mine in lanes.items()
        }
        found["extra"][_LANES] = [(p, json.dumps(lane)) for p, lane in made.items()]
    return found


def _one(
    manifests: Sequence[Mapping[str, Any]], moved: Moved, bucket: int, buckets: int
) -> dict[str, Any]:
    first = manifests[0]
    names = dict.fromkeys(name for manifest in manifests for name in manifest["tables"])
    walls = [manifest["wall"] for manifest in manifests if manifest["wall"] is not None]
    return {
        **first,
        "spec": {**first["spec"], "buckets": buckets},
        "wall": max(walls, default=None),
        "tables": {
            name: _table([m["tables"].get(name) for m in manifests], moved, bucket)
            for name in names
        },
        # All shards know which offsets were taken; what each counted of its own it counts anew.
        "extra": {
            name: value
            for name, value in first.get("extra", {}).items()
            if name not in (_LANES, _KEPT, _WAITS)
        },
    }


def _table(entries: Sequence[Any], moved: Moved, bucket: int) -> Any:
    """A table's part of a manifest: runs, or runs by segment."""
    known = [entry for entry in entries if entry is not None]
    if all(isinstance(entry, list) for entry in known):
        return [run for entry in known for run in _runs(entry, moved, bucket)]
    found: dict[str, list[list[int]]] = {}
    for entry in known:
        for segment, runs in entry.items():
            mine = _runs(runs, moved, bucket)
            if mine:
                found.setdefault(segment, []).extend(mine)
    return found


def _runs(runs: Sequence[Sequence[int]], moved: Moved, bucket: int) -> list[list[int]]:
    found = []
    for number, _, low, high in runs:
        part = moved.get(number, {}).get(bucket)
        if part is not None:
            found.append([*part, low, high])
    return found
