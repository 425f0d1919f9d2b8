"""The task before the shuffle: Arrow batches in, one small row a bucket out."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema

from muntin.engine import columns, operator
from muntin.engine.buckets import split
from muntin.engine.codec import decode, encode
from muntin.engine.combine import Combined, Combiner
from muntin.engine.offsets import Offsets, greatest_of
from muntin.model.spec import WindowSpec
from muntin.spark.handoff import Judged, in_force
from muntin.spark.utf8 import GARBLED, frame_of

# What a task sends to a bucket. `header` says by which watermark it judged, the greatest time of
# the whole task (every bucket gets it, so that all know the same watermark), and the counts.
_ROW = pa.schema(
    [
        ("slot", pa.int32()),
        ("header", pa.string()),
        ("cells", pa.binary()),
        ("rejected", pa.binary()),
        ("raw", pa.binary()),
        ("passed", pa.binary()),
    ]
)
ROW = from_arrow_schema(_ROW)
ROWS_AT_ONCE = 500_000
# What an operator before this one told beside its results; see ``muntin.spark.onward``.
KIND, BLOB, FIGURES = "__muntin_kind", "__muntin_blob", "__muntin_figures"
PASSED = (KIND, BLOB, FIGURES)

# By operator, of which no two have the same identity. A combiner holds no data.
_COMBINERS: dict[str, Combiner] = {}
_MOST_COMBINERS = 32


@dataclass(frozen=True)
class Stage:
    """What both sides of the shuffle know of a query; sent to the workers.

    Attributes:
        spec: The query.
        schema: Polars types of the columns that reach Python, by name.
        operator: The identity of this operator in this run.
        slots: The grouping key of each bucket.
        time: The column that holds the event time as Spark sends it; ``None`` where there is none.
    """

    spec: WindowSpec
    schema: dict[str, pl.DataType]
    operator: str
    slots: tuple[int, ...]
    time: str | None

    @property
    def used(self) -> set[str]:
        """The columns that something is computed with."""
        return {*self.spec.types, *(self.spec.offset or ())}

    def combiner(self) -> Combiner:
        """The query's combiner, kept by this process: making it takes as long as a small batch."""
        if self.operator not in _COMBINERS:
            if len(_COMBINERS) >= _MOST_COMBINERS:
                _COMBINERS.clear()
            schema = pl.Schema({**self.schema, columns.TIME: pl.Int64()})
            _COMBINERS[self.operator] = operator.combiner(self.spec, schema)
        return _COMBINERS[self.operator]


def identity() -> str:
    """A name for an operator in this run of its query that no other has."""
    return uuid.uuid4().hex[:12]


Reader = Callable[[Iterator[pa.RecordBatch]], Iterator[pl.DataFrame]]


