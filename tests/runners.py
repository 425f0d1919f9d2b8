"""Runners: the ways to run a windowed aggregation, all under one protocol.

The transcripts and the property tests call a runner and nothing behind it. Every runner takes the
same steps and returns the rows that each step emits.

To add a runner, write a class with the attributes and the methods of ``Runner``, and add it to
``RUNNERS``. The runner for Spark is ``tests.spark.runner.SparkRunner``.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from muntin.engine import columns
from muntin.engine.clocks import merge_times
from muntin.engine.output import Shard
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.operator import make_combiner, open_shard
from muntin.model.axis import parse_time
from muntin.model.errors import OptionError
from muntin.model.policies import ages_of
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec
from muntin.standalone import SessionAggregator, WindowedAggregator
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache
from muntin.state.hashing import split_by_shard
from muntin.stores import Image, KeyValue, memory, rocks
from muntin.testing.oracle import Oracle, OracleStep
from muntin.testing.oracle.emitting import nulls_first
from muntin.testing.oracle.stepping import OUTCOMES


@dataclass(frozen=True)
class Batch:
    """The input of one step.

    Attributes:
        messages: Columns of each message; times are microseconds, None, or invalid text.
        wall: Wall clock, in microseconds.
        final: Whether the input ends here.
        reached: Event time that the input has reached without a message, if any.
        backlog: Whether each partition that is read, named in the column ``partition`` of messages,
            has more messages.
        now: The machine's clock, if it was set back behind ``wall``.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    wall: int = 0
    final: bool = False
    reached: int | None = None
    backlog: dict[str, bool] = field(default_factory=dict)
    now: int | None = None


class Runner(Protocol):
    """A way to run a windowed aggregation.

    Attributes:
        name: Name of the runner in tests.
        tells_watermark: Whether it sets ``OracleStep.watermark``.
    """

    name: str
    tells_watermark: bool

    def runs(self, spec: WindowSpec, steps: Sequence[Batch]) -> bool:
        """Return whether this runner supports a query and its steps."""
        ...

    def run(self, spec: WindowSpec, steps: Sequence[Batch]) -> list[OracleStep]:
        """Run a new query on all steps, and return the result of each.

        ``spec.types`` has the types of the columns: ``string``, ``long``, ``double`` or
        ``boolean``.
        """
        ...


@dataclass(frozen=True)
class OracleRunner:
    """Runs the slow oracle."""

    name: str = "oracle"
    tells_watermark: bool = True

    def runs(self, spec: WindowSpec, steps: Sequence[Batch]) -> bool:
        return True

    def run(self, spec: WindowSpec, steps: Sequence[Batch]) -> list[OracleStep]:
        """Run the oracle."""
        oracle = Oracle(spec, "partition" if any(step.backlog for step in steps) else None)
        return [
            oracle.step(step.messages, step.wall, step.final, step.reached, step.backlog, step.now)
            for step in steps
        ]


