"""Queries of every kind, with states that earlier builds wrote.

``python -m tests.migration.kept`` writes the states of the present format, and later those of new
kinds. It never writes a state again, since every build must open the states of earlier ones.
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
"""The number of batches before the state was written."""
CLICKS = [[("a", 1.0), ("b", 2.0), ("c", 3.0)], [("a", 4.0), ("d", 12.0), ("a", 33.0)]]
StartRun = Callable[[list[MemoryBlobs] | None], Run]


def make_aggregates_spec(shards: int = 2) -> WindowSpec:
    """Return a query with each aggregate that existed in format 3."""
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


def make_specs(shards: int = 2) -> dict[str, WindowSpec]:
    """Return the windowed aggregations, by name."""
    specs = {f"windows {kind}": window_spec(kind, shards) for kind in WINDOWS}
    specs["aggregates"] = make_aggregates_spec(shards)
    specs["limit of rows"] = window_spec("hopping", shards, rows=4)
    specs["limit of rows of sessions"] = window_spec("sessions", shards, rows=4)
    return specs


def make_queries(shards: int = 2) -> dict[str, StartRun]:
    """Return functions that start queries from their states, by name."""
    start_by_name: dict[str, StartRun] = {}
    for name, spec in make_specs(shards).items():
        start_by_name[name] = lambda stores, spec=spec: windows_run(spec, stores)
    for kind in BOUNDS:
        start_by_name[f"join {kind}"] = lambda stores, kind=kind: join_run(
            join_spec(kind, shards), stores
        )
    for how in HOWS:
        spec = join_spec("distance", shards, how)
        start_by_name[f"{how} join"] = lambda stores, spec=spec: join_run(spec, stores, apart=True)
    return start_by_name


def write_states() -> dict[str, Image_]:
    """Return the state of every kind of query, as this build writes it."""
    states: dict[str, Image_] = {}
    for name, start_run in make_queries().items():
        run = start_run(None)
        run.take(BATCHES[:BEFORE])
        states[name] = run.images[-1]
    states["tables"] = tables_images(CLICKS)[-1]
    return states


def dumps(images: dict[str, Image_]) -> bytes:
    """Serialize states."""
    states_as_lists = {
        name: [
            [slot, text, {str(n): b64encode(blob).decode() for n, blob in blobs.items()}]
            for slot, (text, blobs) in image.items()
        ]
        for name, image in images.items()
    }
    return lzma.compress(json.dumps(states_as_lists).encode(), preset=9)


def loads(data: bytes) -> dict[str, Image_]:
    """Deserialize states."""
    states_as_lists: dict[str, Any] = json.loads(lzma.decompress(data))
    return {
        name: {
            slot: (text, {int(n): b64decode(blob) for n, blob in blobs.items()})
            for slot, text, blobs in image
        }
        for name, image in states_as_lists.items()
    }


def make_stores(image: Image_) -> list[MemoryBlobs]:
    """Return stores with a state."""
    stores = []
    for text, blobs in image.values():
        store = MemoryBlobs(text)
        store.blobs = dict(blobs)
        stores.append(store)
    return stores


if __name__ == "__main__":
    path = FOLDER / f"format-{MANIFEST_FORMAT}.json.xz"
    new = write_states()
    for number, archive in enumerate(sorted(FOLDER.glob(f"format-{MANIFEST_FORMAT}*.json.xz")), 1):
        # States of earlier builds stay unchanged.
        new = {
            name: image for name, image in new.items() if name not in loads(archive.read_bytes())
        }
        path = FOLDER / f"format-{MANIFEST_FORMAT}-more-{number}.json.xz"
    if path.exists() or not new:
        raise SystemExit(f"{path} exists, or there is nothing new")
    path.write_bytes(dumps(new))
    print(f"{path}: {path.stat().st_size} bytes")
