"""Tests of joins at each change: rows kept, deleted and refused options."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import polars as pl
import pytest
from tests.contract.checkpoints import MemoryCheckpoint, image_of, rescaled

from muntin.dataframe.state import explain_checkpoint
from muntin.engine import columns
from muntin.engine.joins.joiner import Joiner
from muntin.engine.joins.reading import AxisRange, read_join_messages
from muntin.engine.joins.shard import JoinShard
from muntin.engine.state_reader import read_side_messages
from muntin.model.bounds import Newest, find_bound
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec, Side
from muntin.model.policies import Each, Every, Firing
from muntin.model.recall import load_spec
from muntin.model.windows import tumbling
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache
from muntin.state.hashing import split_by_shard
from muntin.state.manifest import parse_manifest

Rows = list[tuple[Any, ...]]
KINDS = {"key": pl.String, "end": pl.Int64, "value": pl.Int64}
FIRING = {**KINDS, columns.EMISSION: pl.String, columns.REVISION: pl.Int64}
SCHEMA = pl.Schema({**FIRING, columns.TIME: pl.Int64()})


class Run:
    """A join of windows' emissions, which opens its shards again at each step."""

    def __init__(self, grace: int = 0, shards: int = 1, **options: Any) -> None:
        firing = Firing(Each(), Each(), grace=grace, retention=grace)
        types = {name: str(kind()) for name, kind in FIRING.items()}
        side = Side(("key", "end"), "end", firing=firing, types=types)
        self.spec = JoinSpec(side, side, Newest(), shards=shards, **options)
        self.joiner = Joiner(self.spec, dict.fromkeys(SIDES, SCHEMA))
        self.stores = [MemoryBlobs() for _ in range(shards)]

    def open_shard(self, shard: int = 0) -> JoinShard:
        return JoinShard(self.joiner, self.stores[shard], FrameCache())

    def step(self, left: Rows = [], right: Rows = []) -> Rows:  # noqa: B006
        arrived = {}
        for side, rows in zip(SIDES, (left, right), strict=True):
            frame = pl.DataFrame(rows, FIRING, orient="row")
            frame = frame.with_columns(pl.col("end").alias(columns.TIME))
            arrived[side] = self.joiner.arrive(side, frame)
        results: Rows = []
        for shard in range(len(self.stores)):
            shard_messages = {}
            for side, side_messages in arrived.items():
                messages_by_shard = split_by_shard(
                    side_messages.messages, list(self.spec.side(side).keys), len(self.stores)
                )
                shard_messages[side] = [
                    replace(
                        side_messages,
                        messages=messages_by_shard.get(shard, side_messages.messages.clear()),
                    )
                ]
            results += self.open_shard(shard).step(shard_messages, 0).results.rows()
        return results


def test_a_row_is_stored_for_each_window_that_may_change():
    run = Run(grace=20, how="full")
    for end in range(0, 200, 10):
        for revision in range(5):
            word = "early" if revision < 4 else "full"
            rows = [("a", end, revision, word, revision)]
            results = run.step(rows, rows)
            assert results == [("a", end, revision, revision, word, 2 * revision + 1)]
    # Windows that neither side may change are deleted, and so are the rows that were replaced.
    for side in SIDES:
        stored_rows = read_join_messages(run.open_shard(), side, AxisRange(None, None))
        assert stored_rows.select("end", "revision").rows() == [(170, 4), (180, 4), (190, 4)]
    assert run.open_shard().strategy.rows < 60


def test_the_newest_rows_can_be_read_from_outside():
    run = Run(grace=20, how="full")
    run.step([("a", 10, 1, "early", 0)])
    run.step([("a", 10, 2, "early", 1), ("b", 10, 3, "early", 0)])
    store = run.stores[0]
    manifest = parse_manifest(store.load() or "")
    numbers, _ = read_side_messages(manifest, "left")
    blobs = {number: store.get(number) for number in numbers}
    assert load_spec(manifest.spec) == run.spec
    _, frames = read_side_messages(manifest, "left", blobs)
    rows = pl.concat(frames).sort("key").select("key", "value", "revision").rows()
    assert rows == [("a", 2, 1), ("b", 3, 0)]


def test_why_a_window_has_a_pair_or_none():
    run = Run(grace=20, how="left")
    run.step([("a", 10, 1, "full", 0), ("c", 10, 2, "full", 0)], [("a", 10, 7, "full", 0)])
    run.step([("z", 90, 0, "full", 0)], [("z", 50, 0, "full", 0)])

    def explain(key: str, end: int) -> str:
        at = f"1970-01-01 00:00:00.{end:06}"
        lines = explain_checkpoint(MemoryCheckpoint([image_of(run.stores)]), [key, str(end)], at)
        return " ".join(" ".join(lines).split())

    expired = explain("a", 10)
    assert "partners the other side's newest row, at each change of either" in expired
    assert "all before 1970-01-01 00:00:00.00003 were deleted: neither side may change" in expired
    unmatched = explain("z", 90)
    assert "has no partner among what is kept: no right message of this key is kept" in unmatched
    assert "it is kept while either side may change its window" in unmatched
    assert "Unmatched rows of the left side are emitted at once" in unmatched
    run.step([], [("z", 90, 8, "early", 0)])
    assert "has 1 partners that are kept: at 1970-01-01 00:00:00.00009 right" in explain("z", 90)


