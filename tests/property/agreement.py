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

WindowId = tuple[Any, ...]


def differences(runner: Runner, spec: WindowSpec, steps: Sequence[Batch]) -> list[str]:
    """Return the differences between a runner and the oracle, step by step."""
    return differences_of_output(runner, spec, steps, runner.run(spec, steps))


def differences_of_output(
    runner: Runner, spec: WindowSpec, steps: Sequence[Batch], output: Sequence[OracleStep]
) -> list[str]:
    """Return the differences between a runner's output and the oracle's."""
    is_single = isinstance(runner, StandaloneRunner) and runner.single
    expected = run_one_by_one(spec, steps) if is_single else OracleRunner().run(spec, steps)
    texts = [] if len(output) == len(expected) else [f"{len(output)} steps emitted"]
    for number, (step, expected_step) in enumerate(zip(output, expected, strict=False), start=1):
        step_texts = (
            _single_message_differences(step, expected_step)
            if is_single
            else step_differences(step, expected_step)
        )
        # A standalone operator has a watermark of its own on the rows axis.
        shares_watermark = spec.axis == "time" or not isinstance(runner, StandaloneRunner)
        if (
            shares_watermark
            and runner.tells_watermark
            and step.watermark != expected_step.watermark
        ):
            step_texts.append(f"watermark {step.watermark}, expected {expected_step.watermark}")
        texts += [f"step {number}: {text}" for text in step_texts]
    return texts


def step_differences(step: OracleStep, expected: OracleStep) -> list[str]:
    """Return the differences of firings in order, rejected messages in any order, and counts."""
    texts = row_differences("firing", step.firings, expected.firings)
    texts += unordered_differences("rejected", step.rejected, expected.rejected)
    return texts + count_differences(get_message_counts(step), get_message_counts(expected))


def _single_message_differences(step: OracleStep, expected: OracleStep) -> list[str]:
    texts = row_differences("firing", sort_firings(step.firings), sort_firings(expected.firings))
    texts += unordered_differences(
        "rejected", normalize_rejected(step), normalize_rejected(expected)
    )
    return texts + count_differences(get_message_counts(step), get_message_counts(expected))


def count_differences(counts: dict[str, int], expected: dict[str, int]) -> list[str]:
    """Return the differences of counts by name; a missing count is zero."""
    return [
        f"{name} {counts.get(name, 0)}, expected {expected.get(name, 0)}"
        for name in sorted({*counts, *expected})
        if counts.get(name, 0) != expected.get(name, 0)
    ]


def accounting_differences(steps: Sequence[Batch], output: Sequence[OracleStep]) -> list[str]:
    """Return the steps whose input isn't counted, rejected, a duplicate, or undecided."""
    texts = []
    for number, (batch, step) in enumerate(zip(steps, output, strict=True), start=1):
        counts = get_message_counts(step)
        # A later step counts or rejects undecided messages, and subtracts them from this count.
        accepted = sum(counts.get(name, 0) for name in ("counted", DUPLICATES, UNDECIDED))
        rejected = Counter(row["reason"] for row in step.rejected if row["reason"] != "overflow")
        if len(batch.messages) != accepted + rejected.total():
            texts.append(f"step {number}: {len(batch.messages)} in, {counts}, {dict(rejected)}")
    return texts


def run_one_by_one(spec: WindowSpec, steps: Sequence[Batch]) -> list[OracleStep]:
    """Run steps on the oracle, with each message and each clock as a batch of its own."""
    wall, parts, counts = steps[0].wall, [], []
    for step in steps:
        batches = [Batch([message], wall) for message in step.messages]
        wall = step.wall
        batches.append(Batch([], wall, step.final))
        parts += batches
        counts.append(len(batches))
    results = iter(OracleRunner().run(spec, parts))
    return [merge_steps([next(results) for _ in range(n)]) for n in counts]


def merge_steps(steps: list[OracleStep]) -> OracleStep:
    """Merge steps into one."""
    counts = {name: sum(step.counts[name] for step in steps) for name in steps[0].counts}
    return OracleStep(
        [row for step in steps for row in step.firings],
        [row for step in steps for row in step.rejected],
        counts,
        steps[-1].watermark,
    )