def as_sent(batches: Iterator[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """The messages that Spark sends, in frames of a bounded number of rows."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_AT_ONCE:
            yield _frame(waiting)
            waiting, rows = [], 0
    if rows:
        yield _frame(waiting)


def _frame(batches: list[pa.RecordBatch]) -> pl.DataFrame:
    return frame_of(pa.Table.from_batches(batches))


def timed(messages: pl.DataFrame, holder: str | None, used: Iterable[str]) -> pl.DataFrame:
    """Messages with ``columns.TIME`` (and the clock) in microseconds.

    Args:
        messages: What was read.
        holder: The column of event times; ``None`` where there is none.
        used: The columns that something is computed with: a message is malformed where the text of
            one isn't UTF-8.
    """
    if GARBLED in messages.columns:
        bad = pl.col(GARBLED).list.set_intersection(list(used)).list.len() > 0
        if columns.MALFORMED in messages.columns:
            bad = bad | pl.col(columns.MALFORMED).fill_null(True)
        messages = messages.with_columns(bad.alias(columns.MALFORMED)).drop(GARBLED)
    time = pl.lit(0) if holder is None else pl.col(holder)
    times = [time.cast(pl.Int64).alias(columns.TIME)]
    if columns.CLOCK in messages.columns:
        times.append(pl.col(columns.CLOCK).cast(pl.Int64))
    return messages.with_columns(times)


class CombineTask:
    """The function given to ``mapInArrow``.

    Args:
        stage: What both sides of the shuffle know.
        read: How messages come out of what Spark sends.
    """

    def __init__(self, stage: Stage, read: Reader = as_sent) -> None:
        self.stage = stage
        self.read = read

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Combine all messages of a task."""
        combiner = self.stage.combiner()
        judged = in_force(self.stage.operator)
        parts: list[Combined] = []
        raw: list[pl.DataFrame] = []
        passed: list[pl.DataFrame] = []
        taken = judged.taken or Offsets()
        for read in self.read(batches):
            messages = timed(read, self.stage.time, self.stage.used)
            if KIND in read.columns:
                passes = pl.col(KIND).is_not_null()
                passed.append(messages.filter(passes).select(PASSED))
                messages = messages.filter(~passes).drop(PASSED)
            if judged.known or combiner.forwards:
                parts.append(combiner.combine(messages, judged.watermark, taken))
                raw += [] if parts[-1].raw is None else [parts[-1].raw]
                taken.add(parts[-1].offsets)
            else:
                combined, rest = combiner.defer(messages)
                parts.append(combined)
                raw.append(rest)
        if not parts and speaks_of_nothing():
            parts.append(Combined(combiner.no_cells, combiner.nothing_rejected))
        if parts:
            yield self._rows(combiner, parts, raw, passed, judged)

    def _rows(
        self,
        combiner: Combiner,
        parts: list[Combined],
        raw: list[pl.DataFrame],
        passed: list[pl.DataFrame],
        judged: Judged,
    ) -> pa.RecordBatch:
        buckets = len(self.stage.slots)
        whole = combiner.together([p.cells for p in parts])
        cells = split(whole, combiner.keys, buckets)
        raws: dict[int, pl.DataFrame] = {}
        if raw:
            raws = split(_alike(raw), combiner.message_keys, buckets)
        rejected = pl.concat([p.rejected for p in parts])
        counts = summed(part.counts for part in parts)
        places = {
            "task": task_number(),
            "offsets": [stretch for part in parts for stretch in part.offsets],
            "times": greatest_of(part.times for part in parts),
            "clocks": greatest_of(part.clocks for part in parts),
        }
        latest = max((p.latest for p in parts if p.latest is not None), default=None)
        clock = max((p.clock for p in parts if p.clock is not None), default=None)
        rows = []
        for bucket, slot in enumerate(self.stage.slots):
            header: dict[str, Any] = {
                "latest": latest,
                "clock": clock,
                "known": judged.known,
                "judged": judged.watermark,
                # The task's rejected messages and counts go to one bucket, to be told once.
                "counts": counts if bucket == 0 else {},
            }
            if combiner.forwards:
                header |= places
            aside = encode(rejected) if bucket == 0 and len(rejected) else None
            on = encode(pl.concat(passed)) if bucket == 0 and passed else None
            blobs = (_blob(cells, bucket), aside, _blob(raws, bucket), on)
            rows.append((slot, json.dumps(header), *blobs))
        return to_batch(rows, _ROW)


def _alike(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Frames as one, of which only some may say who is malformed."""
    together = pl.concat(frames, how="diagonal")
    if columns.MALFORMED in together.columns:
        together = together.with_columns(pl.col(columns.MALFORMED).fill_null(False))
    return together


def to_batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as one Arrow batch; there is at least one."""
    columns_of = zip(zip(*rows, strict=True), schema, strict=True)
    arrays = [pa.array(values, field.type) for values, field in columns_of]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Several counts as one."""
    total: dict[str, int] = {}
    for one in counts:
        for name, n in one.items():
            total[name] = total.get(name, 0) + n
    return total


def speaks_of_nothing() -> bool:
    """Whether this task tells the shards of a batch though it got no messages.

    One does, so that shards that were just restarted tell their figures after a batch of none.
    """
    return task_number() == 0


def task_number() -> int:
    """The number of this task, by which shards put messages in the order of their arrival."""
    task = TaskContext.get()
    return task.partitionId() if task else 0


def _blob(frames: dict[int, pl.DataFrame], bucket: int) -> bytes | None:
    frame = frames.get(bucket)
    return encode(frame) if frame is not None and len(frame) else None


def received(combiner: Combiner, rows: Sequence[Any], watermark: int | None) -> list[Combined]:
    """What a shard got from the tasks, combined where a task couldn't.

    Args:
        combiner: The query.
        rows: The rows of ``ROW`` for this shard; ticks have no header.
        watermark: The watermark in force, out of the shard's state.
    """
    combined = []
    headed = [(json.loads(row["header"]), row) for row in rows if row["header"] is not None]
    for header, row in sorted(headed, key=lambda pair: pair[0].get("task", 0)):
        if header["known"] and not combiner.forwards and header["judged"] != watermark:
            raise RuntimeError(
                f"a task judged by watermark {header['judged']}, the state has {watermark}"
            )
        cells = combiner.no_cells if row["cells"] is None else decode(bytes(row["cells"]))
        rejected = combiner.nothing_rejected
        if row["rejected"] is not None:
            rejected = decode(bytes(row["rejected"]))
        latest, clock = header["latest"], header["clock"]
        raw = None if row["raw"] is None else decode(bytes(row["raw"]))
        passed_on = raw if header["known"] or combiner.forwards else None
        part = Combined(cells, rejected, header["counts"], latest, clock, passed_on)
        for name in ("offsets", "times", "clocks"):
            setattr(part, name, header.get(name, ()))
        combined.append(part)
        if raw is not None and passed_on is None:
            later = combiner.combine(raw, watermark)
            for name in ("seen", "filtered"):
                later.counts.pop(name, None)
            combined.append(later)
    return combined


def slots(buckets: int) -> tuple[int, ...]:
    """A grouping key for each bucket, such that Spark's hash spreads them evenly.

    With as many partitions as buckets each partition gets exactly one.
    """
    found: dict[int, int] = {}
    key = 0
    while len(found) < buckets:
        found.setdefault(_spark_hash(key) % buckets, key)
        key += 1
    return tuple(found[bucket] for bucket in range(buckets))


def _spark_hash(value: int) -> int:
    """Spark's Murmur3 of one int column (seed 42), as its hash partitioning takes it."""
    mask = 0xFFFFFFFF

    def rotate(x: int, by: int) -> int:
        return (x << by | x >> (32 - by)) & mask

    k = rotate(value * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (rotate(42 ^ k, 13) * 5 + 0xE6546B64 & mask) ^ 4
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
