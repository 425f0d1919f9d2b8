"""What a broker refuses, with one that is made up; the real one is in test_kafka."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muntin.spark.sinks.batch import Batch
from muntin.spark.sinks.kafka import KafkaSink, to_kafka
from muntin.spark.sinks.kafka_messages import OutgoingMessages, texts
from muntin.spark.sinks.unstorable import Letters


class Broker:
    """Takes messages up to a size, and of a batch in which one is larger the first ones only."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.sent: list[list[bytes]] = []

    def take(self, messages: DataFrame) -> None:
        found = messages.collect()
        self.sent.append([bytes(row.value) for row in found])
        if any(len(row.value or b"") + len(row.key or "") > self.most for row in found):
            raise PySparkException("Job aborted: org.apache.kafka.…RecordTooLargeException: 1")


def messages(spark: SparkSession, *values: bytes) -> DataFrame:
    frame = spark.createDataFrame([(n, v) for n, v in enumerate(values)], "n int, raw binary")
    headers = "array(struct('batch' AS key, cast('0' AS binary) AS value)) AS headers"
    made = frame.coalesce(1).selectExpr("*", "cast(raw AS string) AS text", headers)
    return made.select(
        F.struct("n", "text").alias("row"),
        texts(("n", "TEXT"), made.schema).alias("texts"),
        F.col("n").cast("string").alias("key"),
        F.col("raw").alias("value"),
        "headers",
    )


BAD = b"a\xed\xa0\x80"


def emitted(unfit: DataFrame | None) -> list[tuple[int, str]]:
    rows = unfit.collect() if unfit is not None else []
    return [(json.loads(row.row)["n"], row.why) for row in rows]


@pytest.mark.parametrize("most", [1_000_000, 700, 1])
def test_what_is_too_large_or_no_text_is_set_aside(spark: SparkSession, most: int) -> None:
    """Whether it is the client that refuses it, the broker, or neither."""
    values = [b"x" * 500, BAD, b"y" * 5000, b"a", b"z" * 900, b"b"]
    broker = Broker(most)
    unfit = emitted(OutgoingMessages(messages(spark, *values), 2000, broker.take).send())
    large = [n for n, value in enumerate(values) if len(value) + 1 > min(most, 2000 - 113)]
    assert [n for n, _ in unfit] == sorted({1, *large})
    assert unfit[[n for n, _ in unfit].index(1)][1] == "a text isn't UTF-8, as JSON must be"
    # In the end, everything else was sent once more, in its order.
    assert broker.sent[-1] == [v for n, v in enumerate(values) if n not in (1, *large)]


def test_what_is_taken_is_sent_once(spark: SparkSession) -> None:
    broker = Broker(1000)
    assert OutgoingMessages(messages(spark, b"a", b"b"), 2000, broker.take).send() is None
    assert broker.sent == [[b"a", b"b"]]


def test_another_error_is_the_brokers(spark: SparkSession) -> None:
    def fail(messages: DataFrame) -> None:
        raise PySparkException("TimeoutException: topic x not present in metadata")

    with pytest.raises(PySparkException, match="not present"):
        OutgoingMessages(messages(spark, b"a"), 2000, fail).send()


def test_text_within_other_values_counts(spark: SparkSession) -> None:
    bad = "cast(unhex('61EDA080') AS string)"
    columns = [
        f"array('a', {bad})", f"map('a', {bad})", f"map({bad}, 1)", f"named_struct('s', {bad})",
        f"array(named_struct('m', map(1, array({bad}))))", bad, "array('a', null)",
        "cast(null AS string)", "map('a', cast(null AS string))", "1",
    ]  # fmt: skip
    for number, column in enumerate(columns):
        frame = spark.sql(f"SELECT {column} AS `a b`")
        (row,) = frame.select(texts(("a b",), frame.schema).alias("valid")).collect()
        assert row.valid == (number > 5), column


def test_a_column_may_be_called_as_a_variable(spark: SparkSession) -> None:
    """The condition for lists within lists has variables of its own."""
    bad = "cast(unhex('61EDA080') AS string)"
    frame = spark.sql(f"SELECT array(array('a', {bad})) AS one0, array(array('a')) AS one1")
    valid = [texts((name,), frame.schema).alias(name) for name in ("one0", "ONE1")]
    (row,) = frame.select(*valid).collect()
    assert (row.one0, row.ONE1) == (False, True)


def test_no_two_windows_have_one_key(spark: SparkSession, monkeypatch: Any) -> None:
    """Not within a millisecond, nor in the hour that comes twice when clocks go back."""
    sent: list[Any] = []
    monkeypatch.setattr(KafkaSink, "_send", lambda sink, rows: sent.extend(rows.collect()))
    monkeypatch.setattr("muntin.spark.sinks.kafka.connect", lambda spark: None)
    micros = [0, 1, 1_000, 1_793_511_000_000_000, 1_793_514_600_000_000, 2**62]
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.createDataFrame([(n,) for n in micros], "n long").selectExpr(
            "'k' AS k", "timestamp_micros(n) AS window_start", "n", "'full' AS emission"
        )
        for key in (None, "window_start", ["k", "WINDOW_START"]):
            sent.clear()
            to_kafka("nowhere:9", "t", key=key).write(Made(frame))
            assert len({row.key for row in sent}) == len(micros)
            times = [json.loads(row.value)["window_start"] for row in sent]
            assert len(set(times)) == len(micros)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))


class Made(Batch):
    """A batch of rows that were made here."""

    def __init__(self, frame: DataFrame) -> None:
        letters = Letters("results")
        super().__init__(0, frame, "results", frame.schema, ("k",), letters=letters)

    @property
    def frame(self) -> DataFrame:
        return self.emitted
