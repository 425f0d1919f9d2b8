"""Joins over what other operators emit, in one query: windows, joins, and chains three deep."""

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
# Whatever is taken in has its place: nothing is late, and at the end all windows are closed.
CLOSING = [("z", at(3600), 0), ("z", at(7200), 0), ("z", at(10_800), 0)]
ODD = [[(None, at(31), 5)], [("a", None, 6), ("b", None, 6)]]
WINDOWS = """
    (SELECT key, epoch_us(time_bucket(INTERVAL {size} SECOND, "at")) AS start, sum(value) AS total
     FROM read_parquet('{files}') WHERE key <> 'z' AND "at" IS NOT NULL GROUP BY ALL)
"""


def messages(seed: int, odd: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The same for each seed, not quite in order: of any two the first may be 25 seconds older."""
    chance = random.Random(seed)
    rows = [(chance.choice("abcd"), at(chance.uniform(0, 100)), n) for n in range(MESSAGES)]
    rows.sort(key=lambda row: row[1].timestamp() + chance.uniform(0, 25))
    rows[7:7] = odd
    return rows


def fill(feed: Feed, rows: Sequence[tuple[Any, ...]], files: int) -> None:
    """Add messages in so many files."""
    for number in range(files):
        feed.add(*rows[len(rows) * number // files : len(rows) * (number + 1) // files])


def close(feeds: Sequence[Feed]) -> None:
    """Let all windows end, and those that these windows are in."""
    for feed in feeds:
        feed.add(*CLOSING)


class Ran:
    """A query that has run over all there was, and what it gave."""

    def __init__(self, made: Any, checkpoint: Path, before: Ran | None = None) -> None:
        self.results: list[Row] = [] if before is None else list(before.results)
        self.rejected: list[Row] = [] if before is None else list(before.rejected)
        query = made.start(
            checkpoint=str(checkpoint),
            results=lambda frame, _: self.results.extend(frame.collect()),
            rejected=lambda frame, _: self.rejected.extend(frame.collect()),
            available_now=True,
        )
        assert query.await_end(timeout=240)
        self.progress: Progress = query.progress

    def lost(self, *names: str) -> Counter[tuple[Any, ...]]:
        """How many messages were rejected, by some columns."""
        return Counter(tuple(row[name] for name in names) for row in self.rejected)


def totals(frame: DataFrame, size: int) -> Any:
    made = mt.windowed(frame, key="key", time="at", lateness="30 seconds")
    return made.tumbling(f"{size} seconds").agg(total=mt.sum("value"), n=mt.count())


def both(left: DataFrame, right: DataFrame) -> Any:
    """Windows of both sides, joined by key and window."""
    on = ["key", "window_start", "window_end"]
    return mt.join(totals(left, 10), totals(right, 10), on=on, how="full")


def shown(rows: Sequence[Row], *names: str) -> list[tuple[Any, ...]]:
    """Rows without those that only close windows."""
    found = [tuple(row[name] for name in names) for row in rows if row["key"] != "z"]
    return sorted(found, key=repr)


def in_micros(rows: Sequence[Row], *names: str) -> list[tuple[Any, ...]]:
    """The same of rows of which the second column is a moment."""
    found = [
        (key, round(start.timestamp() * 1_000_000), *rest)
        for key, start, *rest in shown(rows, *names)
    ]
    return sorted(found, key=repr)


def micros(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    return in_micros(rows, "key", "window_start", "total", "total_right")


def by_duckdb(feeds: Sequence[Feed], query: str) -> list[tuple[Any, ...]]:
    files = {name: f"{feed.folder}/*.parquet" for name, feed in zip("lr", feeds, strict=True)}
    found = {f"{name}10": WINDOWS.format(files=files[name], size=10) for name in "lr"}
    return sorted(duckdb.sql(query.format(**found, **files)).fetchall(), key=repr)


BOTH = """
    SELECT coalesce(l.key, r.key), coalesce(l.start, r.start), l.total, r.total
    FROM {l10} AS l FULL JOIN {r10} AS r ON l.key = r.key AND l.start = r.start
"""


def feeds_of(folder: Path, seed: int, files: tuple[int, int]) -> list[Feed]:
    """A feed for each side, with messages in so many files."""
    feeds = [Feed(folder / name) for name in ("left", "right")]
    for number, (feed, odd, count) in enumerate(zip(feeds, ODD, files, strict=True)):
        fill(feed, messages(seed + number, odd), count)
    return feeds


@pytest.mark.slow
def test_windows_of_two_streams_joined_by_key_and_window(
    spark: SparkSession, tmp_path: Path
) -> None:
    feeds = feeds_of(tmp_path, 5, files=(3, 3))
    close(feeds)
    ran = Ran(both(*(feed.stream(spark) for feed in feeds)), tmp_path / "checkpoint")
    wanted = by_duckdb(feeds, BOTH)
    assert micros(ran.results) == wanted
    assert {None} < {total for *_, total in wanted}

    left, right = ran.progress.left, ran.progress.right
    assert left is not None
    assert right is not None
    assert [one.counts["seen"] for one in (left, right)] == [feed.ids for feed in feeds]
    assert (left.counts["null_key"], right.counts["null_time"]) == (1, 2)
    assert ran.progress.seen == left.fired["full"] + right.fired["full"]
    assert ran.progress.received == sum(feed.ids for feed in feeds)
    assert ran.progress.adds_up()
    assert {name.split(":")[0] for name, _ in ran.progress.lines()} >= {"left", "right", "seen"}
    assert ran.lost("side", "stage", "reason") == {
        ("left", 1, "null_key"): 1,
        ("right", 1, "null_time"): 2,
    }
    assert {row["value"] for row in ran.rejected} == {5, 6}

    whole = both(*(feed.frame(spark) for feed in feeds))
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
    made = both(*(feed.stream(spark) for feed in feeds))
    checkpoint = tmp_path / "checkpoint"
    first = Ran(made, checkpoint)
    if shards is not None:
        checkpoint = tmp_path / "other"
        rescale(spark, str(tmp_path / "checkpoint"), shards=shards, to=str(checkpoint))
    close(feeds)
    # Another query object, as after a restart of the process.
    ran = Ran(both(*(feed.stream(spark) for feed in feeds)), checkpoint, first)
    assert micros(ran.results) == by_duckdb(feeds, BOTH)
    assert ran.progress.received == sum(feed.ids for feed in feeds)
    assert ran.progress.adds_up()
    assert sum(ran.lost("side").values()) == 3


THREE = """
    SELECT l.key, l.value, r.value, t.value FROM read_parquet('{l}') AS l
    LEFT JOIN read_parquet('{r}') AS r
      ON l.key = r.key AND abs(epoch_us(l."at") - epoch_us(r."at")) <= 3000000
    LEFT JOIN read_parquet('{t}') AS t
      ON l.key = t.key AND abs(epoch_us(l."at") - epoch_us(t."at")) <= 2000000
    WHERE l.key <> 'z'
"""


def three(left: DataFrame, right: DataFrame, third: DataFrame) -> Any:
    """Two streams joined, and their pairs with a third one."""
    sides = [mt.windowed(f, time="at", lateness="30 seconds") for f in (left, right, third)]
    pairs = mt.join(sides[0], sides[1], on="key", within="3 seconds", how="left")
    taken = mt.windowed(pairs, time="at")
    return mt.join(taken, sides[2], on="key", within="2 seconds", how="left", suffix="_third")


def look_at_each_operator(spark: SparkSession, folder: Path) -> None:
    """Whatever looks at state does so for each join of a chain, in other shards too."""
    old, new = str(folder / "checkpoint"), str(folder / "moved")
    assert rescale(spark, old, shards=3, to=new).operators == 2
    for operator in (0, 1):
        states = [mt.open_state(path, operator=operator) for path in (old, new)]
        for side in ("left", "right"):
            one, other = (state.fetch(side) for state in states)
            assert Counter(map(repr, one.rows())) == Counter(map(repr, other.rows()))
            came = states[0].changes(side, states[0].checkpoint.oldest)
            assert 0 < len(came) <= len(one)
        columns = set(states[0].spec.side("left").types)
        assert ("value_right" in columns) == (operator == 0)
        opened = read_checkpoint(new, operator=operator, spark=spark)
        assert report_checkpoint(opened, ["z"])["kind"] == "join"
        lines = " ".join(explain_checkpoint(opened, ["a"], "2026-01-01 00:00:40"))
        assert "left       watermark 2026-01-01 0" in lines
        assert "rejected as late: the first accepted position" in lines
    with pytest.raises(mt.OptionError, match="isn't one of the 2 operators that keep state"):
        mt.open_state(old, operator=2)


@pytest.mark.slow
def test_three_streams_joined(spark: SparkSession, tmp_path: Path) -> None:
    feeds = [*feeds_of(tmp_path, 15, files=(3, 2)), Feed(tmp_path / "third")]
    fill(feeds[2], messages(17, [(None, at(40), 7)]), 2)
    close(feeds)
    ran = Ran(three(*(feed.stream(spark) for feed in feeds)), tmp_path / "checkpoint")
    files = {n: f"{feed.folder}/*.parquet" for n, feed in zip("lrt", feeds, strict=True)}
    wanted = sorted(duckdb.sql(THREE.format(**files)).fetchall(), key=repr)
    names = ("key", "value", "value_right", "value_third")
    assert shown(ran.results, *names) == wanted
    assert {tuple(one is None for one in row[2:]) for row in wanted} == {
        *product([True, False], repeat=2)
    }
    assert ran.lost("side", "reason") == {
        ("left/left", "null_key"): 1,
        ("left/right", "null_time"): 2,
        ("right", "null_key"): 1,
    }
    assert "stage" not in ran.rejected[0].asDict()
    assert ran.progress.left is not None
    assert ran.progress.left.counts["seen"] == feeds[0].ids + feeds[1].ids
    assert ran.progress.adds_up()
    look_at_each_operator(spark, tmp_path)
    whole = three(*(feed.frame(spark) for feed in feeds))
    assert shown(whole.results.collect(), *names) == wanted


OVER_BOTH = f"""
    SELECT key, start // 30000000 * 30000000, count(*)::BIGINT, sum(l)::BIGINT, sum(r)::BIGINT
    FROM ({BOTH}) AS b(key, start, l, r) GROUP BY ALL
"""


def over_both(left: DataFrame, right: DataFrame) -> Any:
    """Windows of both sides, joined by key and window, in larger windows."""
    made = mt.windowed(both(left, right), key="key", time="window_time").tumbling("30 seconds")
    return made.agg(n=mt.count(), l=mt.sum("total"), r=mt.sum("total_right"))


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
    """Windows over windows over the pairs of a join."""
    sides = [mt.windowed(f, time="at", lateness="30 seconds") for f in (left, right)]
    pairs = mt.join(*sides, on="key", within="3 seconds")
    inner = mt.windowed(pairs, key="key", time="at").tumbling("10 seconds")
    inner = inner.agg(n=mt.count(), total=mt.sum("value_right"))
    made = mt.windowed(inner, key="key", time="window_time").tumbling("30 seconds")
    return made.agg(n=mt.count(), l=mt.max("n"), r=mt.sum("total"))


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
    feeds = feeds_of(tmp_path, 25, files=(2, 3))
    first = Ran(make(*(feed.stream(spark) for feed in feeds)), tmp_path / "checkpoint")
    close(feeds)
    ran = Ran(make(*(feed.stream(spark) for feed in feeds)), tmp_path / "checkpoint", first)
    wanted = by_duckdb(feeds, query)
    names = ("key", "window_start", "n", "l", "r")
    assert in_micros(ran.results, *names) == wanted != []
    assert list(steps(ran.progress)) == ways
    assert ran.progress.adds_up()
    assert ran.progress.received == sum(feed.ids for feed in feeds)
    rejected = ran.lost("side", "stage", "reason")
    assert rejected == {("left", 1, "null_key"): 1, ("right", 1, "null_time"): 2}
    whole = make(*(feed.frame(spark) for feed in feeds))
    assert in_micros(whole.results.collect(), *names) == wanted


def steps(progress: Progress, way: str = "") -> Iterator[str]:
    """The ways to all operators before the last one."""
    for name, one in progress.upstreams.items():
        yield f"{way}{name}"
        yield from steps(one, f"{way}{name}/")


def test_all_operators_of_a_chain_get_as_many_shards(spark: SparkSession, tmp_path: Path) -> None:
    feeds = feeds_of(tmp_path, 5, files=(1, 1))
    plan = over_both(*(feed.frame(spark) for feed in feeds)).plan
    now = plan.shards
    assert [count for count, _ in plan.shard_counts] == [now] * 4
    assert plan.with_shards(now) is plan
    more = plan.with_shards(now + 1)
    assert [count for count, _ in more.shard_counts] == [now + 1] * 4
    assert more.rejection_schema == plan.rejection_schema
    # No two operators, nor two runs of one, leave each other their watermarks.
    assert len({*identities(plan), *identities(more)}) == 8


def identities(plan: Plan) -> list[str]:
    return [plan.stage.identity, *(one for fed in plan.upstreams for one in identities(fed.plan))]


def test_columns_of_two_types_and_names_of_ours(spark: SparkSession) -> None:
    """What has a column of another type has it under another name among rejected messages."""
    rows = [("a", at(1), 1), ("b", None, 2), (None, at(1), 3)]
    left = spark.createDataFrame(rows, "key string, at timestamp, v int")
    right = left.selectExpr("key", "at", "string(v) AS v")
    sides = []
    for frame in (left, right):
        made = mt.windowed(frame, key="key", time="at", nulls="group").tumbling("10 seconds")
        sides.append(made.agg(v=mt.first("v"), at=mt.count()))
    pairs = mt.join(*sides, on=["key", "window_start", "window_end"])
    names = ("side", "stage", "reason", "v", "v_right", "at_result")
    assert shown(pairs.rejected.collect(), *names) == [
        ("left", 1, "null_time", 2, None, None),
        ("left", 2, "null_key", 3, None, 1),
        ("right", 1, "null_time", None, "2", None),
        ("right", 2, "null_key", None, "3", 1),
    ]
    named = mt.windowed(left.withColumnRenamed("v", "stage"), key="key", time="at")
    made = named.tumbling("10 seconds").agg(n=mt.count())
    with pytest.raises(
        mt.OptionError, match=r"stage.*is the name of a column of rejected messages"
    ):
        mt.join(made, sides[0], on=["key", "window_start", "window_end"])


def test_windows_that_emit_again_are_joined_by_their_full(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1))
    calm = totals(feed.stream(spark), 10)
    made = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("10 seconds")
    restless = made.early(each=True).agg(total=mt.sum("value"))
    on = ["key", "window_start", "window_end"]
    for side in (restless, restless.results, restless.results.where("total > 1")):
        with pytest.raises(mt.OptionError, match=r"each would count; give \.full"):
            mt.join(calm, mt.windowed(side, time="window_end"), on=on)
    with pytest.raises(mt.OptionError, match=r"each would count; give \.full"):
        mt.join(restless, calm, on=on)
    pairs = mt.join(calm, restless.full, on=on)
    assert pairs.results.columns == [*on, "total", "n", "total_right", "emission"]
    whole = mt.windowed(feed.frame(spark), key="key", time="at").tumbling("10 seconds")
    sides = [whole.early(each=True).agg(total=mt.sum("value")).full] * 2
    assert [row["total_right"] for row in mt.join(*sides, on=on).results.collect()] == [1]
    with pytest.raises(mt.OptionError, match="isn't windowed"):
        mt.join(pairs, calm, on=on)  # type: ignore[arg-type]
    with pytest.raises(mt.OptionError, match="leaves nothing to bound a pair"):
        mt.join(calm, restless.full, on="key")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["session", "sliding"])
def test_windows_to_which_their_end_belongs(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """They are full when the watermark has passed their end, and aren't late before."""
    feeds = [Feed(tmp_path / name) for name in ("left", "right")]
    for feed in feeds:
        feed.add(("a", at(0), 1))
        feed.add(("b", at(10), 2))
        feed.add(("z", at(60), 0))
    sides = []
    for feed in feeds:
        made = getattr(mt.windowed(feed.stream(spark), key="key", time="at"), kind)("10 seconds")
        sides.append(made.agg(total=mt.sum("value")))
    pairs = mt.join(*sides, on=["key", "window_start", "window_end"])
    ran = Ran(pairs, tmp_path / "checkpoint")
    assert shown(ran.results, "key", "total", "total_right") == [("a", 1, 1), ("b", 2, 2)]
    assert ran.rejected == []
