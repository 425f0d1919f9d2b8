"""Tests of rows as Kafka messages: JSON as Spark writes it, keys and headers."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.batches import batch_of

from muntin.sinks.batch import Batch
from muntin.sinks.kafka import KafkaSink, to_kafka
from muntin.sinks.kafka_messages import Encoding, Sender
from muntin.sinks.kafka_producer import Messages

pytestmark = pytest.mark.slow

_MICROS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_AS_SPARK = (
    f"map('ignoreNullFields', 'false', 'timestampFormat', \"{_MICROS}XXX\", "
    f"'timestampNTZFormat', \"{_MICROS}\")"
)
VALUES = """
    1Y AS few, -2 AS n, {id} * 4000000000 AS many, {id} / 3D AS real, CAST(0.1 AS float) AS half,
    1e300D AS great, CAST('NaN' AS double) AS none, CAST('-Infinity' AS double) AS least,
    CAST(-12.30 * {id} AS decimal(20, 2)) AS price, CAST(0.00000001 AS decimal(30, 10)) AS small,
    {id} = 1 AS yes, concat('ä "quoted" \\\\', chr(10), chr(9), chr(1), '/') AS text, '' AS empty,
    X'00FF10' AS raw, DATE'2026-01-31' AS day, CAST(NULL AS string) AS nothing,
    timestamp_micros({id} * 1793511000000001) AS at,
    timestamp_micros(-62135596800000001 - {id}) AS early,
    TIMESTAMP_NTZ'2026-01-01 00:00:00.1' AS local,
    timestamp_micros(9223372036854775807 - {id}) AS last,
    array(1, NULL, {id}) AS list, array(array('a"'), NULL) AS lists,
    CAST(array() AS array<int>) AS no_list, map('a"', 1, 'b', NULL) AS named,
    map({id}, array(TIMESTAMP'2026-01-01 00:00:00Z')) AS by_number,
    named_struct('a', 1, 'b', named_struct('c', CAST(NULL AS int)), 'é', X'01') AS place,
    CAST(NULL AS struct<a: int>) AS no_place, CAST(NULL AS array<int>) AS no_array,
    INTERVAL '1 02:03:04.5' DAY TO SECOND AS took, INTERVAL '-3 00:00:00' DAY TO SECOND AS back
"""


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata", "+05:30", "GMT-7"])
def test_json_is_as_spark_has_it(spark: SparkSession, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.sql(f"SELECT {VALUES.replace('{id}', 'id')} FROM range(3)")
        rows = frame.selectExpr(f"to_json(struct(*), {_AS_SPARK}) AS json").collect()
        encoding = Encoding((), tuple(frame.columns), (), zone=zone)
        messages, unfit = encoding.encode_messages(frame.toArrow())
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    assert unfit == {}
    for text, row in zip(messages.values, rows, strict=True):
        fields, wanted = json.loads(text), json.loads(row.json)
        assert list(fields) == list(wanted)
        for name, value in wanted.items():
            assert fields[name] == value, name


@pytest.mark.parametrize("zone", ["Z", "SystemV/PST8", "UTC"])
def test_a_zone_that_only_java_knows_is_utc(zone: str) -> None:
    table = pa.table({"at": pa.array([1], pa.timestamp("us", "UTC"))})
    messages, _ = Encoding(("at",), ("at",), (), zone=zone).encode_messages(table)
    assert messages.keys == ["1970-01-01T00:00:00.000001Z"]
    assert messages.values == ['{"at":"1970-01-01T00:00:00.000001Z"}']


def record_sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any, Any]]:
    """Record messages instead of sending them: key, value and headers."""
    sent: list[tuple[Any, Any, Any]] = []

    def take(client: Any, topic: str, messages: Messages, rows: list[int]) -> dict[int, str]:
        parts = messages.keys, messages.values, messages.headers
        sent.extend((parts[0][n], parts[1][n], parts[2][n]) for n in rows)
        return {}

    monkeypatch.setattr("muntin.sinks.kafka_messages.send_messages", take)
    return sent


def test_no_two_windows_have_one_key(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts may differ by microseconds, or be in the hour that comes twice."""
    sent = record_sent(monkeypatch)
    micros = [0, 1, 1_000, 1_793_511_000_000_000, 1_793_514_600_000_000, 2**62]
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.createDataFrame([(n,) for n in micros], "n long").selectExpr(
            "'k' AS k", "timestamp_micros(n) AS window_start", "n", "'full' AS emission"
        )
        for key in (None, "window_start", ["k", "WINDOW_START"]):
            sent.clear()
            to_kafka("nowhere:9", "t", key=key).write(make_batch(frame))
            assert len({key for key, _, _ in sent}) == len(micros)
            times = [json.loads(value)["window_start"] for _, value, _ in sent]
            assert len(set(times)) == len(micros)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))


