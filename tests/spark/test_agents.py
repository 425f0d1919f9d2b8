"""Tests that agents and tables give the same results on Spark as in this process."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.guide import faust_tables
from tests.spark.feed import DAY, STAMP, Feed, rows

import muntin as mt
from muntin.engine.clocks import read_machine_clock
from muntin.spark import query as query_module
from muntin.tables import App

CLICK = pa.schema([("page", pa.string()), ("at", STAMP), ("n", pa.int64())])
COLUMNS = "page string, at timestamp, n long"
START = DAY.timestamp()


@dataclass
class Click:
    page: str
    n: int


class Alarm(mt.Record):
    page: str
    views: int
    at: datetime


def make_app(closed: list[Any] | None = None) -> App:
    """Return an app that counts views in hopping windows, and collects sets of pages."""
    app = App("shop", lateness="5 seconds", max_ahead=None)
    best = app.Table("best", default=int)

    def close(key: Any, value: Any) -> None:
        page, _ = key
        best[page] = max(best[page], value)
        if closed is not None:
            closed.append((page, round(key[1].start - START), value))

    views = app.Table("views", default=int, on_window_close=close)
    windows = views.hopping("30 seconds", "10 seconds", expires="1 minute")
    numbers = app.SetTable("numbers")
    clicks = app.topic("clicks", value_type=Click)

    @app.agent(clicks, result_type=Alarm)
    async def count(stream: Any) -> Any:
        async for event in stream.events():
            page = event.value.page
            windows[page] += event.value.n
            if windows[page].current() >= 5:
                yield Alarm(
                    page, windows[page].current(), datetime.fromtimestamp(event.timestamp, UTC)
                )

    @app.agent(clicks)
    async def group(stream: Any) -> None:
        async for click in stream.group_by(lambda click: f"number {click.n % 2}"):
            numbers[f"number {click.n % 2}"].add(click.page)

    return app


BATCHES = [
    [("a", 1, 1), ("b", 4, 2), ("a", 12, 3), ("c", 3, 1)],
    [("a", 31, 1), ("b", 38, 1), ("b", 25, 4)],
    [("c", 140, 1), ("a", 1, 7), ("a", 130, 2)],
    [("a", 40, 5), ("b", 300, 1)],
]


def at(second: float) -> datetime:
    return datetime.fromtimestamp(START + second, UTC)


def run_in_process(partitions: int) -> dict[str, Any]:
    """Run the app in this process; return its tables, its results and its rejected messages."""
    closed: list[Any] = []
    app = make_app(closed)
    alarms: list[Any] = []
    app.agents["count"].sinks = (lambda alarm: alarms.append((alarm.page, alarm.views, alarm.at)),)
    values = [{"page": p, "at": at(s), "n": n} for batch in BATCHES for p, s, n in batch]
    with app.run(
        {"clicks": mt.source(values, key="page", time="at")}, partitions=partitions
    ) as running:
        shards = [part.shards for part in running.parts]
        best = [item for shard in shards for item in shard["best"].get_values().items()]  # type: ignore[attr-defined]
        numbers = [item for shard in shards for item in shard["numbers"].get_values().items()]  # type: ignore[attr-defined]
        return {
            "best": dict(best),
            "closed": sorted(closed),
            "numbers": dict(numbers),
            "said": sorted(alarms),
            "late": sorted((row.value.page, row.value.n) for row in running.rejected),
            "counts": running.counts,
        }


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    source = Feed(tmp_path / "source", CLICK)
    for batch in BATCHES:
        columns = list(zip(*batch, strict=True))
        source.add_table(
            pa.table([columns[0], [at(s) for s in columns[1]], columns[2]], schema=CLICK)
        )
    return source


def stream(feed: Feed, spark: SparkSession) -> DataFrame:
    frame = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    return frame.parquet(str(feed.folder))


def start(app: App, frame: DataFrame, folder: Path, **options: Any) -> mt.WindowedQuery:
    run = mt.on_spark(app, {"clicks": mt.source(frame, key="page", time="at")})
    out = f"{folder}/out.duckdb"
    query = run.start(
        checkpoint=f"{folder}/checkpoint",
        tables={
            "views": mt.to_duckdb(out, "views", history="views_history"),
            "best": mt.to_duckdb(out, "best"),
            "numbers": mt.to_duckdb(out, "numbers"),
        },
        results={"count": mt.to_duckdb(out, "alarms")},
        rejected=mt.to_duckdb(out, "rejected"),
        available_now=True,
        **options,
    )
    assert query.await_end(timeout=240)
    return query


def read_tables(folder: Path) -> dict[str, Any]:
    """Return the same as ``run_in_process``, from the tables that the query wrote."""
    out = folder / "out.duckdb"
    closed = rows(out, "SELECT key, window_start, value FROM views WHERE emission = 'full'")
    return {
        "best": dict(rows(out, "SELECT key, value FROM best")),
        "closed": sorted((k, round(w.timestamp() - START), v) for k, w, v in closed),
        "numbers": {
            key: set(json.loads(value))
            for key, value in rows(out, "SELECT key, value FROM numbers")
        },
        "said": sorted(rows(out, 'SELECT page, views, "at" FROM alarms')),
        "late": sorted(
            (json.loads(value)["page"], json.loads(value)["n"])
            for (value,) in rows(out, "SELECT value FROM rejected WHERE reason = 'late'")
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("restart", [False, True])
def test_both_runtimes_say_the_same(
    feed: Feed, spark: SparkSession, tmp_path: Path, restart: bool
) -> None:
    if restart:
        whole = feed.folder.rename(tmp_path / "whole")
        feed.folder.mkdir()
        for path in sorted(whole.iterdir()):
            path.rename(feed.folder / path.name)
            query = start(make_app(), stream(feed, spark), tmp_path)
    else:
        query = start(make_app(), stream(feed, spark), tmp_path)
    expected = run_in_process(2)
    counts = expected.pop("counts")
    assert query.progress.counts == counts
    assert query.progress.adds_up()
    assert query.progress.functions["count"] > 0
    assert read_tables(tmp_path) == expected
    history = rows(
        tmp_path / "out.duckdb",
        "SELECT key, window_start, revision FROM views_history GROUP BY ALL HAVING count(*) > 1",
    )
    assert history == []


def batch(spark: SparkSession, values: list[Any], columns: Any = None) -> DataFrame:
    """Return a frame in one partition, so that its order is the order of events."""
    return spark.createDataFrame(values, columns).coalesce(1)


def test_a_batch_frame_gives_the_tables_as_they_are_in_the_end(spark: SparkSession) -> None:
    values = [(p, at(s), n) for batch in BATCHES[:2] for p, s, n in batch]
    frame = batch(spark, values, COLUMNS)
    run = mt.on_spark(make_app(), {"clicks": mt.source(frame, key="page", time="at")})
    emitted = run.table("views").where("key = 'b'").collect()
    assert {row["emission"] for row in emitted} == {"full"}
    starts = {round(row["window_start"].replace(tzinfo=UTC).timestamp() - START) for row in emitted}
    assert starts == {-20, -10, 0, 10, 20, 30}
    assert sorted(row["value"] for row in emitted) == [1, 2, 2, 5, 5, 6]
    assert {row["key"]: row["value"] for row in run.table("best").collect()} == {
        "a": 4, "b": 6, "c": 1,
    }  # fmt: skip


WITHDRAWALS = [
    {"user": user, "account": user, "country": country, "amount": amount, "at": at(second)}
    for user, country, amount, second in [
        ("ann", "NL", 2.5, 1.0),
        ("bob", "NL", 1.0, 4.0),
        ("ann", "DE", 4.0, 12.0),
        ("bob", "NL", 8.0, 9.0),
        ("cay", "NL", 16.0, 31.0),
    ]
]
FLOATS = {"totals": float, "country_to_total": float, "user_to_total": float}


def make_guide_run(spark: SparkSession, app_and_tables: tuple[App, Any], key: str) -> Any:
    """Return the run of an app of Faust's guide, whose tables of floats need declared types."""
    app, tables = app_and_tables
    source = mt.source(batch(spark, WITHDRAWALS), key=key, time="at")
    types = {name: kind for name, kind in FLOATS.items() if name in tables}
    return mt.on_spark(app, {"withdrawals": source}, types=types)


