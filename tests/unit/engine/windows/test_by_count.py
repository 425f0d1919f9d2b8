"""Tests of windows by number of arrival, with columns of any name."""

from __future__ import annotations

from functools import cache

import polars as pl
import pytest

from muntin.engine import columns
from muntin.engine.windows.by_count import ArrivalShard
from muntin.engine.windows.combine import Combiner
from muntin.model import aggregates
from muntin.model.axis import rows
from muntin.model.kinds import Kind
from muntin.model.policies import Each, Firing
from muntin.model.sliding import sliding
from muntin.model.spec import WindowSpec
from muntin.model.windows import hopping, tumbling
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache

ORDINARY = [
    "before",
    "new",
    "head",
    "place",
    "fired",
    "unemitted",
    "first",
    "window",
    "n",
    "k0",
    "k1",
]


@cache
def run_batches(key: str, value: str, kind: Kind, firing: Firing) -> list[list[tuple[object, ...]]]:
    """Return the sums that each of three batches emits; each batch reopens the stored state."""
    schema = pl.Schema({key: pl.String(), value: pl.Int64(), columns.TIME: pl.Int64()})
    spec = WindowSpec((key,), None, kind, {"total": aggregates.sum(value)}, firing=firing)
    query, blobs = Combiner(spec, schema), MemoryBlobs()
    results = []
    for batch in ([("a", 1), ("b", 10), ("a", 2)], [("a", 4), ("a", 8)], [("b", 20), ("b", 40)]):
        messages = pl.DataFrame([(*row, 0) for row in batch], schema=schema, orient="row")
        step = ArrivalShard(query, blobs, FrameCache()).step([query.combine(messages, None)], 0)
        names = (key, columns.WINDOW_START, "total", columns.EMISSION)
        results.append(step.results.select(names).rows())
    return results


@pytest.mark.parametrize("name", ORDINARY)
@pytest.mark.parametrize("kind", [tumbling(rows(2)), hopping(rows(3), rows(2)), sliding(rows(2))])
@pytest.mark.parametrize("firing", [Firing(), Firing(Each())], ids=["full", "early"])
def test_columns_may_have_any_name(name: str, kind: Kind, firing: Firing) -> None:
    expected = run_batches("key", "value", kind, firing)
    assert run_batches("key", name, kind, firing) == expected
    assert run_batches(name, "value", kind, firing) == expected


def test_rejected_messages_keep_their_columns() -> None:
    schema = pl.Schema({"key": pl.String(), "before": pl.Int64(), columns.TIME: pl.Int64()})
    spec = WindowSpec(("key",), None, tumbling(rows(2)), {"n": aggregates.count()})
    query = Combiner(spec, schema)
    messages = pl.DataFrame([("a", 7, 0), (None, 8, 0)], schema=schema, orient="row")
    shard = ArrivalShard(query, MemoryBlobs(), FrameCache())
    rejected = shard.step([query.combine(messages, None)], 0).rejected
    assert rejected.select("before", columns.REASON).rows() == [(8, "null_key")]
