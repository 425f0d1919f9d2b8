"""Tests of whole pipelines; the tests of SQL have the results of their queries."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import muntin as mt
from muntin.spark.pipelines import SparkPipelines
from muntin.spark.query import WindowedQuery
from muntin.sql.api import compile_pipeline


def test_half_a_pipeline_doesnt_run_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the second query can't be started, the first one is stopped."""
    (tmp_path / "messages").mkdir()
    select = """SELECT key, count(*) AS {} FROM messages
                GROUP BY key, TUMBLE(`at`, INTERVAL '10' SECOND)"""
    script = f"""
        CREATE TABLE messages (key STRING, at TIMESTAMP)
        WITH (connector = 'parquet', path = '{tmp_path}/messages');
        CREATE TABLE half_one WITH (connector = 'parquet', path = '{tmp_path}/one');
        CREATE TABLE half_two WITH (connector = 'parquet', path = '{tmp_path}/two');
        SET checkpoint = '{tmp_path}/checkpoint';
        INSERT INTO half_one {select.format("n")};
        INSERT INTO half_two {select.format("batch")};
    """
    stopped = []
    stop = WindowedQuery.stop
    monkeypatch.setattr(WindowedQuery, "stop", lambda q: (stopped.append(q.query.name), stop(q)))
    with pytest.raises(mt.OptionError, match="column='batch'"):
        SparkPipelines(spark).start(compile_pipeline(script), {})
    assert stopped == ["half_one"]
    assert not {query.name for query in spark.streams.active} & {"half_one", "half_two"}
