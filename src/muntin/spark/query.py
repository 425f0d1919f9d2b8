"""A running query: one Spark query that feeds its sinks, and its figures."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
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
from muntin.spark.figures import Figures, nested
from muntin.spark.inputs import check_ticks
from muntin.spark.joining import JoinPlan
from muntin.spark.plan import REJECTED, RESULTS, Plan
from muntin.spark.processor import FIGURES, STAGE
from muntin.spark.sinks import Batch, SinkLike, check, check_apart, sink
from muntin.spark.unstorable import DeadLetters, Letters

_LOG = logging.getLogger(__name__)


class WindowedQuery:
    """A handle on a started query.

    Attributes:
        query: Spark's own handle.
        spark: The session that it runs in.
        checkpoint: Where its progress and state are kept.
        figures: What the last batch left behind.
        outputs: What kinds of rows it tells.
        watchers: Are shown each batch when it is written: its number, and the rows of each kind.
        watcher_failures: How often one of them raised. That is logged, and the query goes on.
    """

    def __init__(self) -> None:
        self.query: StreamingQuery
        self.spark: SparkSession
        self.checkpoint = ""
        self.figures = Figures()
        self.outputs: tuple[Output, ...] = ()
        self.watchers: list[Callable[[int, list[Batch]], None]] = []
        self.watcher_failures = 0
        self._changed = threading.Condition()
        self._writing = False
        self._unstorable = 0
        self._shards: dict[str, dict[int, dict[str, Any]]] = {}

    def __repr__(self) -> str:
        return f"WindowedQuery(batch={self.figures.batch}, counts={self.figures.counts})"

    @property
    def is_active(self) -> bool:
        """Whether the query runs."""
        return self.query.isActive

    def stop(self, patience: float = 30.0) -> None:
        """Stop the query; it can be started again from its checkpoint.

        Args:
            patience: How many seconds a batch that is being written may take to get done. Cutting
                it off loses nothing, but Spark then tells at length what was interrupted.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._writing, timeout=patience)
        self.query.stop()

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until the query ends.

        Args:
            timeout: Seconds; for ever where it isn't given.

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
                return True
            return bool(self.query.awaitTermination(timeout))  # type: ignore[arg-type]
        except StreamingQueryException as error:
            ours = _as_ours(error)
            if ours is None:
                raise
            raise ours from error

    def await_quiet(self, timeout: float = 60.0) -> bool:
        """Wait until all input there is now has been read and no changed window waits to speak.

        Args:
            timeout: Seconds.

        Returns:
            Whether it got quiet in time.

        Raises:
            As ``await_end``, when the query ended by an error.
        """
        deadline = time.monotonic() + timeout
        # A batch that was begun before may have missed what has just come.
        changed_in, came, all_read = self.figures.batch + 1, self.figures.came, self._all_read()
        with self._changed:
            while time.monotonic() < deadline and self.is_active:
                figures = self.figures
                if figures.came != came:
                    changed_in, came = max(changed_in, figures.batch), figures.came
                # A batch without messages (a heartbeat's), or none to run at all.
                caught_up = figures.batch > changed_in or all_read.is_set()
                if figures.batch >= 0 and not figures.waits() and caught_up:
                    return True
                self._changed.wait(timeout=0.2)
        if not self.is_active:
            self.await_end(1)
        return False

    def _all_read(self) -> threading.Event:
        """Set when Spark has looked for input once more and has found none.

        Not to be waited for alone: beside a heartbeat it may take long, and after the end for ever.
        """
        event = threading.Event()

        def wait() -> None:
            with suppress(Exception):  # how a query has ended is told by `await_end`
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

    def show(self, batch: int, rows: list[Batch]) -> None:
        """Show a batch to all who watch."""
        for watcher in self.watchers:
            with self.watching(batch):
                watcher(batch, rows)

    @contextmanager
    def watching(self, batch: int) -> Iterator[None]:
        """While somebody is shown a batch; what he raises is logged and counted, no more."""
        try:
            yield
        except Exception:
            self.watcher_failures += 1
            _LOG.exception("A watcher failed at batch %d; the query goes on", batch)

    def note(self, batch: int, lines: list[str]) -> None:
        """Take in the figures that the shards told with a batch."""
        told = [json.loads(line) for line in lines]
        for shard in told:
            self._shards.setdefault(shard.get(STAGE, ""), {})[shard["bucket"]] = shard
        found: dict[str, Figures] = {}
        for stage, shards in self._shards.items():
            before = self._known(stage)
            fired = dict(before.fired) if before and batch > self.figures.batch else {}
            for shard in told:
                for emission, n in shard["fired"].items() if shard.get(STAGE, "") == stage else ():
                    fired[emission] = fired.get(emission, 0) + n
            found[stage] = Figures.of(batch, list(shards.values()), fired)
        with self._changed:
            self.figures = replace(nested(found, "", batch), unstorable=self._unstorable)
            self._changed.notify_all()

    def _known(self, stage: str) -> Figures | None:
        """The figures of an operator, by the way to it from the last one."""
        figures: Figures | None = self.figures
        for part in stage.split("/") if stage else ():
            figures = figures and getattr(figures, part)
        return figures


