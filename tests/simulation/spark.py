"""The Spark host without a JVM: a driver that runs the host's own tasks as Spark may run them.

Tasks are retried, run twice at once, and continue after they were declared dead. The committed
state and the accepted rows may come from different attempts. A batch is planned once and run until
it succeeds, from the state of the batch before. Executors come and go, with their caches and the
files that they leave for the next batch.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import polars as pl
import pyarrow as pa
from pyspark.sql.types import StructType, TimestampType
from tests import join_runners
from tests.property.joins import Query
from tests.property.streams import Stream
from tests.runners import Batch, frame, schema
from tests.simulation.cases import Case
from tests.simulation.counting import COUNTED, LATE, Counting, CountingOperator, concat_steps
from tests.simulation.faults import Faults, KilledError
from tests.simulation.local import Outcome
from tests.simulation.tables import Table

from muntin.engine import columns
from muntin.engine.joins.joiner import SIDE
from muntin.engine.joins.operator import JoinOperator
from muntin.engine.operator import REJECTED, RESULTS, Operator
from muntin.engine.utf8 import frame_from_arrow
from muntin.engine.windows.operator import WindowOperator
from muntin.hosts.local.checkpoint import PlannedBatch
from muntin.hosts.progress import Totals
from muntin.model.bounds import SideName
from muntin.model.joins import SIDES
from muntin.spark.host import handoff, processor, task
from muntin.spark.host.messages import read_frames
from muntin.spark.host.packed import ShardProcessor
from muntin.spark.host.processor import PROGRESS, ShardSteps, unpack_blobs
from muntin.spark.host.schema import add_rejected_columns, result_schema, spark_schema
from muntin.spark.host.shards import slots
from muntin.spark.host.task import ShuffleTask, Stage
from muntin.spark.sources.inputs import WALL
from muntin.state import blobs
from muntin.state.frames import FrameCache

_LIVES = 8
_NO_ROWS = pl.DataFrame()
_MEMORY = Path("/dev/shm")
State = dict[Any, Any]


class TaskDiedError(BaseException):
    """A task is killed in the middle of its work."""


@dataclass
class Executor:
    """A worker process and its machine.

    Attributes:
        folder: The folder of its files for later batches.
        cache: The decoded blobs of its process.
        operators: The operators of its process.
    """

    folder: Path
    cache: FrameCache = field(default_factory=FrameCache)
    operators: OrderedDict[str, Any] = field(default_factory=OrderedDict)


class MapState:
    """A map in Spark's state, as one attempt of a task sees it.

    Args:
        rows: The rows at the start of the attempt, which it doesn't change.
        calls: The number of calls after which the task dies; None is never.
    """

    def __init__(self, rows: State, calls: int | None) -> None:
        self.rows = dict(rows)
        self._calls = calls

    def getValue(self, key: Any) -> Any:  # noqa: N802
        """Return the value of a key."""
        self._count()
        return self.rows.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        """Set the value of a key."""
        self._count()
        self.rows[key] = value

    def removeKey(self, key: Any) -> None:  # noqa: N802
        """Remove a key."""
        self._count()
        self.rows.pop(key, None)

    def _count(self) -> None:
        if self._calls is not None:
            self._calls -= 1
            if self._calls < 0:
                raise TaskDiedError


# The operator of the case that runs.
_OPERATOR: Operator = CountingOperator()


def current_operator() -> Operator:
    """Return the operator of the case, which has no state and is shared by all processes."""
    return _OPERATOR


@cache
def describe_counting() -> dict[str, StructType]:
    """Return the columns of counting, late enough that processes fork before they use Polars."""
    return {RESULTS: spark_schema(COUNTED), REJECTED: spark_schema(LATE)}


def describe(drawn: Stream | Query | Counting) -> tuple[Operator, dict[str, StructType]]:
    """Return the operator of a case, and its output columns."""
    if isinstance(drawn, Counting):
        return CountingOperator(), describe_counting()
    if isinstance(drawn, Query):
        return _describe_join(drawn)
    source = spark_schema(schema(drawn.spec))
    operator = WindowOperator(drawn.spec, schema(drawn.spec))
    return operator, {
        RESULTS: result_schema(source, operator.combiner),
        REJECTED: add_rejected_columns(source, TimestampType()),
    }


def _describe_join(drawn: Query) -> tuple[Operator, dict[str, StructType]]:
    sides: dict[SideName, pl.Schema] = {
        side: join_runners.schema(drawn.spec.side(side), drawn.types[side]) for side in SIDES
    }
    operator = JoinOperator(drawn.spec, sides, "_right", both_keys=False)
    joiner = operator.joiner
    result_columns: dict[str, pl.DataType] = {
        out: sides[side][name] for side in SIDES for name, out in joiner.result_names[side].items()
    }
    result_columns[columns.EMISSION] = pl.String()
    if joiner.revises:
        result_columns[columns.REVISION] = pl.Int64()
    rejected_columns = {
        out: sides[side][name]
        for side in SIDES
        for name, out in joiner.rejected_names[side].items()
    }
    rejected = {
        SIDE: pl.String(),
        **rejected_columns,
        columns.REASON: pl.String(),
        columns.WATERMARK: pl.Int64(),
    }
    return operator, {RESULTS: spark_schema(result_columns), REJECTED: spark_schema(rejected)}


def run_spark(case: Case, faults: Faults | None = None) -> Outcome:
    """Run a case to its end, through as many drivers as it takes.

    Args:
        case: The case.
        faults: Decide which events fail; drawn from the case by default.
    """
    parent = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        return SparkRun(case, Path(folder), faults).run()


class SparkRun:
    """The lives of a query's driver, one after the other.

    Args:
        case: The case.
        folder: The folder of the executors' files.
        faults: Decide which events fail; drawn from the case by default.
    """

    def __init__(self, case: Case, folder: Path, faults: Faults | None = None) -> None:
        self.case = case
        self.faults = faults or Faults(case.seed, case.rate, case.muted)
        self.outcome = Outcome(failed_events=self.faults.failed_events)
        self.context: Any = None
        self.executor: Executor
        self._folder = folder
        self._shards = case.shards[0]
        self.operator, kinds = describe(case.input)
        self._stage = Stage(current_operator, slots(self._shards), kinds, "")
        self._versions: list[list[State]] = [[{} for _ in range(self._shards)]]
        self._planned: list[PlannedBatch] = []
        self._tables = {kind: Table(kind, self._fail) for kind in (RESULTS, REJECTED)}
        self._totals = Totals()
        self._zombies: list[Callable[[], object]] = []
        self._life = 0
        self._stages: dict[int, Stage] = {}
        self._processor: ShardProcessor
        self._event = ""
        self._executors = [self._add_executor(number) for number in range(2)]

    def run(self) -> Outcome:
        """Run all batches."""
        batch = 0
        with simulate_workers(self):
            while batch == 0 or not self._is_last(batch - 1):
                self._plan(batch)
                try:
                    self._run_batch(batch)
                except KilledError:
                    self._life += 1
                    continue
                batch += 1
        self.outcome.batches = self._planned
        self.outcome.tables = self._tables
        self.outcome.progress = self._totals.progress
        tables = self._tables.values()
        self.outcome.problems += [problem for table in tables for problem in table.problems]
        return self.outcome

    def _is_last(self, batch: int) -> bool:
        return bool(self._planned[batch].ends[0]["step"] >= len(self.case.input.steps) - 1)

    def _add_executor(self, number: int) -> Executor:
        folder = self._folder / f"executor-{number}"
        folder.mkdir()
        return Executor(folder)

    def _plan(self, batch: int) -> None:
        """Plan a batch, unless an earlier driver has planned it."""
        if batch < len(self._planned):
            return
        begin = self._planned[-1].ends[0]["step"] if self._planned else -1
        skipped = self.faults.choose(f"plan {batch}", (0, 0, 0, 1, 2))
        end = min(begin + 1 + skipped, len(self.case.input.steps) - 1)
        self._planned.append(PlannedBatch(batch, self.case.input.steps[end].wall, ({"step": end},)))

    def _fail(self, event: str) -> None:
        """Kill the driver at an event, if its fault is drawn."""
        name = f"life {self._life}, {self._event} {event}"
        if self._life < _LIVES and self.faults.strikes(name):
            raise KilledError(name)

    def _run_batch(self, batch: int) -> None:
        self._event = f"batch {batch}"
        self._fail("begins")
        self.outcome.steps += 1
        self._change_executors(batch)
        stage = self._begin_life()
        shuffled_rows = self._shuffle(batch, stage)
        states, output_rows = [], []
        for shard in range(self._shards):
            state, output = self._run_shard(batch, stage, shard, shuffled_rows[stage.slots[shard]])
            states.append(state)
            output_rows += output
            self._fail(f"shard {shard} has ended")
        self._write(batch, stage, output_rows)
        self._fail("commit")
        del self._versions[batch + 1 :]
        self._versions.append(states)
        self._totals.add(
            batch, [json.loads(row.progress) for row in output_rows if row.kind == PROGRESS]
        )
        for zombie in self._zombies:
            zombie()
        self._zombies.clear()

    def _begin_life(self) -> Stage:
        """Plan the query, once for each driver."""
        if self._life not in self._stages:
            stage = replace(self._stage, identity=f"run{self._life}")
            # Pickled once for a case, since lives differ only by the identity of their stage.
            if not self._stages:
                self._processor = ShardProcessor(ShardSteps(stage, final=False))
            else:
                self._processor = copy(self._processor)
                self._processor._steps = ShardSteps(stage, final=False)
            self._stages[self._life] = stage
        return self._stages[self._life]

    def _change_executors(self, batch: int) -> None:
        if self.faults.strikes(f"life {self._life}, batch {batch}, an executor is lost"):
            number = len([*self._folder.iterdir()])
            self._executors[number % 2] = self._add_executor(number)

    @cached_property
    def _counting_messages(self) -> tuple[pa.Table, list[int]]:
        """The messages of a counting case, and the first row of each step."""
        assert isinstance(self.case.input, Counting)
        messages, starts = concat_steps(self.case.input)
        return messages.to_arrow(), starts

    def _messages(self, batch: int) -> dict[str, tuple[pa.Table, str]]:
        """Return the messages of a batch, and the column of their times, by input."""
        begin = self._planned[batch - 1].ends[0]["step"] + 1 if batch else 0
        planned, drawn = self._planned[batch], self.case.input
        end = planned.ends[0]["step"] + 1
        if isinstance(drawn, Query):
            inputs = {}
            for side in SIDES:
                side_messages = [m for step in drawn.steps[begin:end] for m in step.side(side)]
                spec, types = drawn.spec.side(side), drawn.types[side]
                rows = join_runners.frame(spec, side_messages, types, planned.now).to_arrow()
                inputs[str(side)] = rows, columns.TIME
            return inputs
        if isinstance(drawn, Counting):
            all_messages, starts = self._counting_messages
            return {"": (all_messages[starts[begin] : starts[end]], "value")}
        messages = [m for step in drawn.steps[begin:end] for m in step.messages]
        return {"": (frame(drawn.spec, Batch(messages, planned.now)).to_arrow(), columns.TIME)}

    def _shuffle(self, batch: int, stage: Stage) -> dict[int, list[Any]]:
        """Run the tasks before the shuffle, and bring their rows to the shards in any order."""
        count = self.faults.choose(f"tasks of {batch}", (1, 2, 3))
        shuffled_rows: list[dict[str, Any]] = []
        number = 0
        for name, (messages, time) in self._messages(batch).items():
            size = -(-len(messages) // count)
            shuffle = ShuffleTask(stage, name, read_frames, time, frozenset(), streams=True)
            for part in range(count):
                batches = messages.slice(part * size, size).to_batches()
                work = partial(self._combine, shuffle, batches)
                shuffled_rows += self._attempts(batch, f"task {number}", number, work)
                number += 1
        rows: dict[int, list[Any]] = {slot: [] for slot in stage.slots}
        for row in shuffled_rows:
            rows[row["slot"]].append({**row, WALL: None})
        for slot, batches in rows.items():
            tick = dict.fromkeys(("header", "frames", "passed"))
            batches.append({"slot": slot, **tick, WALL: self._planned[batch].now})
            self.faults.dice(f"order of {batch} {slot}").shuffle(batches)
        return rows

    def _combine(
        self, shuffle: ShuffleTask, batches: Sequence[pa.RecordBatch], calls: int | None
    ) -> list[dict[str, Any]]:
        """Run one attempt of a task before the shuffle."""

        def read_batches() -> Iterator[pa.RecordBatch]:
            yield from batches
            if calls is not None:
                raise TaskDiedError

        return [row for output in shuffle(read_batches()) for row in output.to_pylist()]

    def _run_shard(
        self, batch: int, stage: Stage, shard: int, rows: Sequence[Any]
    ) -> tuple[State, list[Any]]:
        """Run a shard's step; return the committed state, and the accepted rows."""
        work = partial(self._step, batch, stage, shard, rows)
        state, output = self._attempts(batch, f"shard {shard}", shard, work)
        return state, output

    def _step(
        self, batch: int, stage: Stage, shard: int, rows: Sequence[Any], calls: int | None
    ) -> tuple[State, list[Any]]:
        """Run one attempt of a shard's step."""
        state = MapState(self._versions[batch][shard], calls)
        handle: Any = SimpleNamespace(getMapState=lambda *_: state)
        # Attempts don't overlap, so that one processor of each driver can run them all.
        self._processor.init(handle)
        output = [*self._processor.handleInputRows((stage.slots[shard],), iter(rows), None)]
        return state.rows, output

    def _attempts(
        self, batch: int, name: str, number: int, work: Callable[[int | None], Any]
    ) -> Any:
        """Run a task until an attempt succeeds, and choose among several that did."""
        name = f"life {self._life}, batch {batch}, {name}"
        executor_index = self.faults.choose(name, (0, 1))
        if self.faults.strikes(f"{name} dies"):
            calls = self.faults.choose(f"{name} dies", (0, 1, 2, 3, 5, 8))
            with suppress(TaskDiedError):
                self._run_on(executor_index, batch, number, partial(work, calls))
            executor_index = self.faults.choose(f"{name} again", (0, 1))
        result = self._run_on(executor_index, batch, number, partial(work, None))
        if self.faults.strikes(f"{name} is a zombie"):
            # The attempt was declared dead, and ends after the batch.
            self._zombies.append(
                partial(self._run_on, executor_index, batch, number, partial(work, None))
            )
        if self.faults.strikes(f"{name} is speculated"):
            other_result = self._run_on(1 - executor_index, batch, number, partial(work, None))
            result = self._choose(name, result, other_result)
        return result

    def _choose(self, name: str, first: Any, second: Any) -> Any:
        if isinstance(first, tuple):
            state, rows = self.faults.choose(f"{name} taken", ((0, 0), (0, 1), (1, 0), (1, 1)))
            return (first, second)[state][0], (first, second)[rows][1]
        return self.faults.choose(f"{name} taken", (first, second))

    def _run_on(self, index: int, batch: int, number: int, work: Callable[[], Any]) -> Any:
        """Run an attempt on an executor."""
        executor = self._executors[index]
        properties = {"sql.streaming.queryId": "query", "streaming.sql.batchId": str(batch)}
        self.context = SimpleNamespace(partitionId=lambda: number, getLocalProperty=properties.get)
        self.executor = executor
        processor.CACHE, task._OPERATORS = executor.cache, executor.operators
        return work()

    def _write(self, batch: int, stage: Stage, emitted: Sequence[Any]) -> None:
        """Give the rows of a batch to the sinks, as ``foreachBatch`` does."""
        blobs_by_kind: dict[str, list[bytes]] = {}
        for kind, blob, _ in emitted:
            blobs_by_kind.setdefault(kind, []).append(blob)
        for kind, table in self._tables.items():
            rows = _NO_ROWS
            if kind_blobs := blobs_by_kind.get(kind):
                record_batch = pa.RecordBatch.from_arrays(
                    [pa.array(kind_blobs, pa.binary())], ["blob"]
                )
                rows = frame_from_arrow(pa.Table.from_batches(unpack_blobs(iter([record_batch]))))
            table.write(SimpleNamespace(number=batch, frame=rows))


@contextmanager
def simulate_workers(run: SparkRun) -> Iterator[None]:
    """Make the tasks' code run in the simulation's executors."""
    context = SimpleNamespace(get=lambda: run.context)
    files = SimpleNamespace(getRootDirectory=lambda: str(run.executor.folder))
    numbers = SimpleNamespace(randbits=run.faults.dice("blobs").getrandbits)
    with ExitStack() as patches:
        for module, name, value in (
            (handoff, "TaskContext", context),
            (handoff, "SparkFiles", files),
            (task, "TaskContext", context),
            (blobs, "secrets", numbers),
            (processor, "CACHE", FrameCache()),
            (task, "_OPERATORS", OrderedDict()),
            (sys.modules[__name__], "_OPERATOR", run.operator),
        ):
            patches.enter_context(mock.patch.object(module, name, value))
        yield
