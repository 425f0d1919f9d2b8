"""A running query: one Spark query that feeds its sinks, and its figures."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from muntin.model.axis import Duration, micros
from muntin.model.errors import (
    MuntinError,
    OptionError,
    PartitionError,
    SourceError,
    SpecChangedError,
    StateCorruptedError,
)
from muntin.spark.explain import noted
from muntin.spark.host.plan import REJECTED, RESULTS, Plan
from muntin.spark.host.processor import PROGRESS, STAGE
from muntin.spark.host.progress import Progress, nested
from muntin.spark.host.shards import partitioned, partitions, remembered
from muntin.spark.host.watchers import Kept, Shown, Watcher
from muntin.spark.sinks.batch import Batch
from muntin.spark.sinks.files import SinkLike, check, check_apart, sink
from muntin.spark.sinks.unstorable import DeadLetters, Letters
from muntin.spark.sources.inputs import check_ticks

# Blobs of up to so many bytes come with the progress: fetching them costs no job then.
_FEW = 1 << 18
# How many batches may wait for one who watches, while they are kept for him.
_BATCHES = 2
# How long a query that has ended waits for those who watch to have seen all, seconds.
_SETTLES = 5.0


class WindowedQuery:
    """A handle on a started query.

    Attributes:
        query: Spark's own handle.
        spark: The session that it runs in.
        checkpoint: Where its progress and state are kept.
        progress: What the last batch left behind.
        outputs: What kinds of rows it emits.
        watchers: Are shown batches when they are written, each watcher in a thread of its own: the
            number, and the rows of each kind. One who is slow is shown the newest.
    """

    def __init__(self) -> None:
        self.query: StreamingQuery
        self.spark: SparkSession
        self.checkpoint = ""
        self.progress = Progress()
        self.outputs: tuple[Destination, ...] = ()
        self.watchers: list[Callable[[int, list[Batch]], None]] = []
        self._watching: dict[int, Watcher] = {}
        self._changed = threading.Condition()
        self._writing = False
        self._unstorable = 0
        self._shards: dict[str, dict[int, dict[str, Any]]] = {}

    def __repr__(self) -> str:
        return f"WindowedQuery(batch={self.progress.batch}, counts={self.progress.counts})"

    @property
    def is_active(self) -> bool:
        """Whether the query runs."""
        return self.query.isActive

    def stop(self, patience: float = 30.0) -> None:
        """Stop the query; it can be started again from its checkpoint.

        Args:
            patience: How many seconds a batch that is being written may take to get done. Cutting
                it off loses nothing, but Spark then logs at length what was interrupted.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._writing, timeout=patience)
        self.query.stop()
        self._settle(min(patience, _SETTLES))

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until the query ends.

        Args:
            timeout: Seconds; indefinitely where it isn't given.

        Returns:
            Whether it has ended.

        Raises:
            SpecChangedError: When the checkpoint was written by another spec.
            StateCorruptedError: When the checkpoint's state can't be read.
            StreamingQueryException: When it ended by another error.
        """
        try:
            if timeout is None:
                self.query.awaitTermination()
            elif not self.query.awaitTermination(timeout):  # type: ignore[arg-type]
                return False
            self._settle(_SETTLES)
            return True
        except StreamingQueryException as error:
            self._settle(_SETTLES)
            ours = _as_ours(error)
            if ours is None:
                raise
            raise ours from error

    def await_idle(self, timeout: float = 60.0) -> bool:
        """Wait until all input there is now has been read and no changed window waits to emit.

        Args:
            timeout: Seconds.

        Returns:
            Whether it got quiet in time.

        Raises:
            As ``await_end``, when the query ended by an error.
        """
        deadline = time.monotonic() + timeout
        # A batch that was begun before may have missed what has just come.
        changed_in, received, all_read = (
            self.progress.batch + 1,
            self.progress.received,
            self._all_read(),
        )
        with self._changed:
            while time.monotonic() < deadline and self.is_active:
                progress = self.progress
                if progress.received != received:
                    changed_in, received = max(changed_in, progress.batch), progress.received
                # A batch without messages (a heartbeat's), or none to run at all.
                caught_up = progress.batch > changed_in or all_read.is_set()
                if progress.batch >= 0 and not progress.waits() and caught_up:
                    return True
                self._changed.wait(timeout=0.2)
        if not self.is_active:
            self.await_end(1)
        return False

    def _all_read(self) -> threading.Event:
        """Set when Spark has looked for input once more and has found none.

        Not to be waited for alone: beside a heartbeat it may take long, and after the end for good.
        """
        event = threading.Event()

        def wait() -> None:
            with suppress(Exception):  # how a query has ended is said by `await_end`
                self.query.processAllAvailable()
                event.set()

        threading.Thread(target=wait, daemon=True, name="muntin-all-read").start()
        return event

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While a batch is being written."""
        with self._changed:
            self._writing = True
        try:
            yield
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def set_aside(self, rows: int) -> None:
        """Count rows that a sink couldn't take; before ``note`` of their batch."""
        self._unstorable += rows

    @property
    def watcher_failures(self) -> int:
        """How often one who watches raised. That is logged, and the query goes on."""
        return sum(watcher.failures for watcher in list(self._watching.values()))

    @property
    def watcher_skipped(self) -> int:
        """How many batches those who watch weren't shown, since they were too slow."""
        return sum(watcher.skipped for watcher in list(self._watching.values()))

    def show(self, batch: int, rows: list[Batch], kept: Kept) -> None:
        """Show a batch to all who watch, without waiting for them."""
        for look in self.watchers:
            self._show(look, Shown(batch, (batch, rows), kept), _BATCHES)

    def _show(self, look: Callable[..., Any], shown: Shown, most: int) -> None:
        if id(look) not in self._watching:
            self._watching[id(look)] = Watcher(look, most)
        self._watching[id(look)].show(shown)

    def _settle(self, patience: float) -> None:
        """Wait a while until those who watch have seen all."""
        deadline = time.monotonic() + patience
        for watcher in list(self._watching.values()):
            watcher.settle(max(0.0, deadline - time.monotonic()))

    def note(self, batch: int, lines: list[str]) -> None:
        """Take in the figures that the shards emitted with a batch."""
        emitted = [json.loads(line) for line in lines]
        for shard in emitted:
            self._shards.setdefault(shard.get(STAGE, ""), {})[shard["bucket"]] = shard
        found: dict[str, Progress] = {}
        for stage, shards in self._shards.items():
            before = self._known(stage)
            fired = dict(before.fired) if before and batch > self.progress.batch else {}
            for shard in emitted:
                for emission, n in shard["fired"].items() if shard.get(STAGE, "") == stage else ():
                    fired[emission] = fired.get(emission, 0) + n
            found[stage] = Progress.of(batch, list(shards.values()), fired)
        with self._changed:
            self.progress = replace(nested(found, "", batch), unstorable=self._unstorable)
            self._changed.notify_all()

    def _known(self, stage: str) -> Progress | None:
        """The figures of an operator, by the way to it from the last one."""
        progress: Progress | None = self.progress
        for part in stage.split("/") if stage else ():
            progress = progress and getattr(progress, part)
        return progress


