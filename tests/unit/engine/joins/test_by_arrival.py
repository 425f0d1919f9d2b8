"""Tests of joins with the newest row to have arrived: rows kept, deleted and refused options."""

from __future__ import annotations

from typing import Any
from unittest import mock

import polars as pl
import pytest

import muntin as mt
from muntin.engine import columns
from muntin.engine.joins.by_arrival import build_deletion_test
from muntin.engine.joins.joiner import Joiner
from muntin.engine.joins.reading import AxisRange, read_join_messages
from muntin.engine.joins.shard import JoinShard
from muntin.engine.state_reader import read_side_messages
from muntin.explain.why_joins import SideSeen, explain_positions
from muntin.model.bounds import ByArrival, SideName, find_bound
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec, Side
from muntin.model.policies import Each, Every, Firing
from muntin.model.recall import load_spec
from muntin.standalone import JoinWindow, join, windowed
from muntin.state import runs
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache
from muntin.state.manifest import parse_manifest

Rows = list[tuple[Any, ...]]
SCHEMA = pl.Schema({"key": pl.String, "id": pl.Int64, columns.TIME: pl.Int64})
TYPES = {"key": "String", "id": "Int64"}


class Run:
    """A join of keys, numbers and times, which opens its shard again at each step."""

    def __init__(self, keep: int = 0, **options: Any) -> None:
        left, right = (
            Side(("key",), "time", firing=Firing(Each(), Each(), retention=time), types=TYPES)
            for time in (0, keep)
        )
        self.spec = JoinSpec(left, right, ByArrival(), **options)
        self.joiner = Joiner(self.spec, dict.fromkeys(SIDES, SCHEMA))
        self.store = MemoryBlobs()

    def open_shard(self) -> JoinShard:
        return JoinShard(self.joiner, self.store, FrameCache())

    def step(self, left: Rows = [], right: Rows = [], **options: Any) -> Rows:  # noqa: B006
        frames = {"left": left, "right": right}
        arrived = {
            side: [self.joiner.arrive(side, pl.DataFrame(frames[side], SCHEMA, orient="row"))]
            for side in SIDES
        }
        return self.open_shard().step(arrived, 0, **options).results.rows()

    def read_stored_ids(self, side: SideName) -> list[int]:
        return (
            read_join_messages(self.open_shard(), side, AxisRange(None, None))["id"]
            .sort()
            .to_list()
        )

    def read_from_outside(self) -> list[int]:
        manifest = parse_manifest(self.store.manifest or "")
        numbers, _ = read_side_messages(manifest, "right")
        _, frames = read_side_messages(
            manifest, "right", {number: self.store.blobs[number] for number in numbers}
        )
        return sorted(number for frame in frames for number in frame["id"].to_list())


def test_one_row_of_each_key_is_stored_and_no_left_message():
    run = Run()
    for turn in range(60):
        run.step(left=[("a", 0, turn)], right=[("a", turn, -turn), ("b", 100 + turn, turn)])
    assert run.read_stored_ids("right") == run.read_from_outside() == [59, 159]
    assert run.read_stored_ids("left") == []
    assert run.open_shard().strategy.rows < 40


def test_deletions_are_removed_once_they_hide_no_row():
    run = Run()
    with mock.patch.object(runs, "MAX_RUNS", 1):
        for turn in range(40):
            key = f"k{turn}"
            run.step(right=[(key, turn, turn)])
            run.step(right=[(key, None, turn)], left=[(key, 9, turn)])
    assert run.read_stored_ids("right") == run.read_from_outside() == []
    assert run.open_shard().strategy.rows < 10


def test_a_row_never_outlives_one_that_arrived_after_it():
    run = Run(keep=10)
    run.step(right=[("a", 1, 100)])
    run.step(right=[("a", 2, 50), ("z", 0, 105)])
    with mock.patch.object(runs, "MAX_RUNS", 1):
        for time in range(106, 117):
            run.step(right=[("z", time, time)])
            assert run.step(left=[("a", 7, 0)])[:1] in ([("a", 7, 2, "full")], [])
    assert run.step(left=[("a", 7, 0)]) == []