def sort_firings(firings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort firings by window; those of one window stay in their order."""
    names = ("window_start", "partition", "key", "second", "window_end")
    return sorted(firings, key=lambda row: nulls_first(tuple(row.get(name) for name in names)))


def normalize_rejected(step: OracleStep) -> list[dict[str, Any]]:
    """Return rejected rows without the watermark of windows that overflowed."""
    return [
        {**row, "watermark": None} if row["reason"] == "overflow" else row for row in step.rejected
    ]


def get_message_counts(step: OracleStep) -> dict[str, int]:
    """Return the counts of messages, without those of windows."""
    return {name: n for name, n in step.counts.items() if name != "overflow"}


def identify_window(spec: WindowSpec, row: dict[str, Any]) -> WindowId:
    """Return the start, key and end of a firing's window."""
    key = nulls_first(tuple(row[name] for name in spec.keys))
    return row["window_start"], key, row["window_end"]


def last_revisions(
    runner: Runner, spec: WindowSpec, steps: Sequence[Batch]
) -> dict[WindowId, dict[str, Any]]:
    """Return the last values of each window that wasn't retracted."""
    rows = (row for step in runner.run(spec, steps) for row in step.firings)
    last_rows = {identify_window(spec, row): row for row in rows}
    return {
        window: {name: row[name] for name in spec.aggregates}
        for window, row in last_rows.items()
        if row["emission"] != "retract"
    }


def revision_differences(
    actual: dict[WindowId, dict[str, Any]], expected: dict[WindowId, dict[str, Any]]
) -> list[str]:
    """Return the differences between two runs' last revisions."""
    texts = [f"window {window} is missing" for window in expected if window not in actual]
    texts += [f"window {window} was not expected" for window in actual if window not in expected]
    return texts + [
        f"window {window} is {actual[window]}, expected {row}"
        for window, row in expected.items()
        if window in actual and not same_row(actual[window], row)
    ]


def join_differences(
    runner: JoinRunner, spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]
) -> list[str]:
    """Return the differences of a join between a runner and the oracle, step by step."""
    if isinstance(runner, StandaloneJoinRunner) and not runner.single:
        # The operator compares a batch with the clock at the end of its step, the oracle before it.
        for side in SIDES:
            spec = spec.with_side(side, replace(spec.side(side), max_ahead=None))
    return differences_of_pairs(runner, spec, types, steps, runner.run(spec, types, steps))


def differences_of_pairs(
    runner: JoinRunner,
    spec: JoinSpec,
    types: Columns,
    steps: Sequence[JoinBatch],
    output: Sequence[JoinStep],
) -> list[str]:
    """Return the differences between a runner's output of a join and the oracle's."""
    expected = _choose_oracle(runner)(spec, types, steps)
    texts = [] if len(output) == len(expected) else [f"{len(output)} steps emitted"]
    for number, (step, expected_step) in enumerate(zip(output, expected, strict=False), start=1):
        step_texts = join_step_differences(step, expected_step, runner.tells_watermarks)
        texts += [f"step {number}: {text}" for text in step_texts]
    return texts


def join_step_differences(
    step: JoinStep, expected: JoinStep, with_watermarks: bool = True
) -> list[str]:
    """Return the differences of rows and rejected messages in any order, counts and watermarks."""
    texts = unordered_differences("row", step.rows, expected.rows)
    texts += unordered_differences("rejected", _format_rejected(step), _format_rejected(expected))
    texts += count_differences(step.counts, expected.counts)
    if with_watermarks and step.watermarks != expected.watermarks:
        texts.append(f"watermarks {step.watermarks}, expected {expected.watermarks}")
    return texts


def _format_rejected(step: JoinStep) -> list[dict[str, Any]]:
    return [
        {n: None if isinstance(v, str) and n == "time" else v for n, v in message.items()}
        | {"side": side, "reason": reason, "watermark": watermark}
        for side, message, reason, watermark in step.rejected
    ]


def _choose_oracle(
    runner: JoinRunner,
) -> Callable[[JoinSpec, Columns, Sequence[JoinBatch]], list[JoinStep]]:
    if not isinstance(runner, StandaloneJoinRunner):
        return OracleJoinRunner().run
    return join_one_by_one if runner.single else join_by_batch


def join_by_batch(spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]) -> list[JoinStep]:
    """Run steps on the oracle, and advance the clock after the messages of each."""
    wall, parts = steps[0].wall, []
    for step in steps:
        parts += [JoinBatch(step.left, step.right, wall, step.final), JoinBatch(wall=step.wall)]
        wall = step.wall
    results = iter(OracleJoinRunner().run(spec, types, parts))
    return [merge_join_steps([next(results), next(results)]) for _ in steps]


def join_one_by_one(spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]) -> list[JoinStep]:
    """Run steps of a join on the oracle, with each message and each clock as its own batch."""
    wall, parts, counts = steps[0].wall, [], []
    for step in steps:
        batches = list(_split_messages(step, wall))
        wall = step.wall
        batches.append(JoinBatch([], [], wall, step.final))
        parts += batches
        counts.append(len(batches))
    results = iter(OracleJoinRunner().run(spec, types, parts))
    return [merge_join_steps([next(results) for _ in range(n)]) for n in counts]


def _split_messages(step: JoinBatch, wall: int) -> Iterator[JoinBatch]:
    yield from (JoinBatch([message], [], wall) for message in step.left)
    yield from (JoinBatch([], [message], wall) for message in step.right)


def merge_join_steps(steps: list[JoinStep]) -> JoinStep:
    """Merge steps of a join into one."""
    counts: dict[str, int] = {}
    for step in steps:
        for name, n in step.counts.items():
            counts[name] = counts.get(name, 0) + n
    merged = JoinStep()
    merged.rows = [row for step in steps for row in step.rows]
    merged.rejected = [row for step in steps for row in step.rejected]
    merged.counts, merged.watermarks = counts, steps[-1].watermarks
    return merged
