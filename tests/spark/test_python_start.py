"""Tests that a local session starts its Python workers before the first query."""

from __future__ import annotations

import time

from pyspark.sql import SparkSession

from muntin.spark.host.internals.python_start import start_daemon


def test_the_daemon_runs_without_any_query(spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    # Spark forgets the oldest jobs, so their number needn't grow.
    before = {*tracker.getJobIdsForGroup(None)}
    start_daemon(spark)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        jobs = {*tracker.getJobIdsForGroup(None)} - before
        states = [info.status for job in jobs if (info := tracker.getJobInfo(job))]
        if "SUCCEEDED" in states:
            return
        time.sleep(0.05)
    raise AssertionError("no job of the session has run in its Python workers")
