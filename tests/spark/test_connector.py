"""Tests of Kafka's options and of the search for Spark's connector, without a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.unit.sources.protos import All

import muntin as mt
from muntin.sources import kafka
from muntin.spark.sources import connector

pytestmark = pytest.mark.slow


def test_options_that_cant_work_are_refused() -> None:
    with pytest.raises(mt.OptionError, match="topic='' is empty"):
        mt.kafka("there:9092", "")
    with pytest.raises(
        mt.OptionError, match="isn't a format; give one of json, csv, avro, protobuf"
    ):
        mt.kafka("there:9092", "orders", format="xml")  # type: ignore[arg-type]
    with pytest.raises(mt.OptionError, match="doesn't fit format='avro'"):
        mt.kafka("there:9092", "orders", format="avro")
    with pytest.raises(mt.OptionError, match="can't be combined with format='avro'"):
        mt.kafka("there:9092", "orders", format="avro", schema='"long"', columns="id long")
    with pytest.raises(mt.OptionError, match="per_batch=0 is less than one"):
        mt.kafka("there:9092", "orders", per_batch=0)
    with pytest.raises(mt.OptionError, match="registry='there:8081' isn't an address"):
        mt.kafka("there:9092", "orders", format="avro", registry="there:8081")
    with pytest.raises(mt.OptionError, match="doesn't fit format='json'; add format='avro'"):
        mt.kafka("there:9092", "orders", registry="http://there:8081")
    with pytest.raises(mt.OptionError, match="doesn't fit a registry; leave reader='spark' out"):
        mt.kafka(
            "there:9092", "orders", format="avro", registry="http://there:8081", reader="spark"
        )
    with pytest.raises(mt.OptionError, match="is ambiguous for several topics"):
        mt.kafka("there:9092", ["a", "b"], format="avro", registry="http://there:8081")
    with pytest.raises(mt.OptionError, match="schema=None doesn't fit format='protobuf'"):
        mt.kafka("there:9092", "orders", format="protobuf")
    with pytest.raises(mt.OptionError, match="doesn't fit format='protobuf'; leave reader="):
        mt.kafka("there:9092", "orders", format="protobuf", schema=All, reader="spark")
    with pytest.raises(mt.OptionError, match="can't be combined with format='protobuf'"):
        mt.kafka("there:9092", "orders", format="protobuf", schema=All, columns="a int")
    with pytest.raises(mt.OptionError, match=r"registry.*is for Avro"):
        mt.to_kafka("there:9092", "orders", registry="http://there:8081")
    with pytest.raises(mt.OptionError, match=r"schema.*is for Avro"):
        mt.to_kafka("there:9092", "orders", schema='"long"')


SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
        "sasl.username": "reader", "sasl.password": "sesame"}  # fmt: skip
RECORD = '"type": "record", "name": "Row", "fields": [{"name": "x", "type":'


@pytest.mark.parametrize(
    ("options", "in_columns"),
    [
        ({"columns": "id long, at timestamp"}, True),
        ({}, True),
        ({"columns": "id long, price decimal(10, 2)"}, True),
        ({"columns": "id long, tags array<string>"}, True),
        ({"columns": "s struct<a: map<string, decimal(38, 9)>, b: array<timestamp>>"}, True),
        ({"columns": "id long, took interval day to second"}, False),
        ({"columns": "id long", "format": "csv"}, True),
        ({"columns": "id long, price decimal(10, 2)", "format": "csv"}, True),
        ({"format": "avro", "schema": '"long"'}, False),
        ({"format": "avro", "schema": f'{{{RECORD} "long"}}]}}'}, True),
        ({"format": "avro", "schema": f'{{{RECORD} ["int", "long"]}}]}}'}, False),
        ({"format": "avro", "schema": f'{{{RECORD} {{"type": "map", "values": "int"}}}}]}}'}, True),
        ({"format": "protobuf", "schema": All}, True),
        ({"options": SASL}, True),
        ({"options": {"security.protocol": "SASL_SSL", "sasl.jaas.config": "x"}}, False),
        ({"options": {"fetchOffset.retryIntervalMs": "10"}}, True),
        ({"options": {"fetchOffset.numRetries": "60"}}, True),
        ({"options": {"groupIdPrefix": "mine"}}, False),
        ({"options": {"default.api.timeout.ms": "90000"}}, False),
        ({"options": {"failOnDataLoss": "false"}, "starting": "2026-01-01T00:00:00Z"}, True),
        ({"options": {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}}, False),
    ],
)
def test_topics_are_read_in_columns_where_they_can_be(
    spark: SparkSession, options: dict[str, Any], in_columns: bool
) -> None:
    assert mt.kafka("there:9092", "orders", **options).in_columns() == in_columns


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, ""),
        ({"reader": "spark"}, "reader='spark'"),
        ({"columns": "id long, took interval day to second"}, "columns='took' has a type"),
        (
            {"options": {"groupIdPrefix": "mine"}},
            "options='groupIdPrefix' is an option of Spark's conn",
        ),
        ({"options": {"default.api.timeout.ms": "9"}}, "is an option of Java's client"),
        ({"format": "avro", "schema": '"long"'}, "the Avro schema isn't the schema of a record"),
    ],
)
def test_the_reason_is_given(spark: SparkSession, options: dict[str, Any], reason: str) -> None:
    reads = mt.kafka("there:9092", "orders", **options).in_columns()
    assert reason in reads.reason
    assert bool(reads) is (reads.reason == "")
    assert repr(reads) == ("True" if reads else f"False: {reads.reason}")


def test_what_is_wrong_is_refused_and_falls_back_to_nothing(spark: SparkSession) -> None:
    for options, match in [
        ({"options": {"security.protocl": "SASL_SSL"}}, r"did you mean 'security\.protocol'"),
        ({"options": {"security.protocol": "SASL_SLL"}}, "SASL_SLL"),
        ({"options": {"auto.offset.reset": "latest"}}, "give starting="),
        ({"starting": "newest"}, "starting='newest' isn't a starting position"),
        ({"starting": "group"}, "starting='group' needs a consumer group"),
        ({"reader": "columns", "options": {"groupIdPrefix": "x"}}, "isn't possible: options='gro"),
        ({"reader": "spark", "group": "billing"}, "group='billing' isn't possible: reader='spark'"),
        ({"reader": "spark", "options": SASL}, r"sasl\.username' is an option of librdkafka"),
    ]:
        with pytest.raises(mt.OptionError, match=match):
            mt.kafka("there:9092", "orders", **options).in_columns()


def test_without_librdkafka_the_error_names_both_ways(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "find_spec", lambda name: None)
    with pytest.raises(mt.MissingExtraError, match=r"'muntin\[kafka\]', or .*reader='spark'"):
        mt.kafka("there:9092", "orders", columns="id long").stream(spark)
    assert not mt.kafka("there:9092", "orders", columns="id long", reader="spark").in_columns()


def test_options_of_clients_get_their_prefix_and_arent_shown() -> None:
    options = {
        "sasl.jaas.config": "password='sesame'",
        "kafka.security.protocol": "SASL_SSL",
        "failOnDataLoss": "false",
        "fetchOffset.numRetries": "60",
    }
    orders = mt.kafka("there:9092", "orders", options=options)
    assert dict(orders.options) == {
        "kafka.sasl.jaas.config": "password='sesame'",
        "kafka.security.protocol": "SASL_SSL",
        "failOnDataLoss": "false",
        "fetchOffset.numRetries": "60",
    }
    sink = mt.to_kafka("there:9092", "x", options={**SASL, "sasl.password": "sesame"})
    assert "sesame" not in f"{orders!r} {sink!r}"


def test_what_sends_takes_options_of_librdkafka(monkeypatch: pytest.MonkeyPatch) -> None:
    for options, match in [
        (
            {"kafka.sasl.jaas.config": "sesame"},
            "jaas.config' is an option of Java's.*give 'sasl.username'",
        ),
        ({"max.request.size": "9"}, "give 'message.max.bytes'"),
        ({"groupIdPrefix": "mine"}, "Spark's connector; leave it out, or write with a function"),
        (
            {"default.api.timeout.ms": "9"},
            "'default.api.timeout.ms' is an option of Java's client, which librdkafka lacks",
        ),
    ]:
        with pytest.raises(mt.OptionError, match=match):
            mt.to_kafka("there:9092", "x", options=options)
    mt.to_kafka("there:9092", "x", options={"linger.ms": "20", "compression.type": "lz4"})
    monkeypatch.setattr("muntin.sinks.kafka.find_spec", lambda name: None)
    with pytest.raises(mt.MissingExtraError, match=r"writing topics needs .*'muntin\[kafka\]'"):
        mt.to_kafka("there:9092", "x")


def test_a_folder_without_the_connector_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = spark.newSession()
    # Other tests may have added the connector to this JVM.
    monkeypatch.setattr(connector, "has_class", lambda spark, name: False)
    monkeypatch.setenv(connector.FOLDER_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(mt.SettingError, match="nowhere': isn't a folder"):
        connector.connect(fresh)
    monkeypatch.setenv(connector.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(mt.SettingError, match=r"has no spark-sql-kafka.*spark__jars__packages="):
        connector.connect(fresh)


def test_without_maven_it_says_what_to_do(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "has_class", lambda spark, name: False)
    monkeypatch.delenv(connector.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(mt.SettingError, match=r"is missing. Start the session with.*install Maven"):
        connector.connect(spark.newSession())
