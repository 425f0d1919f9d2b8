"""The handle on a running query on Spark: its sinks, its figures and its end."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from muntin.engine.clocks import read_machine_clock
from muntin.engine.operator import REJECTED
from muntin.hosts.failures import Failure
from muntin.hosts.health import ClockWatch, warn_of_rejected, warn_of_time_ahead
from muntin.hosts.interrupts import register_query
from muntin.hosts.leases import Lease
from muntin.hosts.phases import COMMIT, PLAN
from muntin.hosts.progress import Progress, Totals
from muntin.model.errors import BatchError, LeaseLostError, OptionError
from muntin.query import BatchTimes, Query
from muntin.sources.kafka_ranges import lag_of_line
from muntin.spark.checkpoint_files import CheckedSpec, ProgressRecord, acquire
from muntin.spark.host.executors import Executors
from muntin.spark.host.internals.checkpoints import (
    find_home,
    remove_cut_off_move,
)
from muntin.spark.host.internals.folders import WatchedFolders, watch_folders
from muntin.spark.host.internals.hadoop_path import HadoopPath
from muntin.spark.host.internals.jvm import JvmError, is_connected, silence_spark
from muntin.spark.notebook_card import Card, show_card
from muntin.spark.query_end import QueryEnd, describe_full_disk, error_of_muntin
from muntin.spark.remote import Follower, RemoteReporter
from muntin.spark.rescale import rescale_in_place
from muntin.spark.seeding import refuse_seed
from muntin.spark.sinks.selected import SelectedSink
from muntin.spark.sources.inputs import WALL
from muntin.spark.writing import Destination, WrittenBatch

# Spark's phases outside of the function that writes a batch, by their names on every host. The
# others are sums of these.
_PHASES = {
    "latestOffset": PLAN, "getBatch": PLAN, "queryPlanning": PLAN,
    "walCommit": COMMIT, "commitOffsets": COMMIT, "commitBatch": COMMIT,
}  # fmt: skip
# Longest time that a stop waits for the commit of a written batch, seconds.
_COMMITS = 1.0


class WindowedQuery(Query):
    """A handle on a query that Spark runs.

    Attributes:
        query: Spark's own handle.
        spark: The session that it runs in.
        executors: The workers that it runs on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.query: StreamingQuery
        self.spark: SparkSession
        self.checkpoint = ""
        self.outputs: tuple[Destination, ...] = ()
        self._end: QueryEnd
        self._writing = False
        self._totals = Totals()
        self._follower: Follower | None = None
        self.executors: Executors | None = None
        self.shards = 0
        self._lease: Lease | None = None
        self._folders: WatchedFolders | None = None
        self._record: ProgressRecord | None = None
        self._without_lag = False
        self._failed: tuple[BatchError, Exception | None] | None = None
        self._again: Callable[[], object] | None = None
        self._end_run: Callable[[], object] | None = None
        self._received_at_end = -1
        self._warned: frozenset[str] = frozenset()
        self._is_ahead = False
        self._clock_watch = ClockWatch()
        self._name: str | None = None

    def _repr_html_(self) -> str:
        return Card(self).html()

    def _ipython_display_(self) -> None:
        show_card(self)

    @property
    def name(self) -> str | None:
        """The name of Spark's query, if it has one."""
        return self._name

    @property
    def label(self) -> str:
        """The name by which figures and pages tell it from others."""
        return str(self.name or self.query.id)

    def time_batches(self) -> BatchTimes:
        """Measure the batches from now on, as Spark's listener reports them."""
        return SparkBatchTimes(self)

    def time_phases(self) -> dict[str, float]:
        """Return how long each part of the last batch took, milliseconds."""
        last = self.query.lastProgress
        return name_phases({} if last is None else last["durationMs"]) | super().time_phases()

    @property
    def is_active(self) -> bool:
        """True if the query runs, or is about to resume in other shards."""
        ends = self._end_run is not None and not self._end.wait(0)
        try:
            return ends or self._moving or self.query.isActive
        except (JvmError, OSError):
            return False

    def _find_results_sink(self) -> Any:
        sink = super()._find_results_sink()
        return sink.target if isinstance(sink, SelectedSink) else sink

    def _halt(self, patience: float) -> None:
        self._end_run = None
        with self._changed:
            is_written = self._changed.wait_for(lambda: not self._writing, timeout=patience)
        if is_written and self._folders is not None and self.query.isActive:
            # Else the batch, which its sinks have, would be repeated.
            self._folders.await_commit(self.progress.batch, min(patience, _COMMITS))
        self.query.stop()
        self.release()

    def stop_for_exit(self, patience: float) -> None:
        """Stop the query before the process ends, and keep Spark from logging it."""
        silence_spark(self.spark)
        self.stop(patience)

    def rescale(self, shards: int) -> None:
        """Resume with more or fewer shards from the next batch on, as `Query.rescale` describes.

        It works on a local disk and in an object store.
        """
        try:
            super().rescale(shards)
        finally:
            if not self.is_active:
                self.release()

    def _check_movable(self, shards: int) -> None:
        if self._again is None:
            hint = "start it with another shards= from the same checkpoint"
            raise OptionError("rescale", shards, "can't be changed on a running query", hint)

    def _move_state(self, shards: int) -> None:
        rescale_in_place(self.spark, self.checkpoint, shards)

    def _resume(self) -> None:
        assert self._again is not None
        self._totals = self._totals.without_shards()
        self._again()

    def _raise_error(self) -> None:
        error = self._end.error
        if error is None:
            return
        # Over Spark Connect the error of muntin is inside of Spark's.
        ours = error_of_muntin(error, self.progress.batch)
        if ours is None and self._failed is None:
            ours = describe_full_disk(error, self.checkpoint)
        if ours is not None:
            raise ours from error
        if self._failed is None:
            raise error
        shown, cause = self._failed
        raise shown from cause

    def _wait_for_end(self, seconds: float) -> bool:
        end = self._end
        if not end.wait(seconds):
            return False
        with self._changed:
            return self._changed.wait_for(lambda: not self._moving, seconds) and self._end is end

    def _idle_check(self) -> Callable[[float], bool]:
        # A batch that has already begun may have missed messages that just arrived.
        changed_in, received = self.progress.batch + 1, self.progress.received
        all_read = self._all_read()

        def is_settled(seconds: float) -> bool:
            nonlocal changed_in, received
            with self._changed:
                # Read the flag before the progress, so that later messages aren't taken as read.
                read, progress = all_read.is_set(), self.progress
                if progress.received != received:
                    changed_in, received = max(changed_in, progress.batch), progress.received
                # Either a later batch had no messages (a heartbeat's), or there was none to run.
                if (read or progress.batch > changed_in) and not progress.waits():
                    return True
                if not self.is_active:
                    return True
                self._changed.wait(seconds)
            return False

        return is_settled

    def _all_read(self) -> threading.Event:
        """Return an event that is set when Spark has looked for input again and found none.

        Don't wait for it without a timeout: with a heartbeat it may take long, and after the end of
        the query it may never be set.
        """
        event = threading.Event()

        def wait() -> None:
            with suppress(Exception):  # `await_end` reports the error of a query
                self.query.processAllAvailable()
                if self._follower is not None:
                    self._follower.look()
                event.set()

        threading.Thread(target=wait, daemon=True, name="muntin-all-read").start()
        return event

    @contextmanager
    def writing(self, emitted: DataFrame, number: int) -> Iterator[None]:
        """Mark that a batch is being written; check the checkpoint and the executors around it."""
        with self._changed:
            self._writing = True
        try:
            self._check()
            yield
            # Check again before the commit, since an executor may have joined during the batch.
            self._check()
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _check(self) -> None:
        """Refuse to continue if the checkpoint isn't this query's, or an executor can't run it."""
        for checked in (self._lease, self._folders, self.executors):
            if checked is not None:
                checked.check()

    @contextmanager
    def hold_lease(self) -> Iterator[None]:
        """Acquire the lease on the checkpoint, and release it if the query doesn't start.

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
        """Compare the query with the checkpoint's, and take over the checkpoint's progress.

        Raises:
            SpecChangedError: When the checkpoint was written by another spec.
        """
        refuse_seed(self.spark, self.checkpoint)
        remove_cut_off_move(self.spark, self.checkpoint)
        self._record = ProgressRecord(self.spark, self.checkpoint, specs)
        progress = self._record.resume()
        if self.progress.batch < 0:
            self._totals.progress = self.progress = progress
        self._watch_folders(find_home(self.spark, self.checkpoint))

    def _watch_folders(self, home: str | None) -> None:
        """Watch the folders of a checkpoint, instead of those that were watched."""
        former, self._folders = self._folders, None
        if former is not None:
            former.close()
        if home is not None:
            self._folders = watch_folders(HadoopPath(self.spark, home))

    def begin(self, query: StreamingQuery) -> None:
        """Take over a query of Spark that has just started."""
        self.query = query
        # Store the name, which is needed even after the JVM has died.
        self._name = query.name
        self._end = QueryEnd(query, self._finish)
        register_query(self)

    def ends_run_by(self, run: Callable[[WindowedQuery], object]) -> None:
        """Have another Spark query follow the last batch, if windows wait for the clock then.

        This is necessary since Spark doesn't say which batch is the last one of ``available_now``.

        Args:
            run: Starts a query for this handle that emits the waiting windows, and ends.
        """
        self._end_run = partial(run, self)

    def _finish(self, end: QueryEnd) -> None:
        """Emit the windows that wait at the end of a run, or release the checkpoint."""
        if end.error is not None:
            end.error = self._find_takeover(end.error)
        received = self.progress.received
        ending = self._end_run if end.error is None and self.progress.waits() else None
        # Repeat it only if more messages were read: the remaining windows wait for messages.
        if ending is not None and received != self._received_at_end:
            self._received_at_end, self._moving = received, True
            try:
                ending()
                return
            except Exception as error:
                end.error = error
            finally:
                with self._changed:
                    self._moving = False
                    self._changed.notify_all()
        self.release()

    def _find_takeover(self, error: Exception) -> Exception:
        """Return that another query has taken over the checkpoint, or else the query's own error.

        Spark only says that somebody else has written the same batch.
        """
        try:
            with suppress(OSError):
                if self._lease is not None:
                    self._lease.check()
        except LeaseLostError as lost:
            lost.__cause__ = error
            return lost
        return error

    def release(self) -> None:
        """Release the lease on the checkpoint, unless this query is about to resume from it."""
        lease = self._lease
        if lease is not None and not self._moving:
            self._lease = None
            self._watch_folders(None)
            lease.release()

    def restarts(self, again: Callable[[WindowedQuery], object]) -> None:
        """Set the function that starts Spark's query again, from the same checkpoint."""
        self._again = partial(again, self)

    def follow(self, reporter: RemoteReporter) -> None:
        """Follow the figures and rows that come back from the server of Spark Connect."""
        self._follower = Follower(
            self.spark,
            reporter,
            self.outputs,
            self._take,
            self.show,
            self.record_failure,
            self.watchers,
        )
        self._follower.begin(self.query)

    def _settle(self, patience: float) -> None:
        if self._follower is not None:
            self._follower.settle(patience)
        super()._settle(patience)

    def record_batch(self, batch: WrittenBatch) -> None:
        """Record a batch that all sinks have, and show it to watchers."""
        self._add_figures(batch)
        if self._record is not None:
            self._record.write(self.progress)
        self.show(batch.number, batch.batches, batch.references)

    def record_failure(self, failure: Failure, error: Exception | None = None) -> None:
        """Record that user code raised; `error` is the exception if it is in this process."""
        remote = error is None or isinstance(error, PythonException)
        self._failed = failure.to_error(), failure.rebuild() if remote else error

    def _add_figures(self, batch: WrittenBatch) -> None:
        """Add the figures that the shards emitted with a batch."""
        progress = self._totals.add(batch.number, batch.figures, batch.unwritable, batch.functions)
        self._take(replace(progress, lag=self._lag(batch.number), seconds=batch.seconds))
        if not any(o.kind == REJECTED and o.target is not None for o in self.outputs):
            self._warned |= warn_of_rejected(self.progress, self._warned)
        now = read_machine_clock()
        walls = (one.get(WALL) for one in batch.figures)
        self._clock_watch.note_batch(now, max(filter(None, walls), default=None))
        # Then this clock is the wrong one, and not a producer's.
        if not self._is_ahead and not self._clock_watch.is_set_back:
            self._is_ahead = warn_of_time_ahead(self.progress, now)

    def _lag(self, batch: int) -> dict[str, int]:
        """Return the unread messages of each partition after a batch, as far as sources say."""
        if self._without_lag or self._folders is None:
            return {}
        lines = self._folders.read_offsets(batch)
        lag: dict[str, int] = {}
        for line in lines:
            lag |= lag_of_line(line)
        # A query's sources never change, so don't ask again.
        self._without_lag = bool(lines) and not lag
        return lag

    def _take(self, progress: Progress, writing: bool | None = None) -> None:
        with self._changed:
            self.progress = progress
            self._writing = self._writing if writing is None else writing
            self._changed.notify_all()


