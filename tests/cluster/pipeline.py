"""A pipeline that a cluster runs: from a folder of files into DuckDB."""

from __future__ import annotations

import muntin as mt


def pipeline(spark, folder, shards="2", ends="yes"):
    """Start a query over hopping windows with early and late emissions.

    Args:
        spark: The session.
        folder: The folder of its files, tables and checkpoint.
        shards: The number of shards; ``default`` is that of the cluster.
        ends: Whether it ends when all files were read.
    """
    shard_count = None if shards == "default" else int(shards)
    files = spark.readStream.schema("id long, key string, at timestamp, value long")
    stream = files.option("maxFilesPerTrigger", 1).parquet(f"{folder}/source")
    return (
        mt.windowed(stream, key="key", time="at", lateness="5 seconds", shards=shard_count)
        .hopping("30 seconds", slide="10 seconds")
        .early(each=True)
        .late(grace="10 minutes", each=True)
        .agg(n=mt.count(), total=mt.sum("value"), most=mt.max("value"))
        .start(
            checkpoint=f"{folder}/checkpoint",
            results=mt.to_duckdb(f"{folder}/out.duckdb", "windows", history="history"),
            rejected=mt.to_duckdb(f"{folder}/rejected.duckdb", "rejected"),
            available_now=ends == "yes",
        )
    )
