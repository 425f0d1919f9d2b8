"""Tests of topics that workers read: expired messages, transactions, partitions, lost brokers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewPartitions
from pyspark.sql import SparkSession
from tests.services.kafka import Kafka
from tests.spark.feed import at, rows

import muntin as mt
from muntin.dataframe.state import read_checkpoint, report_checkpoint
from muntin.model.errors import OptionError
from muntin.spark.sources.kafka_rows import topics_of

COLUMNS = "id long, at timestamp, value long"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def orders(numbers: Iterable[int], partitions: int = 1) -> list[tuple[Any, ...]]:
    return [
        (n % partitions, f"k{n % 3}",
         json.dumps({"id": n, "at": at(n).isoformat(), "value": n}).encode())
        for n in numbers
    ]  # fmt: skip


def describe_topic(kafka: Kafka, topic: str, **options: Any) -> Any:
    return mt.kafka(kafka.servers, topic, columns=COLUMNS, reader="columns", **options)


def ids(spark: SparkSession, source: Any) -> list[int]:
    return sorted(row["id"] for row in source.frame(spark).select("id").collect())


def totals(
    spark: SparkSession, source: Any, folder: Path, **start: Any
) -> tuple[mt.WindowedQuery, Path]:
    """Start a query of totals by ten seconds, on the folder's checkpoint."""
    # A batch may have more of one partition than of another, and nothing is late for it.
    messages = mt.windowed(source.stream(spark), key="key", time="at", lateness="1 hour")
    windows = messages.tumbling("10 seconds").early(each=True)
    query = windows.agg(n=mt.count(), total=mt.sum("value")).start(
        checkpoint=f"{folder}/checkpoint",
        results=mt.to_duckdb(f"{folder}/out.duckdb", "windows"),
        **start,
    )  # fmt: skip
    return query, folder / "out.duckdb"


def test_a_window_reads_the_topic_itself(spark: SparkSession, kafka: Kafka) -> None:
    frame = describe_topic(kafka, kafka.topic(1)).frame(spark)
    assert topics_of(frame) is not None
    assert topics_of(frame.where("id > 1")) is None


def test_a_filtered_topic_is_read_in_columns_and_sent_as_rows(
    spark: SparkSession, kafka: Kafka
) -> None:
    topic = kafka.topic(3)
    kafka.send(topic, orders(range(50), 3))
    frame = describe_topic(kafka, topic).frame(spark)
    filtered_first = mt.windowed(frame.where("id >= 20"), key="key", time="at").tumbling("1 minute")
    filtered_by_windows = mt.windowed(frame, key="key", time="at", where="id >= 20").tumbling(
        "1 minute"
    )
    for windows in (filtered_first, filtered_by_windows):
        counted = windows.agg(n=mt.count()).results.collect()
        assert sum(row["n"] for row in counted) == 30