def values_of(frame: DataFrame, *columns: str) -> list[Any]:
    return sorted(tuple(row) for row in frame.select("key", *columns, "value").collect())


def test_the_guides_group_by(spark: SparkSession) -> None:
    run = make_guide_run(spark, faust_tables.repartition(), "account")
    start = (F.col("window_start").cast("double") - START).cast("int").alias("start")
    assert values_of(run.table("country_to_total"), start) == [
        ("DE", 10, 4.0), ("NL", 0, 11.5), ("NL", 30, 16.0),
    ]  # fmt: skip


def test_the_guides_incorrect_usage_is_refused(spark: SparkSession) -> None:
    run = make_guide_run(spark, faust_tables.incorrect(), "user")
    with pytest.raises(PythonException, match=r"PartitionError: .*group_by\('country'\)"):
        run.table("country_to_total").collect()


@pytest.mark.parametrize("set_again", [pytest.param(True, marks=pytest.mark.slow), False])
def test_the_guides_changelogging(spark: SparkSession, tmp_path: Path, set_again: bool) -> None:
    """A value that was changed by reference is stored, and read in the next batch."""
    fields = [("account", pa.string()), ("amount", pa.float64())]
    feed = Feed(tmp_path / "source", pa.schema(fields))
    for amounts in ((2.5, 1.0), (4.0, 8.0)):
        feed.add_table(pa.table([["ann", "bob"], amounts], names=["account", "amount"]))
    frame = spark.readStream.schema("account string, amount double")
    frame = frame.option("maxFilesPerTrigger", 1).parquet(str(feed.folder))
    app, _ = faust_tables.changelogging(set_again=set_again)
    run = mt.on_spark(app, {"withdrawals": mt.source(frame, key="account")})
    out = f"{tmp_path}/out.duckdb"
    query = run.start(
        checkpoint=f"{tmp_path}/checkpoint",
        tables={"user_withdrawals": mt.to_duckdb(out, "kept")},
        available_now=True,
    )
    assert query.await_end(timeout=240)
    stored = dict(rows(Path(out), "SELECT key, value FROM kept"))
    assert stored == {"ann": "[2.5, 4.0]", "bob": "[1.0, 8.0]"}


