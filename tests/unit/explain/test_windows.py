"""Tests of explanations of queries: descriptions, estimated sizes and cautions."""

from __future__ import annotations

import polars as pl
import pytest
from tests.unit.sql.twins import sentence

import muntin as mt
from muntin.explain.cautions import explain_never_late, list_cautions
from muntin.explain.flows import describe_flows
from muntin.explain.size import Rates, estimate, format_amount, format_bytes
from muntin.explain.windows import Circumstances, describe_spec
from muntin.model.pipeline import Column, DeclaredTable
from muntin.sql.api import compile_pipeline

AT = sentence(key="k", time="ts", lateness="30 minutes")
HOURS = AT.hopping("1 hour", "5 minutes")


def join_lines(text: str) -> str:
    return " ".join(text.split())


def test_every_part_of_a_query_is_described():
    twin = HOURS.early(every="5 seconds").late(grace="6 hours", rows=10).keep("1 day", rows=1000)
    circumstances = Circumstances(
        4, True, None, None, "x > 1", "n > 2", "flights (parquet at /data)", "results to out"
    )
    text = join_lines(describe_spec(twin.spec(n=mt.count()), circumstances))
    for part in (
        "reads flights (parquet at /data): Parquet, in columns, by the workers",
        "takes messages for which x > 1",
        "windows hopping 1 hour by 5 minutes, by k on ts",
        "panes 12 for each window, 1 for each slide",
        "computes n=count()",
        "early while it is current, every 5 seconds of wall clock if it has changed",
        "full once, when the watermark (30 minutes behind the latest event time) reaches its end",
        "late taken for 6 hours after the end, emitted after 10 new messages",
        "emits the whole result so far",
        "future rejected beyond 15 minutes ahead of the wall clock; max_ahead= widens it",
        "having n > 2; a window that was emitted and holds no more is taken back",
        "state 4 shards; a row per key and pane, kept until 1 day after its last window",
        "and at most 1,000 messages of closed windows",
        "transformWithState in 4 partitions, with the state in RocksDB; a heartbeat wakes",
        "writes results to out",
    ):
        assert part in text
    assert "careful" not in text


@pytest.mark.parametrize(
    ("twin", "expected"),
    [
        (AT.session("10 minutes"), "is 10 minutes past its last message"),
        (
            AT.session("10 minutes", longest="8 hours"),
            "is 10 minutes past its last message, or 8 hours past its first",
        ),
        (AT.session("10 minutes", longest="8 hours"), "from which sessions are cut"),
        (
            AT.session("10 minutes", end="kind = 'out'", same="page"),
            "10 minutes past its last message, or past a message that ends it: kind = 'out', or "
            "past one with another value of page",
        ),
        (
            AT.session("10 minutes", start="kind = 'in'"),
            "or past one that begins another: kind = 'in'",
        ),
        (AT.session("10 minutes", start="kind = 'in'"), "rejected when the watermark passes them"),
        (AT.session("10 minutes", end="kind = 'out'"), "one row is kept for each key and time"),
        (AT.sliding("10 minutes"), "at most two windows begin or end with a message"),
        (AT.hopping("1 hour", "7 minutes"), "17 for each window, 2 for each slide"),
        (AT.cumulating("1 day", "1 hour"), "up to 24 for each window"),
        (AT.tumbling("1 day", zone="Asia/Tokyo"), "whole days of Asia/Tokyo"),
        (sentence(key="k").tumbling(mt.rows(3)), "by k in the order of arrival"),
        (sentence(offset=("p", "o")).tumbling(mt.rows(3)), "by p on o of each p"),
        (sentence(time="ts").tumbling("1 hour"), "tumbling 1 hour, of all messages on ts"),
        (AT.tumbling("1 hour").deltas(), "emits what is new"),
        (
            HOURS.fill("previous", n=0, up_to="1 day"),
            "empty filled for 1 day after a key's last window with a message; other values as in "
            "that window; n is 0",
        ),
        (
            HOURS.fill("linear", up_to="1 day"),
            "values on the line to the next one; emitted when the next one has closed",
        ),
        (HOURS.fill("zero", up_to="1 day"), "a message; sums and counts are 0"),
        (
            HOURS.early(over=9),
            "early while it is current, only when too many wait; the oldest emit early when more "
            "than 9 wait, of which each shard has an equal part",
        ),
        (
            HOURS.early(rows=5, over=9, stop=True),
            "after 5 new messages; the query stops when more than 9 wait",
        ),
        (sentence(key="k", time="ts", max_ahead=None).tumbling("1 hour"), "any time is taken"),
    ],
)
def test_each_kind_is_described(twin, expected):
    assert expected in join_lines(describe_spec(twin.spec(n=mt.count())))


