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

from pyspark import SparkFiles, TaskContext

from muntin.engine.operator import TaskWatermark
from muntin.state.offsets import OffsetRange, TakenOffsets

_TAG = re.compile(r"muntin-(\w+)-batch-(\d+)")


def load_watermark(operator: str, streams: bool = True) -> TaskWatermark:
    """Return the watermark that this batch's messages are judged by, if this executor has it."""
    if not streams:
        return TaskWatermark(True, None, TakenOffsets())
    batch_of_task = _find_batch()
    if batch_of_task is None:
        return TaskWatermark(False, None)
    query, batch = batch_of_task
    if batch == 0:
        return TaskWatermark(True, None, TakenOffsets())
    try:
        with open(_path_of(query, operator, batch - 1), "rb") as file:
            content = file.read()
    except OSError:
        return TaskWatermark(False, None)
    return decode_watermark(content) or TaskWatermark(False, None)


def write_watermark(operator: str, judged: TaskWatermark) -> None:
    """Leave the watermark for the next batch's tasks in this executor; failing is harmless."""
    batch_of_task = _find_batch()
    if batch_of_task is None:
        return
    query, batch = batch_of_task
    path = _path_of(query, operator, batch)
    taken = () if judged.taken is None else judged.taken.dumps()
    with contextlib.suppress(OSError):
        scratch = f"{path}.{os.getpid()}"
        with open(scratch, "wb") as file:
            file.write(encode_watermark(judged.watermark, taken))
        os.replace(scratch, path)
        if batch > 1:
            os.remove(_path_of(query, operator, batch - 2))


def encode_watermark(watermark: int | None, taken: Sequence[OffsetRange]) -> bytes:
    """Return the bytes of a shard's file: a checksum, then the JSON that it covers."""
    text = json.dumps({"watermark": watermark, "taken": list(taken)}).encode()
    return b"%08x" % zlib.crc32(text) + text


def decode_watermark(content: bytes) -> TaskWatermark | None:
    """Parse the bytes that ``encode_watermark`` returns; return ``None`` for any other bytes.

    Example:
        >>> decode_watermark(encode_watermark(5, [(0, 1, 2)])).watermark
        5
        >>> decode_watermark(b"{}") is decode_watermark(encode_watermark(5, [])[:-1]) is None
        True
    """
    text = content[8:]
    if content[:8] != b"%08x" % zlib.crc32(text):
        return None
    try:
        fields = json.loads(text)
        watermark, taken = fields["watermark"], [(p, a, b) for p, a, b in fields["taken"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    partitions = [p for p, _, _ in taken if isinstance(p, str | int)]
    numbers = [0 if watermark is None else watermark, *(n for _, a, b in taken for n in (a, b))]
    if len(partitions) < len(taken) or not all(type(n) is int and abs(n) < 2**63 for n in numbers):
        return None
    return TaskWatermark(True, watermark, TakenOffsets(taken))


def tag_of_batch(query: str, batch: int) -> str:
    """Return the tag of jobs over Spark Connect, whose tasks don't have Spark's query id."""
    return f"muntin-{query}-batch-{batch}"


def _find_batch() -> tuple[str, int] | None:
    """Return the query and batch of this task; ``None`` outside of a query."""
    task = TaskContext.get()
    if task is None:
        return None
    query = task.getLocalProperty("sql.streaming.queryId")
    batch = task.getLocalProperty("streaming.sql.batchId")
    if query and batch:
        return query, int(batch)
    match = _TAG.search(task.getLocalProperty("spark.job.tags") or "")
    return (match[1], int(match[2])) if match else None


def _path_of(query: str, operator: str, batch: int) -> str:
    # Spark removes this folder with the application.
    folder = SparkFiles.getRootDirectory() or tempfile.gettempdir()
    return os.path.join(folder, f"muntin-{query}-{operator}-{batch}")
