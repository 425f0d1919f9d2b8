"""A run of the chaos suite, replayed in the simulator, has the same outcome as on Spark."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest
from tests.simulation.judging import outcome_differences
from tests.simulation.local import Outcome
from tests.simulation.recorded import ReplayedFaults, make_case, name_faults, read_record
from tests.simulation.spark import run_spark

from muntin.engine import columns
from muntin.engine.operator import RESULTS
from muntin.sinks.frames import select_newest_revisions

_IDENTITY = ("key", "window_start", "window_end")


def read_final_table(outcome: Outcome) -> list[tuple[object, ...]]:
    """Return the newest revision of each window in the sink of results."""
    frames = [rows for rows in outcome.tables[RESULTS].batches.values() if len(rows)]
    newest = select_newest_revisions(pl.concat(frames), _IDENTITY)
    return newest.drop(columns.EMISSION).sort(_IDENTITY).rows()


@pytest.fixture(scope="module")
def final_table() -> list[tuple[object, ...]]:
    case = make_case(read_record())
    return read_final_table(run_spark(case, ReplayedFaults(())))


@pytest.mark.parametrize(
    ("moment", "outage"),
    [
        ("shard 0 has ended", None),
        ("before the sink of results", "before the sink of results"),
        ("after the sink of results", "after the sink of results"),
        ("commit", "before the sink of rejected"),
    ],
)
def test_a_record_replays_with_the_same_outcome(
    moment: str, outage: str | None, final_table: list[tuple[object, ...]]
) -> None:
    record = read_record()
    case, names = make_case(record), name_faults(record, moment, outage)
    outcome = run_spark(case, ReplayedFaults(names))
    assert outcome_differences(case, outcome) == []
    assert outcome.failed_events == names
    assert len(outcome.batches) == len(record.batches)
    assert outcome.steps == len(record.batches) + record.count_repeated(outage)
    assert read_final_table(outcome) == final_table != []
    # The reasons are the same as in the record.
    assert outcome.progress is not None
    assert outcome.progress.counts.keys() == record.counts.keys()


def test_a_burst_has_the_times_of_fewer_messages() -> None:
    record = read_record()
    (burst,) = record.bursts
    walls = [step.wall for step in make_case(record).input.steps]
    lengths = [after - before for before, after in pairwise(walls)]
    sizes = [sum(counts) for counts in record.batches[1:]]
    # In seconds: a message takes one, and a tenth of one in the burst.
    begin, end = sum(record.batches[0]), sum(map(sum, record.batches))
    inside = len(range(max(burst.start, begin), min(burst.stop, end)))
    assert inside > 0
    assert sum(lengths) / 1_000_000 == pytest.approx(sum(sizes) - 0.9 * inside)
    assert min(lengths) < max(lengths) / 5
