"""Runners: the ways to run a join, all under one protocol, like those in ``tests.runners``."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import polars as pl
from tests.join_oracle import JoinOracle, JoinStep

from muntin.engine import columns
from muntin.engine.clocks import ClockTime
from muntin.engine.joins.joiner import SIDE, Joiner, SideArrival
from muntin.engine.joins.operator import open_join_shard
from muntin.model.bounds import SessionBound, SideName
from muntin.model.joins import SIDES, JoinSpec, Side
from muntin.model.spec import DUPLICATES
from muntin.standalone import JoinWindow, SessionJoinWindow
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache
from muntin.state.hashing import split_by_shard
from muntin.stores import Image, KeyValue, memory, rocks
from muntin.testing.oracle.stepping import REASONS

KINDS = {"string": pl.String(), "long": pl.Int64(), "double": pl.Float64()}
Columns = Mapping[SideName, Mapping[str, str]]
"""The type of each column of each side except the time: ``string``, ``long`` or ``double``."""


@dataclass(frozen=True)
class JoinBatch:
    """The input of one step.

    Attributes:
        left: Columns of each left message; times are microseconds, None, or invalid text.
        right: Columns of each right message.
        wall: Wall clock, in microseconds.
        final: Whether the input ends here.
        backlog: Whether a side's source, of one partition, has more messages than the step reads.
        now: The machine's clock, if it was set back behind ``wall``.
    """

    left: list[dict[str, Any]] = field(default_factory=list)
    right: list[dict[str, Any]] = field(default_factory=list)
    wall: int = 0
    final: bool = False
    backlog: dict[SideName, bool] = field(default_factory=dict)
    now: int | None = None

    def side(self, name: SideName) -> list[dict[str, Any]]:
        return self.left if name == "left" else self.right


class JoinRunner(Protocol):
    """A way to run a join."""

    name: str
    tells_watermarks: bool

    def runs(self, spec: JoinSpec, steps: Sequence[JoinBatch]) -> bool:
        """Return whether this runner supports a join and its steps."""
        ...

    def run(self, spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]) -> list[JoinStep]:
        """Run a new join on all steps, and return the result of each."""
        ...


@dataclass(frozen=True)
class OracleJoinRunner:
    """Runs the slow oracle, which keeps any number of messages."""

    name: str = "oracle"
    tells_watermarks: bool = True

    def runs(self, spec: JoinSpec, steps: Sequence[JoinBatch]) -> bool:
        return not any(spec.side(side).firing.rows for side in SIDES)

    def run(self, spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]) -> list[JoinStep]:
        oracle = JoinOracle(spec, {side: list(types[side]) for side in SIDES})
        return [
            oracle.step(
                {side: step.side(side) for side in SIDES},
                step.wall,
                step.final,
                step.backlog,
                step.now,
            )
            for step in steps
        ]


@dataclass(frozen=True)
class EngineJoinRunner:
    """Runs the columnar engine over stores in memory; the options are those of ``EngineRunner``."""

    shards: int = 1
    restart: bool = False
    repeat: bool = False
    tells_watermarks: bool = True

    @property
    def name(self) -> str:
        suffixes = "-restarted" * self.restart + "-repeated" * self.repeat
        return f"engine-{self.shards}{suffixes}"

    def runs(self, spec: JoinSpec, steps: Sequence[JoinBatch]) -> bool:
        return True

    def run(self, spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]) -> list[JoinStep]:
        joiner = Joiner(spec, {side: schema(spec.side(side), types[side]) for side in SIDES})
        stores = [MemoryBlobs() for _ in range(self.shards)]
        caches = [FrameCache() for _ in stores]
        results, totals = [], dict.fromkeys(("seen", "counted", DUPLICATES, *REASONS), 0)
        for step in steps:
            if self.repeat:
                copies = [_copy_store(store) for store in stores]
                self._step(joiner, copies, caches, step, types)
            if self.restart:
                caches = [FrameCache() for _ in stores]
            result, counts = self._step(joiner, stores, caches, step, types)
            new = {name: counts.get(name, 0) - n for name, n in totals.items()}
            totals = {name: counts.get(name, 0) for name in totals}
            result.counts.update(new)
            results.append(result)
        return results

    def _step(
        self,
        joiner: Joiner,
        stores: list[MemoryBlobs],
        caches: list[FrameCache],
        step: JoinBatch,
        types: Columns,
    ) -> tuple[JoinStep, dict[str, int]]:
        result, counts = JoinStep(), {}
        parts = {side: self._divide_messages(joiner, side, step, types[side]) for side in SIDES}
        for number, (store, cache) in enumerate(zip(stores, caches, strict=True)):
            shard = open_join_shard(joiner, store, cache)
            arrivals = {side: parts[side][number] for side in SIDES}
            emitted = shard.step(arrivals, step.wall, final=step.final)
            result.rows += emitted.results.rows(named=True)
            result.rejected += [
                format_rejected(joiner, row) for row in emitted.rejected.rows(named=True)
            ]
            for name, n in emitted.counts.items():
                counts[name] = counts.get(name, 0) + n
            result.watermarks = dict(shard.watermarks)
        return result, counts

    def _divide_messages(
        self, joiner: Joiner, side: SideName, step: JoinBatch, types: Mapping[str, str]
    ) -> list[list[SideArrival]]:
        """Return the messages of each shard, read by two tasks."""
        side_spec = joiner.spec.side(side)
        messages = frame(side_spec, step.side(side), types, step.wall)
        half = len(messages) // 2
        arrivals_by_shard: list[list[SideArrival]] = [[] for _ in range(self.shards)]
        for messages_of_task in (messages[:half], messages[half:]):
            arrival = joiner.arrive(side, messages_of_task)
            if side in step.backlog:
                time = ClockTime("partition", arrival.latest, step.backlog[side])
                arrival = replace(arrival, partitions=[time])
            messages_by_shard = split_by_shard(arrival.messages, list(side_spec.keys), self.shards)
            for shard, arrivals in enumerate(arrivals_by_shard):
                part = messages_by_shard.get(shard, arrival.messages.clear())
                rejected = arrival.rejected if shard == 0 else arrival.rejected.clear()
                counts = arrival.counts if shard == 0 else {}
                arrivals.append(replace(arrival, messages=part, rejected=rejected, counts=counts))
        return arrivals_by_shard


def schema(side: Side, types: Mapping[str, str]) -> pl.Schema:
    """Return the types of a side's messages in the engine."""
    polars_types = {n: pl.Int64() if n == side.time else KINDS[t] for n, t in types.items()}
    return pl.Schema({**polars_types, columns.TIME: pl.Int64()})