@pytest.mark.parametrize(
    ("twin", "aggregate", "rates", "expected"),
    [
        (
            HOURS,
            mt.median("x"),
            None,
            "large state: the values of v are kept for every open window",
        ),
        (sentence(key="k").tumbling(mt.rows(3)), mt.count(), None, "unbounded state"),
        (AT.session("10 minutes"), mt.count(), None, "never silent for 10 minutes never ends"),
        (sentence(key="k", time="ts").tumbling("1 hour"), mt.count(), None, "neither lateness nor"),
        (
            sentence(key="k", time="ts", max_ahead=None).tumbling("1 s"),
            mt.count(),
            None,
            "one clock",
        ),
        (AT.hopping("1 hour", "1 second"), mt.count(), None, "counts in 3,600 windows"),
        (HOURS.early(each=True), mt.count(), None, "every batch emits all windows"),
        (
            AT.hopping("1 hour", "1 minute"),
            mt.count(),
            Rates(10, 100_000),
            "results a second for 10 messages a second",
        ),
    ],
)
def test_cautions(twin, aggregate, rates, expected):
    cautions = list_cautions(twin.spec(v=aggregate), rates)
    assert [line for line in cautions if expected in line], cautions


def test_a_key_that_may_be_null_and_is_rejected():
    def list_null_cautions(nullable, **options):
        twin = sentence(key=["p", "k", "j"], offset=("p", "o"), **options).tumbling(mt.rows(3))
        cautions = list_cautions(twin.spec(n=mt.count()), nullable=nullable)
        return [line for line in cautions if "null_key" in line]

    (line,) = list_null_cautions(["k", "j", "p", "x"], nulls="reject")
    assert line.startswith("messages in which k or j is NULL are rejected (null_key): nulls=")
    assert (
        list_null_cautions(["x", "p"], nulls="reject")
        == list_null_cautions(["k"], nulls="group")
        == []
    )


@pytest.mark.parametrize("where", ["k > 'a'", pl.col("k") > "a"])
def test_the_condition_on_messages_is_described(where):
    frame = pl.DataFrame(schema={"k": pl.String, "at": pl.Datetime("us", "UTC")})
    query = mt.windowed(frame, time="at", where=where).tumbling("1 hour").agg(n=mt.count())
    described = f"takes     messages for which {where}; the others are counted as filtered"
    assert join_lines(described) in join_lines(query.explain())


def test_a_frame_is_never_late():
    frame = pl.DataFrame(schema={"k": pl.String, "at": pl.Datetime("us", "UTC")})
    for rows, times in ((frame, 0), (mt.ticks(1), 1)):
        time = "at" if rows is frame else "timestamp"
        query = mt.windowed(rows, time=time).tumbling("1 hour").agg(n=mt.count())
        assert query.explain().count("neither lateness nor grace") == times


def test_a_column_that_is_never_late_needs_no_lateness():
    spec = (
        sentence(key="k", time="timestamp", lateness="5 minutes")
        .tumbling("1 hour")
        .spec(n=mt.count())
    )
    rate, plain = DeclaredTable("t", "rate"), DeclaredTable("t", "parquet")
    computed = DeclaredTable("t", "parquet", computed=(Column("timestamp", "current_timestamp()"),))
    assert explain_never_late(spec, None, plain) is None
    for reason in (explain_never_late(spec, None, rate), explain_never_late(spec, None, computed)):
        assert reason is not None
        assert any("timestamp is never late" in line for line in list_cautions(spec, None, reason))
    assert explain_never_late(spec, "timestamp") == "it is the arrival time"
    assert not any("never late" in line for line in list_cautions(spec))


