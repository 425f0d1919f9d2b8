"""A driver of a query in a bucket, parts of whose checkpoint are deleted one after another.

Usage: deleted_objects.py BUCKET FOLDER SETTINGS, where BUCKET is the bucket's address, FOLDER the
folder of this machine that has its objects, and SETTINGS are those of the session as JSON. Writes
the error that each deletion leads to into FOLDER/errors.json.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

import muntin as mt

# Patterns of files to delete, below the checkpoint.
DELETED = {
    "offsets": ["offsets", "record.json"],
    "commits": ["commits"],
    "metadata": ["metadata"],
    "state": ["state"],
    "operator": ["state/0/_metadata"],
    "blob": ["state/0/0/*.changelog"],
    "log of files": ["sources"],
    "nothing": [],
}


def run(spark: SparkSession, bucket: str) -> str:
    """Run the query, which reads one file a batch; return how it ends."""
    files = spark.readStream.schema("k string, at timestamp").option("maxFilesPerTrigger", 1)
    clicks = files.json(f"{bucket}/source")
    windows = mt.windowed(clicks, key="k", time="at", shards=1).tumbling("1 minute")
    try:
        query = windows.agg(n=mt.count()).start(
            checkpoint=f"{bucket}/checkpoint",
            results=mt.to_parquet(f"{bucket}/out"),
            available_now=True,
        )
        query.await_end(120)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"seen {query.progress.counts['seen']}"


def delete(checkpoint: Path, patterns: Sequence[str]) -> None:
    for path in [path for pattern in patterns for path in checkpoint.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def main(bucket: str, folder: Path, settings: dict[str, str]) -> None:
    spark = mt.session("deleted", master="local[1]", **settings)
    checkpoint, late, errors = folder / "checkpoint", folder / "source" / "late.jsonl", {}
    late.rename(folder / "late.jsonl")
    run(spark, bucket)
    shutil.copytree(checkpoint, folder / "copy")
    (folder / "late.jsonl").rename(late)
    for name, patterns in DELETED.items():
        shutil.rmtree(checkpoint)
        shutil.copytree(folder / "copy", checkpoint)
        delete(checkpoint, patterns)
        errors[name] = run(spark, bucket)
    (folder / "errors.json").write_text(json.dumps(errors))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