@dataclass(frozen=True)
class EngineRunner:
    """Runs the columnar engine over stores in memory.

    Attributes:
        shards: Number of shards.
        restart: Whether every step opens new shards over the stores of the old ones; the code
            before the shards then doesn't know which offsets it read.
        repeat: Whether every step fails once before its stores are committed; the caches of the
            process stay.
    """

    shards: int = 1
    restart: bool = False
    repeat: bool = False
    tells_watermark: bool = True

    @property
    def name(self) -> str:
        suffixes = "-restarted" * self.restart + "-repeated" * self.repeat
        return f"engine-{self.shards}{suffixes}"

    def runs(self, spec: WindowSpec, steps: Sequence[Batch]) -> bool:
        # Shards have parts of the limit each, and the oracle doesn't know the keys of each.
        return self.shards == 1 or spec.firing.over is None

    def run(self, spec: WindowSpec, steps: Sequence[Batch]) -> list[OracleStep]:
        """Run the engine."""
        combiner = make_combiner(spec, pl.Schema({**schema(spec), columns.TIME: pl.Int64()}))
        stores = [MemoryBlobs() for _ in range(self.shards)]
        caches = [FrameCache() for _ in stores]
        shards = [open_shard(combiner, *pair) for pair in zip(stores, caches, strict=True)]
        results = []
        for step in steps:
            if self.repeat:
                copies = zip(map(_copy_store, stores), caches, strict=True)
                self._step(combiner, [open_shard(combiner, *pair) for pair in copies], step)
                shards = [open_shard(combiner, *pair) for pair in zip(stores, caches, strict=True)]
            if self.restart:
                shards = [open_shard(combiner, store, FrameCache()) for store in stores]
            results.append(self._step(combiner, shards, step))
        return results

    def _step(self, combiner: Combiner, shards: list[Shard], step: Batch) -> OracleStep:
        spec = combiner.spec
        messages = frame(spec, step)
        half = len(messages) // 2
        watermark_before = shards[0].state.watermark
        # After a restart, the code before the shuffle doesn't know which offsets it read.
        offsets = None if self.restart else shards[0].state.offsets
        parts = [
            combiner.combine(m, watermark_before, offsets)
            for m in (messages[:half], messages[half:])
        ]
        parts[0].reached = step.reached
        parts[0].partitions = merge_times([parts[0].partitions], step.backlog)
        split_cells = [split_by_shard(p.cells, combiner.keys, self.shards) for p in parts]
        no_messages = messages.clear()
        raw_parts = [no_messages if p.raw is None else p.raw for p in parts]
        split_raw = [split_by_shard(r, combiner.message_keys, self.shards) for r in raw_parts]
        counts_before = _sum_counts(shards)
        firings, rejected = [], []
        for number, shard in enumerate(shards):
            shard_parts = [
                replace(
                    part,
                    cells=cells.get(number, combiner.no_cells),
                    rejected=part.rejected if number == 0 else combiner.nothing_rejected,
                    counts=part.counts if number == 0 else {},
                    raw=raw.get(number),
                )
                for part, cells, raw in zip(parts, split_cells, split_raw, strict=True)
            ]
            emitted = shard.step(shard_parts, step.wall, final=step.final)
            firings += emitted.results.to_dicts()
            rejected += [
                _format_rejected_row(row, spec, emitted.judged)
                for row in emitted.rejected.to_dicts()
            ]
        firings.sort(key=lambda row: make_sort_key(row, spec))
        counts = _sum_counts(shards)
        counts.subtract(counts_before)
        zeros = dict.fromkeys(OUTCOMES, 0)
        ends = step.final and spec.axis == "time"
        watermark = math.inf if ends else shards[0].state.watermark
        return OracleStep(firings, rejected, {**zeros, **counts}, watermark)


@dataclass(frozen=True)
class StandaloneRunner:
    """Runs a standalone operator; a step is a batch (or single messages) and a timeout.

    Attributes:
        store: ``memory`` or ``rocks``.
        restart: Whether each step ends with a flush, and the next one reopens the store.
        single: Whether messages are added one by one.
        tables: Whether batches are tables rather than lists of dictionaries.
    """

    store: str = "memory"
    restart: bool = False
    single: bool = False
    tables: bool = False
    tells_watermark: bool = True

    @property
    def name(self) -> str:
        suffixes = "-restarted" * self.restart + "-single" * self.single + "-tables" * self.tables
        return f"standalone-{self.store}{suffixes}"

    def runs(self, spec: WindowSpec, steps: Sequence[Batch]) -> bool:
        """Return whether the runner supports the steps; tables need years between 1 and 9999."""
        times = [m[spec.time] for step in steps for m in step.messages if spec.time]
        conditions = isinstance(spec.windows, Sessions) and spec.windows.conditions
        if conditions or spec.zone_column is not None:
            return False  # Standalone operators refuse both.
        if any(step.backlog for step in steps) or ages_of(spec.firing.early, spec.firing.late):
            # A message's age counts from the clock before its step; see tests/unit/standalone.
            return False
        return not self.tables or all(abs(time) < 10**16 for time in times if isinstance(time, int))

    def run(self, spec: WindowSpec, steps: Sequence[Batch]) -> list[OracleStep]:
        """Run an operator."""
        with tempfile.TemporaryDirectory() as folder:
            run = OperatorRun(self, spec, Path(folder), steps[0].wall if steps else 0)
            results = [run.step(step) for step in steps]
            run.operator.close()
        return results


