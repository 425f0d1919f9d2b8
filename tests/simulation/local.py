"""Runs the local host's own code in one thread: processes die, disks fail, clocks jump."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
from tests.local_runner import join_plan, window_plan
from tests.property.streams import Stream
from tests.simulation.cases import Case
from tests.simulation.counting import Counting, make_counting_plan
from tests.simulation.disk import Disk, attach_disk, make_disk_full_error
from tests.simulation.faults import FailedError, Faults, KilledError, PowerLostError
from tests.simulation.tables import Table

from muntin.hosts.local import checkpoint as checkpoints
from muntin.hosts.local.checkpoint import LogCheckpoint, PlannedBatch
from muntin.hosts.local.delivery import (
    REJECTED,
    RESULTS,
    Delivery,
    LocalDestination,
    make_destinations,
)
from muntin.hosts.local.loop import Loop, Pace
from muntin.hosts.local.plan import LocalPlan
from muntin.hosts.local.query import resume_plan
from muntin.hosts.local.run import OperatorRun
from muntin.hosts.progress import Progress
from muntin.model.errors import OptionError
from muntin.sources.source import Planned, Source, SourceOffsets, SourceReader
from muntin.state import blobs

# After so many deaths nothing fails any more.
_LIVES = 12
# Small files, so that the log turns over.
_FILE_BYTES = (6_000, 20_000, 64 << 20)
_MEMORY = Path("/dev/shm")


@dataclass
class Outcome:
    """The end of a run.

    Attributes:
        batches: The last committed batch of each number.
        tables: The tables of the sinks, by kind.
        progress: The final progress.
        steps: The number of batches that ran, including repeated ones.
        failed_events: The names of the events that failed.
        problems: Descriptions of errors of the host.
    """

    batches: list[PlannedBatch] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    progress: Progress | None = None
    steps: int = 0
    failed_events: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


Plans = dict[int, tuple[LocalPlan, list[list[pl.DataFrame]]]]
"""The plan of a case by its number of shards, with the frames of each source."""


def run_local(
    case: Case,
    faults: Faults | None = None,
    sync_every: float = 0.0,
    plans: Plans | None = None,
) -> Outcome:
    """Run a case to its end, through as many processes as it takes.

    Args:
        case: The case.
        faults: Decide which events fail; drawn from the case by default.
        sync_every: How long commits may wait for the disk, seconds.
        plans: The plans of earlier runs of this case, to which its own are added.
    """
    parent = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        return LocalRun(case, Path(folder) / "checkpoint", faults, sync_every, plans).run()


class LocalRun:
    """The lives of a query, one after the other.

    Args:
        case: The case.
        folder: The folder of its checkpoint.
        faults: Decide which events fail; drawn from the case by default.
        sync_every: How long commits may wait for the disk, seconds.
        plans: The plans of earlier runs of this case, to which its own are added.
    """

    def __init__(
        self,
        case: Case,
        folder: Path,
        faults: Faults | None = None,
        sync_every: float = 0.0,
        plans: Plans | None = None,
    ) -> None:
        self.case = case
        self._sync_every = sync_every
        self.faults = faults or Faults(case.seed, case.rate, case.muted)
        self.life = 0
        self.outcome = Outcome(failed_events=self.faults.failed_events)
        self._folder = folder
        self._events = 0
        self._disk = Disk(folder, self.interrupt)
        self._tables = [Table(kind, self.fail) for kind in (RESULTS, REJECTED)]
        self._file_bytes = self.faults.choose("file bytes", _FILE_BYTES)
        self._planned = 0
        self._committed: dict[int, PlannedBatch] = {}
        self._plans: Plans = {} if plans is None else plans
        self._plans_by_shards: dict[int, tuple[LocalPlan, list[LocalDestination]]] = {}

    def run(self) -> Outcome:
        """Run processes until the input has ended."""
        with simulate_machine(self):
            while not self._live():
                self.life += 1
                self._events = 0
        outcome = self.outcome
        outcome.batches = [self._committed[number] for number in sorted(self._committed)]
        outcome.tables = {table.kind: table for table in self._tables}
        outcome.problems += [problem for table in self._tables for problem in table.problems]
        return outcome

    def interrupt(self, event: str) -> BaseException | None:
        """Return the error that interrupts an event, or None if it happens."""
        self._events += 1
        name = f"life {self.life}, event {self._events}"
        if self.life >= _LIVES or not self.faults.strikes(name, _WEIGHTS.get(event, 1.0)):
            return None
        kind = self.faults.choose(name, ("killed", "killed", "power", "fails"))
        if kind == "fails":
            return make_disk_full_error() if event in _OF_DISK else FailedError(event)
        return KilledError(event) if kind == "killed" else PowerLostError(event)

    def fail(self, event: str) -> None:
        """Raise an error if an event is interrupted."""
        error = self.interrupt(event)
        if error is not None:
            raise error

    def clock(self) -> int:
        """Return the wall clock, which may jump between processes."""
        steps = self.case.input.steps
        span = max(1, steps[-1].wall - steps[0].wall)
        jump = (
            self.faults.choose(f"clock {self.life}", (0, span // 3, -span // 3)) if self.life else 0
        )
        return steps[self._planned].wall + jump

    def plan_source(self, start: SourceOffsets | None) -> int:
        """Return the last step of the next batch, which may differ between processes."""
        begin = -1 if start is None else int(start["step"])
        name = f"life {self.life}, source {begin}"
        self.fail("planning")
        skipped = self.faults.choose(name, (0, 0, 1, 2)) if self.life else 0
        self._planned = min(begin + 1 + skipped, len(self.case.input.steps) - 1)
        return self._planned

    def _live(self) -> bool:
        """Run one process, and return whether the input has ended."""
        checkpoint, loop = None, None
        try:
            checkpoint = LogCheckpoint(str(self._folder), self._sync_every, self._file_bytes)
            loop = self._begin(checkpoint)
            for _ in loop.run_batches():
                self.outcome.steps += 1
            self.outcome.progress = loop.progress
            loop.close()
        except KilledError as error:
            self._die(checkpoint, error)
            return False
        except Exception as error:
            return self._end(error, checkpoint, loop)
        return True

    def _begin(self, checkpoint: LogCheckpoint) -> Loop:
        sourced_plan, outputs = self._plan()
        plan = resume_plan(sourced_plan, checkpoint)
        run = OperatorRun(plan, checkpoint.open_store)
        delivery = Delivery(outputs, checkpoint.identity, str(self._folder))
        readers = [source.open() for source in plan.sources]
        loop = Loop(
            plan, run, readers, checkpoint, delivery, Pace(), self.clock, elapsed=self.clock
        )
        commit = checkpoint.commit

        def commit_and_record(progress: dict[str, Any], shards: Sequence[int]) -> None:
            assert checkpoint.planned is not None
            self._committed[checkpoint.planned.number] = checkpoint.planned
            commit(progress, shards)

        checkpoint.commit = commit_and_record  # type: ignore[method-assign]
        return loop

    def _plan(self) -> tuple[LocalPlan, list[LocalDestination]]:
        """Return the plan of a process with its sources, and its sinks."""
        shards = self.case.shards[self.life % len(self.case.shards)]
        if shards in self._plans_by_shards:
            return self._plans_by_shards[shards]
        if shards not in self._plans:
            # All processes and runs may share a plan, since it has no state.
            self._plans[shards] = make_plan(self.case, shards)
        plan, frames = self._plans[shards]
        feeds = [Feed(source_frames, self) for source_frames in frames]
        inputs = [replace(i, rows=feed) for i, feed in zip(plan.inputs, feeds, strict=True)]
        sourced_plan = replace(plan, inputs=tuple(inputs))
        outputs = make_destinations(sourced_plan, (self._tables[0], self._tables[1]))
        self._plans_by_shards[shards] = sourced_plan, outputs
        return self._plans_by_shards[shards]

    def _die(self, checkpoint: LogCheckpoint | None, error: KilledError) -> None:
        if checkpoint is not None:
            checkpoint._log.close()
        if isinstance(error, PowerLostError):
            self._disk.lose_power(self.faults.dice(f"power {self.life}"))

    def _end(self, error: Exception, checkpoint: LogCheckpoint | None, loop: Loop | None) -> bool:
        """End a query by an error, as `LocalQuery` does; one that wasn't injected is a problem."""
        if not isinstance(error.__cause__ or error, FailedError | OSError):
            self.outcome.problems.append(f"life {self.life}: {type(error).__name__}: {error}")
            return True
        try:
            if loop is not None:
                loop.close()
            elif checkpoint is not None:
                checkpoint.close()
        except KilledError as kill:
            self._die(checkpoint, kill)
        except OptionError as close_error:
            if not isinstance(close_error.__cause__, OSError):
                raise
        return False