def _as_ours(error: StreamingQueryException) -> MuntinError | None:
    """The error of muntin that a worker's traceback ends with, if it does."""
    for kind in (PartitionError, SourceError, SpecChangedError, StateCorruptedError):
        _, found, rest = str(error).partition(f"{kind.__name__}: ")
        if found:
            return kind(rest.partition("\n")[0].strip())
    return None


@dataclass(frozen=True)
class Output:
    """Rows of one kind and where they go.

    Attributes:
        kind: The kind, among what shards tell.
        schema: The columns.
        keys: What identifies a row, beside its window; ``None`` where nothing does.
        sink: Where they go, if anywhere.
    """

    kind: str
    schema: StructType
    keys: tuple[str, ...] | None
    sink: SinkLike | None


def start(
    plan: Plan | JoinPlan,
    checkpoint: str,
    results: SinkLike | None,
    rejected: SinkLike | None,
    name: str | None,
    every: Duration | None,
    available_now: bool,
) -> WindowedQuery:
    """See ``WindowedAggregate.start``."""
    if not plan.told.isStreaming:
        cure = "write its .results and .rejected instead"
        raise OptionError("start", "a batch DataFrame", "doesn't stream", cure)
    if noted(plan, name):
        return WindowedQuery()
    check_ticks(plan.told, checkpoint, plan.spec)
    outputs = [
        Output(RESULTS, plan.results, plan.keys, results),
        Output(REJECTED, plan.rejected, None, rejected),
    ]
    return launch(plan.told, outputs, checkpoint, name, every, available_now)


def launch(
    told: DataFrame,
    outputs: Sequence[Output],
    checkpoint: str,
    name: str | None,
    every: Duration | None,
    available_now: bool,
    handle: WindowedQuery | None = None,
) -> WindowedQuery:
    """Start a query over what shards tell; the rest as of ``WindowedAggregate.start``.

    Args:
        told: What the shards tell.
        outputs: Where its rows go.
        checkpoint: Where progress and state are kept.
        name: The query's name.
        every: How long a batch takes at least.
        available_now: Whether to stop when all there is has been read.
        handle: What takes the figures in, where they aren't those of windows.
    """
    if not told.isStreaming:
        cure = "write its DataFrames instead"
        raise OptionError("start", "a batch DataFrame", "doesn't stream", cure)
    handle = handle or WindowedQuery()
    handle.spark, handle.checkpoint = told.sparkSession, checkpoint
    handle.outputs, dead = tuple(outputs), DeadLetters(checkpoint)
    sinks = [(output, sink(output.sink)) for output in outputs]
    check_apart(target for _, target in sinks)
    for output, target in sinks:
        check(target, output.schema, output.keys)

    def write(told: DataFrame, number: int) -> None:
        # The shards' blobs are few and small rows to Spark: keeping them costs little, and
        # without it each sink would run the whole batch again.
        with handle.writing():
            told.persist()
            try:
                rows = told.select("kind", "figures").collect()
                lines = [row.figures for row in rows if row.kind == FIGURES]
                batches = _batches(number, told, outputs, {row.kind for row in rows})
                for batch, (_, target) in zip(batches, sinks, strict=True):
                    if target is not None:
                        target.write(batch)
                handle.set_aside(dead.keep(told.sparkSession, batches))
                handle.note(number, lines)
                handle.show(number, batches)
            finally:
                told.unpersist()

    writer = told.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    writer = writer.outputMode("append")
    if name is not None:
        writer = writer.queryName(name)
    handle.query = _triggered(writer, every, available_now).start()
    return handle


def _batches(
    number: int, told: DataFrame, outputs: Sequence[Output], kinds: set[str]
) -> list[Batch]:
    """What each output gets of a batch, in which there are rows of some kinds."""
    return [
        Batch(number, told, o.kind, o.schema, o.keys, o.kind not in kinds, Letters(o.kind))
        for o in outputs
    ]


def _triggered(
    writer: DataStreamWriter, every: Duration | None, available_now: bool
) -> DataStreamWriter:
    if available_now:
        return writer.trigger(availableNow=True)
    if every is not None:
        return writer.trigger(processingTime=f"{micros('every', every) // 1000} milliseconds")
    return writer
