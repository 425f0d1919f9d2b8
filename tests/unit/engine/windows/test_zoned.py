"""Windows in the zone of each key: their state, what is read of it, and its division."""

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
from muntin.state.frame_cache import FrameCache
from muntin.state.manifest import parse_manifest
from muntin.state.rescale import build_manifests, split_blob

TYPES = {"shop": "String", "tz": "String"}
SCHEMA = pl.Schema({"shop": pl.String(), "tz": pl.String(), columns.TIME: pl.Int64()})
Message = tuple[str, str | None, str]


def query(keep: int = 3 * DAY) -> WindowSpec:
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


class Query:
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
        alone = [windows.in_zone(zone).pane_of(time) for time, zone in rows.rows()]
        assert panes.to_list() == alone


def test_rows_are_grouped_by_zone() -> None:
    zones = pl.Series(["b", "a", "b", "c", "a"], dtype=pl.String())
    groups = {zone: places.tolist() for zone, places in group_by_zone(zones)}
    assert groups == {"a": [1, 4], "b": [0, 2], "c": [3]}
    assert list(group_by_zone(zones.clear())) == []


def test_a_zone_where_nothing_ends_is_left_alone() -> None:
    held = Query(query())
    held.step(("a", "Asia/Tokyo", "2026-01-01T00:00"), ("a", "UTC", "2026-01-01T00:00"))
    stepped: list[str] = []
    inner = ZonedShard._step_zone

    def note(self: ZonedShard, zone: str, *arguments: object) -> object:
        stepped.append(zone)
        return inner(self, zone, *arguments)  # type: ignore[arg-type]

    with mock.patch.object(ZonedShard, "_step_zone", note):
        held.step(("a", "UTC", "2026-01-01T14:59"))
        assert stepped == ["UTC"]
        assert held.output.rows == 6  # a cell and a mark of each message, of both zones
        ended = held.step(("a", "UTC", "2026-01-01T15:00"))
        assert stepped == ["UTC", "Asia/Tokyo", "UTC"]
    assert ended.filter(emission="full")["tz"].to_list() == ["Asia/Tokyo"]


def test_a_window_is_found_by_its_key_and_its_stage_by_its_zone() -> None:
    held = Query(query(keep=0))
    held.step(("a", "Asia/Tokyo", "2026-01-01T00:00"), ("a", "America/Lima", "2026-01-01T06:00"))
    held.step(("b", "Asia/Tokyo", "2026-01-01T15:00"))
    manifest = parse_manifest(held.store.load() or "")
    stages = {}
    for zone in ("Asia/Tokyo", "America/Lima", "UTC"):
        key = key_state.parse_key(held.spec.keys, TYPES, ["a", zone])
        own, part = key_state.select_part(held.spec, manifest, key)
        named = key_state.find_blobs(own, part.tables, None, None)
        arguments = named, held.store.blobs, key, (None, None), part
        rows = key_state.list_key_windows(own, *arguments).select("window_start", "stage").rows()
        stages[zone] = [(format_time(start), stage) for start, stage in rows]
    assert stages["America/Lima"] == [("2026-01-01 05:00:00", "current")]
    # Tokyo's day has closed, and its state is gone.
    assert [stage for _, stage in stages["Asia/Tokyo"]] in ([], ["expired"])
    assert stages["UTC"] == []
    for zone in ("Oz", r"\N"):
        key = key_state.parse_key(held.spec.keys, TYPES, ["a", zone])
        with pytest.raises(OptionError, match="isn't a known time zone"):
            key_state.select_part(held.spec, manifest, key)


def test_state_is_read_from_outside_by_range() -> None:
    held = Query(query())
    held.step(("a", "Asia/Tokyo", "2026-01-01T00:00"), ("a", "UTC", "2026-01-02T00:00"))
    reader = StateReader(held.spec)
    text = held.store.load() or ""
    start, end = parse_time("at", "2026-01-02"), None
    wanted = reader.find_blobs(parse_manifest(text), start, end)
    read = reader.snapshot(text, {n: held.store.blobs[n] for n in wanted}, start, end)
    assert read.select("shop", "tz", "n").rows() == [("a", "UTC", 1)]
    everything = reader.snapshot(text, held.store.blobs)
    assert everything["tz"].to_list() == ["Asia/Tokyo", "UTC"]


@pytest.mark.parametrize("shards", [2, 3])
def test_divided_state_goes_on_in_each_zone(shards: int) -> None:
    rows = [
        (shop, tz, "2026-01-01T10:00")
        for shop in "abcdef"
        for tz in ("Asia/Tokyo", "UTC", "America/Lima")
    ]
    held = Query(query())
    held.step(*rows)
    manifests = [parse_manifest(held.store.load() or "")]
    division = WindowDivision(manifests)
    blobs: list[dict[int, bytes]] = [{} for _ in range(shards)]
    moved: dict[int, dict[int, tuple[int, int, int]]] = {}
    for number, blob in held.store.blobs.items():
        for shard, count_, part in split_blob(number, blob, division, shards):
            moved.setdefault(number, {})[shard] = (number, count_, len(part))
            blobs[shard][number] = part
    texts = build_manifests(manifests, moved, shards, division)
    full, counted = [], 0
    combiner = make_combiner(replace(query(), shards=shards), SCHEMA)
    for shard, text in enumerate(texts):
        store = CountingBlobs()
        store.blobs, store.manifest = dict(blobs[shard]), text
        one = open_shard(combiner, store, FrameCache())
        counted += one.state.counts.get("counted", 0)
        nothing = combiner.combine(messages([]), one.state.watermark)
        output = one.step([nothing], 0, final=True)
        full += output.results.filter(emission="full").select("shop", "tz").rows()
    assert sorted(full) == sorted((shop, tz) for shop, tz, _ in rows)
    assert counted == len(rows)


def test_a_watermark_over_zones_is_not_set_back() -> None:
    held = Query(query())
    held.step(("a", "UTC", "2026-01-01T00:00"))
    with pytest.raises(OptionError, match="can't be opened again"):
        check_resettable(parse_manifest(held.store.load() or ""), "here")


def test_a_column_of_zones_holds_texts() -> None:
    numbers = pl.Schema({**SCHEMA, "tz": pl.Int64()})
    with pytest.raises(OptionError, match="zone_column='tz' has type Int64"):
        make_combiner(query(), numbers)
