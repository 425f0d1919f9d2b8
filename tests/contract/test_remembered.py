"""Tests that a state records the query that wrote it, of any kind and with any names."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from tests.unit.engine.queries import SCHEMA, messages

from muntin.engine import columns
from muntin.engine.joins.joiner import Joiner
from muntin.engine.joins.operator import open_join_shard
from muntin.engine.windows.operator import make_combiner, open_shard
from muntin.model import aggregates
from muntin.model.bounds import AsOf, Bound, SessionBound, SideName, Together, Within
from muntin.model.cumulating import Cumulating
from muntin.model.days import days
from muntin.model.errors import SpecChangedError, StateCorruptedError
from muntin.model.joins import SIDES, JoinSpec, Side
from muntin.model.kinds import Kind
from muntin.model.policies import Each, EveryRows, Firing
from muntin.model.recall import load_spec
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache
from muntin.state.manifest import parse_manifest
from muntin.tables.partition import Partition, Rules, read_tables
from muntin.tables.spec import TableSpec

ODD = ("a, b", "type of x", 'say "so"', "it's\nnone", "größe")
TEXTS = dict.fromkeys(ODD, pl.String())
WINDOWS: dict[str, Kind] = {
    "hopping": Windows(10, 4, 3),
    "cumulating": Cumulating(10, 5),
    "days": days("2 days", "America/New_York", slide="1 day"),
    "sliding": Sliding(10),
    "sessions": Sessions(5, "left"),
    "rows": Windows(3, 2, 1, "rows"),
    "rows that slide": Sliding(3, "rows"),
    "offsets": Windows(3, 3, 0, "rows"),
    "sessions of offsets": Sessions(3, "both", "rows"),
}
BOUNDS: dict[str, Bound] = {
    "distance": Within(5, 2),
    "window": Together((Windows(10, 5), Cumulating(20, 10))),
    "session": SessionBound(Sessions(5)),
    "version": AsOf(7),
    "any version": AsOf(),
    "rows": Within(3, 3, "rows"),
}


def window_spec(kind: str) -> WindowSpec:
    windows, offset = WINDOWS[kind], None
    keys: tuple[str, ...] = ODD[:3]
    if "offsets" in kind:
        offset, keys = ("part, one", "offset"), ("part, one", *keys)
    by_arrival = windows.axis == "rows" and offset is None
    return WindowSpec(
        keys,
        "none" if windows.axis == "time" else None,
        windows,
        {"agg n": aggregates.arg_max("value", "it's\nnone"), "a, b=": aggregates.top_k("value", 3)},
        firing=Firing(EveryRows(2), Each(), 0 if by_arrival else 7, 9),
        lateness=5 if windows.axis == "time" else 0,
        max_ahead=11,
        types=dict.fromkeys(ODD, "String"),
        shards=2,
        offset=offset,
        zone="UTC",
    )


@pytest.mark.parametrize("kind", WINDOWS)
def test_windows(kind: str) -> None:
    spec, blobs = window_spec(kind), MemoryBlobs()
    frame = messages([("a", 1, 1), ("b", 12, 2), ("a", 31, 3)])
    frame = frame.with_columns(pl.col("key").alias(name) for name in ODD)
    frame = frame.with_columns(pl.lit(0).alias("part, one"), pl.Series("offset", [0, 1, 2]))
    query = make_combiner(spec, frame.schema)
    open_shard(query, blobs, FrameCache()).step([query.combine(frame, None)], 0)
    stored = parse_manifest(blobs.load() or "").spec
    assert load_spec(stored) == spec
    open_shard(query, blobs, FrameCache())
    other = make_combiner(replace(spec, types={**spec.types, "größe": "Binary"}), frame.schema)
    with pytest.raises(SpecChangedError, match="type of größe: was String, is Binary"):
        open_shard(other, blobs, FrameCache())


@pytest.mark.parametrize("kind", BOUNDS)
def test_joins(kind: str) -> None:
    bound, blobs = BOUNDS[kind], MemoryBlobs()
    offset = ("part, one", "offset") if bound.axis == "rows" else None
    side = Side(ODD[:2], None if offset else "none", offset=offset, types={"a, b": "String"})
    spec = JoinSpec(side, replace(side, keys=ODD[1:3], zone="UTC"), bound, shards=3)
    schema = pl.Schema({**SCHEMA, **TEXTS, "part, one": pl.Int32(), "offset": pl.Int64()})
    joiner = Joiner(spec, dict.fromkeys(SIDES, schema))
    frame = messages([("a", 1, 1), ("b", 12, 2)])
    frame = frame.with_columns(pl.col("key").alias(name) for name in ODD)
    frame = frame.with_columns(pl.lit(0).alias("part, one"), pl.Series("offset", [0, 1]))
    arrivals: dict[SideName, Any] = {
        s: [joiner.arrive(s, frame.select(schema.names()))] for s in SIDES
    }
    open_join_shard(joiner, blobs, FrameCache()).step(arrivals, 0)
    assert load_spec(parse_manifest(blobs.load() or "").spec) == spec
    open_join_shard(joiner, blobs, FrameCache())
    other = Joiner(replace(spec, how="left"), dict.fromkeys(SIDES, schema))
    with pytest.raises(SpecChangedError, match="join: was inner, is left"):
        open_join_shard(other, blobs, FrameCache())


TABLES = {
    "whole": TableSpec("a, b", int),
    "set": TableSpec("a, b", sets=True),
    "hopping": TableSpec("a, b", int, windows=Windows(10, 5, 2), expires=60, key_type=str),
    "values": TableSpec("a, b", list, windows=Windows(10, 5), value_type=list),
    "sessions": TableSpec("a, b", float, windows=Sessions(5), expires=7),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables(kind: str) -> None:
    spec, blobs = TABLES[kind], MemoryBlobs()

    def begin_partition(table: TableSpec) -> Partition:
        part = Partition(Rules({"a, b": table}, {}), 0)
        part.begin(blobs, 0)
        return part

    asyncio.run(begin_partition(spec).finish({}))
    stored = read_tables(parse_manifest(blobs.load() or ""))["a, b"]
    assert TableSpec.from_manifest("a, b", stored).to_dict() == spec.to_dict()
    begin_partition(spec)
    other = replace(spec, windows=Windows(10, 5, 1), sets=False, default=int)
    with pytest.raises(SpecChangedError, match="is hopping 10 microseconds by 5 microseconds, or"):
        begin_partition(other)


def test_a_topic_whose_times_are_read_in_another_zone() -> None:
    blobs = MemoryBlobs()

    def write_batch(**zones: str) -> None:
        part = Partition(Rules({"t": TableSpec("t", int)}, {}, zones=zones), 0)
        part.begin(blobs, 0)
        asyncio.run(part.finish({}))

    write_batch(clicks="UTC")
    write_batch(orders="UTC")
    write_batch(clicks="UTC", orders="UTC")
    error = "the topic 'clicks' were read in the time zone UTC, and are in America/New_York now"
    with pytest.raises(SpecChangedError, match=error):
        write_batch(clicks="America/New_York")
    write_batch()


def test_state_of_prose_is_refused_by_its_number() -> None:
    blobs = MemoryBlobs()
    blobs.save(json.dumps({"format": 1, "spec": json.dumps({"key": "a, b"})}))
    spec = window_spec("hopping")
    schema = pl.Schema({**SCHEMA, **TEXTS, columns.TIME: pl.Int64()})
    with pytest.raises(StateCorruptedError, match="format 1, this muntin reads format 3: use the"):
        open_shard(make_combiner(spec, schema), blobs, FrameCache())
