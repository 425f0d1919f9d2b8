"""Runs agents and their tables as an operator.

For each shard and batch, the state that the batch needs is read once, and changed state is written
once. Tables stay in the worker between batches. A worker then reads what another one has committed
meanwhile, and discards what a failed batch left behind.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, repeat
from typing import Any

import polars as pl
import pyarrow as pa

from muntin.engine import columns
from muntin.engine.function_times import FUNCTION_TIMES, collect_function_times
from muntin.engine.named_rows import list_values
from muntin.engine.operator import REJECTED, STATE_SIZE, Part, ShardState, StepOutput, Task
from muntin.sinks.plain import to_plain_values
from muntin.state.manifest import add_sizes, sum_sizes
from muntin.tables.agent import AgentRun
from muntin.tables.batch import run_batch
from muntin.tables.cells import read_keys
from muntin.tables.clocks import NO_ARRIVAL, EventArrival
from muntin.tables.emitted import (
    REJECTED_FRAME,
    RESULT,
    SENT,
    TABLE,
    format_kind,
    to_message_frame,
    to_rejected_frame,
    to_table_frame,
)
from muntin.tables.event_loop import EventLoop
from muntin.tables.partition import Partition, Rejected
from muntin.tables.route import (
    EVENTS,
    NO_ROUTE,
    WATERMARK_BEFORE,
    AgentStage,
    Route,
    RouteTask,
    watermark_column,
)
from muntin.tables.rows import RowReader
from muntin.tables.shard import TableEntry
from muntin.tables.stream import EventRow as Event

# Number of events that become Python objects at a time, so that agents get them while they are in
# the processor's cache.
_AT_ONCE = 20_000
# Number of cached entries beyond which a worker drops those that it can read again.
_MOST_ENTRIES = 5_000_000
_MOST_PARTITIONS = 64


class AgentOperator:
    """The operator of an app's agents."""

    def __init__(self, stage: AgentStage) -> None:
        self.stage = stage

    def prepare(self, messages: Iterable[pl.DataFrame], task: Task) -> list[Part]:
        return RouteTask(self.stage, task).parts(messages)

    def open(self, state: ShardState) -> AgentStep:
        return AgentStep(self.stage, state)


class AgentStep:
    """A partition of all tables, whose batches all agents work through; see `Step`."""

    task_watermark = None

    def __init__(self, stage: AgentStage, state: ShardState) -> None:
        self.stage = stage
        self.blobs = state.blobs
        self.part = _open_partition(stage, state)

    def run(
        self, parts: Sequence[Part], wall: int | None, *, final: bool, ends_run: bool = False
    ) -> StepOutput:
        part = self.part
        self.rejected_frames: list[pl.DataFrame] = []
        self.watermarks_after: dict[str, int] = {}
        self._frames: dict[int, list[pl.DataFrame]] = {}
        walls = [one.header["wall"] for one in parts if one.header["wall"] is not None]
        part.begin(self.blobs, max(walls, default=part.wall) if wall is None else wall)
        for one in parts:
            self._add_part(one)
        if self.watermarks_after:
            part.note_events()
        work = run_batch(
            [part], self._open_agents(), self.watermarks_after, errors=self.stage.app.errors,
            emit=self.stage.tables, final=final,
        )  # fmt: skip
        with collect_function_times() as times:
            (emitted,) = _worker_loop().complete(work)
        rows = dict(_build_frames(self, emitted))
        progress = _create_progress(part, emitted) | {FUNCTION_TIMES: times}
        _shrink_tables(part)
        return StepOutput(rows, progress)

    def _add_part(self, sent: Part) -> None:
        header, frames = sent.header, sent.frames
        for clock, latest in header["latest"].items():
            mark = latest - self.part.rules.lateness[sent.input]
            self.watermarks_after[clock] = max(mark, self.watermarks_after.get(clock, mark))
        if EVENTS in frames:
            self._frames.setdefault(header["route"], []).append(frames[EVENTS])
        if REJECTED in frames:
            self.rejected_frames.append(frames[REJECTED])
        if header["route"] == NO_ROUTE:
            self.part.counts.update(header["counts"])

    def _open_agents(self) -> list[AgentRun]:
        """Return a run of each agent that has events, with its inbox filled."""
        runs = []
        for number, route in enumerate(self.stage.routes):
            frames = self._frames.get(number, [])
            for position, name in enumerate(route.agents if frames else ()):
                run = AgentRun(self.stage.app.agents[name], keep_results=True)
                events = self._read_events(route, frames, emits=route.first and position == 0)
                run.open(route.topic, route.by).put(self.part, events, sum(map(len, frames)))
                run.close()
                runs.append(run)
        return runs

    def _read_events(
        self, route: Route, frames: Sequence[pl.DataFrame], *, emits: bool
    ) -> Iterable[Event]:
        """Return the events of a route, which become Python objects as they are read."""
        reader = self.stage.reader(route.topic)
        parts = (part for frame in frames for part in frame.iter_slices(_AT_ONCE))
        numbers = iter(range(sum(map(len, frames))))
        return chain.from_iterable(
            self._read_slice(part, route.topic, reader, numbers, emits=emits) for part in parts
        )

    def _read_slice(
        self,
        events: pl.DataFrame,
        topic: str,
        reader: RowReader,
        numbers: Iterator[int],
        *,
        emits: bool,
    ) -> Iterable[Event]:
        values, malformed = reader(events)
        keys = read_keys(events) or [None] * len(events)
        times = events[columns.TIME].to_list()
        judged = self._watermarks_before(events, WATERMARK_BEFORE, topic)
        rows = zip(
            values, keys, times, judged, numbers, self._arrivals_of(events, topic), strict=False
        )
        if not malformed:
            return rows
        if emits:
            self._reject(topic, events, keys, times, malformed)
        return [row for number, row in enumerate(rows) if number not in malformed]

    def _watermarks_before(self, events: pl.DataFrame, column: str, clock: str) -> list[int]:
        """Return the watermark in force when each event arrived."""
        mark, judged = self.part.watermarks.get(clock), events[column]
        return (judged if mark is None else judged.clip(lower_bound=mark)).to_list()

    def _arrivals_of(self, events: pl.DataFrame, topic: str) -> Iterable[EventArrival]:
        """Return the watermarks of the app's further clocks when each event arrived."""
        clocks = self.stage.app.clocks
        if not clocks:
            return repeat(NO_ARRIVAL)
        watermarks = [
            self._watermarks_before(events, watermark_column(c), c.name_for(topic)) for c in clocks
        ]
        return (EventArrival(0, judged) for judged in zip(*watermarks, strict=True))

    def _reject(
        self,
        topic: str,
        events: pl.DataFrame,
        keys: list[Any],
        times: list[int],
        malformed: dict[int, str],
    ) -> None:
        topic_format = self.stage.formats[topic]
        self.part.counts["taken"] -= len(malformed)
        for number, why in malformed.items():
            event = events.slice(number, 1)
            # Show a value that Python can't hold as text.
            row = {name: _to_python_value(event[name]) for name in event.columns}
            value = (
                row[topic_format.value]
                if topic_format.value
                else {name: row[name] for name in topic_format.schema}
            )
            if isinstance(value, bytes):
                value = value.decode(errors="replace")
            rejected = Rejected(topic, "malformed", value, keys[number], times[number], detail=why)
            self.part.record_rejected(rejected)


