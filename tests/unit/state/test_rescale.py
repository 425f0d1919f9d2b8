"""Shards that were partitioned anew say what one shard says."""

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
from muntin.state.frame_cache import FrameCache
from muntin.state.hashing import assign_shards
from muntin.state.manifest import Manifest, parse_manifest
from muntin.state.rescale import build_manifests

FIRING = Firing(early=EveryRows(2), late=Each(), grace=30, retention=60)
BATCHES = [
    [(f"key {(n * 5 + b) % 9}", 13 * b + (n * 7) % 17, n) for n in range(12)] for b in range(8)
]
KINDS = {"hopping": Windows(10, 5), "sessions": Sessions(4)}


def query(kind: str, shards: int) -> Combiner:
    aggs = {"n": aggregates.count(), "sum": aggregates.sum("value")}
    spec = WindowSpec(("key",), "time", KINDS[kind], aggs, firing=FIRING, lateness=3, shards=shards)
    return make_combiner(spec, SCHEMA)


def stepped(one: Combiner, stores: list[MemoryBlobs], rows: list[Any]) -> list[Any]:
    """What all shards emit of a batch, in one order."""
    emitted = []
    latest = max(at for _, at, _ in rows)
    for number, store in enumerate(stores):
        keys = pl.DataFrame({"k0": [key for key, *_ in rows]})
        mine = [r for r, own in zip(rows, assign_shards(keys, ["k0"], len(stores)), strict=True)
                if own == number]  # fmt: skip
        opened = open_shard(one, store, FrameCache())
        combined = batch(one, opened.state.watermark, *mine)
        # All shards know how far the whole batch reaches.
        combined[0].latest = latest
        emitted += opened.step(combined, 0).results.rows()
    return sorted(emitted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("old", "new"), [(1, 3), (3, 2), (2, 5)])
def test_it_goes_on_in_other_shards(kind: str, old: int, new: int) -> None:
    first, then, alone = (query(kind, n) for n in (old, new, 1))
    stores, one = [MemoryBlobs() for _ in range(old)], [MemoryBlobs()]
    for rows in BATCHES[:5]:
        assert stepped(first, stores, rows) == stepped(alone, one, rows)

    manifests = [parse_manifest(store.load() or "") for store in stores]
    shares = rescaled(stores, new)
    counts = [parse_manifest(store.load() or "").counts for store in shares]
    assert sum(c.get("counted", 0) for c in counts) == sum(m.counts["counted"] for m in manifests)
    # How many windows wait isn't known of a part.
    assert not any("waits" in parse_manifest(store.load() or "").extra for store in shares)

    for rows in BATCHES[5:]:
        assert stepped(then, shares, rows) == stepped(alone, one, rows)


def test_shards_that_stand_elsewhere_are_not_moved() -> None:
    manifests = [Manifest("windows", watermark=mark) for mark in (1, 2)]
    with pytest.raises(OptionError, match="let the query run one batch"):
        build_manifests(manifests, {}, 2, WindowDivision(manifests))


def test_what_cannot_be_moved() -> None:
    with pytest.raises(
        OptionError, match="isn't a kind of state that this version divides; use the"
    ):
        choose_division([Manifest("pages")])
