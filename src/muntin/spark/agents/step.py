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
from muntin.engine.named_rows import list_values
from muntin.engine.operator import REJECTED, Part, ShardState, StepOutput, Task
from muntin.sinks.plain import to_plain_values
from muntin.spark.agents.route import (
    DOOR,
    JUDGED,
    MESSAGES,
    AgentStage,
    Route,
    RouteTask,
    judged_by,
)
from muntin.spark.agents.rows import (
    REJECTED_FRAME,
    RESULT,
    SENT,
    TABLE,
    kind_of,
    rejected_frame,
    sent_frame,
    table_frame,
)
from muntin.tables.agent import AgentRun
from muntin.tables.cells import read_keys
from muntin.tables.clocks import NO_ARRIVAL, EventArrival
from muntin.tables.loop import EventLoop
from muntin.tables.partition import Partition, Rejected
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
    """A partition of all tables, opened for a batch that all agents work through."""

    def __init__(self, stage: AgentStage, state: ShardState) -> None:
        self.stage = stage
        self.blobs = state.blobs
        self.part = _partition(stage, state)
        self.aside: list[pl.DataFrame] = []
        self.marks: dict[str, int] = {}
        self._frames: dict[int, list[pl.DataFrame]] = {}

    def run(self, parts: Sequence[Part], wall: int | None, *, final: bool) -> StepOutput:
        part = self.part
        walls = [one.header["wall"] for one in parts if one.header["wall"] is not None]
        part.begin(self.blobs, max(walls, default=part.wall) if wall is None else wall)
        for one in parts:
            self._take(one)
        emitted = _loop().complete(self.work(final=final))
        rows = dict(_emitted(self, emitted))
        progress = _progress(part, emitted)
        _shrink(part)
        return StepOutput(rows, progress)

    def _take(self, sent: Part) -> None:
        header, frames = sent.header, sent.frames
        for clock, latest in header["latest"].items():
            mark = latest - self.part.rules.lateness[sent.input]
            self.marks[clock] = max(mark, self.marks.get(clock, mark))
        if MESSAGES in frames:
            self._frames.setdefault(header["route"], []).append(frames[MESSAGES])
        if REJECTED in frames:
            self.aside.append(frames[REJECTED])
        if header["route"] == DOOR:
            self.part.counts.update(header["counts"])

    async def work(self, *, final: bool) -> dict[str, list[TableEntry]]:
        """Run all agents, and end the batch."""
        for number, route in enumerate(self.stage.routes):
            frames = self._frames.get(number, [])
            for position, name in enumerate(route.agents):
                await self._run(name, route, frames, emits=route.first and position == 0)
        return await self.part.finish(self.marks, emit=self.stage.tables, final=final)

    async def _run(
        self, name: str, route: Route, frames: Sequence[pl.DataFrame], *, emits: bool
    ) -> None:
        count = sum(map(len, frames))
        if not count:
            return
        run = AgentRun(self.stage.app.agents[name], keep_results=True)
        inbox = run.open(route.topic, route.by)
        inbox.put(self.part, self._events(route, frames, emits=emits), count)
        inbox.close()
        restarts = 0
        while not run.is_idle:
            try:
                await run.run()
            except Exception as error:
                run.fail(error, self.stage.app.errors)
            restarts += 1
            if restarts > count + 1:
                raise run.unread_stream_error()

    def _events(
        self, route: Route, frames: Sequence[pl.DataFrame], *, emits: bool
    ) -> Iterable[Event]:
        """Return the events of a route, which become Python objects as they are read."""
        reader = self.stage.reader(route.topic)
        parts = (part for frame in frames for part in frame.iter_slices(_AT_ONCE))
        numbers = iter(range(sum(map(len, frames))))
        return chain.from_iterable(
            self._slice(part, route.topic, reader, numbers, emits=emits) for part in parts
        )

    def _slice(
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
        judged = self._judged(events, JUDGED, topic)
        rows = zip(
            values, keys, times, judged, numbers, self._arrivals(events, topic), strict=False
        )
        if not malformed:
            return rows
        if emits:
            self._reject(topic, events, keys, times, malformed)
        return [row for number, row in enumerate(rows) if number not in malformed]

    def _judged(self, events: pl.DataFrame, column: str, clock: str) -> list[int]:
        """Return the watermark in force when each event arrived."""
        mark, judged = self.part.watermarks.get(clock), events[column]
        return (judged if mark is None else judged.clip(lower_bound=mark)).to_list()

    def _arrivals(self, events: pl.DataFrame, topic: str) -> Iterable[EventArrival]:
        """Return the watermarks of the app's further clocks when each event arrived."""
        clocks = self.stage.app.clocks
        if not clocks:
            return repeat(NO_ARRIVAL)
        found = [self._judged(events, judged_by(c), c.name_for(topic)) for c in clocks]
        return (EventArrival(0, judged) for judged in zip(*found, strict=True))

    def _reject(
        self,
        topic: str,
        events: pl.DataFrame,
        keys: list[Any],
        times: list[int],
        malformed: dict[int, str],
    ) -> None:
        given, counts = self.stage.formats[topic], self.part.counts
        counts["malformed"] += len(malformed)
        counts["taken"] -= len(malformed)
        for number, why in malformed.items():
            shown = events.slice(number, 1)
            # Show a value that Python can't hold as text.
            row = {name: _held(shown[name]) for name in shown.columns}
            value = row[given.value] if given.value else {name: row[name] for name in given.schema}
            if isinstance(value, bytes):
                value = value.decode(errors="replace")
            rejected = Rejected(topic, "malformed", value, keys[number], times[number], detail=why)
            self.part.rejected.append(rejected)


def _held(column: pl.Series) -> Any:
    """Return the only value of a column, as text where Python can't hold it."""
    ((value,), wrong) = list_values(column)
    return to_plain_values(pa.chunked_array([column.to_arrow()]))[0] if wrong else value


def _emitted(
    step: AgentStep, emitted: dict[str, list[TableEntry]]
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the rows that the batch emitted, by the kinds that are wanted."""
    part, stage, app = step.part, step.stage, step.stage.app
    for name, changes in emitted.items():
        if changes:
            yield kind_of(TABLE, name), table_frame(stage.specs[name], changes, part.batch)
    by_name: dict[tuple[str, str], list[Any]] = {}
    for one in part.sent:
        where = (SENT, one.topic) if one.topic is not None else (RESULT, one.agent or "")
        by_name.setdefault(where, []).append(one)
    for (what, name), sent in by_name.items():
        if kind_of(what, name) in stage.wanted:
            kind = app.agents[name].result_type if what == RESULT else None
            yield kind_of(what, name), sent_frame(sent, kind)
    rejected = [*step.aside, *([rejected_frame(part.rejected)] if part.rejected else [])]
    yield REJECTED, pl.concat([pl.DataFrame(schema=REJECTED_FRAME), *rejected])


def _progress(part: Partition, emitted: dict[str, list[TableEntry]]) -> dict[str, Any]:
    fired = Counter("full" if one.closed else "early" for rows in emitted.values() for one in rows)
    stored = sum(
        entries.journal.rows for shard in part.shards.values() for entries in shard.entries.values()
    )
    return {
        "watermark": part.watermark,
        "counts": part.counts,
        "pending": 0,
        "rows": stored,
        "fired": fired,
    }


# The partitions that this worker process has run, the least recent first.
_PARTITIONS: OrderedDict[tuple[str, int], Partition] = OrderedDict()


def _partition(stage: AgentStage, state: ShardState) -> Partition:
    """Return the partition that an earlier batch left in this process, or a new one."""
    place = (state.operator, state.shard)
    found = _PARTITIONS.pop(place, None) or Partition(stage.rules(), state.shard)
    _PARTITIONS[place] = found
    while len(_PARTITIONS) > _MOST_PARTITIONS:
        _PARTITIONS.popitem(last=False)
    return found


def _shrink(part: Partition) -> None:
    """Drop the entries that can be read again, if there are too many."""
    shards = part.shards.values()
    held = (entries.rows for shard in shards for entries in shard.entries.values())
    if sum(held) > _MOST_ENTRIES:
        for shard in shards:
            shard.shrink()


@cache
def _loop() -> EventLoop:
    """Return this worker's event loop."""
    return EventLoop()
