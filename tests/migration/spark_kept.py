"""Queries on Spark, with checkpoints that earlier builds wrote.

``python -m tests.migration.spark_kept`` writes the checkpoints of the present format. It never
writes a checkpoint again.
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import SparkSession
from tests.moved_queries import COLUMNS
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.state.manifest import MANIFEST_FORMAT

FOLDER = Path(__file__).parent / "checkpoints"
KINDS = ("windows", "sessions", "join", "outer", "chain", "tables")
SECONDS = [[1, 4, 2, 9, 12], [8, 31, 7, 29], [33, 30, 64, 35], [36, 62, 70]]
BEFORE = 2
"""The number of batches before the checkpoint was written."""


def write_feed(folder: Path, first: int, last: int) -> Feed:
    """Write the files of some batches."""
    feed = Feed(folder, files=first, ids=sum(map(len, SECONDS[:first])))
    for numbers in SECONDS[first:last]:
        feed.add(*((f"key {s % 5}", at(s), s) for s in numbers))
    return feed


def make_app() -> mt.App:
    """Return an app with an agent that counts keys."""
    app = mt.App("kept", max_ahead=None)
    total = app.Table("total", default=int)

    @app.agent(app.topic("messages"))
    async def count(stream: Any) -> None:
        async for message in stream:
            total[message["key"]] += message["value"]

    return app


def run(
    spark: SparkSession | None, kind: str, feed: Feed, checkpoint: Path, shards: int = 2
) -> None:
    """Run a query until it has read all files; without a session, it runs on the local host."""

    def read() -> Any:
        if spark is not None:
            return feed.stream(spark)
        return mt.files(feed.folder / "*.parquet", columns=COLUMNS, files_per_batch=1)

    options: dict[str, Any] = {"key": "key", "time": "at", "lateness": "2 seconds"}
    query_plan: Any
    if kind == "tables":
        source = mt.source(read(), key="key", time="at")
        query_plan = mt.on_spark(make_app(), {"messages": source}, shards=shards)
    elif kind in ("join", "outer"):
        sides = [mt.windowed(read(), **options) for _ in range(2)]
        how: Any = "inner" if kind == "join" else "full"
        query_plan = mt.join(*sides, on="key", within="50 seconds", how=how, shards=shards)
    elif kind == "chain":
        inner = mt.windowed(read(), shards=shards, **options).tumbling("5 seconds")
        sums = inner.agg(total=mt.sum("value"))
        outer = mt.windowed(sums, key="key", time="window_end", shards=shards)
        query_plan = outer.tumbling("20 seconds").agg(n=mt.count(), total=mt.sum("total"))
    else:
        windows = mt.windowed(read(), shards=shards, **options)
        policies: Any = (
            windows.session("5 seconds")
            if kind == "sessions"
            else windows.hopping("10 seconds", slide="4 seconds")
        )
        policies = policies.early(each=True).late(grace="1 minute", each=True)
        query_plan = policies.agg(n=mt.count(), total=mt.sum("value"), most=mt.max("value"))
    query = query_plan.start(checkpoint=str(checkpoint), available_now=True)
    assert query.await_end(240)


def fetch_state(spark: SparkSession, kind: str, checkpoint: Path) -> list[pl.DataFrame]:
    """Return the sorted frames of a checkpoint."""
    if kind == "tables":
        frames = [mt.open_table(str(checkpoint), "total", spark=spark).fetch()]
    else:
        state: Any = mt.open_state(str(checkpoint), spark=spark)
        sides = ("left", "right") if kind in ("join", "outer") else ()
        frames = [state.fetch(side) for side in sides] or [state.fetch()]
    return [frame.sort(frame.columns) for frame in frames]


def get_archive_path(kind: str, form: int = MANIFEST_FORMAT) -> Path:
    """Return the path of a stored checkpoint."""
    return FOLDER / f"{kind}-format-{form}.tar.xz"


def unpack(path: Path, to: Path) -> Path:
    """Unpack a copy of a checkpoint, which reads its messages from ``source`` next to it."""
    with tarfile.open(path) as archive:
        archive.extractall(to, filter="data")
    _replace_paths(to / "checkpoint", _PLACEHOLDER, str(to))
    return to / "checkpoint"


def _replace_paths(checkpoint: Path, old: str, new: str) -> None:
    """Replace the paths of a checkpoint and its source, which Spark stores as absolute paths."""
    files = [*checkpoint.glob("state/*/_metadata/v2/[0-9]*"), *checkpoint.glob("sources/*/[0-9]*")]
    for path in files:
        text = path.read_text()
        for scheme in ("file:", "file://"):
            text = text.replace(f"{scheme}{old}/", f"{scheme}{new}/")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        path.write_text(text)


_PLACEHOLDER = "/kept"


def _write() -> None:
    spark = mt.session("muntin kept", **{"spark.sql.shuffle.partitions": "2"})
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            path = get_archive_path(kind)
            if path.exists():
                continue
            feed = write_feed(Path(folder, kind, "source"), 0, BEFORE)
            checkpoint = Path(folder, kind, "checkpoint")
            run(spark, kind, feed, checkpoint)
            _replace_paths(checkpoint, str(checkpoint.parent), _PLACEHOLDER)
            with tarfile.open(path, "w:xz") as archive:
                for file in sorted(checkpoint.rglob("*")):
                    if file.is_file() and not file.name.endswith(".crc"):
                        archive.add(file, Path("checkpoint", file.relative_to(checkpoint)))
            print(f"{path}: {path.stat().st_size} bytes")
    spark.stop()


if __name__ == "__main__":
    _write()