def test_only_the_left_side_moves_the_watermark():
    run = Run()
    run.step(right=[("a", 1, 100)])
    assert run.open_shard().watermark is None
    run.step(left=[("a", 1, 5)])
    assert run.open_shard().watermark == 5


def test_the_columns_of_kafka_are_no_values():
    names = ["key", "name", "topic", "partition", "offset", "timestamp", "headers"]
    side = Side(("key",), "timestamp")
    rows = pl.DataFrame({name: [1, 1] for name in names}).with_columns(name=pl.Series([None, 1]))
    assert rows.filter(build_deletion_test(side, names)).height == 1
    # A column that happens to be called so is a value like any other.
    assert rows.filter(build_deletion_test(side, ["key", "name", "topic"])).height == 0


def test_a_message_without_a_payload_deletes_its_row():
    kafka = {"topic": 0, "partition": 0, "offset": 0, "timestamp": 0}
    texts = {"malformed": pl.Binary(), "malformed_detail": pl.String()}
    numbers = dict.fromkeys(kafka, pl.Int64())
    schema = pl.Schema({**SCHEMA, **numbers, **texts, columns.MALFORMED: pl.Boolean()})
    joiner = Joiner(Run(how="left").spec, {"left": SCHEMA, "right": schema})

    def arrive(number: int | None, payload: bytes | None) -> pl.DataFrame:
        row = {**kafka, "key": "a", "id": number, columns.TIME: 0, "malformed": payload}
        row |= {
            columns.MALFORMED: payload is not None,
            "malformed_detail": "no JSON" if payload else None,
        }
        return pl.DataFrame({name: [row[name]] for name in schema}, schema)

    store, looked_up = MemoryBlobs(), []
    for table in (arrive(7, None), arrive(None, b"{"), arrive(None, b"")):
        left = pl.DataFrame([("a", 1, 0)], SCHEMA, orient="row")
        arrived = {"left": [joiner.arrive("left", left)], "right": [joiner.arrive("right", table)]}
        step = JoinShard(joiner, store, FrameCache()).step(arrived, 0)
        looked_up.append((step.results["id_right"][0], arrived["right"][0].rejected.height))
    assert looked_up == [(7, 0), (7, 1), (None, 0)]


def test_the_definition_comes_back_from_a_checkpoint():
    spec = Run(keep=7, how="left").spec
    assert load_spec(spec.to_dict()) == spec


@pytest.mark.parametrize("how", ["right", "full", "semi", "anti"])
def test_other_joins_have_no_table(how):
    with pytest.raises(OptionError, match="isn't for newest joins"):
        Run(how=how)


@pytest.mark.parametrize(
    ("side", "firing", "option"),
    [
        ("left", Firing(Every(5), Each()), "early"),
        ("right", Firing(Each(), Each(), grace=5, retention=5), "late"),
        ("right", Firing(Each(), Each(), retention=5, rows=3), "rows"),
        ("left", Firing(Each(), Each(), retention=5), "keep"),
    ],
)
def test_policies_without_a_use_are_refused(side, firing, option):
    with pytest.raises(OptionError, match=f"{option}=.* newest joins|{option}=.* counted here"):
        Run().spec.with_side(side, Side(("key",), "time", firing=firing))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"as_of": True}, "can't be combined with as_of"),
        ({"each_change": True}, "can't be combined with each_change"),
        ({"within": "5 minutes"}, "can't be combined with within"),
        ({"newest": "1 day"}, "isn't True or False"),
    ],
)
def test_options_that_contradict_newest_are_refused(options, problem):
    with pytest.raises(OptionError, match=problem):
        find_bound(options.pop("within", None), None, None, **{"newest": True, **options})


def test_a_shared_time_is_refused():
    with pytest.raises(OptionError, match="no side waits"):
        Run(shared_time=True)