class OperatorRun:
    """A standalone operator with its store, and the clock of the steps."""

    def __init__(self, runner: StandaloneRunner, spec: WindowSpec, folder: Path, wall: int) -> None:
        self.runner = runner
        self.spec = spec
        self.folder = folder
        self.image = Image()
        self.now = wall
        self.operator = self.open_operator()

    def open_operator(self) -> WindowedAggregator | SessionAggregator:
        python_types = {"string": str, "long": int, "double": float, "boolean": bool}
        types: dict[str, Any] = {name: python_types[kind] for name, kind in self.spec.types.items()}
        if self.spec.time is not None:
            types[self.spec.time] = str if self.runner.tables else int
        operator_class = (
            SessionAggregator if isinstance(self.spec.windows, Sessions) else WindowedAggregator
        )
        store: KeyValue = memory(self.image)
        if self.runner.store == "rocks":
            store = rocks(self.folder / "state", sync=False)
        return operator_class(self.spec, store, schema=types, clock=lambda: self.now)

    def step(self, step: Batch) -> OracleStep:
        operator = self.operator
        counts_before = Counter(operator.counts)
        if self.runner.single:
            for message in step.messages:
                operator.add_message(**as_arguments(self.spec, message))
            if step.final:
                operator.add_messages([], final=True)
            self.now = step.wall
        else:
            self.now = step.wall
            operator.add_messages(self._make_batch(step), final=step.final)
        operator.timeout(step.wall)
        counts = Counter(operator.counts)
        counts.subtract(counts_before)
        ends = step.final and self.spec.axis == "time"
        watermark = math.inf if ends else operator.watermark
        bounds = pl.col("window_start", "window_end").cast(pl.Int64)
        firings = operator.get_result().with_columns(bounds).to_dicts()
        if not self.runner.single:  # single messages are steps of their own, each in order
            firings.sort(key=lambda row: _make_full_sort_key(row, self.spec))
        rejected = [self._format_rejected(row) for row in operator.rejected.to_dicts()]
        operator.flush()
        if self.runner.restart:
            operator.close()
            self.operator = self.open_operator()
        zeros = dict.fromkeys(OUTCOMES, 0)
        return OracleStep(firings, rejected, {**zeros, **counts}, watermark)

    def _make_batch(self, step: Batch) -> Any:
        if not self.runner.tables:
            return step.messages
        messages = frame(self.spec, step).select(*schema(self.spec), columns.TIME)
        if self.spec.time is None:
            return messages.drop(columns.TIME)
        text = pl.col(columns.TIME).cast(pl.Datetime("us")).cast(pl.String)
        iso_times = pl.coalesce(text, self.spec.time).alias(self.spec.time)
        return messages.with_columns(iso_times).drop(columns.TIME)

    def _format_rejected(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a rejected message in the oracle's form."""
        unread, time = row.pop("unread"), self.spec.time
        if self.runner.tables and self.spec.axis == "time":
            row["watermark"] = parse_micros(row["watermark"])
        if time is None:
            return row
        text = re.fullmatch(rf"{time}='(.*)'", unread or "")
        value = text[1] if text else row[time]
        return {**row, time: parse_micros(value) if self.runner.tables else value}


def as_arguments(spec: WindowSpec, message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as the arguments of ``add_message``."""
    partition, offset = spec.offset or (None, None)
    key_columns = [key for key in spec.key_columns if key not in (partition, offset)]
    fields = {
        n: v for n, v in message.items() if n not in (*key_columns, spec.time, partition, offset)
    }
    key = tuple(message[name] for name in key_columns)
    arguments: dict[str, Any] = {"value": fields}
    if key_columns:
        arguments["key"] = key[0] if len(key_columns) == 1 else key
    if spec.time is not None:
        arguments["time"] = message[spec.time]
    if spec.offset is not None:
        arguments |= {"partition": message[partition], "offset": message[offset]}
    return arguments


def parse_micros(time: Any) -> Any:
    """Return a time in microseconds, or the value itself if it isn't a time."""
    try:
        return parse_time("time", time)
    except OptionError:
        return time


def make_sort_key(row: dict[str, Any], spec: WindowSpec) -> tuple[Any, ...]:
    """Return the sort key of a step's firings over all shards."""
    key = nulls_first(tuple(row[k] for k in spec.keys))
    return row["emission"] != "retract", row["window_start"], key


def _make_full_sort_key(row: dict[str, Any], spec: WindowSpec) -> tuple[Any, ...]:
    return *make_sort_key(row, spec), row["window_end"]


def schema(spec: WindowSpec) -> dict[str, pl.DataType]:
    """Return the Polars types of a query's input columns; times are text, for invalid ones."""
    polars_types = {"string": pl.String(), "long": pl.Int64(), "double": pl.Float64()}
    polars_types["boolean"] = pl.Boolean()
    schema_without_time = {
        name: polars_types[kind] for name, kind in spec.types.items() if name != spec.time
    }
    return {**schema_without_time, spec.time: pl.String()} if spec.time else schema_without_time


def frame(spec: WindowSpec, step: Batch) -> pl.DataFrame:
    """Return a step's messages in the engine's form."""

    def make_row(message: dict[str, Any]) -> dict[str, Any]:
        time = message[spec.time] if spec.time else 0
        has_time = isinstance(time, int)
        flags: dict[str, Any] = {columns.MALFORMED: isinstance(time, str)}
        for limit in spec.limits:
            excluded = has_time and limit.excludes(time, step.wall)
            flags[columns.LIMIT_FLAGS[limit.reason]] = excluded
        time_column = {spec.time: None if time is None else str(time)} if spec.time else {}
        flags |= {columns.PARTITION: message["partition"]} if step.backlog else {}
        return {**message, **time_column, columns.TIME: time if has_time else None, **flags}

    flags: dict[str, Any] = {columns.MALFORMED: pl.Boolean()}
    flags |= {columns.LIMIT_FLAGS[limit.reason]: pl.Boolean() for limit in spec.limits}
    if step.backlog:
        flags[columns.PARTITION] = pl.String()
    types = {**schema(spec), columns.TIME: pl.Int64(), **flags}
    rows = [make_row(message) for message in step.messages]
    return pl.DataFrame([{c: r[c] for c in types} for r in rows], schema=types)


def _copy_store(store: MemoryBlobs) -> MemoryBlobs:
    copy = MemoryBlobs()
    copy.manifest, copy.blobs = store.manifest, dict(store.blobs)
    return copy


def _sum_counts(shards: Sequence[Shard]) -> Counter[str]:
    """Return the counts of all shards; each message is counted by the shard that judges it."""
    return sum((Counter(shard.state.counts) for shard in shards), Counter())


def _format_rejected_row(
    row: dict[str, Any], spec: WindowSpec, watermark: int | None
) -> dict[str, Any]:
    """Return a rejected message in the oracle's form."""
    time = row.pop(columns.TIME)
    if spec.time is None:
        return {**row, "watermark": watermark}
    text = row[spec.time]
    if spec.axis == "rows":
        time = int(text) if text is not None and text.lstrip("-").isdigit() else None
    return {**row, spec.time: text if time is None else time, "watermark": watermark}


RUNNERS: list[Runner] = [
    OracleRunner(),
    EngineRunner(),
    EngineRunner(3),
    EngineRunner(2, restart=True),
    StandaloneRunner(),
    StandaloneRunner(restart=True),
    StandaloneRunner("rocks"),
]
"""The runners of the transcripts without Spark."""
