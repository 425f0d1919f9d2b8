"""The stage behind the shuffle: agents and their tables inside Spark's ``transformWithState``.

State is read once a bucket and batch, as far as the batch needs it, and what changed is written
once. Tables stay in the worker between batches: what another worker committed in the meantime is
read on top, and what a batch that failed has left is forgotten.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, repeat
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from muntin.engine import columns
from muntin.engine.codec import decode
from muntin.spark.agent_route import DOOR, JUDGED, AgentStage, Route, judged_by
from muntin.spark.agent_rows import (
    MESSAGE,
    REJECTED_FRAME,
    REJECTED_SCHEMA,
    rejected_frame,
    result_schema,
    sent_frame,
    table_frame,
    table_schema,
)
from muntin.spark.plain import values
from muntin.spark.processor import FIGURES, REJECTED, wall_of
from muntin.spark.schema import to_blob
from muntin.spark.state import SparkBlobs
from muntin.tables.agent import AgentRun
from muntin.tables.cells import KEYS, keys_of
from muntin.tables.clocks import NOBODY, Arrival
from muntin.tables.loop import Loop
from muntin.tables.partition import Partition, Rejected
from muntin.tables.rows import RowReader, listed
from muntin.tables.shard import Told
from muntin.tables.stream import Inbox
from muntin.tables.stream import Row as Event

TABLE, RESULT, SENT = "table", "result", "sent"
# Events become Python's by so many at a time: they are worked on while they are new.
_AT_ONCE = 20_000
# Beyond so many entries, a worker forgets what it can read again.
_MOST_ENTRIES = 5_000_000
_MOST_PARTITIONS = 64


def kind_of(what: str, name: str) -> str:
    """The kind of rows of a table, of an agent's results, or of a topic."""
    return f"{what}:{name}"


class AgentProcessor(StatefulProcessor):
    """Runs an app's agents on the events of one bucket.

    Args:
        stage: What both sides of the shuffle know.
        final: Whether the input ends with this batch (batch frames).
    """

    def __init__(self, stage: AgentStage, final: bool) -> None:
        self.stage = stage
        self.final = final

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self.blobs = SparkBlobs(handle)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """One batch of one bucket."""
        waiting = list(rows)
        bucket = self.stage.slots.index(key[0])
        part = _MEMORY.partition(self.stage, bucket)
        headed = [(json.loads(row["header"]), row) for row in waiting if row["header"] is not None]
        headed.sort(key=lambda pair: pair[0]["task"])
        walls = [header["wall"] for header, _ in headed if header["wall"] is not None]
        part.begin(self.blobs, wall_of(waiting, max(walls, default=part.wall)))
        batch = Batch(self.stage, part, headed)
        told = _loop().complete(batch.work(final=self.final))
        yield from _told(self.stage, batch, told)
        yield Row(kind=FIGURES, blob=None, figures=_figures(bucket, part, told))
        _MEMORY.shrink(part)

    def close(self) -> None:
        """Nothing is held."""


class Batch:
    """A batch of one partition, worked through by all agents.

    Args:
        stage: What both sides of the shuffle know.
        part: The partition, begun.
        headed: What the tasks sent, in the tasks' order.

    Attributes:
        aside: Events that were rejected before the shuffle.
    """

    def __init__(
        self, stage: AgentStage, part: Partition, headed: Sequence[tuple[dict[str, Any], Any]]
    ) -> None:
        self.stage = stage
        self.part = part
        self.aside: list[pl.DataFrame] = []
        self.marks: dict[str, int] = {}
        self._frames: dict[int, list[pl.DataFrame]] = {}
        for header, row in headed:
            self._take(header, row)

    def _take(self, header: dict[str, Any], row: Any) -> None:
        if header["latest"]:
            topic = header["topic"]
            for clock, latest in header["latest"].items():
                mark = latest - self.part.lateness(topic)
                self.marks[clock] = max(mark, self.marks.get(clock, mark))
        if row["messages"] is not None:
            frame = decode(bytes(row["messages"]))
            self._frames.setdefault(row["route"], []).append(frame)
        if row["rejected"] is not None:
            self.aside.append(decode(bytes(row["rejected"])))
        if row["route"] == DOOR:
            self.part.counts.update(header["counts"])

    async def work(self, *, final: bool) -> dict[str, list[Told]]:
        """Let all agents work, and end the batch."""
        for number, route in enumerate(self.stage.routes):
            frames = self._frames.get(number, [])
            for position, name in enumerate(route.agents):
                await self._run(name, route, frames, tells=route.first and position == 0)
        return await self.part.finish(self.marks, tell=self.stage.tell, final=final)

    async def _run(
        self, name: str, route: Route, frames: Sequence[pl.DataFrame], *, tells: bool
    ) -> None:
        run = AgentRun(self.stage.app.agents[name], keep_results=True)
        inbox = Inbox(name, route.topic, route.by)
        run.inboxes.append(inbox)
        count = sum(map(len, frames))
        if not count:
            return
        inbox.put(self.part, self._events(route, frames, tells=tells), count)
        inbox.close()
        restarts = 0
        while not run.at_rest:
            try:
                await run.live()
            except Exception as error:
                run.fail(error, self.stage.app.errors)
            restarts += 1
            if restarts > count + 1:
                raise run.ends_early()

    def _events(
        self, route: Route, frames: Sequence[pl.DataFrame], *, tells: bool
    ) -> Iterable[Event]:
        """Events of a route, made while they are read."""
        app, arrival = self.stage.app, self.stage.arrivals[route.topic]
        reader = arrival.reader(app.topics[route.topic].value_type)
        parts = (part for frame in frames for part in frame.iter_slices(_AT_ONCE))
        numbers = iter(range(sum(map(len, frames))))
        return chain.from_iterable(
            self._slice(part, route.topic, reader, numbers, tells=tells) for part in parts
        )

    def _slice(
        self,
        events: pl.DataFrame,
        topic: str,
        reader: RowReader,
        numbers: Iterator[int],
        *,
        tells: bool,
    ) -> Iterable[Event]:
        values, malformed = reader(events)
        keyed = any(name in KEYS for name in events.columns)
        keys = keys_of(events) if keyed else [None] * len(events)
        times = events[columns.TIME].to_list()
        judged = self._judged(events, JUDGED, topic)
        rows = zip(
            values, keys, times, judged, numbers, self._arrivals(events, topic), strict=False
        )
        if not malformed:
            return rows
        if tells:
            self._reject(topic, events, keys, times, malformed)
        return [row for number, row in enumerate(rows) if number not in malformed]

    def _judged(self, events: pl.DataFrame, column: str, clock: str) -> list[int]:
        """The watermark that each event found."""
        mark, judged = self.part.marks.get(clock), events[column]
        return (judged if mark is None else judged.clip(lower_bound=mark)).to_list()

    def _arrivals(self, events: pl.DataFrame, topic: str) -> Iterable[Arrival]:
        """What else each found."""
        clocks = self.stage.app.clocks
        if not clocks:
            return repeat(NOBODY)
        found = [self._judged(events, judged_by(c), c.feed(topic)) for c in clocks]
        return (Arrival(0, judged) for judged in zip(*found, strict=True))

    def _reject(
        self,
        topic: str,
        events: pl.DataFrame,
        keys: list[Any],
        times: list[int],
        malformed: dict[int, str],
    ) -> None:
        arrival = self.stage.arrivals[topic]
        counts = self.part.counts
        counts["malformed"] += len(malformed)
        counts["taken"] -= len(malformed)
        for number, why in malformed.items():
            shown = events.slice(number, 1)
            # What Python can't hold is shown as a text.
            row = {name: _held(shown[name]) for name in shown.columns}
            value = row[arrival.value] if arrival.value else {n: row[n] for n in arrival.schema}
            if isinstance(value, bytes):
                value = value.decode(errors="replace")
            rejected = Rejected(topic, "malformed", value, keys[number], times[number], detail=why)
            self.part.rejected.append(rejected)


