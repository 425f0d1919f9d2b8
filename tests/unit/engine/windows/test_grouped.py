"""Tests of grouping sets before the shuffle: the messages sent and their counts."""

from __future__ import annotations

from collections import Counter
from functools import partial

import polars as pl

from muntin.engine import columns
from muntin.engine.operator import ShardState, Task, TaskWatermark
from muntin.engine.windows.operator import WindowOperator
from muntin.model.aggregates import count
from muntin.standalone import windowed
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache

SHARDS = 3
SPEC = windowed(key=["region", "shop"], time="at").sets("rollup").tumbling("10 s").agg(n=count())
SCHEMA = {"region": pl.String(), "shop": pl.Int64(), "at": pl.Int64()}


def messages(rows: list[tuple[str | None, int, int]]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return frame.with_columns(pl.col("at").alias(columns.TIME))


def test_messages_that_only_shards_can_classify_go_to_each_set_and_count_once() -> None:
    batches = [
        [("north", 1, 1_000_000), ("north", 2, 2_000_000), (None, 3, 2_500_000)],
        [("south", 1, 12_000_000)],
        [("south", 4, 3_000_000), ("north", 1, 13_000_000), ("north", 1, 25_000_000)],
    ]
    outcomes = []
    for knows_watermark in (True, False):
        operator, stores = WindowOperator(SPEC, SCHEMA), [MemoryBlobs() for _ in range(SHARDS)]
        firings, rejected, counts = [], [], Counter[str]()
        watermark: int | None = None
        for number, rows in enumerate(batches):
            task = Task("input", 0, SHARDS, partial(TaskWatermark, knows_watermark, watermark))
            for part, store in zip(operator.prepare([messages(rows)], task), stores, strict=True):
                step = operator.open(ShardState("windows", part.shard, store, FrameCache()))
                output = step.run([part], 0, final=False)
                firings += output.rows["results"].rows()
                rejected += output.rows["rejected"].select("region", "shop", "reason").rows()
                if number == len(batches) - 1:
                    counts.update(output.progress["counts"])
                task_watermark = step.task_watermark
            assert task_watermark is not None
            watermark = task_watermark.watermark
        outcomes.append((sorted(firings, key=repr), rejected, counts))
    assert outcomes[0] == outcomes[1]
    firings, rejected, counts = outcomes[0]
    assert rejected == [(None, 3, "null_key"), ("south", 4, "late")]
    assert counts == {"seen": 7, "counted": 5, "null_key": 1, "late": 1}
    assert sum(n for *_, number, _, _, n, _, _ in firings if number == 3) == 4