def name_phases(durations: Mapping[str, int]) -> dict[str, float]:
    """Return Spark's times of a batch, by the names of phases on every host.

    Example:
        >>> name_phases({"latestOffset": 3, "walCommit": 2, "addBatch": 90, "commitOffsets": 4})
        {'plan': 3.0, 'commit': 6.0}
    """
    named: dict[str, float] = {}
    for name, milliseconds in durations.items():
        if name in _PHASES:
            phase = _PHASES[name]
            named[phase] = named.get(phase, 0.0) + milliseconds
    return named


class SparkBatchTimes(StreamingQueryListener, BatchTimes):
    """Adds up the times that Spark reports of each batch of a query."""

    def __init__(self, query: WindowedQuery) -> None:
        super().__init__()
        BatchTimes.__init__(self)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._query = query
        # Listen in the query's session: the active one may be a batch's own, which gets no events.
        self._session = query.spark
        self._session.streams.addListener(self)

    @property
    def seconds(self) -> dict[str, float]:
        """The time of batches since the query is measured, by phase."""
        return dict(self._seconds)

    def close(self) -> None:
        """Stop measuring."""
        self._session.streams.removeListener(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing, since no batch has ended yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Add up a batch that has ended."""
        progress = event.progress
        if str(progress.runId) != str(self._query.query.runId):
            return
        own = self._query.progress
        for phase, milliseconds in name_phases(progress.durationMs).items():
            self._seconds[phase] += milliseconds / 1000
        for phase, seconds in own.seconds.items() if own.batch == progress.batchId else ():
            self._seconds[phase] += seconds
        self.state_bytes = sum(one.memoryUsedBytes for one in progress.stateOperators)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing, since no batch has ended."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: the counts of a query outlive it."""
