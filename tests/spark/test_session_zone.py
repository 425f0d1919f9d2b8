"""Tests that local times in JSON and CSV are read as by Spark, in every session zone."""

from __future__ import annotations

import json

import polars as pl
import pytest
from pyspark.sql import SparkSession

import muntin as mt
from muntin.engine.session_zone import find_session_zone
from muntin.sources.csv_payloads import CsvPayloads
from muntin.sources.json_payloads import JsonPayloads
from muntin.spark.host.zones import ZONE_SETTING

pytestmark = pytest.mark.slow

ZONES = [
    "+05:30", "-5", "GMT+1", "UTC+2", "UT-03:30", "Z", "PST", "EST", "EST5EDT", "MIT", "ACT",
    "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata",
]  # fmt: skip
# Among them hours that are skipped, and some that come twice: in America, Europe, Lord Howe, Samoa.
LOCAL = [
    "2026-01-01T00:00:00", "2026-07-01 12:00:00.25", "2026-07-01", "2026-07-01T23:59:59.999999",
    "2026-03-08T02:00:00", "2026-03-08T02:59:59.999999", "2026-11-01 01:30:00",
    "2026-03-29T02:00:00", "2026-03-29 02:30", "2026-10-25T02:30:00", "2026-10-25T03:00:00",
    "2026-10-04T02:15:00", "2026-04-05T01:45:00", "2011-12-30T12:00:00", "1950-06-01T00:00:00",
    "2026-07-01T12:00:00Z", "2026-07-01T12:00:00+02:00",
]  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
def test_local_times_are_as_spark_reads_them(spark: SparkSession, zone: str) -> None:
    before = spark.conf.get(ZONE_SETTING)
    spark.conf.set(ZONE_SETTING, zone)
    try:
        texts = spark.createDataFrame([(text,) for text in LOCAL], "s string")
        rows = texts.selectExpr(
            "unix_micros(from_json(to_json(struct(s AS at)), 'at timestamp').at) AS json",
            "unix_micros(from_csv(s, 'at timestamp').at) AS csv",
        ).collect()
    finally:
        spark.conf.set(ZONE_SETTING, str(before))
    session_zone = find_session_zone(zone)
    assert session_zone is not None
    columns: dict[str, pl.DataType] = {"at": pl.Datetime("us", "UTC")}
    values = {
        "json": [json.dumps({"at": text}).encode() for text in LOCAL],
        "csv": [text.encode() for text in LOCAL],
    }
    for form, reader in (("json", JsonPayloads), ("csv", CsvPayloads)):
        decoded, bad, _ = reader(columns, session_zone).decode(values[form])
        assert not bad.any()
        times = dict(zip(LOCAL, decoded["at"].dt.timestamp("us"), strict=True))
        assert times == {text: row[form] for text, row in zip(LOCAL, rows, strict=True)}


def test_a_zone_that_only_java_knows_is_refused_at_once(spark: SparkSession) -> None:
    topic = mt.kafka("nowhere:9", "t", columns="at timestamp", reader="columns")
    before = spark.conf.get(ZONE_SETTING)
    spark.conf.set(ZONE_SETTING, "SystemV/PST8")
    try:
        with pytest.raises(mt.OptionError, match=r"SystemV/PST8.*give reader='spark'"):
            topic.frame(spark)
    finally:
        spark.conf.set(ZONE_SETTING, str(before))
