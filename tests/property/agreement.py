"""Describes how a runner's output differs from the oracle's for the same steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tests.join_oracle import JoinStep
from tests.join_runners import (
    Columns,
    JoinBatch,
    JoinRunner,
    OracleJoinRunner,
    StandaloneJoinRunner,
)
from tests.runners import Batch, OracleRunner, Runner, StandaloneRunner
from tests.transcripts.comparison import row_differences, same_row, unordered_differences

from muntin.model.joins import SIDES, JoinSpec
from muntin.model.spec import DUPLICATES, UNDECIDED, WindowSpec
from muntin.testing.oracle import OracleStep
from muntin.testing.oracle.emitting import nulls_first

Place = tuple[Any, ...]


def differences(runner: Runner, spec: WindowSpec, steps: Sequence[Batch]) -> list[str]:
    """Return the differences between a runner and the oracle, step by step."""
    return differences_of_output(runner, spec, steps, runner.run(spec, steps))


def differences_of_output(
    runner: Runner, spec: WindowSpec, steps: Sequence[Batch], emitted: Sequence[OracleStep]
) -> list[str]:
    """Return the differences between a runner's output and the oracle's."""
    single = isinstance(runner, StandaloneRunner) and runner.single
    expected = one_by_one(spec, steps) if single else OracleRunner().run(spec, steps)
    found = [] if len(emitted) == len(expected) else [f"{len(emitted)} steps emitted"]
    for number, (step, wanted) in enumerate(zip(emitted, expected, strict=False), start=1):
        texts = _singles(step, wanted) if single else step_differences(step, wanted)
        # An operator that runs by itself has a mark of its own on the rows axis.
        marked = spec.axis == "time" or not isinstance(runner, StandaloneRunner)
        if marked and runner.tells_watermark and step.watermark != wanted.watermark:
            texts.append(f"watermark {step.watermark}, expected {wanted.watermark}")
        found += [f"step {number}: {text}" for text in texts]
    return found


def step_differences(step: OracleStep, wanted: OracleStep) -> list[str]:
    """Firings in order, rejected messages in any, and the counts of messages."""
    found = row_differences("firing", step.firings, wanted.firings)
    found += unordered_differences("rejected", step.rejected, wanted.rejected)
    return found + count_differences(of_messages(step), of_messages(wanted))


def _singles(step: OracleStep, wanted: OracleStep) -> list[str]:
    found = row_differences("firing", in_order(step.firings), in_order(wanted.firings))
    found += unordered_differences("rejected", of_rejected(step), of_rejected(wanted))
    return found + count_differences(of_messages(step), of_messages(wanted))


def count_differences(counts: dict[str, int], wanted: dict[str, int]) -> list[str]:
    """Counts by name; what isn't named is none."""
    return [
        f"{name} {counts.get(name, 0)}, expected {wanted.get(name, 0)}"
        for name in sorted({*counts, *wanted})
        if counts.get(name, 0) != wanted.get(name, 0)
    ]


def unaccounted(steps: Sequence[Batch], emitted: Sequence[OracleStep]) -> list[str]:
    """Where messages in aren't messages counted, rejected, taken before, or not decided yet."""
    found = []
    for number, (batch, step) in enumerate(zip(steps, emitted, strict=True), start=1):
        counts = of_messages(step)
        # Undecided ones are counted or rejected by a later step, which takes them off.
        taken = sum(counts.get(name, 0) for name in ("counted", DUPLICATES, UNDECIDED))
        refused = Counter(row["reason"] for row in step.rejected if row["reason"] != "overflow")
        if len(batch.messages) != taken + refused.total():
            found.append(f"step {number}: {len(batch.messages)} in, {counts}, {dict(refused)}")
    return found


def one_by_one(spec: WindowSpec, steps: Sequence[Batch]) -> list[OracleStep]:
    """What the oracle says of the steps when each message is one, and each clock too."""
    wall, parts, counts = steps[0].wall, [], []
    for step in steps:
        mine = [Batch([message], wall) for message in step.messages]
        wall = step.wall
        mine.append(Batch([], wall, step.final))
        parts += mine
        counts.append(len(mine))
    emitted = iter(OracleRunner().run(spec, parts))
    return [joined([next(emitted) for _ in range(n)]) for n in counts]


def joined(emitted: list[OracleStep]) -> OracleStep:
    """Some steps as one."""
    counts = {name: sum(step.counts[name] for step in emitted) for name in emitted[0].counts}
    return OracleStep(
        [row for step in emitted for row in step.firings],
        [row for step in emitted for row in step.rejected],
        counts,
        emitted[-1].watermark,
    )


