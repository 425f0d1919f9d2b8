"""A driver that is killed: streams a folder of a bucket into others until it is read.

Usage: s3_victim.py BUCKET SETTINGS FIGURES, the settings as JSON
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import muntin as mt

COLUMNS = "id long, key string, at timestamp, value long"


def main(bucket: str, settings: dict[str, str], figures: Path) -> None:
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = mt.session(
        "victim", master="local[2]", spark__driver__extraJavaOptions=quick, **settings
    )
    files = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    query = (
        mt.windowed(files.parquet(f"{bucket}/source"), key="key", time="at", lateness="5 seconds")
        .hopping("30 seconds", slide="10 seconds")
        .early(each=True)
        .late(grace="10 minutes", each=True)
        .agg(n=mt.count(), total=mt.sum("value"), most=mt.max("value"))
        .start(
            checkpoint=f"{bucket}/checkpoint",
            results=mt.to_parquet(f"{bucket}/out"),
            rejected=mt.to_parquet(f"{bucket}/rejected"),
            available_now=True,
        )
    )
    query.await_end()
    held = mt.open_state(f"{bucket}/checkpoint").fetch()
    progress = {"counts": query.progress.counts, "adds_up": query.progress.adds_up()}
    figures.write_text(json.dumps({**progress, "held": len(held)}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3]))