def _as_ours(error: StreamingQueryException) -> MuntinError | None:
    """The error of muntin that a worker's traceback ends with, if it does."""
    for kind in (PartitionError, SourceError, SpecChangedError, StateCorruptedError):
        _, found, rest = str(error).partition(f"{kind.__name__}: ")
        if found:
            return kind(rest.partition("\n")[0].strip())
    return None


@dataclass(frozen=True)
class Destination:
    """Rows of one kind and where they go.

    Attributes:
        kind: The kind, among what shards emit.
        schema: The columns.
        keys: What identifies a row, beside its window; ``None`` where nothing does.
        sink: Where they go, if anywhere.
    """

    kind: str
    schema: StructType
    keys: tuple[str, ...] | None
    sink: SinkLike | None


def start(
    plan: Plan,
    checkpoint: str,
    results: SinkLike | None,
    rejected: SinkLike | None,
    name: str | None,
    every: Duration | None,
    available_now: bool,
) -> WindowedQuery:
    """See ``WindowedAggregate.start``."""
    if not plan.emitted.isStreaming:
        hint = "write its .results and .rejected instead"
        raise OptionError("start", "a batch DataFrame", "doesn't stream", hint)
    if noted(plan, name):
        return WindowedQuery()
    known = remembered(plan.emitted.sparkSession, checkpoint)
    plan = plan if known is None else plan.with_shards(known)
    check_ticks(plan.emitted, checkpoint, plan.spec)
    outputs = [
        Destination(RESULTS, plan.results, plan.keys, results),
        Destination(REJECTED, plan.rejected, None, rejected),
    ]
    count = partitions(plan.shards)
    return launch(plan.emitted, outputs, checkpoint, count, name, every, available_now)


