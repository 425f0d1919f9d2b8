"""A pipeline that goes on and on: a folder of files into DuckDB."""

from __future__ import annotations

import muntin as mt


def pipeline(spark, folder):
    """Hopping windows in as many shards as there are by default."""
    files = spark.readStream.schema("id long, key string, at timestamp, value long")
    stream = files.option("maxFilesPerTrigger", 1).parquet(f"{folder}/source")
    return (
        mt.windowed(stream, key="key", time="at", lateness="5 seconds")
        .hopping("30 seconds", slide="10 seconds")
        .early(each=True)
        .late(grace="10 minutes", each=True)
        .agg(n=mt.count(), total=mt.sum("value"), most=mt.max("value"))
        .start(
            checkpoint=f"{folder}/checkpoint",
            results=mt.to_duckdb(f"{folder}/out.duckdb", "windows", history="history"),
        )
    )
