"""Tests that a query records the session's time zone only if its messages depend on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin as mt
from muntin.spark.agents import app as agents
from muntin.spark.host.zones import zone_of
from muntin.tables.route import AgentStage

pytestmark = pytest.mark.slow

ZONE = "spark.sql.session.timeZone"
COLUMNS = "n long, at timestamp, local timestamp_ntz, day date, s string, timestamp long"


@pytest.fixture
def messages(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return spark.readStream.schema(COLUMNS).parquet(str(tmp_path))


@pytest.fixture
def new_york(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "America/New_York")
    yield
    spark.conf.set(ZONE, str(before))


IDLE = {
    "columns": "struct(n, at, local, day, s)",
    "numbers as times": "timestamp_seconds(n)",
    "numbers as text": "cast(n + 1 AS string)",
    "text as numbers": "cast(s AS bigint)",
    "times as times": "cast(at AS timestamp)",
    "texts as days": "cast(s AS date)",
    "the clock": "current_timestamp()",
    "no times in JSON": "from_json(s, 'timestamp long, x string')",
}
ACTIVE = {
    "parsed": "to_timestamp(s)",
    "parsed with a format": "to_timestamp(s, 'yyyy-MM-dd')",
    "cast": "cast(s AS timestamp)",
    "cast within": "cast(get_json_object(s, '$.at') AS timestamp)",
    "local times": "cast(local AS timestamp)",
    "days": "cast(day AS timestamp)",
    "as text": "cast(at AS string)",
    "made as text": "cast(timestamp_seconds(n) AS string)",
    "as days": "to_date(at)",
    "hours": "hour(at) + 1",
    "truncated": "date_trunc('day', at)",
    "formatted": "concat('on ', date_format(at, 'yyyy-MM-dd'))",
    "compared with a text": "at > '2026-01-01'",
    "times in JSON": "from_json(s, 'x struct<y: array<timestamp>>')",
    "today": "current_date()",
}


@pytest.mark.parametrize("case", IDLE)
def test_what_is_the_same_everywhere(messages: DataFrame, case: str) -> None:
    assert zone_of(messages.selectExpr(IDLE[case])) is None


@pytest.mark.parametrize("case", ACTIVE)
def test_what_is_another_thing_elsewhere(messages: DataFrame, case: str) -> None:
    assert zone_of(messages.selectExpr(ACTIVE[case])) == "UTC"
    assert zone_of(messages.where(f"({ACTIVE[case]}) IS NOT NULL").select("n")) == "UTC"


def test_sources_that_parse_texts(spark: SparkSession, tmp_path: Path) -> None:
    for kind in ("json", "csv"):
        reader = spark.readStream.format(kind)
        assert zone_of(reader.schema("at timestamp").load(str(tmp_path))) == "UTC"
        assert zone_of(reader.schema("timestamp long, day date").load(str(tmp_path))) is None
        zoned = reader.schema("at timestamp").option("timeZone", "UTC")
        assert zone_of(zoned.load(str(tmp_path))) is None


def make_query(frame: DataFrame, **options: Any) -> mt.WindowedAggregate:
    windows = mt.windowed(frame, **{"key": "n", "time": "at", **options}).tumbling("1 day")
    return windows.agg(c=mt.count())


def test_queries(messages: DataFrame) -> None:
    def zone(frame: DataFrame, **options: Any) -> str | None:
        return make_query(frame, **options).plan.spec.zone

    assert zone(messages) is None
    assert zone(messages, time="local") is None
    assert zone(messages, time="local", clock="at") is None
    assert zone(messages, time="s") == "UTC"
    assert zone(messages, key=F.to_date("at")) == "UTC"
    assert zone(messages, where="hour(at) > 8") == "UTC"
    inner = make_query(messages)
    assert zone(inner.results, time="window_start") is None
    # In a chain each operator records its own.
    chain = make_query(make_query(messages, time="s").results, time="window_start").plan
    assert chain.spec.zone is None
    assert [fed.plan.spec.zone for fed in chain.upstreams] == ["UTC"]


def test_without_a_plan_only_a_text_for_a_time_counts(
    messages: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over Spark Connect, there is no plan to look at."""
    monkeypatch.setattr("muntin.spark.host.zones.list_nodes", lambda frame: None)
    assert zone_of(messages, "s") == "UTC"
    assert zone_of(messages.selectExpr("*", "hour(at) AS h"), "at") is None


