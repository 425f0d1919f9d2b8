"""Tests that rescaled shards emit what a single shard emits."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.contract.checkpoints import rescaled
from tests.unit.engine.queries import SCHEMA, batch

from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.division import WindowDivision
from muntin.engine.windows.operator import make_combiner, open_shard
from muntin.model import aggregates
from muntin.model.errors import OptionError
from muntin.model.policies import Each, EveryRows, Firing
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows
from muntin.spark.rescale import choose_division
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache
from muntin.state.hashing import assign_shards
from muntin.state.manifest import Manifest, parse_manifest
from muntin.state.rescale import build_manifests

FIRING = Firing(early=EveryRows(2), late=Each(), grace=30, retention=60)
BATCHES = [
    [(f"key {(n * 5 + b) % 9}", 13 * b + (n * 7) % 17, n) for n in range(12)] for b in range(8)
]
KINDS = {"hopping": Windows(10, 5), "sessions": Sessions(4)}


def make_query(kind: str, shards: int) -> Combiner:
    aggs = {"n": aggregates.count(), "sum": aggregates.sum("value")}
    spec = WindowSpec(("key",), "time", KINDS[kind], aggs, firing=FIRING, lateness=3, shards=shards)
    return make_combiner(spec, SCHEMA)


def step_shards(query: Combiner, stores: list[MemoryBlobs], rows: list[Any]) -> list[Any]:
    """Take a batch through all shards and return the sorted results."""
    emitted = []
    latest = max(at for _, at, _ in rows)
    for number, store in enumerate(stores):
        keys = pl.DataFrame({"k0": [key for key, *_ in rows]})
        owners = assign_shards(keys, ["k0"], len(stores))
        shard_rows = [row for row, owner in zip(rows, owners, strict=True) if owner == number]
        shard = open_shard(query, store, FrameCache())
        combined = batch(query, shard.state.watermark, *shard_rows)
        # All shards know the latest time of the whole batch.
        combined[0].latest = latest
        emitted += shard.step(combined, 0).results.rows()
    return sorted(emitted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("old", "new"), [(1, 3), (3, 2), (2, 5)])
def test_rescaling_changes_no_result(kind: str, old: int, new: int) -> None:
    old_query, new_query, single_query = (make_query(kind, n) for n in (old, new, 1))
    stores, single_store = [MemoryBlobs() for _ in range(old)], [MemoryBlobs()]
    for rows in BATCHES[:5]:
        assert step_shards(old_query, stores, rows) == step_shards(single_query, single_store, rows)

    manifests = [parse_manifest(store.load() or "") for store in stores]
    new_stores = rescaled(stores, new)
    counts = [parse_manifest(store.load() or "").counts for store in new_stores]
    assert sum(c.get("counted", 0) for c in counts) == sum(m.counts["counted"] for m in manifests)
    # The number of waiting windows isn't known for a part.
    assert not any("waits" in parse_manifest(store.load() or "").extra for store in new_stores)

    for rows in BATCHES[5:]:
        assert step_shards(new_query, new_stores, rows) == step_shards(
            single_query, single_store, rows
        )


def test_shards_with_different_watermarks_are_not_rescaled() -> None:
    manifests = [Manifest("windows", watermark=watermark) for watermark in (1, 2)]
    with pytest.raises(OptionError, match="let the query run one batch"):
        build_manifests(manifests, {}, 2, WindowDivision(manifests))


def test_unknown_kinds_of_state_are_not_rescaled() -> None:
    with pytest.raises(
        OptionError, match="isn't a kind of state that this version divides; use the"
    ):
        choose_division([Manifest("pages")])