@pytest.mark.slow
def test_time_follows_the_wall_clock_in_silence_if_idle_is_given(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The driver warns that its clock is behind the ticks, since it alone prints to a terminal."""
    offset = 600_000_000
    monkeypatch.setattr(query_module, "read_machine_clock", lambda: read_machine_clock() - offset)
    feed = Feed(tmp_path / "source", CLICK)
    feed.add_table(pa.table([["home"], [DAY], [1]], schema=CLICK))
    app = App("shop", max_ahead=None, idle="1 second")
    closed = app.Table("closed", default=int)

    def close(key: Any, value: Any) -> None:
        closed[key[0]] = value

    views = app.Table("views", default=int, on_window_close=close)
    windows = views.tumbling("2 seconds", expires="1 second")

    @app.agent(app.topic("clicks"))
    async def count(clicks: Any) -> None:
        async for click in clicks:
            windows[click["page"]] += click["n"]

    frame = spark.readStream.schema(COLUMNS).parquet(str(feed.folder))
    run = mt.on_spark(app, {"clicks": mt.source(frame, key="page", time="at")})
    emitted: list[tuple[str, int]] = []

    def collect(frame: DataFrame, number: int) -> None:
        emitted.extend((row["key"], row["value"]) for row in frame.collect())

    query = run.start(checkpoint=f"{tmp_path}/checkpoint", tables={"closed": collect})
    try:
        deadline = time.monotonic() + 120
        while not emitted:
            assert query.is_active
            assert time.monotonic() < deadline
            time.sleep(0.5)
    finally:
        query.stop()
    assert emitted == [("home", 1)]
    (line,) = [line for line in caplog.messages if "clock is" in line]
    assert line.startswith("this machine's clock is ")
    assert " s behind the last batch. What waits for the clock goes on" in line


def test_what_cannot_be_taken_is_handed_back(spark: SparkSession) -> None:
    app = App("orders", max_ahead="1 day")
    pieces = app.Table("pieces", default=int)

    @app.agent(app.topic("orders", value_type=Click))
    async def add(orders: Any) -> None:
        async for order in orders:
            pieces[order.page] += order.n

    now = datetime.now(UTC)
    raw = [
        ("a", '{"page": "a", "n": 2}', now),
        ("a", '{"page": "a", "n": "two"}', now),
        ("a", "{", now),
        (None, '{"page": "a", "n": 2}', now),
        ("a", '{"page": "a", "n": 2}', None),
        ("a", '{"page": "a", "n": 2}', now.replace(year=now.year + 1)),
        ("a", '{"page": "a", "n": 3}', now),
    ]
    frame = batch(spark, raw, "id string, body string, at timestamp")
    run = mt.on_spark(app, {"orders": mt.source(frame, key="id", time="at", value="body")})
    assert values_of(run.table("pieces")) == [("a", 5)]
    rejected = sorted(
        (row["reason"], row["value"], row["key"], bool(row["detail"]))
        for row in run.rejected.collect()
    )
    assert rejected == sorted(
        [
            ("malformed", raw[1][1], "a", True),
            ("malformed", "{", "a", True),
            ("null_key", raw[3][1], None, False),
            ("null_time", raw[4][1], "a", False),
            ("future", raw[5][1], "a", False),
        ],
        key=lambda row: (row[0], row[1], row[2] or "", row[3]),
    )


@pytest.mark.slow
def test_a_batch_that_fails_is_done_again_whole(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    """The agent fails late in the second batch, after changes of tables, which are undone."""
    fixed = tmp_path / "fixed"

    def make_failing_app() -> App:
        app = App("shop", max_ahead=None)
        views = app.Table("views", default=int)

        @app.agent(app.topic("clicks", value_type=Click))
        async def count(clicks: Any) -> None:
            async for click in clicks:
                views[click.page] += click.n
                if click.n == 4 and not fixed.exists():
                    raise RuntimeError("the agent has a fault")

        return app

    def run() -> mt.WindowedQuery:
        source = mt.source(stream(feed, spark), key="page", time="at")
        return mt.on_spark(make_failing_app(), {"clicks": source}).start(
            checkpoint=f"{tmp_path}/checkpoint",
            tables={"views": mt.to_duckdb(f"{tmp_path}/out.duckdb", "views")},
            available_now=True,
        )

    with pytest.raises(mt.BatchError, match=r"^RuntimeError: the agent has a fault .*in count"):
        run().await_end(timeout=240)
    out = tmp_path / "out.duckdb"
    select = "SELECT key, value FROM views ORDER BY key"
    assert rows(out, select) == [("a", 4), ("b", 2), ("c", 1)]
    fixed.touch()
    query = run()
    assert query.await_end(timeout=240)
    assert rows(out, select) == [("a", 19), ("b", 8), ("c", 2)]
    assert query.progress.counts == {"seen": 12, "taken": 12}


@pytest.mark.parametrize(
    ("sources", "error"),
    [
        ({}, "sources='clicks' is read by an agent and is missing"),
        ({"clicks": [1]}, r"sources='clicks' is a list; .*app\.run\(\)"),
        ({"clicks": {"key": "nobody"}}, "key='nobody' isn't a column of clicks"),
        ({"clicks": {"time": "nobody"}}, "time='nobody' isn't a column of clicks"),
        ({"clicks": {"time": "n"}}, "time='n' has type bigint"),
        ({"clicks": {"time": len}}, "time='len' is a function"),
        ({"clicks": {"value": "nobody"}}, "value='nobody' isn't a column of clicks"),
        ({"clicks": {}, "orders": {}}, "sources='orders' is read by no agent"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(
    spark: SparkSession, sources: dict[str, Any], error: str
) -> None:
    frame = spark.createDataFrame([], COLUMNS)
    sources_by_name = {
        name: mt.source(frame, **options) if isinstance(options, dict) else options
        for name, options in sources.items()
    }
    with pytest.raises(mt.OptionError, match=error):
        mt.on_spark(make_app(), sources_by_name).table("views")


def test_what_needs_one_process_is_refused_by_name() -> None:
    app = make_app()
    app.timer("10 seconds", name="beat")(lambda: None)
    with pytest.raises(mt.OptionError, match=r"timer='beat' doesn't run on Spark; .*on_window"):
        mt.on_spark(app, {})
    app = make_app()
    app.GlobalTable("rates").tumbling(10)
    with pytest.raises(mt.OptionError, match="GlobalTable='rates' would be read across shards"):
        mt.on_spark(app, {})


def test_tables_and_agents_must_be_the_apps(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], COLUMNS)
    run = mt.on_spark(make_app(), {"clicks": mt.source(frame, key="page", time="at")})
    with pytest.raises(mt.OptionError, match=r"table='orders' isn't the app's; .*views"):
        run.table("orders")
    with pytest.raises(mt.OptionError, match="agent='orders' isn't the app's"):
        run.results("orders")
    with pytest.raises(mt.OptionError, match="start='a batch DataFrame' doesn't stream"):
        run.start(checkpoint="nowhere")
    with pytest.raises(mt.OptionError, match="app='empty' has no agents"):
        mt.on_spark(App("empty"), {})


def test_values_that_fit_no_column_are_named(spark: SparkSession) -> None:
    app, _ = faust_tables.basics()
    source = mt.source(batch(spark, WITHDRAWALS), key="account", time="at")
    run = mt.on_spark(app, {"withdrawals": source})
    with pytest.raises(PythonException, match=r"table='totals' holds values .*types="):
        run.table("totals").collect()