def test_sizes_follow_from_rates():
    spec = sentence(key="k", time="ts").hopping("1 hour", "5 minutes").spec(n=mt.count())
    size = estimate(spec, Rates(1000, 100))
    assert (size.panes, size.rows) == (12, 1200)
    assert size.emitted == pytest.approx(100 / 300)
    assert size.bytes == 1200 * size.row_bytes
    longer = sentence(key="k", time="ts", lateness="1 hour").hopping("1 hour", "5 minutes")
    assert estimate(longer.keep("22 hours").spec(n=mt.count()), Rates(1000, 100)).panes == 24 * 12


def test_a_pane_holds_no_more_keys_than_messages():
    spec = sentence(key="k", time="ts").tumbling("10 seconds").spec(n=mt.count())
    assert estimate(spec, Rates(5, 1_000_000)).rows == 50


def test_full_state_is_as_large_as_the_input():
    spec = sentence(key="k", time="ts").tumbling("100 seconds").spec(v=mt.collect_list("x"))
    size = estimate(spec, Rates(1000, 10))
    assert size.bytes > 16 * 1000 * 100


def test_early_emissions_are_counted():
    spec = sentence(key="k", time="ts").tumbling("100 seconds")
    once = estimate(spec.spec(n=mt.count()), Rates(1000, 10)).emitted
    often = estimate(spec.early(every="1 second").spec(n=mt.count()), Rates(1000, 10)).emitted
    assert often == pytest.approx(101 * once)


def test_numbers_are_rounded_for_display():
    assert [format_amount(n) for n in (0.0046, 12, 4_200_000, 3e9)] == [
        "0.0046",
        "12",
        "4.2 million",
        "3.0 billion",
    ]
    assert [format_bytes(n) for n in (12, 3_400, 5e9)] == ["12 bytes", "3.4 kB", "5.0 GB"]


def test_pipelines_are_described_with_their_tables():
    pipeline = compile_pipeline(
        """CREATE TABLE a (k STRING, timestamp TIMESTAMP, x INT,
               WATERMARK FOR timestamp AS timestamp - 1 MINUTE) WITH (connector = 'rate');
           CREATE TABLE b (k STRING, timestamp TIMESTAMP, y INT) WITH (connector = 'json');
           CREATE TABLE o WITH (connector = 'parquet', path = '${out}/o');
           CREATE TABLE p WITH (connector = 'parquet', path = '${out}/p');
           INSERT INTO o REJECTED INTO p SELECT k, count(*) AS n FROM (SELECT * FROM a WHERE x > 1)
           GROUP BY k, TUMBLE(timestamp, 1 HOUR);
           CREATE TABLE q WITH (connector = 'parquet', path = '${out}/q');
           INSERT INTO q SELECT x, y FROM a JOIN b
           OVER (ORDER BY timestamp RANGE 1 MINUTE PRECEDING) ON a.k = b.k WHERE a.x > y"""
    )
    local_texts = dict(describe_flows(pipeline, local=True))
    assert "runs in this process" in join_lines(local_texts["o"])
    assert "spark" not in join_lines(local_texts["o"])
    assert all("state 1 shard;" in join_lines(text) for text in local_texts.values())
    texts = dict(describe_flows(pipeline, None, {"out": "/data"}))
    assert "results to o (parquet at /data/o); rejected messages to p" in join_lines(texts["o"])
    (first_sink, windows), (second_sink, pairs) = describe_flows(pipeline, Rates(10, 10))
    assert (first_sink, second_sink) == ("o", "q")
    window_text = join_lines(windows)
    assert "reads a (rate), chosen and computed row by row" in window_text
    assert "results to o (parquet at ${out}/o); rejected messages to p" in window_text
    assert "timestamp is never late (the source rate sets it" in window_text
    assert "join inner, on k" in join_lines(pairs)
    assert "reads b (json) as b" in join_lines(pairs)
    assert "pairs for which a.x > y" in join_lines(pairs)


