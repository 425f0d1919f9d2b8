"""Tests that errors about options name the option, its value and what to change."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.model.aggregates import Aggregate
from muntin.spark.query_end import QueryEnd
from muntin.spark.session import CHECKPOINT_FORMAT, PROVIDER, ROCKSDB
from muntin.spark.windowed import Windowed

COLUMNS = "key string, at timestamp, value long, price double, ok boolean, list array<long>"
Frame = DataFrame

WRONG: dict[str, tuple[Callable[[Frame], Any], str, str, str]] = {
    "key is no column": (lambda f: over(f, key="kee").agg(n=mt.count()), "key", "'kee'", "key, at"),
    "frame is none of Spark's": (
        lambda f: over({"key": ["a"]}).agg(n=mt.count()), "frame", "'dict'", "pl.DataFrame(rows)"
    ),
    "an aggregate of a number": (
        lambda f: over(f).agg(n=mt.sum(5)), "agg", "n=sum(5)", "name of a column"
    ),
    "key is no field": (
        lambda f: over(f, key="key.part").agg(n=mt.count()), "key", "'key.part'", "key, at"
    ),
    "key is another expression under a column's name": (
        lambda f: over(f, key=F.upper("key").alias("key")).agg(n=mt.count()),
        "key", "'key'", ".alias(",
    ),
    "key is a field under a column's name": (
        lambda f: over(f.select("*", F.struct("key").alias("user")), key=F.col("user.key"))
        .agg(n=mt.count()),
        "key", "'key'", ".alias(",
    ),
    "key is a float": (
        lambda f: over(f, key="price").agg(n=mt.count()), "key", "'price'", "strings, integers"
    ),
    "key is a list": (
        lambda f: over(f, key="list").agg(n=mt.count()), "key", "'list'", "strings, integers"
    ),
    "a key twice": (
        lambda f: over(f, key=["key", "key"]).agg(n=mt.count()), "key", "'key'", "name it once"
    ),
    "key has a name of the output": (
        lambda f: over(f, key=F.col("key").alias("revision")).agg(n=mt.count()),
        "key", "'revision'", "rename",
    ),
    "time is no column": (
        lambda f: over(f, time="when").agg(n=mt.count()), "time", "'when'", "key, at"
    ),
    "time is a number": (
        lambda f: over(f, time="value").agg(n=mt.count()), "time", "'value'", "timestamp_seconds"
    ),
    "an expression as a name": (
        lambda f: over(f).agg(n=mt.count_if("key = 'a'")),
        "agg", "n=count_if", """or an expression: F.expr("key = 'a'")""",
    ),
    "clock is no column": (
        lambda f: over(f, clock="came").agg(n=mt.count()), "clock", "'came'", "key, at"
    ),
    "clock is no time": (
        lambda f: over(f, clock="value").agg(n=mt.count()), "clock", "'value'", "timestamp_seconds"
    ),
    "lateness is no duration": (
        lambda f: over(f, lateness="soon"), "lateness", "'soon'", "10 minutes"
    ),
    "max_ahead is no duration": (
        lambda f: over(f, max_ahead="far"), "max_ahead", "'far'", "10 minutes"
    ),
    "no shards": (lambda f: over(f, shards=0), "shards", "0", "1 or more"),
    "no shards of a join": (lambda f: join_itself(f, shards=0), "shards", "0", "1 or more"),
    "less than no shards of a join": (
        lambda f: join_itself(f, shards=-2), "shards", "-2", "1 or more"
    ),
    "no shards of agents": (lambda f: make_agents(f, shards=0), "shards", "0", "1 or more"),
    "less than no shards of agents": (
        lambda f: make_agents(f, shards=-2), "shards", "-2", "1 or more"
    ),
    "size is nothing": (
        lambda f: bare(f).tumbling("0 seconds"), "size", "'0 seconds'", "greater than zero"
    ),
    "slide beyond the size": (
        lambda f: bare(f).hopping("1 hour", "2 hours"), "slide", "'2 hours'", "at most 1 hour"
    ),
    "origin is no moment": (
        lambda f: bare(f).tumbling("1 hour", origin="noon"), "origin", "'noon'", "2026-01-01"
    ),
    "two policies": (
        lambda f: over(f).early(each=True, rows=2), "early", "True", "whichever comes first"
    ),
    "full without early": (
        lambda f: over(f).full(repeat=False).agg(n=mt.count()), "repeat", "False", "add early()"
    ),
    "each full of those that may be silent": (
        lambda f: over(f).early(each=True).full(repeat=False).agg(n=mt.count()).full,
        "repeat", "False", "leave out full(repeat=False)"
    ),
    "no policy": (lambda f: over(f).early(), "early", "False", "whichever comes first"),
    "no rows": (lambda f: over(f).early(rows=0), "rows", "0", "1 or more"),
    "no period": (
        lambda f: over(f).late(grace="1 hour", every="0 s"), "late", "'0 s'", "greater than zero"
    ),
    "kept for less than the grace": (
        lambda f: over(f).late(grace="1 hour").keep("5 minutes").agg(n=mt.count()),
        "keep", "'5 minutes'", "at least 1 hour",
    ),
    "grace in rows": (
        lambda f: over(f).late(grace=mt.rows(3)).agg(n=mt.count()), "grace", "3 rows", "durations"
    ),
    "kept in rows": (
        lambda f: over(f).keep(mt.rows(3)).agg(n=mt.count()), "keep", "3 rows", "durations"
    ),
    "grace in time": (
        lambda f: bare(f, offset=("key", "value"))
        .tumbling(mt.rows(3)).late(grace="1 hour").agg(n=mt.count()),
        "grace", "1 hour", "muntin.rows(N)",
    ),
    "no rows kept": (lambda f: over(f).keep("1 hour", rows=0), "rows", "0", "1 or more"),
    "rows kept of rows": (
        lambda f: bare(f).tumbling(mt.rows(3)).keep(mt.rows(5), rows=9).agg(n=mt.count()),
        "rows", "9", "keep(muntin.rows(N))",
    ),
    "no windows": (lambda f: bare(f).agg(n=mt.count()), "agg", "'n'", ".tumbling()"),
    "no aggregates": (lambda f: over(f).agg(), "agg", "None", "muntin.count()"),
    "aggregate over no column": (
        lambda f: over(f).agg(most=mt.max("vale")), "agg", "most=max(vale)", "key, at"
    ),
    "aggregate ordered by no column": (
        lambda f: over(f).agg(best=mt.arg_max("key", "vale")), "agg", "arg_max", "key, at"
    ),
    "aggregate named like a key": (
        lambda f: over(f).agg(key=mt.count()), "agg", "'key'", "rename"
    ),
    "aggregate named like the output": (
        lambda f: over(f).agg(window_start=mt.count()), "agg", "'window_start'", "rename"
    ),
    "aggregate without a name": (
        lambda f: over(f).agg(mt.count()), "agg", "'count()'", ".agg(name=muntin.count())"
    ),
    "aggregate of Spark's": (
        lambda f: over(f).agg(n=F.count("*")), "agg", "n=Column", "n=muntin.count()"
    ),
    "aggregate that is a text": (
        lambda f: over(f).agg(n="count"), "agg", "'n=count'", "n=muntin.count()"
    ),
    "clock that is an expression": (
        lambda f: over(f, clock=5), "clock", "5", "an expression as a Column"
    ),
    "offset that is an expression": (
        lambda f: over(f, offset=("key", F.col("value"))), "offset", "Column", "under a name first"
    ),
    "key that is no column": (lambda f: over(f, key=None), "key", "None", "omit it"),
    "key that is no column, among others": (
        lambda f: over(f, key=["key", 3]), "key", "3", "names or Columns of Spark"
    ),
    "key without a name that could be written": (
        lambda f: over(f, key=F.col("value") + 0.5).agg(n=mt.count()), "key", "0.5", ".alias("
    ),
    "where that is no condition": (lambda f: over(f, where=3), "where", "3", "a Column"),
    "early twice": (
        lambda f: over(f).early(each=True).early(every="1 s"), "early", "1 second", "omit one"
    ),
    "late twice": (
        lambda f: over(f).late(grace="1 hour").late(grace="2 hours"), "late", "2 hours", "omit one"
    ),
    "kept twice": (
        lambda f: over(f).keep("1 hour").keep("2 hours"), "keep", "2 hours", "omit one"
    ),
    "windows twice": (
        lambda f: over(f).session("1 hour"), "windows", "session 1 hour", "omit one"
    ),
    "sum of text": (lambda f: over(f).agg(total=mt.sum("key")), "agg", "sum(key)", "cast it"),
    "truth of a number": (
        lambda f: over(f).agg(all=mt.bool_and("value")), "agg", "bool_and(value)", "a condition"
    ),
    "rank beyond 1": (lambda f: mt.quantile("value", 95), "q", "95", "0.95"),
    "start of a batch frame": (
        lambda f: over(f).agg(n=mt.count()).start(checkpoint="nowhere"),
        "start", "batch", ".results",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], COLUMNS)


def bare(frame: DataFrame, **options: Any) -> Windowed:
    return mt.windowed(frame, **({"key": "key", "time": "at"} | options))


def over(frame: DataFrame, **options: Any) -> Windowed:
    return bare(frame, **options).tumbling("10 seconds")


def join_itself(frame: DataFrame, **options: Any) -> Any:
    side = bare(frame, key=())
    return mt.join(side, side, on="key", within="1 minute", **options)


def make_agents(frame: DataFrame, **options: Any) -> Any:
    agents_app = mt.App("refused")

    @agents_app.agent("messages")
    async def read(messages: Any) -> None:
        async for _ in messages:
            pass

    return mt.on_spark(agents_app, {"messages": frame}, **options)


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_option_is_named(case: str, frame: DataFrame) -> None:
    build, option, value, hint = WRONG[case]
    with pytest.raises(mt.OptionError) as refusal:
        build(frame)
    assert refusal.value.option == option
    problem, _, advice = str(refusal.value).partition("; ")
    assert problem.startswith(f"{option}=")
    assert value in problem
    assert hint in advice


def test_another_state_store_is_refused(spark: SparkSession, frame: DataFrame) -> None:
    other = ROCKSDB.replace("RocksDB", "HDFSBacked")
    spark.conf.set(PROVIDER, other)
    try:
        with pytest.raises(mt.SettingError) as refusal:
            over(frame).agg(n=mt.count())
    finally:
        spark.conf.set(PROVIDER, ROCKSDB)
    for part in (PROVIDER, other, ROCKSDB, "muntin.configure(spark)"):
        assert part in str(refusal.value)


@pytest.fixture(scope="module")
def source(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    """Return files of which a query has read all but the last; its checkpoint is beside them."""
    folder = tmp_path_factory.mktemp("refusals")
    feed = Feed(folder / "source")
    feed.add(("a", at(1), 1), ("b", at(2), 2))
    assert start(spark, feed, folder / "checkpoint").await_end(timeout=240)
    feed.add(("a", at(3), 3))
    return feed


@pytest.fixture
def checkpoint(source: Feed, tmp_path: Path) -> Path:
    """Return a copy of that checkpoint."""
    return shutil.copytree(source.folder.parent / "checkpoint", tmp_path / "checkpoint")


def start(
    spark: SparkSession,
    source: Feed,
    checkpoint: Path,
    *,
    value: str = "value",
    size: str = "10 seconds",
    grace: str = "30 seconds",
    aggregate: Aggregate | None = None,
    **options: Any,
) -> mt.WindowedQuery:
    stream = source.stream(spark).withColumnRenamed("value", value)
    windows = bare(stream, **options).tumbling(size).late(grace=grace, each=True)
    total = windows.agg(total=aggregate or mt.sum(value))
    return total.start(checkpoint=str(checkpoint), available_now=True)


CHANGED: dict[str, tuple[dict[str, Any], str]] = {
    "windows": (
        {"size": "20 seconds"},
        "windows: was tumbling 10 seconds, origin 0 us, is tumbling 20",
    ),
    "key": ({"key": ["key", "id"]}, "key: was key, is key, id"),
    "aggregate": ({"aggregate": mt.max("value")}, "agg total: was sum(value), is max(value)"),
    "renamed column": ({"value": "amount"}, "agg total: was sum(value), is sum(amount)"),
    "grace": ({"grace": "1 minute"}, "grace: was 30 seconds, is 1 minute"),
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] if number > 1 else [])
        for number, case in enumerate(CHANGED)
    ],
)
def test_a_changed_spec_is_named(
    case: str, source: Feed, checkpoint: Path, spark: SparkSession
) -> None:
    changes, difference = CHANGED[case]
    with pytest.raises(mt.SpecChangedError) as refusal:
        start(spark, source, checkpoint, **changes)
    assert str(refusal.value).startswith("the checkpoint was written by another spec (")
    assert difference in str(refusal.value)
    assert str(refusal.value).endswith("start with a new checkpoint folder")


def test_the_same_spec_goes_on(source: Feed, checkpoint: Path, spark: SparkSession) -> None:
    query = start(spark, source, checkpoint)
    assert query.await_end(timeout=240)
    assert query.progress.counts == {"seen": 3, "counted": 3}


class Failed:
    """A Spark query that ended by an error."""

    def __init__(self, text: str) -> None:
        self.text = text

    def awaitTermination(self, timeout: float | None = None) -> None:  # noqa: N802
        raise StreamingQueryException(self.text)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("x\nmuntin.model.errors.StateCorruptedError: cut\n\tat", mt.StateCorruptedError, "^cut$"),
        ("muntin.model.errors.SpecChangedError: other", mt.SpecChangedError, "^other$"),
        ("ZeroDivisionError: division", StreamingQueryException, "division"),
    ],
)
def test_the_error_of_a_worker_is_raised(text: str, error: type[Exception], words: str) -> None:
    query = mt.WindowedQuery()
    query.query = Failed(text)
    query._end = QueryEnd(query.query, lambda _: None)
    with pytest.raises(error, match=words):
        query.await_end()


def test_a_session_whose_state_a_crash_may_spoil(spark: SparkSession, frame: DataFrame) -> None:
    spark.conf.set(CHECKPOINT_FORMAT, "1")
    try:
        with pytest.raises(mt.SettingError, match=r"is '1'.*set it to '2'.*muntin\.configure"):
            over(frame).agg(n=mt.count())
    finally:
        spark.conf.set(CHECKPOINT_FORMAT, "2")


def test_all_settings_that_are_wrong_are_named_with_a_line_to_paste(
    spark: SparkSession, frame: DataFrame
) -> None:
    before = spark.conf.get(PROVIDER)
    spark.conf.set(CHECKPOINT_FORMAT, "1")
    spark.conf.set(PROVIDER, "HDFS")
    try:
        with pytest.raises(mt.SettingError) as caught:
            over(frame).agg(n=mt.count())
        problem, _, line = str(caught.value).partition("In one line: ")
        assert f"{PROVIDER} is 'HDFS'" in problem
        assert f"{CHECKPOINT_FORMAT} is '1'" in problem
        exec(line)
        over(frame).agg(n=mt.count())
    finally:
        spark.conf.set(CHECKPOINT_FORMAT, "2")
        spark.conf.set(PROVIDER, before)
