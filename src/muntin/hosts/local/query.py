"""Starts queries on the local host, and provides the handle on a running one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from muntin.explain.summary import format_html_table
from muntin.hosts.definition import StartOptions
from muntin.hosts.interrupts import register_query
from muntin.hosts.local.checkpoint import LocalCheckpoint, LogCheckpoint, MemoryCheckpoint
from muntin.hosts.local.delivery import Delivery, LocalDestination, make_destinations
from muntin.hosts.local.loop import Loop, Pace
from muntin.hosts.local.plan import LocalPlan
from muntin.hosts.local.rescale import rescale_folder, rescale_operators
from muntin.hosts.local.run import OperatorRun
from muntin.hosts.local.shared_reader import open_readers
from muntin.model.axis import Duration, parse_duration
from muntin.model.errors import OptionError, SpecChangedError
from muntin.query import BatchTimes, Query


@dataclass(frozen=True)
class Job:
    """The description of a query from which its loop is opened, also after a rescale.

    Attributes:
        plan: The plan.
        folder: The folder of the checkpoint; `None` keeps it in memory.
        outputs: The destinations of rows.
        pace: The timing and size of batches.
        sync_every: The longest time between syncs of commits to disk, seconds; `None` leaves them
            to the operating system.
    """

    plan: LocalPlan
    folder: str | None
    outputs: tuple[LocalDestination, ...]
    pace: Pace
    sync_every: float | None

    def open(self, earlier: Loop | None = None) -> Loop:
        """Open the checkpoint, the sources and the shards.

        Args:
            earlier: The loop before a rescale, whose figures go on; by default those of the
                checkpoint do.
        """
        with ExitStack() as undo:
            checkpoint: LocalCheckpoint = MemoryCheckpoint()
            if self.folder is not None:
                checkpoint = LogCheckpoint(self.folder, self.sync_every)
            undo.callback(checkpoint.close)
            plan = resume_plan(self.plan, checkpoint)
            pool = ThreadPoolExecutor(plan.shards) if plan.shards > 1 else None
            if pool is not None:
                undo.callback(pool.shutdown)
            run = OperatorRun(plan, checkpoint.open_store, pool)
            readers = open_readers(plan.sources)
            for reader in readers:
                undo.callback(reader.close)
            delivery = Delivery(self.outputs, checkpoint.identity, self.folder)
            using = plan, run, readers, checkpoint, delivery, self.pace
            totals, phases = None, None
            if earlier is not None:
                totals, phases = earlier.totals.without_shards(), earlier.phases
            loop = Loop(*using, totals=totals, pool=pool, phases=phases)
            undo.pop_all()
        return loop


class LocalQuery(Query):
    """A handle on a query that runs in a thread of this process."""

    def __init__(self, job: Job, name: str | None) -> None:
        super().__init__()
        self.checkpoint = job.folder
        self.outputs: tuple[LocalDestination, ...] = job.outputs
        self._name = name
        self._job = job
        self._idle_rounds = 0
        self._error: BaseException | None = None
        self._ended = False
        self._begin(job.open())
        register_query(self)

    def _begin(self, loop: Loop) -> None:
        self._loop, self.progress, self._ended = loop, loop.progress, False
        self._thread = threading.Thread(
            target=self._run_loop, daemon=True, name=f"muntin-{self._name or 'query'}"
        )
        self._thread.start()

    def _repr_html_(self) -> str:
        return format_html_table("figure", "value", self.progress.lines())

    @property
    def name(self) -> str | None:
        """The query's name, if it has one."""
        return self._name

    @property
    def is_active(self) -> bool:
        """True if the query runs, or is about to resume in other shards."""
        return self._moving or not self._ended

    def time_batches(self) -> BatchTimes:
        """Return the time of the parts of this run's batches."""
        return BatchTimes(self._loop.phases)

    def _halt(self, patience: float) -> None:
        self._loop.stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join(patience)

    def _check_movable(self, shards: int) -> None:
        if self._job.folder is None:
            hint = "start it with checkpoint=, or with another shards="
            raise OptionError("rescale", shards, "needs a checkpoint", hint)
        if any(plan.requested_shards is not None for plan in self._job.plan.plans):
            hint = "start it with another shards= from the same checkpoint"
            raise OptionError("rescale", shards, "can't be changed on a running query", hint)

    def _move_state(self, shards: int) -> None:
        # A batch that outlasts the patience of `stop` would write to the state that is moved.
        self._thread.join()
        if self._error is None:
            rescale_folder(str(self._job.folder), shards)

    def _resume(self) -> None:
        # Don't resume a query that failed or has read all of its input.
        if self._error is None and not self._loop.has_finished:
            self._begin(self._job.open(self._loop))

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _wait_for_end(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._ended and not self._moving, seconds)

    def _idle_check(self) -> Callable[[float], bool]:
        rounds = self._idle_rounds

        def is_settled() -> bool:
            # A round that has already begun may have missed messages that just arrived.
            idle = self._idle_rounds > rounds + 1 and not self.progress.waits()
            return idle or not self.is_active

        def wait(seconds: float) -> bool:
            with self._changed:
                return self._changed.wait_for(is_settled, seconds)

        return wait

    def _run_loop(self) -> None:
        loop = self._loop
        try:
            for done in loop.run_batches():
                if done is not None:
                    self.progress = done[0]
                    self.show(self.progress.batch, done[1])
                with self._changed:
                    # Files that are still being written count as input.
                    self._idle_rounds += done is None and loop.is_caught_up
                    self._changed.notify_all()
        except BaseException as error:
            self._error = error
        finally:
            try:
                loop.close()
            except BaseException as error:
                self._error = self._error or error
            with self._changed:
                self._ended = True
                self._changed.notify_all()


