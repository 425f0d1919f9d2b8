"""What runs a query: which combiner and which shard for which kind of windows."""

from __future__ import annotations

import polars as pl

from muntin.engine.arrivals import ArrivalShard
from muntin.engine.combine import Combiner
from muntin.engine.gather import SessionCombiner
from muntin.engine.join import JoinShard
from muntin.engine.join_lanes import LanesJoinShard
from muntin.engine.joiner import Joiner
from muntin.engine.once import LanesShard, OnceShard
from muntin.engine.paned import PanedShard
from muntin.engine.runs import Blobs, FrameCache
from muntin.engine.sessions import SessionShard
from muntin.engine.slides import SlidingShard
from muntin.engine.told import Shard
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import WindowSpec


def combiner(spec: WindowSpec, schema: pl.Schema) -> Combiner:
    """What lifts the messages of a query.

    Args:
        spec: The query.
        schema: Types of the input columns, with the position in ``columns.TIME``.

    Raises:
        OptionError: When a column has a type that can't be taken.
    """
    made = SessionCombiner if isinstance(spec.windows, Sessions) else Combiner
    return made(spec, schema)


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
    if combiner.spec.by_arrival:
        return ArrivalShard(combiner, blobs, cache)
    if combiner.forwards:
        made = LanesShard if combiner.spec.axis == "rows" else OnceShard
        return made(combiner, blobs, cache, _judging)
    return _judging(combiner, blobs, cache)


def _judging(combiner: Combiner, blobs: Blobs, cache: FrameCache) -> Shard:
    """The shard of messages that come once, each with its position."""
    if isinstance(combiner, SessionCombiner):
        return SessionShard(combiner, blobs, cache)
    if isinstance(combiner.numbered, Sliding):
        return SlidingShard(combiner, blobs, cache)
    return PanedShard(combiner, blobs, cache)


def join_shard(joiner: Joiner, blobs: Blobs, cache: FrameCache) -> JoinShard | LanesJoinShard:
    """Open the shard of a join over what its store held at the last commit.

    Raises:
        SpecChangedError: When the store was written by another spec.
        StateCorruptedError: When the manifest can't be read.
    """
    if joiner.spec.axis == "rows":
        return LanesJoinShard(joiner, blobs, cache)
    return JoinShard(joiner, blobs, cache)