# What fails of the disk, and events that are so many that each fails rarely.
_OF_DISK = {"create", "write", "flush", "flush of the folder", "remove", "rename"}
_WEIGHTS = {"planning": 0.3}


def make_plan(case: Case, shards: int) -> tuple[LocalPlan, list[list[pl.DataFrame]]]:
    """Return the plan of a case, and the frames of each of its sources, step by step."""
    drawn = case.input
    if isinstance(drawn, Stream):
        plan, frames = window_plan(drawn.spec, drawn.steps, shards)
        return plan, [frames]
    if isinstance(drawn, Counting):
        plan, frames = make_counting_plan(drawn, shards)
        return plan, [frames]
    plan, frames_by_side = join_plan(drawn.spec, drawn.types, drawn.steps, shards)
    return plan, [*frames_by_side.values()]


class Feed(Source, SourceReader):
    """A source whose batches end where the simulation chooses."""

    schema = pl.Schema()

    def __init__(self, frames: Sequence[pl.DataFrame], run: LocalRun) -> None:
        self.schema = frames[0].schema
        self._frames = frames
        self._run = run

    def open(self) -> Feed:
        """Read the source."""
        return self

    def plan(self, start: SourceOffsets | None, limit: int | None) -> Planned:
        """Plan to the end of a step."""
        step = self._run.plan_source(start)
        is_last = step == len(self._frames) - 1
        return Planned({"step": step}, has_new=True, caught_up=is_last, finished=is_last)

    def read(self, start: SourceOffsets | None, end: SourceOffsets) -> Iterator[pl.DataFrame]:
        """Read steps, each as a frame of its own."""
        first = 0 if start is None else int(start["step"]) + 1
        for step in range(first, int(end["step"]) + 1):
            self._run.fail("reading")
            yield self._frames[step]


