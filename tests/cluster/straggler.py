"""A pipeline in which the first attempt of one shard is slow: from files into DuckDB."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark import TaskContext

import muntin as mt


def pipeline(spark, folder):
    """Start a query whose function waits in one shard, except in its second attempt."""

    def slow(rows):
        task = TaskContext.get()
        if task is not None and task.partitionId() == 0:
            if task.attemptNumber() == 0:
                time.sleep(0.3)
            else:
                Path(folder, f"second-{task.taskAttemptId()}").touch()
        return float(len(rows))

    files = spark.readStream.schema("id long, key string, at timestamp, value long")
    stream = files.option("maxFilesPerTrigger", 1).parquet(f"{folder}/source")
    return (
        mt.windowed(stream, key="key", time="at", lateness="5 seconds", shards=2)
        .hopping("30 seconds", slide="10 seconds")
        .early(each=True)
        .late(grace="10 minutes", each=True)
        .agg(n=mt.apply(slow, "id"), total=mt.sum("value"), most=mt.max("value"))
        .start(
            checkpoint=f"{folder}/checkpoint",
            results=mt.to_duckdb(f"{folder}/out.duckdb", "windows", history="history"),
            available_now=True,
        )
    )
