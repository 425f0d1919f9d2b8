"""The handle on a running query: the same on every host."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import polars as pl

from muntin.hosts.interrupts import watch_signals
from muntin.hosts.phases import Phases
from muntin.hosts.progress import Progress
from muntin.hosts.watchers import RefCounted, Watcher, WatcherCall
from muntin.model.attribute_hints import WithoutRows
from muntin.model.errors import OptionError
from muntin.model.option_types import check_seconds, check_shards
from muntin.sinks.batch import Batch

# Largest number of batches that wait for one watcher.
_BATCHES = 2
# Longest time that an ended query waits for its watchers to see all batches, seconds.
_SETTLES = 5.0


class BatchTimes:
    """The time that a query's batches take, and the memory of its state, where a host measures it.

    Attributes:
        state_bytes: The memory of the state after the last batch; `None` where it isn't known.
    """

    def __init__(self, phases: Phases | None = None) -> None:
        self.state_bytes: int | None = None
        self._phases = phases or Phases()

    @property
    def seconds(self) -> dict[str, float]:
        """The time of batches, by phase."""
        return self._phases.total

    def close(self) -> None:
        """Stop measuring."""


class Query(WithoutRows, ABC):
    """A handle on a started query, as `.start(…)` returns it on every host.

    Attributes:
        checkpoint: The folder of the query's progress and state; `None` where they are in memory.
        progress: The figures after the last batch: its number, the watermark, counts of messages.
            After a restart they are those of the checkpoint.
        spark: The session that it runs in; `None` on the local host.
        outputs: The destinations of the kinds of rows that it emits.
        watchers: Functions that are called with the number of each batch and its rows by kind,
            each in a thread of its own. A slow one gets the newest batches. Rejected messages are
            among the rows if the query has a sink for them, or no sink at all.
    """

    _kind_of_words = "running"

    def __init__(self) -> None:
        self.checkpoint: Any = None
        self.spark: Any = None
        self.progress = Progress()
        self.outputs: tuple[Any, ...] = ()
        self.watchers: list[Callable[[int, list[Batch]], None]] = []
        self._watching: dict[int, Watcher] = {}
        self._changed = threading.Condition()
        # Whether the state is being moved into other shards, after which the query resumes.
        self._moving = False

    def __repr__(self) -> str:
        progress = self.progress
        return f"{type(self).__name__}(batch={progress.batch}, counts={progress.counts})"

    @property
    @abstractmethod
    def name(self) -> str | None:
        """The query's name, if it has one."""

    @property
    def label(self) -> str:
        """The name that identifies the query in metrics and on pages."""
        return self.name or str(self.checkpoint or "query")

    def time_batches(self) -> BatchTimes:
        """Measure the batches from now on."""
        return BatchTimes()

    def time_phases(self) -> dict[str, float]:
        """Return how long each part of the last batch took, milliseconds."""
        return {phase: 1000 * spent for phase, spent in self.progress.seconds.items()}

    @property
    @abstractmethod
    def is_active(self) -> bool:
        """True if the query runs, or is about to resume in other shards."""

    @abstractmethod
    def _halt(self, patience: float) -> None:
        """Stop running batches; wait up to `patience` seconds for one that is being written."""

    @abstractmethod
    def _wait_for_end(self, seconds: float) -> bool:
        """Wait until the query ends without resuming; return whether it has within the time."""

    @abstractmethod
    def _raise_error(self) -> None:
        """Raise the error that ended the query, if it failed."""

    @abstractmethod
    def _idle_check(self) -> Callable[[float], bool]:
        """Return a function that waits some seconds, and returns whether the query is idle."""

    @abstractmethod
    def _check_movable(self, shards: int) -> None:
        """Refuse to move the state of a query that can't change its number of shards."""

    @abstractmethod
    def _move_state(self, shards: int) -> None:
        """Move the state of the halted query into another number of shards."""

    @abstractmethod
    def _resume(self) -> None:
        """Start the query again from its checkpoint, after its state was moved."""

    def frame(self) -> pl.DataFrame:
        """Return the newest revision of each window that this run of the query emitted.

        For joins it returns all pairs. It works with `results=mt.to_memory()`, and on the local
        host also without `results=`.

        Raises:
            OptionError: When the results go to another sink.
        """
        sink = self._find_results_sink()
        if not hasattr(sink, "frame"):
            hint = "read the sink, or start the query with results=mt.to_memory()"
            name = None if sink is None else type(sink).__name__
            raise OptionError("results", name, "isn't kept in memory", hint)
        rows: pl.DataFrame = sink.frame()
        return rows

    def _find_results_sink(self) -> Any:
        """Return the sink that the user gave for results; ``None`` without one."""
        return next((one.sink for one in self.outputs if one.kind == "results"), None)

    def stop(self, patience: float = 30.0) -> None:
        """Stop the query; it resumes from its checkpoint.

        Args:
            patience: How long to wait for the batch that is being written, seconds. Interrupting it
                loses nothing, but makes Spark log errors at length.
        """
        self._halt(patience)
        self._settle(min(patience, _SETTLES))

    def stop_for_exit(self, patience: float) -> None:
        """Stop the query, since the process is about to end."""
        self.stop(patience)

    def describe_resumption(self) -> str:
        """Describe which batch was the last, and where the next start resumes."""
        name = f"query {self.name!r}" if self.name else "the query"
        done = self.progress.batch
        last = f"batch {done} is its last" if done >= 0 else "no batch was finished"
        # A batch that is abandoned may still be finished before the process ends.
        how = "was cut off within a batch; before it," if self.is_active else "has stopped;"
        if self.checkpoint is None:
            return f"{name} {how} {last}, and its state was in memory"
        return f"{name} {how} {last}, and the next start resumes from {self.checkpoint}"

    def rescale(self, shards: int) -> None:
        """Resume with more or fewer shards from the next batch on.

        The query finishes the batch that is being written. Then it writes its state anew to the
        same checkpoint, and resumes from it. Nothing is emitted twice or missed. No batch runs
        while the state is read and written. A caller of `await_end` keeps waiting.

        Args:
            shards: The number of shards; the checkpoint remembers it.

        Raises:
            OptionError: When the query was started with `shards=` (change it there), over Spark
                Connect or without a checkpoint, when it has ended, or when its state can't be
                divided. The query then continues unchanged.
        """
        self._check_movable(shards)
        if not self.is_active:
            hint = "start it with shards=, or give its checkpoint to muntin rescale"
            raise OptionError("rescale", shards, "is of a query that has ended", hint)
        check_shards(shards)
        with self._changed:
            self._moving = True
        try:
            self.stop()
            try:
                self._move_state(shards)
            finally:
                self._resume()
        finally:
            with self._changed:
                self._moving = False
                self._changed.notify_all()

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until the query ends.

        Args:
            timeout: The longest time to wait, seconds; by default without limit.

        Returns:
            Whether the query has ended.

        Raises:
            SpecChangedError: When the checkpoint was written by another spec.
            StateCorruptedError: When the checkpoint's state can't be read.
            BatchError: When a sink, a function, an aggregate or an agent of yours raised; its cause
                is that exception.
            SinkError: When a sink can't take a batch.
            SourceError: When a source can't be read.
            StreamingQueryException: When another error of Spark ended it.
        """
        check_seconds("timeout", timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        with watch_signals() as interruption:
            if not interruption.wait(self._wait_for_end, deadline):
                return False
        self._settle(_SETTLES)
        self._raise_error()
        return True

    def await_idle(self, timeout: float = 60.0) -> bool:
        """Wait until all present input has been read and no changed window waits to emit.

        Args:
            timeout: The longest time to wait, seconds.

        Returns:
            Whether the query became idle in time.

        Raises:
            MuntinError: When an error ended the query, of the kinds that `await_end` raises.
        """
        check_seconds("timeout", timeout)
        deadline = time.monotonic() + timeout
        check = self._idle_check()
        with watch_signals() as interruption:
            idle = interruption.wait(check, deadline)
        if self.is_active:
            return idle
        self.await_end(1)
        return not self.progress.waits()

    @property
    def watcher_failures(self) -> int:
        """The number of calls of watchers that raised; they are logged, and the query continues."""
        return sum(watcher.failures for watcher in list(self._watching.values()))

    @property
    def watcher_skipped(self) -> int:
        """The number of batches that watchers missed, since they were too slow."""
        return sum(watcher.skipped for watcher in list(self._watching.values()))

    def show(self, batch: int, rows: list[Batch], resource: RefCounted | None = None) -> None:
        """Show a batch to all watchers, without waiting for them."""
        for look in list(self.watchers):
            if id(look) not in self._watching:
                self._watching[id(look)] = Watcher(look, _BATCHES)
            self._watching[id(look)].show(WatcherCall(batch, (batch, rows), resource))

    def _settle(self, patience: float) -> None:
        """Wait until the watchers have seen all batches, or the patience is over."""
        deadline = time.monotonic() + patience
        for watcher in list(self._watching.values()):
            watcher.settle(max(0.0, deadline - time.monotonic()))
