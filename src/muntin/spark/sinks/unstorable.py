"""Rows that a sink can't take: found, set aside with the reason, kept beside the checkpoint.

A sink that refuses a batch for the sake of a few rows would refuse it after every restart. The rows
are looked for by writing halves, so that whatever a sink has against a row, it is only that row
which is set aside.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muntin.model.errors import SinkError
from muntin.spark.host.internals.checkpoints import is_there
from muntin.spark.sinks.plain import as_json

if TYPE_CHECKING:
    from muntin.spark.sinks.batch import Batch

UNSTORABLE = "unstorable"
SINK, WHY, ROW = "sink", "why", "row"
# What is kept of a row that was set aside.
LETTER = f"output string, reason string, {SINK} string, {WHY} string, {ROW} string"
_LONGEST = 300
_LOG = logging.getLogger(__name__)


class RowsRefusedError(Exception):
    """A sink refuses rows for what is in them; the message says why, in the sink's words."""


def sift(where: str, rows: pa.Table, attempt: Callable[[pa.Table], None]) -> dict[int, str]:
    """Write all rows that can be written, in their order.

    Args:
        where: What is written to.
        rows: The rows.
        attempt: Writes some of them, or raises a ``RowsRefusedError`` and has written none.

    Returns:
        Which rows were refused, by position, and why.
    """
    refused: dict[int, str] = {}
    waiting = [(0, len(rows))]
    while waiting:
        start, end = waiting.pop()
        try:
            attempt(rows.slice(start, end - start))
        except RowsRefusedError as error:
            if start == end:
                raise SinkError(f"{where} takes no row at all: {error}") from error
            if end - start == len(rows):
                waiting.append((0, 0))
            if end - start == 1:
                refused[start] = str(error)
                continue
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
    return refused


@dataclass
class Letters:
    """Rows of one output of a batch that its sink couldn't take."""

    output: str
    frames: list[pa.Table | DataFrame] = field(default_factory=list)
    kept: list[DataFrame] = field(default_factory=list)

    def add(self, rows: pa.Table, sink: str, why: Sequence[str]) -> None:
        """Set rows aside."""
        if not len(rows):
            return
        texts = {SINK: [sink] * len(rows), WHY: [_short(one) for one in why], ROW: as_json(rows)}
        self.frames.append(pa.table({name: pa.array(t, pa.string()) for name, t in texts.items()}))

    def add_frame(self, rows: DataFrame, sink: str) -> None:
        """Set rows aside that the executors keep: ``why``, and ``row`` as JSON."""
        self.frames.append(rows.select(F.lit(sink).alias(SINK), WHY, ROW))
        self.kept.append(rows)

    def release(self) -> None:
        """Have the executors drop what they keep."""
        while self.kept:
            self.kept.pop().unpersist()

    def frames_on(self, spark: SparkSession) -> list[DataFrame]:
        """The same as rows of ``LETTER``."""
        if not self.frames:
            return []
        fixed = (F.lit(self.output).alias("output"), F.lit(UNSTORABLE).alias("reason"))
        found = [
            spark.createDataFrame(one) if isinstance(one, pa.Table) else one for one in self.frames
        ]
        return [one.select(*fixed, SINK, WHY, ROW) for one in found]


class DeadLetters:
    """A folder beside a query's state, with a folder for each batch in it."""

    def __init__(self, checkpoint: str) -> None:
        self.path = f"{checkpoint.rstrip('/')}/{UNSTORABLE}"
        self._begun = False

    def keep(self, spark: SparkSession, batches: Sequence[Batch]) -> int:
        """Keep what was set aside of a batch, in place of what an earlier try left."""
        if not batches:
            return 0
        first, self._begun = not self._begun, True
        frames = [frame for batch in batches for frame in batch.letters.frames_on(spark)]
        number = batches[0].number
        path = f"{self.path}/batch={number}"
        if not frames:
            # The first batch of a run may repeat one, of which a sink now takes every row.
            if first and is_there(spark, path):
                spark.createDataFrame([], LETTER).write.mode("overwrite").json(path)
            return 0
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.union(frame)
        whole.coalesce(1).write.mode("overwrite").json(path)
        kept = spark.read.schema(LETTER).json(path).groupBy("output", SINK).count().collect()
        for batch in batches:
            batch.letters.release()
        n = sum(row["count"] for row in kept)
        for row in kept:
            _LOG.warning(
                "%s can't take %d rows of %s of batch %d; they are in %s",
                row[SINK], row["count"], row["output"], number, path,
            )  # fmt: skip
        return int(n)


def _short(why: str) -> str:
    line = " ".join(why.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