def frame(
    side: Side, messages: list[dict[str, Any]], types: Mapping[str, str], wall: int
) -> pl.DataFrame:
    """Return messages with the flags that Spark would add."""
    rows = []
    for message in messages:
        time = message[side.time] if side.time else 0
        is_text = isinstance(time, str)
        has_time = isinstance(time, int) and side.time is not None
        rows.append(
            {
                **message,
                **({side.time: None} if side.time and is_text else {}),
                columns.TIME: None if is_text else time,
                columns.MALFORMED: is_text,
                **{
                    columns.LIMIT_FLAGS[limit.reason]: has_time and limit.excludes(time, wall)
                    for limit in side.limits
                },
            }
        )
    polars_types = {
        **schema(side, types),
        columns.MALFORMED: pl.Boolean(),
        **{columns.LIMIT_FLAGS[limit.reason]: pl.Boolean() for limit in side.limits},
    }
    return pl.DataFrame(rows, schema=polars_types)


def format_rejected(
    joiner: Joiner, row: dict[str, Any]
) -> tuple[SideName, dict[str, Any], str, Any]:
    """Return a rejected message in the oracle's form."""
    side: SideName = row[SIDE]
    message = {name: row[out] for name, out in joiner.rejected_names[side].items()}
    return side, message, row[columns.REASON], row[columns.WATERMARK]


def _copy_store(store: MemoryBlobs) -> MemoryBlobs:
    copy = MemoryBlobs()
    copy.manifest, copy.blobs = store.manifest, dict(store.blobs)
    return copy


