"""A very fast operator, so that hosts run a thousand batches a second.

It counts messages by key. It needs from a host what windows need: a manifest that names blobs,
blobs that are read again and folded many batches later, the watermark for tasks, source rows
exactly once, and rows for the sinks whose revisions have no gaps.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from random import Random
from typing import Any

import polars as pl
from tests.runners import Batch

from muntin.engine.operator import (
    REJECTED,
    RESULTS,
    Part,
    ShardState,
    StepOutput,
    Task,
    TaskWatermark,
)
from muntin.hosts.local.plan import LocalInput, LocalOperatorInput, LocalPlan, lay_out_rejected
from muntin.sources.frames import FrameSource
from muntin.state.blobs import draw_number
from muntin.state.manifest import Manifest, Run, parse_manifest

MESSAGES = pl.Schema({"key": pl.Int64(), "value": pl.Int64()})
COUNTED = pl.Schema(
    {
        "key": pl.Int64(),
        "n": pl.Int64(),
        "sum": pl.Int64(),
        "mark": pl.Int64(),
        "revision": pl.Int64(),
    }
)
LATE = pl.Schema({**MESSAGES, "reason": pl.String(), "watermark": pl.Int64()})
_TABLE = "counts"
_MOST_RUNS = 3
_LATENESS = 6
_UNCHANGED, _NOTHING = pl.DataFrame(schema=COUNTED), pl.DataFrame(schema=LATE)


def _frame(rows: Sequence[tuple[Any, ...]], schema: pl.Schema) -> pl.DataFrame:
    """Make a frame of rows, as dictionaries, which costs half of what tuples do."""
    return pl.from_dicts([dict(zip(schema, row, strict=True)) for row in rows], schema=schema)


Counts = dict[int, tuple[int, int, int]]
"""The number of messages of each key, the sum of their values, and the number of emissions."""


@dataclass(frozen=True)
class Counting:
    """The messages to count, by step."""

    steps: list[Batch]


def draw_counting(dice: Random) -> Counting:
    """Draw messages of a few keys, with values that mostly grow and are sometimes late."""
    steps, value, wall = [], 0, 1_000
    for _ in range(dice.randint(3, 30)):
        wall += dice.randint(0, 20)
        messages = []
        for _ in range(dice.choice((0, 1, 1, 2, 5))):
            value += dice.randint(0, 3)
            late = dice.choice((0, 0, 2, 9))
            messages.append({"key": dice.randint(0, 6), "value": value - late})
        steps.append(Batch(messages, wall))
    return Counting([*steps, Batch([], wall, final=True)])


class CountingOperator:
    """Counts messages by key; those whose value is behind the watermark are rejected."""

    def prepare(self, messages: Iterable[pl.DataFrame], task: Task) -> list[Part]:
        """Send each message to the shard of its key."""
        task_watermark = task.load_watermark()
        rows: list[list[tuple[int, int]]] = [[] for _ in range(task.shards)]
        latest = None
        for frame in messages:
            # A pool of threads computes expressions, which would cost more than all else here.
            for key, value in zip(*(frame[name].to_list() for name in MESSAGES), strict=True):
                latest = value if latest is None else max(latest, value)
                rows[key % task.shards].append((key, value))
        watermark = task_watermark.watermark if task_watermark.is_known else "unknown"
        return [
            Part(shard, {"rows": shard_rows, "latest": latest, "judged": watermark})
            for shard, shard_rows in enumerate(rows)
        ]

    def open(self, state: ShardState) -> CountingStep:
        """Open a shard."""
        return CountingStep(state)


class CountingStep:
    """The counts of one shard, during one batch."""

    def __init__(self, state: ShardState) -> None:
        self.state = state
        text = state.blobs.load()
        self.manifest = Manifest("windows") if text is None else parse_manifest(text)

    @property
    def task_watermark(self) -> TaskWatermark:
        """The watermark for the tasks of the next batch."""
        return TaskWatermark(True, self.manifest.watermark)

    def run(
        self, parts: Sequence[Part], wall: int | None, *, final: bool, ends_run: bool = False
    ) -> StepOutput:
        """Count messages, and emit the keys that changed."""
        manifest, watermark = self.manifest, self.manifest.watermark
        runs = manifest.tables.get(_TABLE, [])
        counts = self._read(runs)
        changed: Counts = {}
        late, rows, latest = [], 0, watermark
        for part in parts:
            if part.header["judged"] not in (watermark, "unknown"):
                raise RuntimeError(f"judged by {part.header['judged']}, the state has {watermark}")
            if part.header["latest"] is not None:
                part_watermark = part.header["latest"] - _LATENESS
                latest = part_watermark if latest is None else max(latest, part_watermark)
            for key, value in part.header["rows"]:
                rows += 1
                if watermark is not None and value < watermark:
                    late.append((key, value, "late", watermark))
                    continue
                n, total, revision = changed.get(key) or counts.get(key, (0, 0, 0))
                is_new = key not in changed
                changed[key] = (n + 1, total + value, revision + is_new)
        self._write(runs, counts, changed)
        manifest.watermark = latest
        figures = Counter(manifest.counts)
        figures.update({"seen": rows, "counted": rows - len(late), "late": len(late)})
        manifest.counts = dict(figures)
        self.state.blobs.save(manifest.dumps())
        result_rows = [
            (k, n, total, latest, emission_number)
            for k, (n, total, emission_number) in sorted(changed.items())
        ]
        results = _frame(result_rows, COUNTED) if result_rows else _UNCHANGED
        rejected = _frame(late, LATE) if late else _NOTHING
        progress = {
            "counts": manifest.counts, "watermark": latest, "pending": 0, "rows": 0, "fired": {}
        }  # fmt: skip
        return StepOutput({RESULTS: results, REJECTED: rejected}, progress)

    def _read(self, runs: Sequence[Run]) -> Counts:
        counts: Counts = {}
        for run in runs:
            stored = json.loads(self.state.blobs.get(run.number))
            counts |= {int(key): tuple(values) for key, values in stored.items()}
        return counts

    def _write(self, runs: Sequence[Run], counts: Counts, changed: Counts) -> None:
        if not changed:
            return
        remaining_runs, blobs = [*runs], self.state.blobs
        if len(runs) >= _MOST_RUNS:
            for run in runs:
                blobs.remove(run.number)
            remaining_runs, changed = [], {**counts, **changed}
        number = draw_number(1)
        blobs.put(number, json.dumps(changed).encode())
        self.manifest.tables[_TABLE] = [*remaining_runs, Run(number, len(changed), 0, 0)]


class PlainReader:
    """Reads messages, without clocks of partitions."""

    partitions = False

    def read(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """Read rows as messages."""
        return frame


def concat_steps(drawn: Counting) -> tuple[pl.DataFrame, list[int]]:
    """Return the messages of all steps, with the first row of each step and the number of rows."""
    messages = pl.DataFrame([m for step in drawn.steps for m in step.messages], MESSAGES)
    return messages, [*accumulate((len(step.messages) for step in drawn.steps), initial=0)]


def make_counting_plan(drawn_input: Counting, shards: int) -> tuple[LocalPlan, list[pl.DataFrame]]:
    """Return the plan of counting on the local host, and the frame of each step."""
    messages, starts = concat_steps(drawn_input)
    frames = [messages[start:end] for start, end in pairwise(starts)]
    source = FrameSource(messages.clear())
    operator_input = LocalOperatorInput("", source, PlainReader())  # type: ignore[arg-type]
    layout = lay_out_rejected(LATE, {"": LocalInput(source)}, joins=False)

    def replan(count: int) -> LocalPlan:
        return make_counting_plan(drawn_input, count)[0]

    operator = CountingOperator()
    plan = LocalPlan(
        None, operator, (operator_input,), COUNTED, layout, None, ("key",), shards, shards, replan  # type: ignore[arg-type]
    )  # fmt: skip
    return plan, frames


@dataclass
class Expected:
    """The output of a batch of counting: rows of `COUNTED` and of `LATE`, in any order."""

    results: list[tuple[object, ...]]
    rejected: list[tuple[object, ...]]


def count_plainly(batches: Sequence[Batch]) -> tuple[list[Expected], Counter[str]]:
    """Return the output of counting for each batch, and the counts at the end."""
    watermark, counts, expected = None, dict[int, tuple[int, int, int]](), []
    figures: Counter[str] = Counter()
    for batch in batches:
        watermark_before, changed, late = watermark, dict[int, tuple[int, int, int]](), []
        for message in batch.messages:
            key, value = message["key"], message["value"]
            if watermark_before is not None and value < watermark_before:
                late.append((key, value, "late", watermark_before))
            else:
                n, total, revision = counts.get(key, (0, 0, 0))
                emission_number = revision + (key not in changed)
                counts[key] = changed[key] = (n + 1, total + value, emission_number)
            behind = value - _LATENESS
            watermark = behind if watermark is None else max(watermark, behind)
        rows = [
            (key, n, total, watermark, emission_number)
            for key, (n, total, emission_number) in changed.items()
        ]
        expected.append(Expected(rows, late))
        seen = len(batch.messages)
        figures.update({"seen": seen, "counted": seen - len(late), "late": len(late)})
    return expected, figures