def start_query(plan: LocalPlan, options: StartOptions) -> LocalQuery:
    """Start a query with the options of `Definition.start`."""
    waits, every = sync_seconds(options.durable), options.every
    if options.checkpoint is None and options.durable is not True:
        hint = "give checkpoint= a folder, or leave it out"
        raise OptionError("durable", options.durable, "needs a checkpoint on a disk", hint)
    seconds = 0.0 if every is None else parse_duration("every", every) / 1_000_000
    pace = Pace(seconds, options.available_now)
    sinks = options.results, options.rejected
    outputs = tuple(make_destinations(plan, sinks, options.checkpoint))
    return LocalQuery(Job(plan, options.checkpoint, outputs, pace, waits), options.name)


def resume_plan(plan: LocalPlan, checkpoint: LocalCheckpoint) -> LocalPlan:
    """Return the plan with the checkpoint's shard counts, where the user asked for none.

    An operator for which the user asked for another number is rescaled in the checkpoint.

    Raises:
        SpecChangedError: When the checkpoint was written by another chain of operators.
    """
    shards = checkpoint.last_commit.shards
    if not shards:
        return plan
    if len(shards) != len(plan.plans):
        raise SpecChangedError(
            f"the checkpoint was written by a chain of {len(shards)} operators, and this query has "
            f"{len(plan.plans)}: go back to that chain, or start with a new checkpoint folder"
        )
    if len(checkpoint.last_commit.ends) != len(plan.sources):
        raise SpecChangedError(
            f"the checkpoint was written by a query of {len(checkpoint.last_commit.ends)} sources, "
            f"and this query has {len(plan.sources)}: go back to them, or start with a new "
            "checkpoint folder"
        )
    free = [
        count
        for operator_plan, count in zip(plan.plans, shards, strict=True)
        if operator_plan.requested_shards is None
    ]
    plan = plan.with_shards(free[0]) if free else plan
    if isinstance(checkpoint, LogCheckpoint):
        rescale_operators(checkpoint, [operator_plan.shards for operator_plan in plan.plans])
    return plan


def sync_seconds(durable: bool | Duration) -> float | None:
    """Return the longest time between syncs of commits to disk, for the option `durable`.

    Returns:
        Seconds; 0 syncs each commit, and `None` leaves them to the operating system.

    Raises:
        OptionError: When the option is neither a boolean nor a duration.
    """
    if isinstance(durable, bool):
        return 0.0 if durable else None
    return parse_duration("durable", durable, zero=False) / 1_000_000
