"""Queries of every kind whose state is kept here as an earlier build wrote it.

``python -m tests.migration.kept`` writes the state of the present format, once, and later the kinds
that have come since; what is there is never written again, since every build has to open it.
"""

from __future__ import annotations

import json
import lzma
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.contract.checkpoints import (
    BATCHES,
    BOUNDS,
    WINDOWS,
    Image_,
    Run,
    join_run,
    join_spec,
    tables_images,
    window_spec,
    windows_run,
)

from muntin.model import aggregates
from muntin.model.joins import HOWS
from muntin.model.spec import WindowSpec
from muntin.state.blobs import MemoryBlobs
from muntin.state.manifest import MANIFEST_FORMAT

FOLDER = Path(__file__).parent / "states"
BEFORE = 2
"""How many batches were taken when the state was written."""
CLICKS = [[("a", 1.0), ("b", 2.0), ("c", 3.0)], [("a", 4.0), ("d", 12.0), ("a", 33.0)]]
Started = Callable[[list[MemoryBlobs] | None], Run]


def every_aggregate(shards: int = 2) -> WindowSpec:
    """A query with each aggregate that was there in format 3."""
    value, by = "value", "at"
    columns = {
        "n": aggregates.count(),
        "n_value": aggregates.count(value),
        "few": aggregates.count_distinct(value),
        "sum": aggregates.sum(value),
        "sum_distinct": aggregates.sum_distinct(value),
        "min": aggregates.min(value),
        "max": aggregates.max(value),
        "mean": aggregates.mean(value),
        "variance": aggregates.variance(value),
        "stddev": aggregates.stddev(value),
        "first": aggregates.first(value),
        "last": aggregates.last(value),
        "arg_min": aggregates.arg_min(value, by),
        "arg_max": aggregates.arg_max(value, by),
        "approx_distinct": aggregates.approx_distinct(value),
        "quantile": aggregates.quantile(value, 0.5),
        "exact_quantile": aggregates.exact_quantile(value, 0.5),
        "median": aggregates.median(value),
        "mode": aggregates.mode(value),
        "top_k": aggregates.top_k(value, 2),
        "distinct": aggregates.distinct(value),
        "collect_list": aggregates.collect_list(value),
    }
    return replace(window_spec("hopping", shards), aggregates=columns)


def specs(shards: int = 2) -> dict[str, WindowSpec]:
    """The windowed aggregations, by name."""
    found = {f"windows {kind}": window_spec(kind, shards) for kind in WINDOWS}
    found["aggregates"] = every_aggregate(shards)
    found["limit of rows"] = window_spec("hopping", shards, rows=4)
    found["limit of rows of sessions"] = window_spec("sessions", shards, rows=4)
    return found


def queries(shards: int = 2) -> dict[str, Started]:
    """What goes on from its state, by name."""
    found: dict[str, Started] = {}
    for name, spec in specs(shards).items():
        found[name] = lambda stores, spec=spec: windows_run(spec, stores)
    for kind in BOUNDS:
        found[f"join {kind}"] = lambda stores, kind=kind: join_run(join_spec(kind, shards), stores)
    for how in HOWS:
        spec = join_spec("distance", shards, how)
        found[f"{how} join"] = lambda stores, spec=spec: join_run(spec, stores, apart=True)
    return found


def written() -> dict[str, Image_]:
    """The state of every kind of query, as this build writes it."""
    found: dict[str, Image_] = {}
    for name, started in queries().items():
        run = started(None)
        run.take(BATCHES[:BEFORE])
        found[name] = run.images[-1]
    found["tables"] = tables_images(CLICKS)[-1]
    return found


def dumps(images: dict[str, Image_]) -> bytes:
    """States as bytes."""
    plain = {
        name: [
            [slot, text, {str(n): b64encode(blob).decode() for n, blob in blobs.items()}]
            for slot, (text, blobs) in image.items()
        ]
        for name, image in images.items()
    }
    return lzma.compress(json.dumps(plain).encode(), preset=9)


def loads(data: bytes) -> dict[str, Image_]:
    """What ``dumps`` was given."""
    plain: dict[str, Any] = json.loads(lzma.decompress(data))
    return {
        name: {
            slot: (text, {int(n): b64decode(blob) for n, blob in blobs.items()})
            for slot, text, blobs in image
        }
        for name, image in plain.items()
    }


def stores_of(image: Image_) -> list[MemoryBlobs]:
    """Stores that hold a state."""
    found = []
    for text, blobs in image.values():
        store = MemoryBlobs(text)
        store.blobs = dict(blobs)
        found.append(store)
    return found


if __name__ == "__main__":
    path = FOLDER / f"format-{MANIFEST_FORMAT}.json.xz"
    new = written()
    for number, kept in enumerate(sorted(FOLDER.glob(f"format-{MANIFEST_FORMAT}*.json.xz")), 1):
        # What an earlier build wrote stays as it is.
        new = {name: image for name, image in new.items() if name not in loads(kept.read_bytes())}
        path = FOLDER / f"format-{MANIFEST_FORMAT}-more-{number}.json.xz"
    if path.exists() or not new:
        raise SystemExit(f"{path} is there, or there is nothing new")
    path.write_bytes(dumps(new))
    print(f"{path}: {path.stat().st_size} bytes")