def in_order(firings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By window; what one window says stays in its order."""
    names = ("window_start", "partition", "key", "second", "window_end")
    return sorted(firings, key=lambda row: nulls_first(tuple(row.get(name) for name in names)))


def of_rejected(step: OracleStep) -> list[dict[str, Any]]:
    """A window whose sum overflows isn't a message, and no message's watermark goes with it."""
    return [
        {**row, "watermark": None} if row["reason"] == "overflow" else row for row in step.rejected
    ]


def of_messages(step: OracleStep) -> dict[str, int]:
    """The counts of messages, without those of windows."""
    return {name: n for name, n in step.counts.items() if name != "overflow"}


def place_of(spec: WindowSpec, row: dict[str, Any]) -> Place:
    """Which window a firing is of."""
    key = nulls_first(tuple(row[name] for name in spec.keys))
    return row["window_start"], key, row["window_end"]


def last_revisions(
    runner: Runner, spec: WindowSpec, steps: Sequence[Batch]
) -> dict[Place, dict[str, Any]]:
    """What each window said last, without how often and why it emitted; none of vanished ones."""
    rows = (row for step in runner.run(spec, steps) for row in step.firings)
    said = {place_of(spec, row): row for row in rows}
    return {
        at: {name: row[name] for name in spec.aggregates}
        for at, row in said.items()
        if row["emission"] != "retract"
    }


def revision_differences(
    found: dict[Place, dict[str, Any]], expected: dict[Place, dict[str, Any]]
) -> list[str]:
    """Where the last revisions of the same messages differ."""
    texts = [f"window {at} is missing" for at in expected if at not in found]
    texts += [f"window {at} was not expected" for at in found if at not in expected]
    return texts + [
        f"window {at} is {found[at]}, expected {wanted}"
        for at, wanted in expected.items()
        if at in found and not same_row(found[at], wanted)
    ]


def join_differences(
    runner: JoinRunner, spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]
) -> list[str]:
    """Return the differences of a join between a runner and the oracle, step by step."""
    if isinstance(runner, StandaloneJoinRunner) and not runner.single:
        # A batch is judged by the clock that its step ends with, and let in by the one before.
        for side in SIDES:
            spec = spec.with_side(side, replace(spec.side(side), max_ahead=None))
    return differences_of_pairs(runner, spec, types, steps, runner.run(spec, types, steps))


def differences_of_pairs(
    runner: JoinRunner,
    spec: JoinSpec,
    types: Columns,
    steps: Sequence[JoinBatch],
    emitted: Sequence[JoinStep],
) -> list[str]:
    """Return the differences between a runner's output of a join and the oracle's."""
    wanted = _say_of(runner)(spec, types, steps)
    found = [] if len(emitted) == len(wanted) else [f"{len(emitted)} steps emitted"]
    for number, (one, other) in enumerate(zip(emitted, wanted, strict=False), start=1):
        texts = join_step_differences(one, other, runner.tells_watermarks)
        found += [f"step {number}: {text}" for text in texts]
    return found


def join_step_differences(step: JoinStep, wanted: JoinStep, marks: bool = True) -> list[str]:
    """Rows and rejected messages in any order, the counts, and the watermarks."""
    found = unordered_differences("row", step.rows, wanted.rows)
    found += unordered_differences("rejected", _refused(step), _refused(wanted))
    found += count_differences(step.counts, wanted.counts)
    if marks and step.watermarks != wanted.watermarks:
        found.append(f"watermarks {step.watermarks}, expected {wanted.watermarks}")
    return found


def _refused(step: JoinStep) -> list[dict[str, Any]]:
    return [
        {n: None if isinstance(v, str) and n == "time" else v for n, v in message.items()}
        | {"side": side, "reason": reason, "watermark": mark}
        for side, message, reason, mark in step.rejected
    ]


def _say_of(
    runner: JoinRunner,
) -> Callable[[JoinSpec, Columns, Sequence[JoinBatch]], list[JoinStep]]:
    if not isinstance(runner, StandaloneJoinRunner):
        return OracleJoinRunner().run
    return joins_one_by_one if runner.single else joins_by_batch


def joins_by_batch(spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]) -> list[JoinStep]:
    """What the oracle says of the steps when the clock is moved after the messages of each."""
    wall, parts = steps[0].wall, []
    for step in steps:
        parts += [JoinBatch(step.left, step.right, wall, step.final), JoinBatch(wall=step.wall)]
        wall = step.wall
    emitted = iter(OracleJoinRunner().run(spec, types, parts))
    return [joins_joined([next(emitted), next(emitted)]) for _ in steps]


def joins_one_by_one(spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]) -> list[JoinStep]:
    """What the oracle says of the steps when each message is one, and each clock too."""
    wall, parts, counts = steps[0].wall, [], []
    for step in steps:
        mine = list(_alone(step, wall))
        wall = step.wall
        mine.append(JoinBatch([], [], wall, step.final))
        parts += mine
        counts.append(len(mine))
    emitted = iter(OracleJoinRunner().run(spec, types, parts))
    return [joins_joined([next(emitted) for _ in range(n)]) for n in counts]


def _alone(step: JoinBatch, wall: int) -> Iterator[JoinBatch]:
    yield from (JoinBatch([message], [], wall) for message in step.left)
    yield from (JoinBatch([], [message], wall) for message in step.right)


def joins_joined(emitted: list[JoinStep]) -> JoinStep:
    """Some steps of a join as one."""
    counts: dict[str, int] = {}
    for step in emitted:
        for name, n in step.counts.items():
            counts[name] = counts.get(name, 0) + n
    whole = JoinStep()
    whole.rows = [row for step in emitted for row in step.rows]
    whole.rejected = [row for step in emitted for row in step.rejected]
    whole.counts, whole.watermarks = counts, emitted[-1].watermarks
    return whole
