"""Compares the outcome of a run with the oracle's output for the committed batches."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import polars as pl
from tests.join_oracle import JoinStep
from tests.join_runners import JoinBatch, OracleJoinRunner, format_rejected, schema
from tests.local_runner import convert_rows, format_rejected_message, window_rows
from tests.property.agreement import count_differences, join_step_differences, step_differences
from tests.property.joins import Query
from tests.property.streams import Stream
from tests.runners import Batch, OracleRunner
from tests.simulation.cases import Case
from tests.simulation.counting import Counting, count_plainly
from tests.simulation.local import Outcome

from muntin.engine.joins.joiner import Joiner
from muntin.engine.operator import REJECTED, RESULTS
from muntin.hosts.local.log_contents import PlannedBatch
from muntin.model.joins import SIDES
from muntin.testing.oracle import OracleStep

_NO_ROWS = pl.DataFrame()


def outcome_differences(case: Case, outcome: Outcome) -> list[str]:
    """Return the differences between the outcome of a run and the oracle."""
    if outcome.problems:
        return outcome.problems
    if texts := _coverage_differences(case, outcome):
        return texts
    drawn = case.input
    if isinstance(drawn, Stream):
        return _window_differences(drawn, outcome)
    if isinstance(drawn, Counting):
        return _counting_differences(drawn, outcome)
    return _join_differences(drawn, outcome, on_spark=case.host == "spark")


def _coverage_differences(case: Case, outcome: Outcome) -> list[str]:
    """Return whether committed batches are missing, repeated, or don't cover the input."""
    numbers = [batch.number for batch in outcome.batches]
    texts = [] if numbers == [*range(len(numbers))] else [f"batches {numbers} were committed"]
    ends = [end["step"] for end in (batch.ends[0] for batch in outcome.batches)]
    if ends != sorted(ends) or ends[-1:] != [len(case.input.steps) - 1]:
        texts.append(f"batches end at {ends}, of {len(case.input.steps)} steps")
    return texts


def _read_sinks(outcome: Outcome, number: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of a batch in the sinks: results and rejected messages."""
    results, rejected = (
        outcome.tables[kind].batches.get(number, _NO_ROWS) for kind in (RESULTS, REJECTED)
    )
    return results, rejected


def _read_wall(batch: PlannedBatch) -> int:
    """Return the wall clock of a batch, which doesn't go back with the machine's clock."""
    return batch.now if batch.wall is None else batch.wall


def _list_batches(drawn: Stream | Counting, outcome: Outcome) -> list[Batch]:
    """Return the messages of each committed batch."""
    batches, first = [], 0
    for batch in outcome.batches:
        end = batch.ends[0]["step"] + 1
        messages = [m for step in drawn.steps[first:end] for m in step.messages]
        batches.append(Batch(messages, _read_wall(batch), batch.final, now=batch.now))
        first = end
    return batches


def _counting_differences(drawn: Counting, outcome: Outcome) -> list[str]:
    expected, counts = count_plainly(_list_batches(drawn, outcome))
    texts = []
    for number, expected_batch in enumerate(expected):
        for kind, frame, rows in zip(
            (RESULTS, REJECTED),
            _read_sinks(outcome, number),
            (expected_batch.results, expected_batch.rejected),
            strict=True,
        ):
            if sorted(frame.rows()) != sorted(rows):
                texts.append(f"batch {number}: {kind} {frame.rows()}, expected {rows}")
    return texts + _figure_differences(outcome, counts)


def _window_differences(drawn: Stream, outcome: Outcome) -> list[str]:
    texts, counts = [], Counter[str]()
    expected = OracleRunner().run(drawn.spec, _list_batches(drawn, outcome))
    for number, expected_step in enumerate(expected):
        firings, rejected = window_rows(drawn.spec, *_read_sinks(outcome, number))
        step = OracleStep(firings, rejected, expected_step.counts)
        texts += [f"batch {number}: {text}" for text in step_differences(step, expected_step)]
        counts.update(expected_step.counts)
    return texts + _figure_differences(outcome, counts)


def _join_differences(drawn: Query, outcome: Outcome, *, on_spark: bool) -> list[str]:
    steps, first = [], 0
    for batch in outcome.batches:
        end = batch.ends[0]["step"] + 1
        sides = [[m for s in drawn.steps[first:end] for m in s.side(side)] for side in SIDES]
        steps.append(JoinBatch(*sides, _read_wall(batch), batch.final, now=batch.now))
        first = end
    format_row = partial(format_rejected_message, drawn.types)
    if on_spark:
        schemas = {side: schema(drawn.spec.side(side), drawn.types[side]) for side in SIDES}
        format_row = partial(format_rejected, Joiner(drawn.spec, schemas))
    texts, counts = [], Counter[str]()
    expected = OracleJoinRunner().run(drawn.spec, drawn.types, steps)
    for number, expected_step in enumerate(expected):
        results, rejected = _read_sinks(outcome, number)
        step = JoinStep(convert_rows(results))
        step.rejected = [format_row(row) for row in convert_rows(rejected)]
        step.counts = expected_step.counts
        differences = join_step_differences(step, expected_step, with_watermarks=False)
        texts += [f"batch {number}: {text}" for text in differences]
        counts.update(expected_step.counts)
    return texts + _figure_differences(outcome, counts)


def _figure_differences(outcome: Outcome, counts: Counter[str]) -> list[str]:
    """Return the final counts that differ from the sums over all batches."""
    if outcome.progress is None:
        return []
    # Windows whose sum overflows aren't messages.
    others = ("filtered", "overflow")
    figures: dict[str, Any] = {n: c for n, c in outcome.progress.counts.items() if n not in others}
    return count_differences(figures, {n: c for n, c in counts.items() if n not in others})
