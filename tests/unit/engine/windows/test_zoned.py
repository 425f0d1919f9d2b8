"""Tests of windows in the zone of each key: their state, reading it, and dividing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from unittest import mock

import numpy as np
import polars as pl
import pytest
from tests.unit.engine.queries import CountingBlobs

from muntin.engine import columns, key_state
from muntin.engine.reset import check_resettable
from muntin.engine.state_reader import StateReader
from muntin.engine.windows.division import WindowDivision
from muntin.engine.windows.operator import make_combiner, open_shard
from muntin.engine.windows.panes import find_pane_in_zone, group_by_zone
from muntin.engine.windows.zoned import ZonedShard
from muntin.model.aggregates import count
from muntin.model.axis import DAY, format_time, parse_time
from muntin.model.errors import OptionError
from muntin.model.kinds import of_size
from muntin.model.policies import Each, Firing
from muntin.model.spec import WindowSpec
from muntin.model.zones import ZonedWindows
from muntin.state.frames import FrameCache
from muntin.state.manifest import parse_manifest
from muntin.state.rescale import build_manifests, split_blob

TYPES = {"shop": "String", "tz": "String"}
SCHEMA = pl.Schema({"shop": pl.String(), "tz": pl.String(), columns.TIME: pl.Int64()})
Message = tuple[str, str | None, str]


def make_spec(keep: int = 3 * DAY) -> WindowSpec:
    return WindowSpec(
        keys=("shop", "tz"),
        time="at",
        windows=of_size("1 day", zone_column="tz"),
        aggregates={"n": count()},
        firing=Firing(early=Each(), retention=keep),
        types=TYPES,
        shards=1,
    )


def messages(rows: Sequence[Message]) -> pl.DataFrame:
    return pl.DataFrame(
        [(shop, tz, parse_time("at", at)) for shop, tz, at in rows], schema=SCHEMA, orient="row"
    )


class MemoryQuery:
    """A query of one shard over a store in memory."""

    def __init__(self, spec: WindowSpec) -> None:
        self.spec = spec
        self.combiner = make_combiner(spec, SCHEMA)
        self.store = CountingBlobs()

    def step(self, *rows: Message, final: bool = False) -> pl.DataFrame:
        shard = open_shard(self.combiner, self.store, FrameCache())
        batch = self.combiner.combine(messages(rows), shard.state.watermark)
        self.output = shard.step([batch], 0, final=final)
        return self.output.results


def test_panes_of_several_zones_are_those_of_each() -> None:
    zones = ["Asia/Kolkata", "America/New_York", "UTC", "Pacific/Apia"]
    random = np.random.default_rng(7)
    times = random.integers(parse_time("at", "2011-12-01"), parse_time("at", "2012-04-01"), 500)
    rows = pl.DataFrame({"time": times, "zone": random.choice(zones, 500)})
    for size in ("1 day", "6 hours", "2 months"):
        windows = of_size(size, zone_column="zone")
        assert isinstance(windows, ZonedWindows)
        panes = rows.select(find_pane_in_zone(pl.col("time"), pl.col("zone"), windows)).to_series()
        expected = [windows.in_zone(zone).pane_of(time) for time, zone in rows.rows()]
        assert panes.to_list() == expected


def test_rows_are_grouped_by_zone() -> None:
    zones = pl.Series(["b", "a", "b", "c", "a"], dtype=pl.String())
    groups = {zone: rows.tolist() for zone, rows in group_by_zone(zones)}
    assert groups == {"a": [1, 4], "b": [0, 2], "c": [3]}
    assert list(group_by_zone(zones.clear())) == []


def test_a_zone_where_no_window_ends_is_not_stepped() -> None:
    query = MemoryQuery(make_spec())
    query.step(("a", "Asia/Tokyo", "2026-01-01T00:00"), ("a", "UTC", "2026-01-01T00:00"))
    stepped_zones: list[str] = []
    step_zone = ZonedShard._step_zone

    def record_zone(self: ZonedShard, zone: str, *arguments: object) -> object:
        stepped_zones.append(zone)
        return step_zone(self, zone, *arguments)  # type: ignore[arg-type]

    with mock.patch.object(ZonedShard, "_step_zone", record_zone):
        query.step(("a", "UTC", "2026-01-01T14:59"))
        assert stepped_zones == ["UTC"]
        assert query.output.rows == 6  # a cell and a mark of each message, of both zones
        results = query.step(("a", "UTC", "2026-01-01T15:00"))
        assert stepped_zones == ["UTC", "Asia/Tokyo", "UTC"]
    assert results.filter(emission="full")["tz"].to_list() == ["Asia/Tokyo"]


def test_a_window_is_found_by_its_key_and_its_stage_by_its_zone() -> None:
    query = MemoryQuery(make_spec(keep=0))
    query.step(("a", "Asia/Tokyo", "2026-01-01T00:00"), ("a", "America/Lima", "2026-01-01T06:00"))
    query.step(("b", "Asia/Tokyo", "2026-01-01T15:00"))
    manifest = parse_manifest(query.store.load() or "")
    stages = {}
    for zone in ("Asia/Tokyo", "America/Lima", "UTC"):
        key = key_state.parse_key(query.spec.keys, TYPES, ["a", zone])
        zone_spec, zone_manifest = key_state.select_part(query.spec, manifest, key)
        blobs_by_table = key_state.find_blobs(zone_spec, zone_manifest.tables, None, None)
        arguments = blobs_by_table, query.store.blobs, key, (None, None), zone_manifest
        rows = (
            key_state.list_key_windows(zone_spec, *arguments).select("window_start", "stage").rows()
        )
        stages[zone] = [(format_time(start), stage) for start, stage in rows]
    assert stages["America/Lima"] == [("2026-01-01 05:00:00", "current")]
    # Tokyo's day has closed, and its state is deleted.
    assert [stage for _, stage in stages["Asia/Tokyo"]] in ([], ["expired"])
    assert stages["UTC"] == []
    for zone in ("Oz", r"\N"):
        key = key_state.parse_key(query.spec.keys, TYPES, ["a", zone])
        with pytest.raises(OptionError, match="isn't a known time zone"):
            key_state.select_part(query.spec, manifest, key)


def test_state_is_read_from_outside_by_range() -> None:
    query = MemoryQuery(make_spec())
    query.step(("a", "Asia/Tokyo", "2026-01-01T00:00"), ("a", "UTC", "2026-01-02T00:00"))
    reader = StateReader(query.spec)
    text = query.store.load() or ""
    start, end = parse_time("at", "2026-01-02"), None
    needed = reader.find_blobs(parse_manifest(text), start, end)
    rows = reader.snapshot(text, {n: query.store.blobs[n] for n in needed}, start, end)
    assert rows.select("shop", "tz", "n").rows() == [("a", "UTC", 1)]
    everything = reader.snapshot(text, query.store.blobs)
    assert everything["tz"].to_list() == ["Asia/Tokyo", "UTC"]


@pytest.mark.parametrize("shards", [2, 3])
def test_divided_state_continues_in_each_zone(shards: int) -> None:
    rows = [
        (shop, tz, "2026-01-01T10:00")
        for shop in "abcdef"
        for tz in ("Asia/Tokyo", "UTC", "America/Lima")
    ]
    query = MemoryQuery(make_spec())
    query.step(*rows)
    manifests = [parse_manifest(query.store.load() or "")]
    division = WindowDivision(manifests)
    blobs: list[dict[int, bytes]] = [{} for _ in range(shards)]
    split_sizes: dict[int, dict[int, tuple[int, int, int]]] = {}
    for number, blob in query.store.blobs.items():
        for shard, count_, part in split_blob(number, blob, division, shards):
            split_sizes.setdefault(number, {})[shard] = (number, count_, len(part))
            blobs[shard][number] = part
    texts = build_manifests(manifests, split_sizes, shards, division)
    full_rows, counted_messages = [], 0
    combiner = make_combiner(replace(make_spec(), shards=shards), SCHEMA)
    for shard, text in enumerate(texts):
        store = CountingBlobs()
        store.blobs, store.manifest = dict(blobs[shard]), text
        opened_shard = open_shard(combiner, store, FrameCache())
        counted_messages += opened_shard.state.counts.get("counted", 0)
        no_messages = combiner.combine(messages([]), opened_shard.state.watermark)
        output = opened_shard.step([no_messages], 0, final=True)
        full_rows += output.results.filter(emission="full").select("shop", "tz").rows()
    assert sorted(full_rows) == sorted((shop, tz) for shop, tz, _ in rows)
    assert counted_messages == len(rows)


def test_a_watermark_over_zones_is_not_set_back() -> None:
    query = MemoryQuery(make_spec())
    query.step(("a", "UTC", "2026-01-01T00:00"))
    with pytest.raises(OptionError, match="can't be opened again"):
        check_resettable(parse_manifest(query.store.load() or ""), "here")


def test_a_column_of_zones_holds_texts() -> None:
    numbers = pl.Schema({**SCHEMA, "tz": pl.Int64()})
    with pytest.raises(OptionError, match="zone_column='tz' has type Int64"):
        make_combiner(make_spec(), numbers)
