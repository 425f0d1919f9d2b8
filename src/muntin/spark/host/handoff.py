"""Hands the watermark of the shards to the next batch's tasks before the shuffle.

The watermark in force, and the source offsets taken where a query has any, are in the shards'
state, after the shuffle. When a batch ends, each shard writes them to a small file of its executor,
whose name has the query's identifier and the batch's number. A combining task of the next batch
reads exactly that file. The file is missing in the first batch after a restart, and on an executor
that ran no shard. The task then sends its messages unchanged and the shards combine them, which is
slower and yields the same results.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from pyspark import SparkFiles, TaskContext

from muntin.engine.operator import Judged
from muntin.state.offsets import OffsetRange, TakenOffsets

_TAG = re.compile(r"muntin-(\w+)-batch-(\d+)")


def in_force(operator: str, streams: bool = True) -> Judged:
    """Return the watermark that this batch's messages are judged by, if this executor has it."""
    if not streams:
        return Judged(True, None, TakenOffsets())
    place = _place()
    if place is None:
        return Judged(False, None)
    query, batch = place
    if batch == 0:
        return Judged(True, None, TakenOffsets())
    try:
        left = _path(query, operator, batch - 1).read_bytes()
    except OSError:
        return Judged(False, None)
    return read(left) or Judged(False, None)


def leave(operator: str, judged: Judged) -> None:
    """Leave the watermark for the next batch's tasks in this executor; failing is harmless."""
    place = _place()
    if place is None:
        return
    query, batch = place
    path = _path(query, operator, batch)
    taken = () if judged.taken is None else judged.taken.dumps()
    with contextlib.suppress(OSError):
        scratch = path.with_name(f"{path.name}.{os.getpid()}")
        scratch.write_bytes(written(judged.watermark, taken))
        scratch.replace(path)
        _path(query, operator, batch - 2).unlink(missing_ok=True)


def written(watermark: int | None, taken: Sequence[OffsetRange]) -> bytes:
    """Return the bytes of a shard's file: a checksum, then the JSON that it covers."""
    text = json.dumps({"watermark": watermark, "taken": list(taken)}).encode()
    return b"%08x" % zlib.crc32(text) + text


def read(left: bytes) -> Judged | None:
    """Parse the bytes that ``written`` returns; return ``None`` for any other bytes.

    Example:
        >>> read(written(5, [(0, 1, 2)])).watermark
        5
        >>> read(b"{}") is read(written(5, [])[:-1]) is None
        True
    """
    text = left[8:]
    if left[:8] != b"%08x" % zlib.crc32(text):
        return None
    try:
        found = json.loads(text)
        watermark, taken = found["watermark"], [(p, a, b) for p, a, b in found["taken"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    known = [p for p, _, _ in taken if isinstance(p, str | int)]
    numbers = [0 if watermark is None else watermark, *(n for _, a, b in taken for n in (a, b))]
    if len(known) < len(taken) or not all(type(n) is int and abs(n) < 2**63 for n in numbers):
        return None
    return Judged(True, watermark, TakenOffsets(taken))


def tag(query: str, batch: int) -> str:
    """Return the tag of jobs over Spark Connect, whose tasks don't have Spark's query id."""
    return f"muntin-{query}-batch-{batch}"


def _place() -> tuple[str, int] | None:
    """Return the query and batch of this task; ``None`` outside of a query."""
    task = TaskContext.get()
    if task is None:
        return None
    query = task.getLocalProperty("sql.streaming.queryId")
    batch = task.getLocalProperty("streaming.sql.batchId")
    if query and batch:
        return query, int(batch)
    found = _TAG.search(task.getLocalProperty("spark.job.tags") or "")
    return (found[1], int(found[2])) if found else None


def _path(query: str, operator: str, batch: int) -> Path:
    # Spark removes this folder with the application.
    folder = SparkFiles.getRootDirectory() or tempfile.gettempdir()
    return Path(folder) / f"muntin-{query}-{operator}-{batch}"
