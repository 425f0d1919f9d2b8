"""A pipeline that a cluster runs: a folder of files into DuckDB."""

from __future__ import annotations

import muntin as mt


def pipeline(spark, folder, shards="2", ends="yes"):
    """Early and late firings of hopping windows over everything there is, or over all that comes.

    Args:
        spark: The session.
        folder: Where the files are, and all else goes.
        shards: How many; as many as there are by default for ``default``.
        ends: Whether it ends when all was read.
    """
    asked = None if shards == "default" else int(shards)
    files = spark.readStream.schema("id long, key string, at timestamp, value long")
    stream = files.option("maxFilesPerTrigger", 1).parquet(f"{folder}/source")
    return (
        mt.windowed(stream, key="key", time="at", lateness="5 seconds", shards=asked)
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