def _to_python_value(column: pl.Series) -> Any:
    """Return the only value of a column, as text where Python can't hold it."""
    ((value,), wrong) = list_values(column)
    return to_plain_values(pa.chunked_array([column.to_arrow()]))[0] if wrong else value


def _build_frames(
    step: AgentStep, emitted: dict[str, list[TableEntry]]
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the rows that the batch emitted, by the kinds that are wanted."""
    part, stage, app = step.part, step.stage, step.stage.app
    for name, changes in emitted.items():
        if changes:
            yield format_kind(TABLE, name), to_table_frame(stage.specs[name], changes, part.batch)
    by_name: dict[tuple[str, str], list[Any]] = {}
    for one in part.sent:
        destination = (SENT, one.topic) if one.topic is not None else (RESULT, one.agent or "")
        by_name.setdefault(destination, []).append(one)
    for (what, name), sent in by_name.items():
        if format_kind(what, name) in stage.wanted:
            kind = app.agents[name].result_type if what == RESULT else None
            yield format_kind(what, name), to_message_frame(sent, kind)
    rejected = [
        *step.rejected_frames,
        *([to_rejected_frame(part.rejected)] if part.rejected else []),
    ]
    yield REJECTED, pl.concat([pl.DataFrame(schema=REJECTED_FRAME), *rejected])


def _create_progress(part: Partition, emitted: dict[str, list[TableEntry]]) -> dict[str, Any]:
    fired = Counter("full" if one.closed else "early" for rows in emitted.values() for one in rows)
    journals = [
        entries.journal for shard in part.shards.values() for entries in shard.entries.values()
    ]
    return {
        "watermark": part.watermark,
        "counts": part.counts,
        "pending": 0,
        "rows": sum(journal.rows for journal in journals),
        STATE_SIZE: add_sizes(sum_sizes(journal.entries()) for journal in journals),
        "fired": fired,
    }


# The partitions that this worker process has run, the least recent first.
_PARTITIONS: OrderedDict[tuple[str, int], Partition] = OrderedDict()


def _open_partition(stage: AgentStage, state: ShardState) -> Partition:
    """Return the partition that an earlier batch left in this process, or a new one."""
    partition_key = (state.operator, state.shard)
    partition = _PARTITIONS.pop(partition_key, None) or Partition(stage.rules(), state.shard)
    _PARTITIONS[partition_key] = partition
    while len(_PARTITIONS) > _MOST_PARTITIONS:
        _PARTITIONS.popitem(last=False)
    return partition


def _shrink_tables(part: Partition) -> None:
    """Drop the entries that can be read again, if there are too many."""
    shards = part.shards.values()
    held = (entries.rows for shard in shards for entries in shard.entries.values())
    if sum(held) > _MOST_ENTRIES:
        for shard in shards:
            shard.shrink()


@cache
def _worker_loop() -> EventLoop:
    return EventLoop()