def launch(
    emitted: DataFrame,
    outputs: Sequence[Destination],
    checkpoint: str,
    shards: int,
    name: str | None,
    every: Duration | None,
    available_now: bool,
    handle: WindowedQuery | None = None,
) -> WindowedQuery:
    """Start a query over what shards emit; the rest as of ``WindowedAggregate.start``.

    Args:
        emitted: What the shards emit.
        outputs: Where its rows go.
        checkpoint: Where progress and state are kept.
        shards: How many partitions state gets, where the query is new.
        name: The query's name.
        every: How long a batch takes at least.
        available_now: Whether to stop when all there is has been read.
        handle: What takes the figures in, where they aren't those of windows.
    """
    if not emitted.isStreaming:
        hint = "write its DataFrames instead"
        raise OptionError("start", "a batch DataFrame", "doesn't stream", hint)
    handle = handle or WindowedQuery()
    handle.spark, handle.checkpoint = emitted.sparkSession, checkpoint
    handle.outputs, dead = tuple(outputs), DeadLetters(checkpoint)
    sinks = [(output, sink(output.sink)) for output in outputs]
    check_apart(target for _, target in sinks)
    for output, target in sinks:
        check(target, output.schema, output.keys)

    def write(emitted: DataFrame, number: int) -> None:
        # The shards' blobs are few and small rows to Spark: keeping them costs little, and
        # without it each sink would run the whole batch again.
        with handle.writing():
            emitted.persist()
            kept = Kept(emitted.unpersist)
            try:
                lines, batches = _fetched(number, emitted, outputs)
                for batch, (_, target) in zip(batches, sinks, strict=True):
                    if target is not None:
                        target.write(batch)
                handle.set_aside(dead.keep(emitted.sparkSession, batches))
                handle.note(number, lines)
                handle.show(number, batches, kept)
            finally:
                kept.done()

    writer = emitted.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    writer = _triggered(writer.outputMode("append"), every, available_now)
    with partitioned(emitted.sparkSession, shards):
        handle.query = (writer if name is None else writer.queryName(name)).start()
    return handle


def _fetched(
    number: int, emitted: DataFrame, outputs: Sequence[Destination]
) -> tuple[list[str], list[Batch]]:
    """The progress of a batch's shards, and what each output gets of it."""
    few = F.when(F.length("blob") <= _FEW, F.col("blob")).alias("blob")
    rows = emitted.select("kind", "progress", few).collect()
    batches = []
    for o in outputs:
        blobs = [row.blob for row in rows if row.kind == o.kind]
        small = tuple(map(bytes, blobs)) if None not in blobs else None
        letters = Letters(o.kind)
        batches.append(Batch(number, emitted, o.kind, o.schema, o.keys, not blobs, letters, small))
    return [row.progress for row in rows if row.kind == PROGRESS], batches


def _triggered(
    writer: DataStreamWriter, every: Duration | None, available_now: bool
) -> DataStreamWriter:
    if available_now:
        return writer.trigger(availableNow=True)
    if every is not None:
        return writer.trigger(processingTime=f"{micros('every', every) // 1000} milliseconds")
    return writer
