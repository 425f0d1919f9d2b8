"""A running query: one Spark query that feeds its sinks, and its figures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from muntin.engine.operator import REJECTED
from muntin.hosts.interrupts import register_query, watch_signals
from muntin.hosts.leases import Lease
from muntin.hosts.progress import Progress, Totals, warn_of_rejected
from muntin.hosts.watchers import RefCounted, Shown, Watcher
from muntin.model.errors import BatchError, OptionError
from muntin.sinks.batch import Batch
from muntin.sources.kafka_ranges import lag_of_line
from muntin.spark.card import Card, show_card
from muntin.spark.ending import QueryEnd, error_of_muntin
from muntin.spark.failures import Failure
from muntin.spark.host.internals.checkpoints import planned_offsets, remove_cut_off_move
from muntin.spark.host.internals.jvm import is_connected, silence_spark
from muntin.spark.remote import Follower, Reporter
from muntin.spark.rescale import Divide, rescale_in_place
from muntin.spark.running import CheckedSpec, Record, acquire
from muntin.spark.writing import Destination, Written

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
            number, and the rows of each kind. One who is slow is shown the newest. Rejected
            messages are among them where the query has a sink for these, or none at all.
    """

    def __init__(self) -> None:
        self.query: StreamingQuery
        self._end: QueryEnd
        self.spark: SparkSession
        self.checkpoint = ""
        self.progress = Progress()
        self.outputs: tuple[Destination, ...] = ()
        self.watchers: list[Callable[[int, list[Batch]], None]] = []
        self._watching: dict[int, Watcher] = {}
        self._changed = threading.Condition()
        self._writing = False
        self._totals = Totals()
        self._follower: Follower | None = None
        self._lease: Lease | None = None
        self._record: Record | None = None
        self._without_lag = False
        self._failed: tuple[BatchError, Exception | None] | None = None
        self._again: Callable[[], object] | None = None
        self._divisions: Mapping[str, Divide] = {}
        self._moving = False
        self._warned: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"WindowedQuery(batch={self.progress.batch}, counts={self.progress.counts})"

    def _repr_html_(self) -> str:
        return Card(self).html()

    def _ipython_display_(self) -> None:
        show_card(self)

    @property
    def is_active(self) -> bool:
        """Whether the query runs, or is about to go on in other shards."""
        return self._moving or self.query.isActive

    def stop(self, patience: float = 30.0) -> None:
        """Stop the query; it can be started again from its checkpoint.

        Args:
            patience: How many seconds a batch that is being written may take to get done. Cutting
                it off loses nothing, but Spark then logs at length what was interrupted.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._writing, timeout=patience)
        self.query.stop()
        self.release()
        self._settle(min(patience, _SETTLES))

    def stop_for_exit(self, patience: float) -> None:
        """Stop the query without a word of Spark's, since the process is about to end."""
        silence_spark(self.spark)
        self.stop(patience)

    def describe_resumption(self) -> str:
        """Say what is done, and where the next start resumes."""
        name = f"query {self.query.name!r}" if self.query.name else "the query"
        done = self.progress.batch
        last = f"batch {done} is its last" if done >= 0 else "no batch was finished"
        return f"{name} has stopped; {last}, and the next start resumes from {self.checkpoint}"

    def rescale(self, buckets: int) -> None:
        """Go on with more or fewer shards from the next batch on.

        The batch that is being written gets done; then the state is written anew in the same
        checkpoint, and the query goes on from it. Nothing is emitted twice or missed, on a local
        disk and in an object store alike; the query stands still meanwhile, for as long as Spark
        takes to read and write its state. Who waits for its end goes on waiting.

        Args:
            buckets: How many there are to be; the checkpoint remembers the number.

        Raises:
            OptionError: When the query was started with a number of its own (``buckets=``, which
                is changed there) or over Spark Connect, has ended, or its state can't be divided.
                It goes on then as it was.
        """
        if self._again is None:
            hint = "start it with another buckets= from the same checkpoint"
            raise OptionError("rescale", buckets, "isn't for this query to say", hint)
        if not self.is_active:
            hint = "start it with buckets=, or give its checkpoint to muntin rescale"
            raise OptionError("rescale", buckets, "is of a query that has ended", hint)
        if buckets < 1:
            raise OptionError("buckets", buckets, "is less than one", "give 1 or more")
        with self._changed:
            self._moving = True
        try:
            self.stop()
            try:
                rescale_in_place(self.spark, self.checkpoint, buckets, self._divisions)
            finally:
                self._again()
        finally:
            with self._changed:
                self._moving = False
                self._changed.notify_all()
            if not self.is_active:
                self.release()

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until the query ends.

        Args:
            timeout: Seconds; indefinitely where it isn't given.

        Returns:
            Whether it has ended.

        Raises:
            SpecChangedError: When the checkpoint was written by another spec.
            StateCorruptedError: When the checkpoint's state can't be read.
            BatchError: When a sink, a function, an aggregate or an agent of yours raised; its cause
                is what was raised.
            SinkError: When a sink can't take a batch.
            StreamingQueryException: When it ended by another error.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with watch_signals() as interruption:
            if not interruption.wait(self._await_end, deadline):
                return False
        self._settle(_SETTLES)
        error = self._end.error
        if error is None:
            return True
        # Over Spark Connect it is what the query failed with.
        ours = error_of_muntin(error) if isinstance(error, PySparkException) else None
        if ours is not None:
            raise ours from error
        if self._failed is None:
            raise error
        shown, cause = self._failed
        raise shown from cause

    def _await_end(self, seconds: float) -> bool:
        """Wait until Spark's query has ended, and none goes on in its place."""
        end = self._end
        if not end.wait(seconds):
            return False
        with self._changed:
            return self._changed.wait_for(lambda: not self._moving, seconds) and self._end is end

    def await_idle(self, timeout: float = 60.0) -> bool:
        """Wait until all input there is now has been read and no changed window waits to emit.

        Args:
            timeout: Seconds.

        Returns:
            Whether it got quiet in time.

        Raises:
            MuntinError: When the query ended by an error; its kind is as of ``await_end``.
        """
        deadline = time.monotonic() + timeout
        # A batch that was begun before may have missed what has just come.
        changed_in, received = self.progress.batch + 1, self.progress.received
        all_read = self._all_read()

        def is_settled(seconds: float) -> bool:
            """Whether it is idle, or has ended."""
            nonlocal changed_in, received
            with self._changed:
                # It counts what was read before this look, and not what comes during it.
                read, progress = all_read.is_set(), self.progress
                if progress.received != received:
                    changed_in, received = max(changed_in, progress.batch), progress.received
                # A batch without messages (a heartbeat's), or none to run at all.
                if (read or progress.batch > changed_in) and not progress.waits():
                    return True
                if not self.is_active:
                    return True
                self._changed.wait(seconds)
            return False

        with watch_signals() as interruption:
            idle = interruption.wait(is_settled, deadline) and self.is_active
        if not idle and not self.is_active:
            self.await_end(1)
        return idle

    def _all_read(self) -> threading.Event:
        """Set when Spark has looked for input once more and has found none.

        Not to be waited for alone: beside a heartbeat it may take long, and after the end for good.
        """
        event = threading.Event()

        def wait() -> None:
            with suppress(Exception):  # how a query has ended is reported by `await_end`
                self.query.processAllAvailable()
                if self._follower is not None:
                    self._follower.look()
                event.set()

        threading.Thread(target=wait, daemon=True, name="muntin-all-read").start()
        return event

    @contextmanager
    def writing(self, emitted: DataFrame, number: int) -> Iterator[None]:
        """While a batch is being written."""
        with self._changed:
            self._writing = True
        try:
            if self._lease is not None:
                self._lease.check()
            yield
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the lease on the checkpoint, and give it back where the query doesn't start.

        Raises:
            OptionError: When another query runs from it.
        """
        if self._lease is None and not is_connected(self.spark):
            self._lease = acquire(self.spark, self.checkpoint)
        try:
            yield
        except BaseException:
            self.release()
            raise

    def resume(self, specs: Sequence[CheckedSpec]) -> None:
        """Compare the query with the checkpoint's, and show how far that has come.

        Raises:
            SpecChangedError: When the checkpoint was written by another spec.
        """
        remove_cut_off_move(self.spark, self.checkpoint)
        self._record = Record(self.spark, self.checkpoint, specs)
        progress = self._record.resume()
        if self.progress.batch < 0:
            self._totals.progress = self.progress = progress

    def begin(self, query: StreamingQuery) -> None:
        """Take over a query of Spark's that has just been started."""
        self.query = query
        self._end = QueryEnd(query, self.release)
        register_query(self)

    def release(self) -> None:
        """Let another query run from the checkpoint, unless this one goes on in other shards."""
        lease = self._lease
        if lease is not None and not self._moving:
            self._lease = None
            lease.release()

    def restarts(
        self,
        again: Callable[[WindowedQuery], object],
        divisions: Mapping[str, Divide] | None = None,
    ) -> None:
        """How Spark's query is started again from the same checkpoint, for the same handle.

        Args:
            again: Starts it.
            divisions: How its state is divided, where it isn't of a kind of muntin's own.
        """
        self._again = partial(again, self)
        self._divisions = divisions or {}

    def follow(self, reporter: Reporter) -> None:
        """Take in what comes back from the server of Spark Connect."""
        self._follower = Follower(
            self.spark, reporter, self.outputs, self._take, self.show, self.failed, self.watchers
        )
        self._follower.begin(self.query)

    @property
    def watcher_failures(self) -> int:
        """How often one who watches raised. That is logged, and the query goes on."""
        return sum(watcher.failures for watcher in list(self._watching.values()))

    @property
    def watcher_skipped(self) -> int:
        """How many batches those who watch weren't shown, since they were too slow."""
        return sum(watcher.skipped for watcher in list(self._watching.values()))

    def show(self, batch: int, rows: list[Batch], kept: RefCounted | None = None) -> None:
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
        if self._follower is not None:
            self._follower.settle(patience)
        for watcher in list(self._watching.values()):
            watcher.settle(max(0.0, deadline - time.monotonic()))

    def written(self, batch: Written) -> None:
        """All sinks have a batch."""
        self.note(batch)
        if self._record is not None:
            self._record.write(self.progress)
        self.show(batch.number, batch.batches, batch.kept)

    def failed(self, failure: Failure, error: Exception | None = None) -> None:
        """Code of the user's raised an exception; here, if that is given as well."""
        remote = error is None or isinstance(error, PythonException)
        self._failed = failure.shown(), failure.rebuilt() if remote else error

    def note(self, batch: Written) -> None:
        """Take in the figures that the shards emitted with a batch."""
        progress = self._totals.add(batch.number, batch.lines, batch.unstorable)
        self._take(replace(progress, lag=self._lag(batch.number)))
        if not any(o.kind == REJECTED and o.target is not None for o in self.outputs):
            self._warned |= warn_of_rejected(self.progress, self._warned)

    def _lag(self, batch: int) -> dict[str, int]:
        """How many messages of each partition a batch has left unread, where sources say so."""
        if self._without_lag:
            return {}
        lines = planned_offsets(self.spark, self.checkpoint, batch)
        lag: dict[str, int] = {}
        for line in lines:
            lag |= lag_of_line(line)
        # A query's sources stay the same.
        self._without_lag = bool(lines) and not lag
        return lag

    def _take(self, progress: Progress, writing: bool | None = None) -> None:
        with self._changed:
            self.progress = progress
            self._writing = self._writing if writing is None else writing
            self._changed.notify_all()
