"""Tests of joins over the results of windows and joins in one query, up to three operators."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.dataframe.state import explain_checkpoint, read_checkpoint, report_checkpoint
from muntin.hosts.progress import Progress
from muntin.spark.host.plan import Plan
from muntin.spark.rescale import rescale

pytestmark = pytest.mark.slow

Make = Callable[[DataFrame, DataFrame], Any]

MESSAGES = 60
# No message is late, and these close all windows at the end.
CLOSING = [("z", at(3600), 0), ("z", at(7200), 0), ("z", at(10_800), 0)]
ODD = [[(None, at(31), 5)], [("a", None, 6), ("b", None, 6)]]
WINDOWS = """
    (SELECT key, epoch_us(time_bucket(INTERVAL {size} SECOND, "at")) AS start, sum(value) AS total
     FROM read_parquet('{files}') WHERE key <> 'z' AND "at" IS NOT NULL GROUP BY ALL)
"""


def messages(seed: int, odd: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return random messages, at most 25 seconds out of order."""
    chance = random.Random(seed)
    rows = [(chance.choice("abcd"), at(chance.uniform(0, 100)), n) for n in range(MESSAGES)]
    rows.sort(key=lambda row: row[1].timestamp() + chance.uniform(0, 25))
    rows[7:7] = odd
    return rows