def test_joins_and_what_windows_take_of_them(messages: DataFrame) -> None:
    left = mt.windowed(messages, time="at")
    right = mt.windowed(messages.select("n", F.to_timestamp("s").alias("when")), time="when")
    pairs = mt.join(left, right, on="n", within="1 minute")
    assert (pairs.plan.spec.left.zone, pairs.plan.spec.right.zone) == (None, "UTC")
    assert make_query(pairs, key="n").plan.spec.zone is None  # type: ignore[arg-type]
    hourly = make_query(pairs, key=F.hour("at"))  # type: ignore[arg-type]
    assert hourly.plan.spec.zone == "UTC"


def test_topics_of_agents(messages: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[Any] = []

    def record_stage(*parts: Any) -> AgentStage:
        stages.append(AgentStage(*parts))
        return stages[-1]

    monkeypatch.setattr(agents, "AgentStage", record_stage)
    for time in ("at", "s"):
        app = mt.App("app")
        app.Table("seen", default=int)

        @app.agent(app.topic("clicks"))
        async def count(clicks: Any) -> None:
            async for _ in clicks:
                pass

        _ = mt.on_spark(app, {"clicks": mt.source(messages, key="n", time=time)}).rejected
    assert [stage.rules().zones for stage in stages] == [{}, {"clicks": "UTC"}]


def test_another_zone_is_refused_where_it_matters(
    spark: SparkSession, messages: DataFrame, new_york: None
) -> None:
    new_york_spec, zoneless_spec = (
        make_query(messages, time="s").plan.spec,
        make_query(messages).plan.spec,
    )
    spark.conf.set(ZONE, "Etc/UTC")
    utc_spec = make_query(messages, time="s").plan.spec
    make_query(messages).plan.spec.check_same(zoneless_spec.to_dict())
    spark.conf.set(ZONE, "UTC")
    make_query(messages, time="s").plan.spec.check_same(utc_spec.to_dict())
    with pytest.raises(mt.SpecChangedError, match="zone: was UTC, is America/New_York"):
        new_york_spec.check_same(utc_spec.to_dict())


WINDOWS = {
    "n": mt.count(),
    "last": mt.last("at"),
    "nested": mt.last("times"),
    "all": mt.collect_list("at"),
}
# In microseconds, which no zone changes.
SHOWN = ["k", "unix_micros(at)", "n", "unix_micros(last)", "unix_micros(all[0])"]
SHOWN += ["unix_micros(nested.list[0])", "unix_micros(nested.map[at])"]
MESSAGES = """
SELECT k, timestamp_seconds(t) AS at, to_timestamp_ntz(cast(at AS string)) AS local,
    cast(at AS string) AS s, struct(array(at) AS list, map(at, at) AS map) AS times
FROM VALUES ('a', 5), ('a', 5), ('b', 3700), (NULL, 9), (NULL, 7000) AS messages(k, t)
"""


@pytest.mark.parametrize("time", ["at", "local", "s"])
def test_moments_are_the_same_in_each_zone(spark: SparkSession, time: str) -> None:
    rows_by_zone = []
    before = spark.conf.get(ZONE)
    try:
        for zone in ("UTC", "America/New_York", "Etc/UTC"):
            spark.conf.set(ZONE, zone)
            windows = mt.windowed(spark.sql(MESSAGES), key=["k", "at"], time=time)
            query = windows.tumbling("1 hour").agg(**WINDOWS)
            emitted = query.results.selectExpr(*SHOWN).collect()
            rejected = query.rejected.selectExpr("k", "unix_micros(at)", "reason").collect()
            rows_by_zone.append((sorted(map(str, emitted)), sorted(map(str, rejected))))
    finally:
        spark.conf.set(ZONE, str(before))
    assert [len(rows) for rows in rows_by_zone[0]] == [2, 2]
    assert rows_by_zone == [rows_by_zone[0]] * 3