@pytest.mark.parametrize("few", [True, False])
def test_text_that_is_none_is_set_aside(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    """It may be nested, and rows may be sent from the driver or by the workers."""
    bad = "cast(unhex('61EDA080') AS string)"
    columns = [
        "'a'", bad, f"array('a', {bad})", f"map('a', {bad})", f"map({bad}, 1)",
        f"named_struct('s', {bad})", f"array(named_struct('m', map(1, array({bad}))))",
        "array('a', null)", "cast(null AS string)",
    ]  # fmt: skip
    sent = record_sent(monkeypatch)
    for number, column in enumerate(columns):
        sent.clear()
        frame = spark.sql(f"SELECT {column} AS `a b`, 'k' AS k")
        batch = make_batch(frame)
        if few:
            to_kafka("nowhere:9", "t").write(batch)
            assert len(sent) == (not 0 < number < 7), column
            unwritable = batch.unwritable.table().to_pylist()
            aside = [unwritable] if unwritable else []
        else:
            rows = list(Sender({}, "t", Encoding((), ("a b",), ()))(frame.toArrow().to_batches()))
            aside = [pa.Table.from_batches([part]).to_pylist() for part in rows]
        assert len(aside) == (0 < number < 7), column
        for unwritable in aside:
            assert unwritable[0]["why"] == "a text isn't UTF-8, as JSON must be"
            assert "\\" in unwritable[0]["row"]


def test_what_takes_a_window_back_has_no_value(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = record_sent(monkeypatch)
    frame = spark.createDataFrame(
        [("k", 1, "full", 0), ("k", 1, "retract", 1), (None, 2, "late", 1)],
        "k string, n int, emission string, revision long",
    ).coalesce(1)
    to_kafka("nowhere:9", "t", key="K").write(make_batch(frame))
    assert [(key, value and json.loads(value)["n"]) for key, value, _ in sent] == [
        (b"k", 1), (b"k", None), (None, 2),
    ]  # fmt: skip
    assert sent[1][2] == [("emission", "retract"), ("revision", "1"), ("batch", "7")]


def test_rejected_messages_keep_their_bytes_and_headers(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = record_sent(monkeypatch)
    frame = spark.sql("""
        SELECT 'a' AS id, if(id = 0, X'FF', NULL) AS malformed, 'k' AS key, 't' AS topic,
               3L AS offset, array(struct('trace' AS key, X'01' AS value)) AS headers,
               'late' AS reason, TIMESTAMP'2026-01-01 00:00:10.5Z' AS watermark
        FROM range(0, 2, 1, 1)
    """)
    to_kafka("nowhere:9", "t").write(make_batch(frame, kind="rejected"))
    assert [(key, value) for key, value, _ in sent] == [(b"k", b"\xff"), (b"k", '{"id":"a"}')]
    assert sent[0][2] == [
        ("trace", b"\x01"), ("topic", "t"), ("offset", "3"), ("reason", "late"),
        ("watermark", "2026-01-01 00:00:10.5"), ("batch", "7"),
    ]  # fmt: skip


def test_it_shows_nothing_of_its_options() -> None:
    secret = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    sink = to_kafka("h:1", "t", options={**secret, "sasl.password": "x", "kafka.linger.ms": "1"})
    assert repr(sink) == "KafkaSink('h:1', 't')"
    assert isinstance(sink, KafkaSink)


def make_batch(frame: DataFrame, kind: str = "results") -> Batch:
    """Return a batch of rows that are on the driver."""
    return batch_of(frame, 7, kind, ("k",) if kind == "results" else None)