def test_expired_messages_are_an_error_that_says_so(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    topic = kafka.topic(1)
    kafka.send(topic, orders(range(10)))
    source = describe_topic(kafka, topic)
    query, _ = totals(spark, source, tmp_path, available_now=True)
    assert query.await_end(240)
    kafka.send(topic, orders(range(10, 30)))
    for done in kafka.admin.delete_records([TopicPartition(topic, 0, 20)]).values():
        done.result(60)
    query, _ = totals(spark, source, tmp_path, available_now=True)
    with pytest.raises(mt.SourceError, match=r"messages 10 to 19 of partition 0 .* were deleted"):
        query.await_end(240)
    lossy = describe_topic(kafka, topic, options={"failOnDataLoss": "false"})
    query, _ = totals(spark, lossy, tmp_path, available_now=True)
    assert query.await_end(240)
    assert query.progress.counts == {"seen": 20, "counted": 20}


def test_other_topics_and_topics_created_again_are_refused(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    topic = kafka.topic(1)
    kafka.send(topic, orders(range(10)))
    query, _ = totals(spark, describe_topic(kafka, topic), tmp_path, available_now=True)
    assert query.await_end(240)
    other = kafka.topic(1)
    kafka.send(other, orders(range(3)))
    query, _ = totals(spark, describe_topic(kafka, other), tmp_path, available_now=True)
    with pytest.raises(mt.SourceError, match=f"has read topic '{topic}', and the query reads"):
        query.await_end(240)
    kafka.create_again(topic)
    kafka.send(topic, orders(range(100, 130)))
    query, _ = totals(spark, describe_topic(kafka, topic), tmp_path, available_now=True)
    with pytest.raises(
        mt.SourceError, match=r"was deleted and created again .*0 up to 10"
    ) as error:
        query.await_end(240)
    assert "failOnDataLoss" in str(error.value)
    lossy = describe_topic(kafka, topic, options={"failOnDataLoss": "false"})
    query, _ = totals(spark, lossy, tmp_path, available_now=True)
    assert query.await_end(240)
    # The new topic is read from its own beginning.
    assert query.progress.counts["seen"] == 40


def test_what_was_aborted_is_not_read(spark: SparkSession, kafka: Kafka) -> None:
    """Transaction markers have offsets, too: no message ever has the last of them."""
    topic = kafka.topic(1)
    producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": topic})
    producer.init_transactions(60)
    for numbers, done in ((range(5), True), (range(5, 8), False), (range(8, 10), True)):
        producer.begin_transaction()
        for partition, key, value in orders(numbers):
            producer.produce(topic, value, key, partition)
        producer.flush(60)
        (producer.commit_transaction if done else producer.abort_transaction)(60)
    committed = describe_topic(kafka, topic, options={"isolation.level": "read_committed"})
    assert ids(spark, committed) == [0, 1, 2, 3, 4, 8, 9]
    assert ids(spark, describe_topic(kafka, topic)) == list(range(10))
    producer.begin_transaction()
    producer.produce(topic, orders([77])[0][2], "k", 0)
    producer.flush(60)
    # Behind an open transaction nothing is committed yet.
    assert ids(spark, committed) == [0, 1, 2, 3, 4, 8, 9]
    producer.abort_transaction(60)


def test_partitions_that_come_while_it_runs(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    topic = kafka.topic(1)
    kafka.send(topic, orders(range(10)))
    query, _ = totals(spark, describe_topic(kafka, topic), tmp_path)
    try:
        assert query.await_idle(240)
        for done in kafka.admin.create_partitions([NewPartitions(topic, 3)]).values():
            done.result(60)
        kafka.admin.list_topics(topic, timeout=60)
        kafka.send(topic, orders(range(10, 40), 3))
        assert query.await_idle(240)
        assert query.progress.counts == {"seen": 40, "counted": 40}
    finally:
        query.stop()


def test_a_checkpoint_of_sparks_connector_goes_on_in_columns(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    topic = kafka.topic(2)
    kafka.send(topic, orders(range(10), 2))
    connector = mt.kafka(kafka.servers, topic, columns=COLUMNS)
    query, _ = totals(spark, connector, tmp_path, available_now=True)
    assert query.await_end(240)
    kafka.send(topic, orders(range(10, 25), 2))
    query, out = totals(spark, describe_topic(kafka, topic), tmp_path, available_now=True)
    assert query.await_end(240)
    assert query.progress.counts == {"seen": 25, "counted": 25}
    assert rows(out, "SELECT sum(total) FROM windows") == [(sum(range(25)),)]


def test_a_broker_that_dies_and_comes_back(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    """Every message is counted once, in small batches, though the broker is killed twice."""
    topic, count = kafka.topic(3), 3000
    kafka.send(topic, orders(range(count // 3), 3))
    source = describe_topic(kafka, topic, per_batch=400)
    query, out = totals(spark, source, tmp_path)
    try:
        # A broker that isn't there at the start ends the query at once.
        assert query.await_idle(240)
        for part in (1, 2):
            kafka.kill()
            kafka.start()
            numbers = range(part * count // 3, (part + 1) * count // 3)
            sender = threading.Thread(target=kafka.send, args=(topic, orders(numbers, 3)))
            sender.start()
            sender.join(120)
        assert query.await_idle(240)
        assert query.progress.counts == {"seen": count, "counted": count}
        assert rows(out, "SELECT sum(n), sum(total) FROM windows") == [(count, sum(range(count)))]
    finally:
        query.stop()


@pytest.mark.parametrize("partitions", [2, 40])
def test_many_messages_come_in_order_and_once(
    spark: SparkSession, kafka: Kafka, partitions: int
) -> None:
    """They fill several frames, and tasks share partitions or read many of them."""
    topic, count = kafka.topic(partitions), 150_000
    kafka.send(topic, [(n % partitions, None, b'{"id": %d}' % n) for n in range(count)])
    frame = describe_topic(kafka, topic).frame(spark).select("id", "partition", "offset")
    table = frame.toArrow().sort_by([("partition", "ascending"), ("offset", "ascending")])
    ids = [n for first in range(partitions) for n in range(first, count, partitions)]
    assert table["id"].to_pylist() == ids
    assert table["offset"].to_pylist() == [n // partitions for n in ids]


def test_plain_values_and_their_keys(spark: SparkSession, kafka: Kafka) -> None:
    topic = kafka.topic(1)
    kafka.send(topic, [(0, "a", b"\xff"), (0, None, None), (0, b"\xff", b"x", [("h", None)])])
    plain = mt.kafka(kafka.servers, topic, reader="columns", headers=True).frame(spark)
    messages = [(r["key"], r["value"], r["headers"]) for r in plain.orderBy("offset").collect()]
    assert messages == [
        ("a", bytearray(b"\xff"), None),
        (None, None, None),
        ("\ufffd", bytearray(b"x"), [("h", None)]),
    ]


def test_keys_of_any_bytes_stay_apart_in_frames(spark: SparkSession, kafka: Kafka) -> None:
    """In a frame that Spark filters, keys have their bytes; windows reject them as malformed."""
    topic, keys = kafka.topic(1), [b"\xff", b"\xfe", b"a", "\ufffd".encode(), None, b""]
    kafka.send(topic, [(0, key, b'{"id": 1, "at": "2026-01-01T00:00:00Z"}') for key in keys])
    frame = describe_topic(kafka, topic).frame(spark).where("id = 1")
    key_rows = frame.selectExpr("CAST(key AS BINARY) AS key", "offset").orderBy("offset").collect()
    assert [row.key for row in key_rows] == keys
    counted = mt.windowed(frame, key="key", time="at").tumbling("1 minute").agg(n=mt.count())
    assert {row.key: row.n for row in counted.results.collect()} == {"a": 1, "\ufffd": 1, "": 1}
    reasons = {(row.key, row.reason) for row in counted.rejected.collect()}
    assert reasons == {("\\xff", "malformed"), ("\\xfe", "malformed"), (None, "null_key")}
    direct = mt.windowed(describe_topic(kafka, topic).frame(spark), key="key", time="at")
    rejected = direct.tumbling("1 minute").agg(n=mt.count()).rejected
    assert {(row.key, row.reason) for row in rejected.collect()} == reasons


def test_a_topic_that_isnt_there_is_named(spark: SparkSession, kafka: Kafka) -> None:
    with pytest.raises(Exception, match="topic 'nowhere' isn't on"):
        describe_topic(kafka, "nowhere").frame(spark).collect()


SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.password": "sesame",
    "sasl.username": "u",
}


def test_secrets_are_in_no_plan(spark: SparkSession, kafka: Kafka) -> None:
    source = describe_topic(kafka, "orders", options=SASL)
    windows = mt.windowed(source.stream(spark), key="id", time="at").tumbling("1 minute")
    counted = windows.agg(n=mt.count())
    for frame in (source.stream(spark), counted.results, counted.rejected):
        assert "sesame" not in frame._jdf.queryExecution().toString()
    assert "sesame" not in counted.explain() + repr(source)


@pytest.mark.parametrize(("watermark", "late"), [(None, 0), ("greatest", 2)])
def test_a_backlog_that_is_read_at_two_speeds_makes_no_message_late(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, watermark: Any, late: int
) -> None:
    topic = kafka.topic(2)
    seconds = {0: (1000, 1500, 2000), 1: (100, 150, 250)}
    kafka.send(topic, [
        (p, "k", json.dumps({"id": n, "at": at(n).isoformat(), "value": 1}).encode())
        for p, times in seconds.items() for n in times
    ])  # fmt: skip
    frame = describe_topic(kafka, topic, per_batch=2).stream(spark)
    windows = mt.windowed(frame, key="key", time="at", watermark=watermark).tumbling("100 seconds")
    query = windows.agg(n=mt.count()).start(checkpoint=f"{tmp_path}/checkpoint")
    clocks: list[Any] = []
    try:
        assert query.await_idle(120)
        assert query.progress.counts.get("late", 0) == late
        clocks = [time // 10**6 % 86_400 for time in query.progress.clocks.values()]
    finally:
        query.stop()
    assert clocks == ([] if watermark else [250, 2000])
    report = report_checkpoint(read_checkpoint(f"{tmp_path}/checkpoint", spark=spark))
    assert [*report["clocks"]] == ([] if watermark else [f"{topic}[1]", f"{topic}[0]"])


def test_clocks_of_partitions_are_refused_where_rows_pass_through_the_jvm(
    spark: SparkSession, kafka: Kafka
) -> None:
    frame = describe_topic(kafka, kafka.topic(2)).stream(spark)
    words: dict[str, Any] = {"key": "key", "time": "at", "watermark": "source"}
    mt.windowed(frame, **words).tumbling("1 minute").agg(n=mt.count())
    filtered = mt.windowed(frame, where="id > 1", **words).tumbling("1 minute")
    with pytest.raises(OptionError, match="watermark='source' needs a topic"):
        filtered.agg(n=mt.count())