def test_inner_queries_are_described_first() -> None:
    pipeline = compile_pipeline(
        """CREATE TABLE a (k STRING, at TIMESTAMP, x INT) WITH (connector = 'json');
           CREATE TABLE b (k STRING, at TIMESTAMP, y INT) WITH (connector = 'json');
           CREATE TABLE o WITH (connector = 'parquet', path = '/o');
           INSERT INTO o WITH pairs AS (
               SELECT one.k, one.n, b.at FROM
                   (SELECT k, count(*) AS n FROM a GROUP BY k, TUMBLE(at, 5 MINUTES)) one
               JOIN b ON one.k = b.k AND b.at BETWEEN one.window_end
                   AND one.window_end + INTERVAL '1' MINUTE)
           SELECT k, sum(n) AS n FROM pairs GROUP BY k, TUMBLE(at, 1 HOUR)"""
    )
    ((_, description),) = describe_flows(pipeline)
    order = ["tumbling 5 minutes", "join      inner", "tumbling 1 hour"]
    positions = [description.index(line) for line in order]
    assert positions == sorted(positions)
    for reads in ("reads a (json)", "reads the windows above as one", "reads b (json) as b"):
        assert reads in join_lines(description)
    assert "reads the pairs above" in join_lines(description)


def test_a_table_that_spark_reads_twice_is_named() -> None:
    pipeline = compile_pipeline(
        """CREATE TABLE a (k STRING, at TIMESTAMP, x INT) WITH (connector = 'json');
           CREATE TABLE o WITH (connector = 'parquet', path = '/o');
           CREATE VIEW large AS SELECT * FROM a WHERE x > 1;
           INSERT INTO o SELECT one.k, two.x FROM large one JOIN large two
           ON one.k = two.k AND two.at BETWEEN one.at AND one.at + INTERVAL '1' MINUTE"""
    )
    ((_, on_spark),) = describe_flows(pipeline)
    ((_, locally),) = describe_flows(pipeline, local=True)
    assert "careful Spark reads a 2 times, as the query does; a local host once" in join_lines(
        on_spark
    )
    assert "careful" not in locally


def test_rows_or_the_clock() -> None:
    text = join_lines(
        describe_spec(
            HOURS.early(rows=1000, every="5 seconds").spec(n=mt.count()), Circumstances(4)
        )
    )
    clock = "every 5 seconds of wall clock if it has changed"
    assert f"early while it is current, after 1,000 new messages, or {clock}" in text


def test_a_policy_first_and_another_then() -> None:
    twin = HOURS.early(rows=1, then={"every": "1 minute"}).late(
        grace="1 hour", when="n > 3", then={"each": True}
    )
    text = join_lines(describe_spec(twin.spec(n=mt.count()), Circumstances(4)))
    clock = "every 1 minute of wall clock if it has changed"
    assert f"early while it is current, first after 1 new message; then {clock}" in text
    first = "first after each batch that changed it, if n > 3"
    assert f"emitted {first}; then after each batch that changed it" in text
    assert "a heartbeat wakes the shards" in text


@pytest.mark.parametrize(
    ("windows", "start"),
    [
        (sentence(key="k", time="at").tumbling("1 hour").early(rows=3), "early has no effect on"),
        (
            sentence(key="k", time="at").session("1 hour").early(rows=3).late(grace="1 day"),
            "early and late have no effect on .results",
        ),
        (sentence(key="k", time="at").tumbling("1 hour"), None),
        (sentence(key="k", time="at").rolling("1 hour").late(grace="1 day"), None),
    ],
)
def test_policies_without_an_effect_on_finite_input(windows, start):
    spec = windows.spec(n=mt.count())
    cautions = list_cautions(spec, finite=True)
    assert (start is None) is (not any("no effect" in line for line in cautions))
    assert start is None or any(line.startswith(start) for line in cautions)
    assert not any("no effect" in line for line in list_cautions(spec))
