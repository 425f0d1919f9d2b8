"""A driver that is killed: joins two folders of files until there are no more.

Usage: join_victim.py FOLDER
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
    left, right = (
        mt.windowed(files.parquet(f"{folder}/{side}"), time="at", lateness="3 minutes")
        for side in ("left", "right")
    )
    pairs = mt.join(left, right, on="key", within=("5 seconds", "2 seconds"), how="full")
    query = pairs.start(
        checkpoint=f"{folder}/checkpoint",
        results=mt.to_parquet(f"{folder}/pairs"),
        rejected=mt.to_parquet(f"{folder}/rejected"),
        available_now=True,
    )
    query.await_end()
    progress = {"counts": query.progress.counts, "adds_up": query.progress.adds_up()}
    (folder / "figures.json").write_text(json.dumps(progress))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