def _held(column: pl.Series) -> Any:
    """The only value of a column, as text where Python can't hold it."""
    ((value,), wrong) = listed(column)
    return values(pa.chunked_array([column.to_arrow()]))[0] if wrong else value


def _told(stage: AgentStage, batch: Batch, told: dict[str, list[Told]]) -> Iterator[Row]:
    """Everything that the batch told, as rows of ``TOLD``."""
    part, app = batch.part, stage.app
    for name, changes in told.items():
        if changes:
            spec = stage.spec(name)
            blob = to_blob(table_frame(spec, changes, part.batch), table_schema(spec))
            yield Row(kind=kind_of(TABLE, name), blob=blob, figures=None)
    by_name: dict[tuple[str, str], list[Any]] = {}
    for one in part.sent:
        where = (SENT, one.topic) if one.topic is not None else (RESULT, one.agent or "")
        by_name.setdefault(where, []).append(one)
    for (what, name), sent in by_name.items():
        kind = app.agents[name].result_type if what == RESULT else None
        schema = result_schema(kind) if what == RESULT else MESSAGE
        yield Row(
            kind=kind_of(what, name), blob=to_blob(sent_frame(sent, kind), schema), figures=None
        )
    rejected = [*batch.aside, *([rejected_frame(part.rejected)] if part.rejected else [])]
    if rejected:
        whole = pl.concat([pl.DataFrame(schema=REJECTED_FRAME), *rejected])
        yield Row(kind=REJECTED, blob=to_blob(whole, REJECTED_SCHEMA), figures=None)


def _figures(bucket: int, part: Partition, told: dict[str, list[Told]]) -> str:
    fired = Counter("full" if one.closed else "early" for rows in told.values() for one in rows)
    stored = sum(
        entries.journal.rows for shard in part.shards.values() for entries in shard.kept().values()
    )
    figures = {
        "bucket": bucket,
        "watermark": part.watermark,
        "counts": part.counts,
        "pending": 0,
        "rows": stored,
        "fired": fired,
    }
    return json.dumps(figures)


class Memory:
    """The partitions that this worker process has worked on, the least recent forgotten first."""

    def __init__(self) -> None:
        self._partitions: OrderedDict[tuple[str, int], Partition] = OrderedDict()

    def partition(self, stage: AgentStage, bucket: int) -> Partition:
        """A partition as it was left here, or a new one."""
        place = (stage.operator, bucket)
        found = self._partitions.pop(place, None)
        if found is None:
            found = Partition(stage.rules(), bucket)
        self._partitions[place] = found
        while len(self._partitions) > _MOST_PARTITIONS:
            self._partitions.popitem(last=False)
        return found

    def shrink(self, part: Partition) -> None:
        """Forget what was read, if it is too much."""
        held = [e for shard in part.shards.values() for e in shard.kept().values()]
        if sum(entries.rows for entries in held) > _MOST_ENTRIES:
            for entries in held:
                entries.shrink()


_MEMORY = Memory()


@cache
def _loop() -> Loop:
    """This worker's event loop."""
    return Loop()
