"""What the state says of a key, without changing it."""

from __future__ import annotations

import json

import polars as pl
import pytest
from tests.unit.engine.queries import CountingBlobs, batch, combiner, messages

from muntin.engine import witness
from muntin.engine.buckets import split
from muntin.engine.paned import PanedShard
from muntin.engine.runs import FrameCache
from muntin.model.facts import read_back
from muntin.model.policies import Each, EveryRows, Firing
from muntin.model.windows import Windows


@pytest.mark.parametrize("buckets", [1, 2, 5, 64])
def test_the_shard_of_a_query_without_a_key(buckets: int) -> None:
    query = combiner(keys=(), buckets=buckets)
    combined = query.combine(messages([("a", 1, 1), ("b", 2, 1)]), None)
    (owner,) = split(combined.cells, query.keys, buckets)
    facts = read_back(query.spec.facts())
    assert witness.bucket_of(facts, witness.key_of(facts, [])) == owner


def test_the_shard_of_a_key() -> None:
    query = combiner(buckets=7, types={"key": "String"})
    facts = read_back(query.spec.facts())
    for key in "abcdef":
        (owner,) = split(pl.DataFrame({"k0": [key]}), ["k0"], 7)
        assert witness.bucket_of(facts, witness.key_of(facts, [key])) == owner


def test_what_waits_is_told_of_windows_whose_time_it_is() -> None:
    # Window 0 waits for a third message until its time has passed; the row beside it is left.
    firing = Firing(early=EveryRows(3), late=Each(), grace=20, retention=900)
    types = {"key": "String"}
    query = combiner(Windows(10, 10), firing=firing, lateness=15, types=types, buckets=1)
    facts, store = read_back(query.spec.facts()), CountingBlobs()
    shard = PanedShard(query, store, FrameCache())
    shard.step(batch(query, None, ("a", 1, 1), ("a", 21, 1), ("a", -40, 1)), 0)
    shard.step(batch(query, 6, ("a", 26, 1)), 0)
    named = witness.wanted(facts, json.loads(store.load() or "")["tables"], None, None)
    key = witness.key_of(facts, ["a"])
    known = witness.known(facts, named, store.blobs, key, (None, None), shard.state.watermark)
    found = known.select("window_start", "messages", "untold", "stage").rows()
    assert found == [(-40, 1, 0, "closed"), (0, 1, 0, "past"), (20, 2, 2, "current")]
