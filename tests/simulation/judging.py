"""Compares the end of a run with what the oracle says of the batches that were committed."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import polars as pl
from tests.join_oracle import JoinStep
from tests.join_runners import JoinBatch, OracleJoinRunner, rejected_of, schema
from tests.local_runner import rejected_message, rows_of, window_rows
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
    """Where a run ended otherwise than the oracle says, in words."""
    if outcome.problems:
        return outcome.problems
    if texts := _gaps(case, outcome):
        return texts
    drawn = case.input
    if isinstance(drawn, Stream):
        return _window_differences(drawn, outcome)
    if isinstance(drawn, Counting):
        return _counting_differences(drawn, outcome)
    return _join_differences(drawn, outcome, on_spark=case.host == "spark")


def _gaps(case: Case, outcome: Outcome) -> list[str]:
    """Where the committed batches don't cover the input once."""
    numbers = [batch.number for batch in outcome.batches]
    texts = [] if numbers == [*range(len(numbers))] else [f"batches {numbers} were committed"]
    ends = [end["step"] for end in (batch.ends[0] for batch in outcome.batches)]
    if ends != sorted(ends) or ends[-1:] != [len(case.input.steps) - 1]:
        texts.append(f"batches end at {ends}, of {len(case.input.steps)} steps")
    return texts


def _held(outcome: Outcome, number: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of a batch in the sinks: results and rejected messages."""
    results, rejected = (
        outcome.tables[kind].batches.get(number, _NO_ROWS) for kind in (RESULTS, REJECTED)
    )
    return results, rejected


def _read_wall(batch: PlannedBatch) -> int:
    """The clock of what waits for it, which doesn't go back with the machine's."""
    return batch.now if batch.wall is None else batch.wall


def _batches(drawn: Stream | Counting, outcome: Outcome) -> list[Batch]:
    """The messages of each batch that was committed."""
    batches, first = [], 0
    for batch in outcome.batches:
        end = batch.ends[0]["step"] + 1
        messages = [m for step in drawn.steps[first:end] for m in step.messages]
        batches.append(Batch(messages, _read_wall(batch), batch.final, now=batch.now))
        first = end
    return batches


def _counting_differences(drawn: Counting, outcome: Outcome) -> list[str]:
    expected, counts = count_plainly(_batches(drawn, outcome))
    texts = []
    for number, wanted in enumerate(expected):
        for kind, held, rows in zip(
            (RESULTS, REJECTED),
            _held(outcome, number),
            (wanted.results, wanted.rejected),
            strict=True,
        ):
            if sorted(held.rows()) != sorted(rows):
                texts.append(f"batch {number}: {kind} {held.rows()}, expected {rows}")
    return texts + _figure_differences(outcome, counts)


def _window_differences(drawn: Stream, outcome: Outcome) -> list[str]:
    texts, counts = [], Counter[str]()
    expected = OracleRunner().run(drawn.spec, _batches(drawn, outcome))
    for number, wanted in enumerate(expected):
        firings, rejected = window_rows(drawn.spec, *_held(outcome, number))
        step = OracleStep(firings, rejected, wanted.counts)
        texts += [f"batch {number}: {text}" for text in step_differences(step, wanted)]
        counts.update(wanted.counts)
    return texts + _figure_differences(outcome, counts)


def _join_differences(drawn: Query, outcome: Outcome, *, on_spark: bool) -> list[str]:
    steps, first = [], 0
    for batch in outcome.batches:
        end = batch.ends[0]["step"] + 1
        sides = [[m for s in drawn.steps[first:end] for m in s.side(side)] for side in SIDES]
        steps.append(JoinBatch(*sides, _read_wall(batch), batch.final, now=batch.now))
        first = end
    read = partial(rejected_message, drawn.types)
    if on_spark:
        schemas = {side: schema(drawn.spec.side(side), drawn.types[side]) for side in SIDES}
        read = partial(rejected_of, Joiner(drawn.spec, schemas))
    texts, counts = [], Counter[str]()
    expected = OracleJoinRunner().run(drawn.spec, drawn.types, steps)
    for number, wanted in enumerate(expected):
        results, rejected = _held(outcome, number)
        step = JoinStep(rows_of(results))
        step.rejected = [read(row) for row in rows_of(rejected)]
        step.counts = wanted.counts
        differences = join_step_differences(step, wanted, marks=False)
        texts += [f"batch {number}: {text}" for text in differences]
        counts.update(wanted.counts)
    return texts + _figure_differences(outcome, counts)


def _figure_differences(outcome: Outcome, counts: Counter[str]) -> list[str]:
    """Where the figures at the end aren't the sums over all batches."""
    if outcome.progress is None:
        return []
    # Windows whose sum overflows aren't messages.
    others = ("filtered", "overflow")
    figures: dict[str, Any] = {n: c for n, c in outcome.progress.counts.items() if n not in others}
    return count_differences(figures, {n: c for n, c in counts.items() if n not in others})
