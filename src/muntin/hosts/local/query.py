"""A running query on the local host: its handle, and how it is started."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import polars as pl

from muntin.explain.glance import format_html_table
from muntin.hosts.interrupts import register_query, watch_signals
from muntin.hosts.local.checkpoint import Checkpoint, LogCheckpoint, MemoryCheckpoint
from muntin.hosts.local.delivery import RESULTS, Delivery, Destination, destinations
from muntin.hosts.local.loop import Loop, Pace
from muntin.hosts.local.plan import Plan
from muntin.hosts.local.rescale import rescale_operators
from muntin.hosts.local.run import OperatorRun
from muntin.hosts.progress import Progress
from muntin.hosts.watchers import Shown, Watcher
from muntin.model.axis import Duration, micros
from muntin.model.errors import OptionError, SpecChangedError
from muntin.sinks.batch import Batch
from muntin.sinks.sink import SinkLike

# How many batches may wait for one who watches.
_BATCHES = 2
# How long a query that has ended waits for those who watch, seconds.
_SETTLES = 5.0


class LocalQuery:
    """A handle on a query that runs in a thread of this process.

    Attributes:
        name: The query's name, if it has one.
        checkpoint: The folder of its progress and state; `None` where they are in memory.
        outputs: What kinds of rows it emits, and where they go.
        watchers: Functions that are called with the number of each batch and its rows by kind,
            each in a thread of its own. A slow one gets the newest batches.
    """

    def __init__(
        self,
        loop: Loop,
        outputs: tuple[Destination, ...],
        checkpoint: str | None,
        name: str | None,
        on_end: Callable[[], None],
    ) -> None:
        self.name = name
        self.checkpoint = checkpoint
        self.outputs = outputs
        self.watchers: list[Callable[[int, list[Batch]], None]] = []
        self._loop = loop
        self._on_end = on_end
        self._watching: dict[int, Watcher] = {}
        self._changed = threading.Condition()
        self._idle_rounds = 0
        self._error: BaseException | None = None
        self._ended = False
        self._thread = threading.Thread(
            target=self._work, daemon=True, name=f"muntin-{name or 'query'}"
        )
        register_query(self)
        self._thread.start()

    def __repr__(self) -> str:
        return f"LocalQuery(batch={self.progress.batch}, counts={self.progress.counts})"

    def _repr_html_(self) -> str:
        return format_html_table("figure", "value", self.progress.lines())

    @property
    def progress(self) -> Progress:
        """What the last batch left behind; after a restart what the checkpoint holds."""
        return self._loop.progress

    @property
    def is_active(self) -> bool:
        """Whether the query runs."""
        return not self._ended

    def frame(self) -> pl.DataFrame:
        """The newest revision of each window that this run of the query emitted.

        Of joins, all pairs. It needs `results=` to be left out, or to be `mt.to_memory()`.

        Raises:
            OptionError: When the results go to another sink.
        """
        sink: Any = next(one.sink for one in self.outputs if one.kind == RESULTS)
        if not hasattr(sink, "frame"):
            hint = "read that, or start the query with results=mt.to_memory()"
            raise OptionError("results", type(sink).__name__, "has the results", hint)
        found: pl.DataFrame = sink.frame()
        return found

    def stop(self, patience: float = 30.0) -> None:
        """Stop the query when its batch is committed; it resumes from its checkpoint.

        Args:
            patience: How many seconds to wait for the batch.
        """
        self._loop.stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join(patience)
        self._settle(min(patience, _SETTLES))

    def stop_for_exit(self, patience: float) -> None:
        """Stop the query, since the process is about to end."""
        self.stop(patience)

    def describe_resumption(self) -> str:
        """Describe what is done, and where the next start resumes."""
        name = f"query {self.name!r}" if self.name else "the query"
        done = self.progress.batch
        last = f"batch {done} is its last" if done >= 0 else "no batch was finished"
        if self.checkpoint is None:
            return f"{name} has stopped; {last}, and its state was in memory"
        return f"{name} has stopped; {last}, and the next start resumes from {self.checkpoint}"

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until the query ends.

        Args:
            timeout: Seconds; indefinitely where it isn't given.

        Returns:
            Whether it has ended.

        Raises:
            BatchError: When a sink of yours raised; its cause is what was raised.
            SinkError: When a sink can't take a batch.
            SourceError: When a source can't be read.
            StateCorruptedError: When the checkpoint's state can't be read.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with watch_signals() as interruption:
            if not interruption.wait(self._wait_for_end, deadline):
                return False
        self._settle(_SETTLES)
        if self._error is not None:
            raise self._error
        return True

    def await_idle(self, timeout: float = 60.0) -> bool:
        """Wait until all input there is now has been read and no changed window waits to emit.

        Args:
            timeout: Seconds.

        Returns:
            Whether it got quiet in time.

        Raises:
            As `await_end`, when the query ended by an error.
        """
        rounds = self._idle_rounds

        def wait(seconds: float) -> bool:
            # A round that was begun before may have missed what has just come.
            with self._changed:
                return self._changed.wait_for(
                    lambda: self._ended or self._is_idle_since(rounds), seconds
                )

        with watch_signals() as interruption:
            interruption.wait(wait, time.monotonic() + timeout)
        if self._ended:
            self.await_end(1)
            return not self.progress.waits()
        return self._is_idle_since(rounds)

    def _is_idle_since(self, rounds: int) -> bool:
        return self._idle_rounds > rounds + 1 and not self.progress.waits()

    def _wait_for_end(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._ended, seconds)

    @property
    def watcher_failures(self) -> int:
        """How often a watcher raised. That is logged, and the query goes on."""
        return sum(watcher.failures for watcher in list(self._watching.values()))

    @property
    def watcher_skipped(self) -> int:
        """How many batches watchers weren't shown, since they were too slow."""
        return sum(watcher.skipped for watcher in list(self._watching.values()))

    def _work(self) -> None:
        try:
            for done in self._loop.batches():
                if done is None:
                    with self._changed:
                        self._idle_rounds += 1
                        self._changed.notify_all()
                    continue
                self._show(*done)
                with self._changed:
                    self._changed.notify_all()
        except BaseException as error:
            self._error = error
        finally:
            try:
                self._loop.close()
                self._on_end()
            except BaseException as error:
                self._error = self._error or error
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _show(self, progress: Progress, batches: list[Batch]) -> None:
        for look in list(self.watchers):
            watcher = self._watching.setdefault(id(look), Watcher(look, _BATCHES))
            watcher.show(Shown(progress.batch, (progress.batch, batches)))

    def _settle(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        for watcher in list(self._watching.values()):
            watcher.settle(max(0.0, deadline - time.monotonic()))


def start_query(
    plan: Plan,
    folder: str | None,
    sinks: tuple[SinkLike | None, SinkLike | None],
    name: str | None,
    every: Duration | None,
    available_now: bool,
    durable: bool | Duration,
) -> LocalQuery:
    """Start a query; see `LocalDefinition.start`."""
    waits = sync_seconds(durable)
    pace = Pace(0.0 if every is None else micros("every", every) / 1_000_000, available_now)
    outputs = destinations(plan, sinks)
    with ExitStack() as undo:
        checkpoint: Checkpoint
        checkpoint = MemoryCheckpoint() if folder is None else LogCheckpoint(folder, waits)
        undo.callback(checkpoint.close)
        plan = resume_plan(plan, checkpoint)
        pool = ThreadPoolExecutor(plan.shards) if plan.shards > 1 else None
        if pool is not None:
            undo.callback(pool.shutdown)
        run = OperatorRun(plan, checkpoint.store, pool)
        readers = []
        for source in plan.sources:
            readers.append(source.open())
            undo.callback(readers[-1].close)
        delivery = Delivery(outputs, checkpoint.identity, folder)
        loop = Loop(plan, run, readers, checkpoint, delivery, pace)
        undo.pop_all()
    on_end = pool.shutdown if pool is not None else _nothing
    return LocalQuery(loop, tuple(outputs), folder, name, on_end)


def resume_plan(plan: Plan, checkpoint: Checkpoint) -> Plan:
    """The plan in as many shards as the checkpoint has; it gets as many as were asked for.

    Raises:
        SpecChangedError: When the checkpoint was written by another chain of operators.
    """
    shards = checkpoint.committed.shards
    if not shards:
        return plan
    if len(shards) != len(plan.plans):
        raise SpecChangedError(
            f"the checkpoint was written by a chain of {len(shards)} operators, and this query has "
            f"{len(plan.plans)}: go back to that chain, or start with a new checkpoint folder"
        )
    if len(checkpoint.committed.ends) != len(plan.sources):
        raise SpecChangedError(
            f"the checkpoint was written by a query of {len(checkpoint.committed.ends)} sources, "
            f"and this query has {len(plan.sources)}: go back to them, or start with a new "
            "checkpoint folder"
        )
    free = [count for one, count in zip(plan.plans, shards, strict=True) if one.asked is None]
    plan = plan.with_shards(free[0]) if free else plan
    if isinstance(checkpoint, LogCheckpoint):
        rescale_operators(checkpoint, [one.shards for one in plan.plans])
    return plan


def sync_seconds(durable: bool | Duration) -> float | None:
    """How long commits may wait for the disk, seconds; `None` is any time.

    Raises:
        OptionError: When it is neither a boolean nor a duration.
    """
    if isinstance(durable, bool):
        return 0.0 if durable else None
    return micros("durable", durable, zero=False) / 1_000_000


def _nothing() -> None:
    """Nothing is left to be released."""