@dataclass(frozen=True)
class StandaloneJoinRunner:
    """Runs a standalone operator; a step is a batch (or single messages) and a timeout.

    Attributes:
        store: ``memory`` or ``rocks``.
        restart: Whether each step ends with a flush, and the next one reopens the store.
        single: Whether messages are added one by one.
        outputs: Whether ``JoinRun.window_outputs`` collects the window outputs of each side.
    """

    store: str = "memory"
    restart: bool = False
    single: bool = False
    outputs: bool = False
    tells_watermarks: bool = True

    @property
    def name(self) -> str:
        suffixes = "-restarted" * self.restart + "-single" * self.single
        return f"standalone-{self.store}{suffixes}"

    def runs(self, spec: JoinSpec, steps: Sequence[JoinBatch]) -> bool:
        return not any(step.backlog for step in steps)

    def run(self, spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]) -> list[JoinStep]:
        with tempfile.TemporaryDirectory() as folder:
            run = JoinRun(self, spec, types, Path(folder), steps[0].wall if steps else 0)
            results = [run.step(step) for step in steps]
            run.operator.close()
        return results


class JoinRun:
    """A standalone join with its store, and the clock of the steps."""

    def __init__(
        self, runner: StandaloneJoinRunner, spec: JoinSpec, types: Columns, folder: Path, wall: int
    ) -> None:
        self.runner = runner
        self.spec = spec
        self.types = types
        self.folder = folder
        self.image = Image()
        self.now = wall
        self.window_outputs: dict[SideName, list[dict[str, Any]]] = {side: [] for side in SIDES}
        self.operator = self.open_operator()

    def open_operator(self) -> JoinWindow | SessionJoinWindow:
        python_types = {"string": str, "long": int, "double": float}
        schema: dict[SideName, dict[str, Any]] = {
            side: {
                name: int if name == self.spec.side(side).time else python_types[kind]
                for name, kind in self.types[side].items()
            }
            for side in SIDES
        }
        operator_class = (
            SessionJoinWindow if isinstance(self.spec.bound, SessionBound) else JoinWindow
        )
        store: KeyValue = memory(self.image)
        if self.runner.store == "rocks":
            store = rocks(self.folder / "state", sync=False)
        clock, outputs = (lambda: self.now), self.runner.outputs
        return operator_class(self.spec, store, schema=schema, clock=clock, window_outputs=outputs)

    def step(self, step: JoinBatch) -> JoinStep:
        operator = self.operator
        counts_before = Counter(operator.counts)
        if self.runner.single:
            for side in SIDES:
                for message in step.side(side):
                    operator.add_message(side, **as_arguments(self.spec.side(side), message))
            operator.add_messages(final=step.final)
            self.now = step.wall
        else:
            self.now = step.wall
            operator.add_messages(left=step.left, right=step.right, final=step.final)
        operator.timeout(step.wall)
        counts = Counter(operator.counts)
        counts.subtract(counts_before)
        emitted = JoinStep()
        emitted.rows = operator.get_result().to_dicts()
        emitted.rejected = [self._format_rejected(row) for row in operator.rejected.to_dicts()]
        emitted.counts = {**dict.fromkeys(("seen", "counted", DUPLICATES, *REASONS), 0), **counts}
        emitted.watermarks = dict(operator.watermarks)
        for side in SIDES if self.runner.outputs else ():
            self.window_outputs[side] += operator.get_result(side).to_dicts()
        operator.flush()
        if self.runner.restart:
            operator.close()
            self.operator = self.open_operator()
        return emitted

    def _format_rejected(self, row: dict[str, Any]) -> tuple[SideName, dict[str, Any], str, Any]:
        side: SideName = row["side"]
        suffix = "_right" if side == "right" else ""
        names = {name: name + suffix if name + suffix in row else name for name in self.types[side]}
        message = {name: row[out] for name, out in names.items()}
        return side, message, row["reason"], row["watermark"]


def as_arguments(side: Side, message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as the arguments of ``add_message``."""
    partition, offset = side.offset or (None, None)
    separate_columns = (*side.keys, side.time, partition, offset)
    key = tuple(message[name] for name in side.keys)
    arguments: dict[str, Any] = {
        "key": key[0] if len(key) == 1 else key,
        "value": {name: cell for name, cell in message.items() if name not in separate_columns},
    }
    if side.time is not None:
        arguments["time"] = message[side.time]
    if side.offset is not None:
        arguments |= {"partition": message[partition], "offset": message[offset]}
    return arguments


JOIN_RUNNERS: list[JoinRunner] = [
    OracleJoinRunner(),
    EngineJoinRunner(),
    EngineJoinRunner(shards=3),
    EngineJoinRunner(shards=2, restart=True),
    EngineJoinRunner(repeat=True),
    StandaloneJoinRunner(),
    StandaloneJoinRunner("rocks", restart=True),
]
