"""The task before the shuffle: turns messages into one small row for each shard."""

from __future__ import annotations

import json
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from muntin.engine.operator import Operator, Part, Task
from muntin.hosts.progress import INNER, STAGE
from muntin.hosts.rejected import RejectedLayout
from muntin.spark.host.handoff import load_watermark
from muntin.spark.host.messages import KIND, PASSED, PROGRESS, BatchReader, add_times
from muntin.state.frames import decode_blobs, encode_blobs, encode_frame

# A row that a task sends to a shard: a header with the names of its frames, the frames, and the
# rejected messages and figures of an upstream operator.
_ROW = pa.schema(
    [
        ("slot", pa.int32()),
        ("header", pa.string()),
        ("frames", pa.list_(pa.binary())),
        ("passed", pa.binary()),
    ]
)
_ROW_TYPES = _ROW.types
ROW_SCHEMA = from_arrow_schema(_ROW)
_Sent = tuple[int, str | None, list[bytes], bytes | None]
# Size of the batches that Spark takes at once, bytes; they are outside of its heap.
_AT_ONCE = 32 << 20

# Operators of this process by their unique identity: building one takes as long as a small batch.
_OPERATORS: OrderedDict[str, Operator] = OrderedDict()
_MOST_OPERATORS = 32


@dataclass(frozen=True)
class Stage:
    """The description of an operator that both sides of the shuffle use; it is sent to the workers.

    Attributes:
        slots: The grouping key of each shard.
        schemas: The columns of each kind of rows that is emitted.
        identity: A unique name of the operator in this run of its query.
        layout: The layout of its rejected messages among those of upstream operators.
        is_reused: Whether a process reuses the operator between tasks. An operator with
            functions of the user isn't reused, since they may hold any state.
    """

    make: Callable[[], Operator]
    slots: tuple[int, ...]
    schemas: Mapping[str, StructType]
    identity: str
    layout: RejectedLayout[Any] | None = None
    is_reused: bool = True

    def operator(self) -> Operator:
        """Return the operator, which this process may reuse from an earlier task."""
        if not self.is_reused:
            return self.make()
        operator = _OPERATORS.pop(self.identity, None) or self.make()
        _OPERATORS[self.identity] = operator
        if len(_OPERATORS) > _MOST_OPERATORS:
            _OPERATORS.popitem(last=False)
        return operator


def identity() -> str:
    """Return a unique name for an operator in this run of its query."""
    return uuid.uuid4().hex[:12]


@dataclass(frozen=True)
class ShuffleTask:
    """The function that ``mapInArrow`` runs; most of its attributes come from an ``OperatorInput``.

    Attributes:
        ahead: By how much the least time still to come exceeds the watermark of the upstream
            operator, microseconds; ``None`` without one, and where that isn't certain.
    """

    stage: Stage
    input: str
    read: BatchReader
    time: str | None
    used: frozenset[str]
    streams: bool = False
    ahead: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Have the operator prepare all messages of a task."""
        passed: list[pl.DataFrame] = []
        backlog: dict[str, bool] = {}
        messages = self._messages(self._note_backlog(batches, backlog), passed)
        first = next(messages, None)
        context = TaskContext.get()
        number = context.partitionId() if context else 0
        # The first task sends a row even without messages, so that shards report their figures
        # after an empty batch, too: they may have just restarted.
        if first is None and number:
            return
        whole = messages if first is None else chain([first], messages)
        stage = self.stage
        judged = partial(load_watermark, stage.identity, self.streams)
        reached = partial(self._find_event_time, passed)
        task = Task(self.input, number, len(stage.slots), judged, reached, lambda: backlog)
        parts = stage.operator().prepare(whole, task)
        if parts:
            rows = [*_encode_parts(stage, task, parts)]
            if passed:
                rows.append((stage.slots[0], None, [], encode_frame(pl.concat(passed))))
            for few in _group_rows(rows):
                columns_of = zip(zip(*few, strict=True), _ROW_TYPES, strict=True)
                arrays = [pa.array(values, kind) for values, kind in columns_of]
                yield pa.RecordBatch.from_arrays(arrays, schema=_ROW)

    def _find_event_time(self, passed: Sequence[pl.DataFrame]) -> int | None:
        """Return how far event time has come by the upstream shards' figures in this task."""
        if self.ahead is None:
            return None
        figures = [json.loads(text) for frame in passed for text in frame[PROGRESS].drop_nulls()]
        # The figures of operators further upstream have a longer path as their stage.
        maybe_watermarks = [
            one["watermark"] for one in figures if one[STAGE] == (self.input or INNER)
        ]
        watermarks = [mark for mark in maybe_watermarks if mark is not None]
        return min(watermarks) + self.ahead if watermarks else None

    def _note_backlog(
        self, batches: Iterator[pa.RecordBatch], backlog: dict[str, bool]
    ) -> Iterator[pa.RecordBatch]:
        """Yield ranges of a source, and note which of its partitions have more messages."""
        backlog_of = getattr(self.read, "backlog", None)
        for batch in batches:
            if backlog_of is not None:
                backlog |= backlog_of(batch)
            yield batch

    def _messages(
        self, batches: Iterator[pa.RecordBatch], passed: list[pl.DataFrame]
    ) -> Iterator[pl.DataFrame]:
        for read in self.read(batches):
            messages = add_times(read, self.time, self.used)
            if KIND in read.columns:
                passes = pl.col(KIND).is_not_null()
                passed.append(messages.filter(passes).select(PASSED))
                messages = messages.filter(~passes).drop(PASSED)
            yield messages


def _encode_parts(stage: Stage, task: Task, parts: Sequence[Part]) -> Iterator[_Sent]:
    for number, part in enumerate(parts):
        frames = {name: encode_blobs(frame) for name, frame in part.frames.items() if len(frame)}
        order = [task.number, task.input, number]
        # The JVM holds each row as a whole, so large frames are split over several rows. The first
        # row has everything else.
        for index in range(max(map(len, frames.values()), default=1)):
            frames_here = {
                name: blobs[index] for name, blobs in frames.items() if index < len(blobs)
            }
            label = {"order": [*order, index], "frames": [*frames_here]}
            header = json.dumps(label if index else {**label, "header": part.header})
            yield stage.slots[part.shard], header, [*frames_here.values()], None


def _group_rows(rows: Sequence[_Sent]) -> Iterator[list[_Sent]]:
    """Yield rows in groups of bounded size; only a single row may exceed the bound."""
    few: list[_Sent] = []
    size = 0
    for row in rows:
        size += sum(map(len, row[2]))
        if few and size > _AT_ONCE:
            yield few
            few, size = [], sum(map(len, row[2]))
        few.append(row)
    yield few


def read_parts(shard: int, rows: Sequence[Any]) -> list[Part]:
    """Return the parts that a shard received, in the order of tasks; ticks have no header."""
    rows_with_header = [
        (json.loads(row["header"]), row) for row in rows if row["header"] is not None
    ]
    rows_with_header.sort(key=lambda pair: pair[0]["order"])
    parts = []
    for order, group in groupby(rows_with_header, key=lambda pair: pair[0]["order"][:-1]):
        (label, first), *more = group
        blobs = {name: [blob] for name, blob in zip(label["frames"], first["frames"], strict=True)}
        for other, row in more:
            for name, blob in zip(other["frames"], row["frames"], strict=True):
                blobs[name].append(blob)
        frames = {name: decode_blobs(map(bytes, mine)) for name, mine in blobs.items()}
        parts.append(Part(shard, label["header"], frames, order[1]))
    return parts
