"""The shard of a query: which kind of shard keeps which kind of windows."""

from __future__ import annotations

from muntin.engine.combine import Combiner
from muntin.engine.paned import PanedShard
from muntin.engine.runs import Blobs, FrameCache
from muntin.engine.slides import SlidingShard
from muntin.engine.told import Shard
from muntin.model.sliding import Sliding


def shard(combiner: Combiner, blobs: Blobs, cache: FrameCache) -> Shard:
    """Open a shard over what its store held at the last commit.

    Args:
        combiner: The query.
        blobs: The store.
        cache: Decoded blobs of this process.

    Raises:
        SpecChangedError: When the store was written by another spec.
        StateCorruptedError: When the manifest can't be read.
    """
    if isinstance(combiner.spec.windows, Sliding):
        return SlidingShard(combiner, blobs, cache)
    return PanedShard(combiner, blobs, cache)
