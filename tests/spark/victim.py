"""A driver that is killed: streams a folder of files into DuckDB until there are no more.

Usage: victim.py FOLDER
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
    query = (
        mt.windowed(files.parquet(f"{folder}/source"), key="key", time="at", lateness="5 seconds")
        .hopping("30 seconds", slide="10 seconds")
        .early(each=True)
        .late(grace="10 minutes", each=True)
        .agg(n=mt.count(), total=mt.sum("value"), most=mt.max("value"))
        .start(
            checkpoint=f"{folder}/checkpoint",
            results=mt.to_duckdb(f"{folder}/out.duckdb", "windows", history="history"),
            rejected=mt.to_parquet(f"{folder}/rejected"),
            available_now=True,
        )
    )
    query.await_end()
    progress = {"counts": query.progress.counts, "adds_up": query.progress.adds_up()}
    (folder / "figures.json").write_text(json.dumps(progress))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
