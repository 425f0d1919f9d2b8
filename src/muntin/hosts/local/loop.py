"""Runs the batches of a query: plan a range, read it, step, deliver, commit, wait for more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from muntin.engine.clocks import SteadyClock, read_elapsed_time, read_machine_clock
from muntin.engine.function_times import collect_function_times
from muntin.hosts.failures import report_failures
from muntin.hosts.health import ClockWatch, warn_of_rejected, warn_of_time_ahead
from muntin.hosts.local.checkpoint import LocalCheckpoint, PlannedBatch
from muntin.hosts.local.delivery import REJECTED, RESULTS, Delivery
from muntin.hosts.local.plan import LocalPlan
from muntin.hosts.local.run import OperatorRun, Remainder
from muntin.hosts.phases import COMMIT, PLAN, READ, STEP, Phases
from muntin.hosts.progress import Progress, Totals
from muntin.sinks.batch import Batch
from muntin.sources.source import Planned, SourceOffsets, SourceReader
from muntin.state.manifest import parse_manifest

# Largest number of rows that a batch reads of a source.
BATCH_ROWS = 1_000_000
# Time that the loop sleeps while nothing is new, seconds; it doubles from the first to the last.
_SHORTEST_WAIT, _LONGEST_WAIT = 0.001, 0.02
# Longest time that a source waits for messages before the loop checks whether to stop, seconds.
_SOURCE_WAIT = 0.1

Clock = Callable[[], int]


@dataclass(frozen=True)
class Pace:
    """The timing and size of batches.

    Attributes:
        every: The shortest time from the start of one batch to the next one's, seconds.
        available_now: Whether the loop ends when it has read what the sources have.
        rows: The largest number of rows that a batch reads of a source.
    """

    every: float = 0.0
    available_now: bool = False
    rows: int = BATCH_ROWS


class Loop:
    """Runs the batches of a query.

    Args:
        plan: The plan.
        run: Its operators.
        readers: A reader for each source, in the order of `Plan.sources`.
        checkpoint: The storage of progress and state.
        delivery: Writes rows to the sinks.
        pace: The timing and size of batches.
        clock: The wall clock, microseconds.
        elapsed: The elapsed time, microseconds since any moment.
        totals: The figures so far; by default those of the checkpoint.
        pool: The pool in which shards run in parallel, if there is one.
        phases: The time of the parts of earlier batches; by default there were none.

    Attributes:
        stopping: An event that ends the loop after its batch.
        planned: The ranges of the batch that was planned last, by source.
        phases: The time of the parts of batches.
    """

    def __init__(
        self,
        plan: LocalPlan,
        run: OperatorRun,
        readers: Sequence[SourceReader],
        checkpoint: LocalCheckpoint,
        delivery: Delivery,
        pace: Pace,
        clock: Clock = read_machine_clock,
        *,
        elapsed: Clock = read_elapsed_time,
        totals: Totals | None = None,
        pool: ThreadPoolExecutor | None = None,
        phases: Phases | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.stopping = threading.Event()
        stored = checkpoint.last_commit.progress
        resumed = Progress.from_dict(stored).of_new_run() if stored else None
        self.totals = totals or Totals(resumed)
        self._pool = pool
        self._shards = tuple(one.shards for one in plan.plans)
        self._period = plan.tick_period
        self._run = run
        self._readers = tuple(readers)
        self._delivery = delivery
        self._pace = pace
        self._clock = clock
        manifests = () if self._period is None else checkpoint.last_commit.manifests.values()
        walls = (parse_manifest(text).wall for text in manifests)
        last = max((wall for wall in walls if wall is not None), default=None)
        self._steady = SteadyClock(last, elapsed)
        self._clock_watch = ClockWatch(elapsed)
        self._last_tick: int | None = None
        self._batch_start = 0.0
        self._is_ahead = False
        self._warned: frozenset[str] = frozenset()
        # Whether the last batch had rows for a sink, since the next one is then likely to.
        self._delivers = False
        self._wait = _SHORTEST_WAIT
        self.planned: list[Planned] = []
        self.phases = phases or Phases()

    @property
    def progress(self) -> Progress:
        """The figures after the last batch."""
        return self.totals.progress

    @property
    def has_finished(self) -> bool:
        """True if the whole input was read."""
        return self.checkpoint.last_commit.final

    @property
    def ends(self) -> tuple[SourceOffsets | None, ...]:
        """The committed end offsets of the sources."""
        return self.checkpoint.last_commit.ends or (None,) * len(self._readers)

    def run_batches(self) -> Iterator[tuple[Progress, list[Batch]] | None]:
        """Run batches, and yield the figures and rows of each; yield `None` when there is no work.

        A batch that was planned before a crash runs first, with the same rows.
        """
        while not self.stopping.is_set() and not self.has_finished:
            self.planned = []
            self.phases.begin_batch()
            with self.phases.measure(PLAN):
                batch = self.checkpoint.planned or self._plan()
            if batch is not None:
                self._batch_start = time.monotonic()
                self._wait = _SHORTEST_WAIT
                yield self._step(batch)
            else:
                self.phases.batch.clear()
                yield None
            if self._pace.available_now and self.is_caught_up:
                return
            if batch is None:
                self._wait_for_messages()
            elif not self._pace.available_now:
                self._pause()

    @property
    def is_caught_up(self) -> bool:
        """True if the last plan reaches the end of all sources.

        It is false after a repeated batch, which was planned before the crash.
        """
        return bool(self.planned) and all(one.caught_up for one in self.planned)

    def _plan(self) -> PlannedBatch | None:
        """Plan the next batch; return `None` if there is no work."""
        pairs = zip(self._readers, self.ends, strict=True)
        self.planned = [reader.plan(start, self._pace.rows) for reader, start in pairs]
        final = all(one.finished for one in self.planned)
        now, ends_run = self._clock(), self._ends_run()
        wall = tick = None
        if self._period is not None:
            wall = self._steady.read(now)
            tick = wall // self._period
        has_new = final or any(one.has_new for one in self.planned)
        if not (has_new or self._has_ticked(tick) or (ends_run and self.progress.waits())):
            return None
        ends = tuple(one.end for one in self.planned)
        number = self.checkpoint.last_commit.number + 1
        batch = PlannedBatch(number, now, ends, final, ends_run, wall)
        self.checkpoint.plan(batch, ahead=self._delivers)
        return batch

    def _ends_run(self) -> bool:
        """Return whether the planned batch is the run's last, and clock policies may be waiting."""
        ends = self._pace.available_now and self._period is not None
        return ends and self.is_caught_up

    def _has_ticked(self, tick: int | None) -> bool:
        """Return whether the clock has passed a multiple of the period since the last batch."""
        if tick is None or self.checkpoint.last_commit.number < 0:
            return False
        last, self._last_tick = self._last_tick, tick
        return last is None or tick > last

    def _step(self, batch: PlannedBatch) -> tuple[Progress, list[Batch]]:
        """Run a batch, deliver its rows and commit it."""
        starts = self.ends
        ranges = zip(self._readers, starts, batch.ends, strict=True)
        read = (
            self.phases.measure_each(READ, reader.read(start, end)) for reader, start, end in ranges
        )
        wall = None
        if self._period is not None:
            wall = batch.now if batch.wall is None else batch.wall
            self._last_tick = wall // self._period
        pairs = zip(self._readers, batch.ends, strict=True)
        rest = (Remainder(reader.backlog(end), reader.is_finished(end)) for reader, end in pairs)
        with self.phases.measure(STEP), report_failures(batch.number, "a function"):
            emitted = self._run.step(
                read, batch.now, wall, final=batch.final, ends_run=batch.ends_run, rest=rest
            )
        rows = {RESULTS: emitted.results, REJECTED: emitted.rejected}
        batches = self._delivery.make_batches(batch.number, rows)
        self._delivers = self._delivery.writes_lasting_rows(batches)
        if self._delivers:
            with self.phases.measure(COMMIT):
                self.checkpoint.sync_plan()
        with collect_function_times() as times:
            unwritable = self._delivery.write(batches, self.phases)
        progress = self.totals.add(batch.number, emitted.progress, unwritable, times)
        for reader, end in zip(self._readers, batch.ends, strict=True):
            progress.lag |= reader.lag(end)
        with self.phases.measure(COMMIT):
            self.checkpoint.commit(progress.to_dict(), self._shards)
        progress.seconds = dict(self.phases.batch)
        self._clock_watch.note_batch(self._clock(), wall)
        self._warn(progress, batch.now)
        return progress, batches

    def _warn(self, progress: Progress, now: int) -> None:
        """Warn of rejected messages that no sink stores, and of a watermark ahead of the clock."""
        if not self._delivery.stores_rejected:
            self._warned |= warn_of_rejected(progress, self._warned)
        # Then this clock is the wrong one, and not a producer's.
        if not self._is_ahead and not self._clock_watch.is_set_back:
            self._is_ahead = warn_of_time_ahead(progress, now)

    def _pause(self) -> None:
        """Wait until the next batch may begin."""
        rest = self._batch_start + self._pace.every - time.monotonic()
        if self._pace.every and rest > 0:
            self.stopping.wait(rest)

    def _wait_for_messages(self) -> None:
        limit = _SOURCE_WAIT
        if self._period is not None:
            limit = min(limit, (self._period - self._clock() % self._period) / 1_000_000)
        if len(self._readers) == 1 and self._readers[0].wait(self.ends[0], limit):
            return
        self.stopping.wait(min(self._wait, limit))
        self._wait = min(self._wait * 2, _LONGEST_WAIT)

    def close(self) -> None:
        """Release the sources, the checkpoint and the shards."""
        for reader in self._readers:
            with suppress(Exception):
                reader.close()
        self.checkpoint.close()
        if self._pool is not None:
            self._pool.shutdown()
