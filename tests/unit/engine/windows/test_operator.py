from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.queries import SCHEMA, batch, combiner

from muntin.engine.sessions.combine import SessionCombiner
from muntin.engine.sessions.shard import SessionShard
from muntin.engine.windows import operator
from muntin.engine.windows.by_count import ArrivalShard
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.dedup import PartitionedShard
from muntin.engine.windows.each import EachShard
from muntin.engine.windows.sliding import SlidingShard
from muntin.model.cumulating import Cumulating
from muntin.model.days import Days, days
from muntin.model.kinds import Kind
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.windows import Windows
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache

CLASSES = [
    (Windows(10, 5), Combiner, EachShard),
    (Cumulating(10, 5), Combiner, EachShard),
    (Days(Windows(1, 1), "UTC"), Combiner, EachShard),
    (Sliding(10), Combiner, SlidingShard),
    (Sessions(10), SessionCombiner, SessionShard),
]


@pytest.mark.parametrize(
    ("windows", "combiner_class", "shard_class"), CLASSES, ids=lambda part: str(part)
)
def test_each_kind_of_window_has_its_combiner_and_shard(
    windows: Kind, combiner_class: type, shard_class: Any
) -> None:
    spec = combiner(windows).spec if combiner_class is Combiner else combiner().spec
    if combiner_class is not Combiner:
        spec = type(spec)(**(vars(spec) | {"windows": windows}))
    query = operator.make_combiner(spec, SCHEMA)
    assert type(query) is combiner_class
    assert type(operator.open_shard(query, MemoryBlobs(), FrameCache())) is shard_class


def test_sliding_windows_of_rows_have_their_shards() -> None:
    query = combiner(Sliding(3, "rows"))
    assert type(operator.open_shard(query, MemoryBlobs(), FrameCache())) is ArrivalShard
    assert query.numbered_windows == Windows(3, 1, -2, "rows")
    query = combiner(Sliding(3, "rows"), offset=("key", "value"))
    assert type(operator.open_shard(query, MemoryBlobs(), FrameCache())) is PartitionedShard
    assert query.numbered_windows == Sliding(3, "rows")


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "UTC"])
def test_days_continue_with_times_at_the_ends_of_the_calendar(zone: str) -> None:
    query, store = combiner(days("1 day", zone), lateness=3), MemoryBlobs()
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    emitted = []
    for rows in ([("a", first, 1)], [("a", 0, 2), ("a", 1, 3)], [("a", last, 4)]):
        shard = operator.open_shard(query, store, FrameCache())
        emitted += (
            shard.step(batch(query, shard.state.watermark, *rows), 0).results["sum"].to_list()
        )
    final = operator.open_shard(query, store, FrameCache()).step([], 0, final=True)
    assert [*emitted, *final.results["sum"]] == [1, 5, 4]
