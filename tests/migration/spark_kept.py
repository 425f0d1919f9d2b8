"""Queries on Spark whose checkpoints are kept here as an earlier build wrote them.

``python -m tests.migration.spark_kept`` writes those of the present format, once; what is there is
never written again.
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import SparkSession
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.state.manifest import MANIFEST_FORMAT

FOLDER = Path(__file__).parent / "checkpoints"
KINDS = ("windows", "sessions", "join", "outer", "chain", "tables")
SECONDS = [[1, 4, 2, 9, 12], [8, 31, 7, 29], [33, 30, 64, 35], [36, 62, 70]]
BEFORE = 2
"""How many batches were taken when the checkpoint was written."""


def fed(folder: Path, first: int, last: int) -> Feed:
    """The files of some batches."""
    feed = Feed(folder, files=first, ids=sum(map(len, SECONDS[:first])))
    for numbers in SECONDS[first:last]:
        feed.add(*((f"key {s % 5}", at(s), s) for s in numbers))
    return feed


def counting() -> mt.App:
    """An agent that counts keys."""
    app = mt.App("kept", max_ahead=None)
    total = app.Table("total", default=int)

    @app.agent(app.topic("messages"))
    async def count(stream: Any) -> None:
        async for message in stream:
            total[message["key"]] += message["value"]

    return app


def run(spark: SparkSession, kind: str, feed: Feed, checkpoint: Path, shards: int = 2) -> None:
    """Take what the files bring."""
    given: dict[str, Any] = {"key": "key", "time": "at", "lateness": "2 seconds"}
    made: Any
    if kind == "tables":
        source = mt.source(feed.stream(spark), key="key", time="at")
        made = mt.on_spark(counting(), {"messages": source}, shards=shards)
    elif kind in ("join", "outer"):
        sides = [mt.windowed(feed.stream(spark), **given) for _ in range(2)]
        how: Any = "inner" if kind == "join" else "full"
        made = mt.join(*sides, on="key", within="50 seconds", how=how, shards=shards)
    elif kind == "chain":
        inner = mt.windowed(feed.stream(spark), shards=shards, **given).tumbling("5 seconds")
        short = inner.agg(total=mt.sum("value"))
        outer = mt.windowed(short, key="key", time="window_end", shards=shards)
        made = outer.tumbling("20 seconds").agg(n=mt.count(), total=mt.sum("total"))
    else:
        windows = mt.windowed(feed.stream(spark), shards=shards, **given)
        cut: Any = (
            windows.session("5 seconds")
            if kind == "sessions"
            else windows.hopping("10 seconds", slide="4 seconds")
        )
        cut = cut.early(each=True).late(grace="1 minute", each=True)
        made = cut.agg(n=mt.count(), total=mt.sum("value"), most=mt.max("value"))
    query = made.start(checkpoint=str(checkpoint), available_now=True)
    assert query.await_end(240)


def held(
    spark: SparkSession, kind: str, checkpoint: Path, batch: int | None = None
) -> list[pl.DataFrame]:
    """What a checkpoint holds, in one order."""
    if kind == "tables":
        found = [mt.open_table(str(checkpoint), "total", batch=batch, spark=spark).fetch()]
    else:
        state: Any = mt.open_state(str(checkpoint), batch=batch, spark=spark)
        sides = ("left", "right") if kind in ("join", "outer") else ()
        found = [state.fetch(side) for side in sides] or [state.fetch()]
    return [frame.sort(frame.columns) for frame in found]


def archive(kind: str, form: int = MANIFEST_FORMAT) -> Path:
    """Where a checkpoint is kept."""
    return FOLDER / f"{kind}-format-{form}.tar.xz"


def unpacked(path: Path, to: Path) -> Path:
    """A copy of a checkpoint, which reads its messages from ``source`` beside it."""
    with tarfile.open(path) as packed:
        packed.extractall(to, filter="data")
    _placed(to / "checkpoint", _NOWHERE, str(to))
    return to / "checkpoint"


def _placed(checkpoint: Path, old: str, new: str) -> None:
    """Say where a checkpoint and its source lie: Spark writes down whole paths."""
    listed = [*checkpoint.glob("state/*/_metadata/v2/[0-9]*"), *checkpoint.glob("sources/*/[0-9]*")]
    for path in listed:
        text = path.read_text()
        for scheme in ("file:", "file://"):
            text = text.replace(f"{scheme}{old}/", f"{scheme}{new}/")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        path.write_text(text)


_NOWHERE = "/kept"


def _write() -> None:
    spark = mt.session("muntin kept", **{"spark.sql.shuffle.partitions": "2"})
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            path = archive(kind)
            if path.exists():
                continue
            feed = fed(Path(folder, kind, "source"), 0, BEFORE)
            checkpoint = Path(folder, kind, "checkpoint")
            run(spark, kind, feed, checkpoint)
            _placed(checkpoint, str(checkpoint.parent), _NOWHERE)
            with tarfile.open(path, "w:xz") as packed:
                for one in sorted(checkpoint.rglob("*")):
                    if one.is_file() and not one.name.endswith(".crc"):
                        packed.add(one, Path("checkpoint", one.relative_to(checkpoint)))
            print(f"{path}: {path.stat().st_size} bytes")
    spark.stop()


if __name__ == "__main__":
    _write()