def test_single_messages_act_as_batches_of_one():
    spec = join(windowed(time="at"), windowed(time="at"), on="k", newest=True, how="left")
    operator = JoinWindow(spec, schema={side: {"k": str, "at": int, "v": int} for side in SIDES})
    for side, value in [("left", 1), ("right", 10), ("left", 2), ("right", 11), ("right", 12),
                        ("left", 3), ("right", None), ("left", 4)]:  # fmt: skip
        operator.add_message(side, key="a", value={"v": value}, time=0)
    assert operator.get_result().select("v", "v_right").rows() == [
        (1, None), (2, 10), (3, 12), (4, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("at", "rows", "left", "right"),
    [
        (5, (9, 5), "has the row at", "is the newest to have arrived"),
        (6, (9, 5), "has the row at", "isn't the newest to have arrived: that is at"),
        (5, (), "isn't emitted, as this key has no row", "this key has no row"),
    ],
)
def test_why_names_the_row(at, rows, left, right):
    seen = {"left": SideSeen(None, None, ()), "right": SideSeen(20, None, rows)}
    lines = list(explain_positions(Run().spec, seen, at, {"left": 0, "right": 0}))
    assert left in lines[1]
    assert right in lines[3]


def test_a_finite_table_is_looked_up_whole():
    users = pl.DataFrame({"user": ["a", "b", "a"], "at": [3, 1, 2], "plan": ["free", "pro", "max"]})
    clicks = pl.DataFrame({"user": ["a", "c"], "at": [1, 2], "page": ["x", "y"]})
    sides = (
        mt.windowed(f.with_columns(pl.col("at").cast(pl.Datetime("us", "UTC"))), time="at")
        for f in (clicks, users)
    )
    pairs = mt.join(*sides, on="user", newest=True, how="left")
    rows = pairs.results.sort("user").select("user", "page", "plan", "emission").rows()
    assert rows == [("a", "x", "max", "full"), ("c", "y", None, "full")]
    assert "never waits" in pairs.explain()


def _build_visits(rows: list[tuple[str, int]], **names: Any) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema={"user": pl.String, "at": pl.Int64}, orient="row")
    return frame.with_columns(pl.from_epoch("at", "s").dt.replace_time_zone("UTC"), **names)


def test_a_changing_table_replaces_its_rows_and_follows_merged_sessions(tmp_path):
    visits, clicks = tmp_path / "visits", tmp_path / "clicks"
    steps = [
        ([("a", 0)], [("a", 1)]),
        # The message joins two sessions, which are retracted; their successor is the newest row.
        ([("a", 20)], []),
        ([("a", 10)], [("a", 2)]),
    ]
    for number, (seen, clicked) in enumerate(steps):
        for folder, rows in ((visits, seen), (clicks, clicked)):
            folder.mkdir(exist_ok=True)
            _build_visits(rows).write_parquet(folder / f"{number}.parquet")
    sessions = (
        mt.windowed(mt.files(f"{visits}/*.parquet", files_per_batch=1), key="user", time="at",
                    lateness="1 hour")
        .session("12 seconds").early(each=True).agg(n=mt.count())
    )  # fmt: skip
    source = mt.files(f"{clicks}/*.parquet", files_per_batch=1)
    pairs = mt.join(mt.windowed(source, time="at"), sessions, on="user", newest=True, how="left")
    rows: list[tuple[Any, ...]] = []
    query = pairs.start(
        checkpoint=tmp_path / "checkpoint",
        results=lambda frame, batch: rows.extend(frame.select("at", "n").rows()),
        available_now=True,
    )
    assert query.await_end()
    assert [n for _, n in sorted(rows)] == [1, 3]


def test_windows_that_emit_again_are_joined_by_their_full(tmp_path):
    _build_visits([("a", 0), ("a", 30)]).write_parquet(tmp_path / "1.parquet")
    windows = (
        mt.windowed(mt.files(f"{tmp_path}/*.parquet"), key="user", time="at")
        .tumbling("10 seconds")
        .early(each=True)
        .agg(n=mt.count())
    )
    pairs = mt.join(windows.full, windows.full, on=["user", "window_start", "window_end"])
    rows: list[tuple[Any, ...]] = []
    query = pairs.start(
        checkpoint=None,
        results=lambda frame, batch: rows.extend(frame.select("n", "n_right").rows()),
        available_now=True,
    )
    assert query.await_end()
    assert rows == [(1, 1)]