class FreeLease:
    """A lease of a checkpoint that is always free."""

    def check(self) -> None:
        """Do nothing: this query always holds the lease."""

    def release(self) -> None:
        """Do nothing: nobody waits for the lease."""


class InlineFuture:
    """A call that runs when its result is requested, or has run already."""

    def __init__(self, call: Any, *, at_once: bool) -> None:
        self._call = call
        self._error: Exception | None = None
        self._done = False
        if at_once:
            self._run()

    def _run(self) -> None:
        self._done = True
        try:
            self._call()
        except Exception as error:
            self._error = error

    def result(self) -> None:
        """Run the call, and raise what it raised."""
        if not self._done:
            self._run()
        if self._error is not None:
            raise self._error


class InlineExecutor:
    """A pool without threads, whose calls run at once or when their result is requested."""

    def __init__(self, run: LocalRun) -> None:
        self._run = run
        self._calls = 0

    def submit(self, call: Any, **options: Any) -> InlineFuture:
        """Begin a call."""
        self._calls += 1
        at_once = self._run.faults.number(f"call {self._run.life} {self._calls}") < 0.5
        return InlineFuture(lambda: call(**options), at_once=at_once)

    def shutdown(self) -> None:
        """Do nothing: there are no threads."""


class SeededNumbers:
    """A replacement of `secrets` that draws the numbers of blobs from the seed."""

    def __init__(self, run: LocalRun) -> None:
        self.randbits = run.faults.dice("blobs").getrandbits


@contextmanager
def simulate_machine(run: LocalRun) -> Iterator[None]:
    """Make the local host run on the simulation's disk, without threads and leases."""
    with ExitStack() as patches:
        patches.enter_context(attach_disk(run._disk))
        for module, name, value in (
            (checkpoints, "acquire_lease", lambda file, folder: FreeLease()),
            (checkpoints, "ThreadPoolExecutor", lambda *_, **__: InlineExecutor(run)),
            (blobs, "secrets", SeededNumbers(run)),
        ):
            patches.enter_context(mock.patch.object(module, name, value))
        yield