def fill(feed: Feed, rows: Sequence[tuple[Any, ...]], files: int) -> None:
    """Add messages in a number of files."""
    for number in range(files):
        feed.add(*rows[len(rows) * number // files : len(rows) * (number + 1) // files])


def close(feeds: Sequence[Feed]) -> None:
    """Close all windows, also those over the results of windows."""
    for feed in feeds:
        feed.add(*CLOSING)


class Ran:
    """Runs a query over all of its input, and has its output."""

    def __init__(self, query_to_start: Any, checkpoint: Path, before: Ran | None = None) -> None:
        self.results: list[Row] = [] if before is None else list(before.results)
        self.rejected: list[Row] = [] if before is None else list(before.rejected)
        query = query_to_start.start(
            checkpoint=str(checkpoint),
            results=lambda frame, _: self.results.extend(frame.collect()),
            rejected=lambda frame, _: self.rejected.extend(frame.collect()),
            available_now=True,
        )
        assert query.await_end(timeout=240)
        self.progress: Progress = query.progress

    def count_rejected(self, *names: str) -> Counter[tuple[Any, ...]]:
        """Return the number of rejected messages by some columns."""
        return Counter(tuple(row[name] for name in names) for row in self.rejected)


def totals(frame: DataFrame, size: int) -> Any:
    windows = mt.windowed(frame, key="key", time="at", lateness="30 seconds")
    return windows.tumbling(f"{size} seconds").agg(total=mt.sum("value"), n=mt.count())


def join_both(left: DataFrame, right: DataFrame) -> Any:
    """Join windows of both sides by key and window."""
    on = ["key", "window_start", "window_end"]
    return mt.join(totals(left, 10), totals(right, 10), on=on, how="full")


def sort_rows(rows: Sequence[Row], *names: str) -> list[tuple[Any, ...]]:
    """Return sorted rows, without those of the messages that only close windows."""
    values = [tuple(row[name] for name in names) for row in rows if row["key"] != "z"]
    return sorted(values, key=repr)


def in_micros(rows: Sequence[Row], *names: str) -> list[tuple[Any, ...]]:
    """Return the same of rows whose second column is a time, in microseconds."""
    values = [
        (key, round(start.timestamp() * 1_000_000), *rest)
        for key, start, *rest in sort_rows(rows, *names)
    ]
    return sorted(values, key=repr)


def micros(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    return in_micros(rows, "key", "window_start", "total", "total_right")


def by_duckdb(feeds: Sequence[Feed], query: str) -> list[tuple[Any, ...]]:
    files = {name: f"{feed.folder}/*.parquet" for name, feed in zip("lr", feeds, strict=True)}
    windows = {f"{name}10": WINDOWS.format(files=files[name], size=10) for name in "lr"}
    return sorted(duckdb.sql(query.format(**windows, **files)).fetchall(), key=repr)


BOTH = """
    SELECT coalesce(l.key, r.key), coalesce(l.start, r.start), l.total, r.total
    FROM {l10} AS l FULL JOIN {r10} AS r ON l.key = r.key AND l.start = r.start
"""


def feeds_of(folder: Path, seed: int, files: tuple[int, int]) -> list[Feed]:
    """Return a feed for each side, with messages in a number of files."""
    feeds = [Feed(folder / name) for name in ("left", "right")]
    for number, (feed, odd, count) in enumerate(zip(feeds, ODD, files, strict=True)):
        fill(feed, messages(seed + number, odd), count)
    return feeds


@pytest.mark.slow
def test_windows_of_two_streams_joined_by_key_and_window(
    spark: SparkSession, tmp_path: Path
) -> None:
    feeds = feeds_of(tmp_path, 5, files=(2, 2))
    close(feeds)
    ran = Ran(join_both(*(feed.stream(spark) for feed in feeds)), tmp_path / "checkpoint")
    wanted = by_duckdb(feeds, BOTH)
    assert micros(ran.results) == wanted
    assert {None} < {total for *_, total in wanted}

    left, right = ran.progress.left, ran.progress.right
    assert left is not None
    assert right is not None
    assert [side.counts["seen"] for side in (left, right)] == [feed.ids for feed in feeds]
    assert (left.counts["null_key"], right.counts["null_time"]) == (1, 2)
    assert ran.progress.seen == left.fired["full"] + right.fired["full"]
    assert ran.progress.received == sum(feed.ids for feed in feeds)
    assert ran.progress.adds_up()
    assert {name.split(":")[0] for name, _ in ran.progress.lines()} >= {"left", "right", "seen"}
    assert ran.count_rejected("side", "stage", "reason") == {
        ("left", 1, "null_key"): 1,
        ("right", 1, "null_time"): 2,
    }
    assert {row["value"] for row in ran.rejected} == {5, 6}

    whole = join_both(*(feed.frame(spark) for feed in feeds))
    assert micros(whole.results.collect()) == wanted
    assert Counter(row["side"] for row in whole.rejected.collect()) == {"left": 1, "right": 2}
    story = whole.explain()
    assert story.count("tumbling 10 seconds") == 2
    assert story.index("tumbling 10 seconds") < story.index("join      full")


@pytest.mark.parametrize(
    ("files", "shards"),
    [
        pytest.param((1, 1), None, marks=pytest.mark.long),
        pytest.param((2, 7), None, marks=pytest.mark.long),
        pytest.param((3, 2), 3, marks=pytest.mark.slow),
    ],
)
def test_cuts_restarts_and_other_shards_change_nothing(
    spark: SparkSession, tmp_path: Path, files: tuple[int, int], shards: int | None
) -> None:
    feeds = feeds_of(tmp_path, 5, files)
    query = join_both(*(feed.stream(spark) for feed in feeds))
    checkpoint = tmp_path / "checkpoint"
    first = Ran(query, checkpoint)
    if shards is not None:
        checkpoint = tmp_path / "other"
        rescale(spark, str(tmp_path / "checkpoint"), shards=shards, to=str(checkpoint))
    close(feeds)
    # Another query object, as after a restart of the process.
    ran = Ran(join_both(*(feed.stream(spark) for feed in feeds)), checkpoint, first)
    assert micros(ran.results) == by_duckdb(feeds, BOTH)
    assert ran.progress.received == sum(feed.ids for feed in feeds)
    assert ran.progress.adds_up()
    assert sum(ran.count_rejected("side").values()) == 3


THREE = """
    SELECT l.key, l.value, r.value, t.value FROM read_parquet('{l}') AS l
    LEFT JOIN read_parquet('{r}') AS r
      ON l.key = r.key AND abs(epoch_us(l."at") - epoch_us(r."at")) <= 3000000
    LEFT JOIN read_parquet('{t}') AS t
      ON l.key = t.key AND abs(epoch_us(l."at") - epoch_us(t."at")) <= 2000000
    WHERE l.key <> 'z'
"""


def join_three(left: DataFrame, right: DataFrame, third: DataFrame) -> Any:
    """Join two streams, and their pairs with a third one."""
    sides = [mt.windowed(f, time="at", lateness="30 seconds") for f in (left, right, third)]
    pairs = mt.join(sides[0], sides[1], on="key", within="3 seconds", how="left")
    windowed_pairs = mt.windowed(pairs, time="at")
    return mt.join(
        windowed_pairs, sides[2], on="key", within="2 seconds", how="left", suffix="_third"
    )


def look_at_each_operator(spark: SparkSession, folder: Path) -> None:
    """Check the tools for state on each join of a chain, also in other shards."""
    old, new = str(folder / "checkpoint"), str(folder / "moved")
    assert rescale(spark, old, shards=3, to=new).operators == 2
    for operator in (0, 1):
        states = [mt.open_state(path, operator=operator) for path in (old, new)]
        for side in ("left", "right"):
            before, after = (state.fetch(side) for state in states)
            assert Counter(map(repr, before.rows())) == Counter(map(repr, after.rows()))
            changes = states[0].changes(side, states[0].checkpoint.oldest)
            assert 0 < len(changes) <= len(before)
        columns = set(states[0].spec.side("left").types)
        assert ("value_right" in columns) == (operator == 0)
        checkpoint = read_checkpoint(new, operator=operator, spark=spark)
        assert report_checkpoint(checkpoint, ["z"])["kind"] == "join"
        lines = " ".join(explain_checkpoint(checkpoint, ["a"], "2026-01-01 00:00:40"))
        assert "left       watermark 2026-01-01 0" in lines
        assert "rejected as late: the first accepted position" in lines
    with pytest.raises(mt.OptionError, match="isn't one of the 2 operators that keep state"):
        mt.open_state(old, operator=2)


@pytest.mark.slow
def test_three_streams_joined(spark: SparkSession, tmp_path: Path) -> None:
    feeds = [*feeds_of(tmp_path, 15, files=(1, 2)), Feed(tmp_path / "third")]
    fill(feeds[2], messages(17, [(None, at(40), 7)]), 2)
    close(feeds)
    ran = Ran(join_three(*(feed.stream(spark) for feed in feeds)), tmp_path / "checkpoint")
    files = {n: f"{feed.folder}/*.parquet" for n, feed in zip("lrt", feeds, strict=True)}
    wanted = sorted(duckdb.sql(THREE.format(**files)).fetchall(), key=repr)
    names = ("key", "value", "value_right", "value_third")
    assert sort_rows(ran.results, *names) == wanted
    assert {tuple(value is None for value in row[2:]) for row in wanted} == {
        *product([True, False], repeat=2)
    }
    assert ran.count_rejected("side", "reason") == {
        ("left/left", "null_key"): 1,
        ("left/right", "null_time"): 2,
        ("right", "null_key"): 1,
    }
    assert "stage" not in ran.rejected[0].asDict()
    assert ran.progress.left is not None
    assert ran.progress.left.counts["seen"] == feeds[0].ids + feeds[1].ids
    assert ran.progress.adds_up()
    look_at_each_operator(spark, tmp_path)
    whole = join_three(*(feed.frame(spark) for feed in feeds))
    assert sort_rows(whole.results.collect(), *names) == wanted


OVER_BOTH = f"""
    SELECT key, start // 30000000 * 30000000, count(*)::BIGINT, sum(l)::BIGINT, sum(r)::BIGINT
    FROM ({BOTH}) AS b(key, start, l, r) GROUP BY ALL
"""


def over_both(left: DataFrame, right: DataFrame) -> Any:
    """Aggregate the join of both sides' windows in larger windows."""
    windows = mt.windowed(join_both(left, right), key="key", time="window_time").tumbling(
        "30 seconds"
    )
    return windows.agg(n=mt.count(), l=mt.sum("total"), r=mt.sum("total_right"))


OVER_PAIRS = """
    SELECT key, minute, count(*)::BIGINT, max(n)::BIGINT, sum(total)::BIGINT FROM (
        SELECT l.key, epoch_us(time_bucket(INTERVAL 30 SECOND, l."at")) AS minute, count(*) AS n,
            sum(r.value) AS total
        FROM read_parquet('{l}') AS l JOIN read_parquet('{r}') AS r
          ON l.key = r.key AND abs(epoch_us(l."at") - epoch_us(r."at")) <= 3000000
        WHERE l.key <> 'z' GROUP BY l.key, minute, time_bucket(INTERVAL 10 SECOND, l."at")
    ) GROUP BY ALL
"""


def over_pairs(left: DataFrame, right: DataFrame) -> Any:
    """Aggregate the pairs of a join in windows over windows."""
    sides = [mt.windowed(f, time="at", lateness="30 seconds") for f in (left, right)]
    pairs = mt.join(*sides, on="key", within="3 seconds")
    inner = mt.windowed(pairs, key="key", time="at").tumbling("10 seconds")
    inner = inner.agg(n=mt.count(), total=mt.sum("value_right"))
    outer = mt.windowed(inner, key="key", time="window_time").tumbling("30 seconds")
    return outer.agg(n=mt.count(), l=mt.max("n"), r=mt.sum("total"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "query", "ways"),
    [
        (over_both, OVER_BOTH, ["join", "join/left", "join/right"]),
        (over_pairs, OVER_PAIRS, ["inner", "inner/join"]),
    ],
)
def test_chains_three_deep(
    spark: SparkSession, tmp_path: Path, make: Make, query: str, ways: list[str]
) -> None:
    feeds = feeds_of(tmp_path, 25, files=(1, 2))
    first = Ran(make(*(feed.stream(spark) for feed in feeds)), tmp_path / "checkpoint")
    close(feeds)
    ran = Ran(make(*(feed.stream(spark) for feed in feeds)), tmp_path / "checkpoint", first)
    wanted = by_duckdb(feeds, query)
    names = ("key", "window_start", "n", "l", "r")
    assert in_micros(ran.results, *names) == wanted != []
    assert list(steps(ran.progress)) == ways
    assert ran.progress.adds_up()
    assert ran.progress.received == sum(feed.ids for feed in feeds)
    rejected = ran.count_rejected("side", "stage", "reason")
    assert rejected == {("left", 1, "null_key"): 1, ("right", 1, "null_time"): 2}
    whole = make(*(feed.frame(spark) for feed in feeds))
    assert in_micros(whole.results.collect(), *names) == wanted


def steps(progress: Progress, way: str = "") -> Iterator[str]:
    """Yield the paths of all operators before the last one."""
    for name, upstream in progress.upstreams.items():
        yield f"{way}{name}"
        yield from steps(upstream, f"{way}{name}/")


def test_all_operators_of_a_chain_get_as_many_shards(spark: SparkSession, tmp_path: Path) -> None:
    feeds = feeds_of(tmp_path, 5, files=(1, 1))
    plan = over_both(*(feed.frame(spark) for feed in feeds)).plan
    shards = plan.shards
    assert [count for count, _ in plan.shard_counts] == [shards] * 4
    assert plan.with_shards(shards) is plan
    larger_plan = plan.with_shards(shards + 1)
    assert [count for count, _ in larger_plan.shard_counts] == [shards + 1] * 4
    assert larger_plan.rejection_schema == plan.rejection_schema
    # No two operators share watermarks, nor do two runs of one.
    assert len({*identities(plan), *identities(larger_plan)}) == 8


def identities(plan: Plan) -> list[str]:
    return [
        plan.stage.identity,
        *(identity for fed in plan.upstreams for identity in identities(fed.plan)),
    ]


def test_columns_of_two_types_and_names_of_ours(spark: SparkSession) -> None:
    """A column of another type gets another name among rejected messages."""
    rows = [("a", at(1), 1), ("b", None, 2), (None, at(1), 3)]
    left = spark.createDataFrame(rows, "key string, at timestamp, v int")
    right = left.selectExpr("key", "at", "string(v) AS v")
    sides = []
    for frame in (left, right):
        windows = mt.windowed(frame, key="key", time="at", nulls="group").tumbling("10 seconds")
        sides.append(windows.agg(v=mt.first("v"), at=mt.count()))
    pairs = mt.join(*sides, on=["key", "window_start", "window_end"])
    names = ("side", "stage", "reason", "v", "v_right", "at_result")
    assert sort_rows(pairs.rejected.collect(), *names) == [
        ("left", 1, "null_time", 2, None, None),
        ("left", 2, "null_key", 3, None, 1),
        ("right", 1, "null_time", None, "2", None),
        ("right", 2, "null_key", None, "3", 1),
    ]
    renamed = mt.windowed(left.withColumnRenamed("v", "stage"), key="key", time="at")
    conflicting_side = renamed.tumbling("10 seconds").agg(n=mt.count())
    with pytest.raises(
        mt.OptionError, match=r"stage.*is the name of a column of rejected messages"
    ):
        mt.join(conflicting_side, sides[0], on=["key", "window_start", "window_end"])


def test_windows_that_emit_again_are_joined_by_their_full(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1))
    emitting_once = totals(feed.stream(spark), 10)
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("10 seconds")
    emitting_again = windows.early(each=True).agg(total=mt.sum("value"))
    on = ["key", "window_start", "window_end"]
    for side in (emitting_again, emitting_again.results, emitting_again.results.where("total > 1")):
        with pytest.raises(mt.OptionError, match=r"each would count; give \.full"):
            mt.join(emitting_once, mt.windowed(side, time="window_end"), on=on)
    with pytest.raises(mt.OptionError, match=r"each would count; give \.full"):
        mt.join(emitting_again, emitting_once, on=on)
    pairs = mt.join(emitting_once, emitting_again.full, on=on)
    assert pairs.results.columns == [*on, "total", "n", "total_right", "emission"]
    whole = mt.windowed(feed.frame(spark), key="key", time="at").tumbling("10 seconds")
    sides = [whole.early(each=True).agg(total=mt.sum("value")).full] * 2
    assert [row["total_right"] for row in mt.join(*sides, on=on).results.collect()] == [1]
    with pytest.raises(mt.OptionError, match="isn't windowed"):
        mt.join(pairs, emitting_once, on=on)  # type: ignore[arg-type]
    with pytest.raises(mt.OptionError, match="leaves nothing to bound a pair"):
        mt.join(emitting_once, emitting_again.full, on="key")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["session", "sliding"])
def test_windows_to_which_their_end_belongs(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """They are full when the watermark has passed their end, and not late before."""
    feeds = [Feed(tmp_path / name) for name in ("left", "right")]
    for feed in feeds:
        feed.add(("a", at(0), 1))
        feed.add(("b", at(10), 2))
        feed.add(("z", at(60), 0))
    sides = []
    for feed in feeds:
        windows = getattr(mt.windowed(feed.stream(spark), key="key", time="at"), kind)("10 seconds")
        sides.append(windows.agg(total=mt.sum("value")))
    pairs = mt.join(*sides, on=["key", "window_start", "window_end"])
    ran = Ran(pairs, tmp_path / "checkpoint")
    assert sort_rows(ran.results, "key", "total", "total_right") == [("a", 1, 1), ("b", 2, 2)]
    assert ran.rejected == []
