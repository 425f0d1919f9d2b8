"""A driver that is killed: windows over windows of a folder of files, until there are no more.

Usage: chain_victim.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import muntin as mt
from muntin.spark.session import session

COLUMNS = "id long, key string, at timestamp, value long"


def main(folder: Path) -> None:
    # It lives for seconds, so the second compiler would only cost.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = session("victim", master="local[2]", spark__driver__extraJavaOptions=quick)
    files = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    inner = (
        mt.windowed(files.parquet(f"{folder}/source"), key="key", time="at", lateness="3 minutes")
        .hopping("30 seconds", slide="10 seconds")
        .agg(n=mt.count(), total=mt.sum("value"))
    )
    query = (
        mt.windowed(inner, key="key", time="window_end", lateness="1 minute")
        .tumbling("2 minutes")
        .early(each=True)
        .agg(windows=mt.count(), n=mt.sum("n"), most=mt.max("total"))
        .start(
            checkpoint=f"{folder}/checkpoint",
            results=mt.to_duckdb(f"{folder}/out.duckdb", "windows", history="history"),
            rejected=mt.to_parquet(f"{folder}/rejected"),
            available_now=True,
        )
    )
    query.await_end()
    progress = {
        "counts": query.progress.counts,
        "inner": query.progress.inner.counts,
        "fired": query.progress.inner.fired,
        "adds_up": query.progress.adds_up(),
    }
    (folder / "figures.json").write_text(json.dumps(progress))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