def test_rescaling_changes_no_result():
    chance = Random(3)
    windows = [(key, end) for key in "abcde" for end in range(10, 60, 10)]
    batches = []
    for number in range(12):
        windows_by_side = [chance.sample(windows, 6) for _ in SIDES]
        emission = "retract" if number % 4 == 3 else "early"
        batches.append(
            [[(*window, number, emission, number) for window in rows] for rows in windows_by_side]
        )
    runs = Run(how="full"), Run(how="full", shards=2)
    expected, results = ([run.step(*batch) for batch in batches[:4]] for run in runs)
    unscaled_run, run = runs
    for cut, shards in ((4, 3), (8, 1)):
        old_run, run = run, Run(how="full", shards=shards)
        run.stores = rescaled(old_run.stores, shards)
        expected += [unscaled_run.step(*batch) for batch in batches[cut : cut + 4]]
        results += [run.step(*batch) for batch in batches[cut : cut + 4]]
    assert [sorted(rows, key=repr) for rows in results] == [
        sorted(rows, key=repr) for rows in expected
    ]
    assert {row[-2] for rows in results for row in rows} == {"early", "retract"}


def test_a_retraction_comes_before_the_row_that_replaces_it():
    run = Run(how="full")
    run.step([("a", 10, 1, "early", 0)])
    results = run.step([("a", 15, 2, "early", 0), ("a", 10, None, "retract", 1)])
    assert [row[-2:] for row in results] == [("retract", 1), ("early", 0)]


def test_a_key_of_another_width_is_the_same_key():
    side = Side(("id", "end"), "end", firing=Firing(Each(), Each()))
    spec = JoinSpec(side, side, Newest(), "full")
    own = {columns.EMISSION: pl.String(), columns.REVISION: pl.Int32(), columns.TIME: pl.Int64()}
    schemas = {
        name: pl.Schema({"id": kind, "end": pl.Int64(), **own})
        for name, kind in zip(SIDES, (pl.Int64(), pl.Int32()), strict=True)
    }
    joiner = Joiner(spec, schemas)  # type: ignore[arg-type]
    shard = JoinShard(joiner, MemoryBlobs(), FrameCache())
    messages_by_side = {
        name: [joiner.arrive(name, pl.DataFrame([row], schemas[name], orient="row"))]
        for name, row in (("left", (7, 10, "full", 0, 10)), ("right", (7, 10, "full", 0, 10)))
    }
    assert shard.step(messages_by_side, 0).results.rows() == [(7, 10, "full", 1)]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"how": "semi"}, "isn't for each_change joins; give one of inner, left, right, full"),
        ({"how": "anti"}, "isn't for each_change joins"),
        ({"layout": "time"}, "isn't for each_change joins, whose rows lie by keys"),
        ({"how": "left", "nulls": "unmatched"}, "is identified by its key"),
    ],
)
def test_options_of_other_joins_are_refused(change, problem):
    with pytest.raises(OptionError, match=problem):
        Run(**change)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"time": "other"}, r"needs the times \('other', 'end'\) among on"),
        ({"windows": tumbling("1 minute")}, "bound a pair as each_change does"),
        ({"firing": Firing(Each(), Each(), retention=9)}, "isn't for each_change joins: rows are"),
        ({"firing": Firing(Every(5), Each())}, "isn't for each_change joins: rows are kept"),
        ({"offset": ("key", "value")}, "on the left isn't for each_change joins"),
    ],
)
def test_options_of_a_side_that_do_not_apply_are_refused(change, problem):
    spec = Run().spec
    with pytest.raises(OptionError, match=problem):
        replace(spec, left=replace(spec.left, **change))


def test_a_side_needs_a_column_that_orders_its_rows():
    spec = Run().spec
    bare = pl.Schema({name: kind for name, kind in SCHEMA.items() if name != columns.REVISION})
    with pytest.raises(OptionError, match="which row of the right side replaces another"):
        Joiner(spec, {"left": SCHEMA, "right": bare})


def test_nothing_else_bounds_a_pair():
    minute = tumbling("1 minute")
    with pytest.raises(
        OptionError, match="can't be combined with windows, which also bounds a pair"
    ):
        find_bound(None, minute, None, each_change=True)
    with pytest.raises(
        OptionError, match="can't be combined with within, which also bounds a pair"
    ):
        find_bound("1 minute", None, None, each_change=True)
    with pytest.raises(OptionError, match="can't be combined with as_of"):
        find_bound(None, None, None, as_of=True, each_change=True)
