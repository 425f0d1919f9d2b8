"""A run of the chaos suite on Spark, replayed in the simulator, ends as it did there."""

from __future__ import annotations

import pytest
from tests.simulation.judging import outcome_differences
from tests.simulation.recorded import ReplayedFaults, make_case, name_faults, read_record
from tests.simulation.spark import run_spark


@pytest.mark.parametrize(
    "moment",
    ["shard 0 has ended", "before the sink of results", "after the sink of results", "commit"],
)
def test_a_record_replays_with_the_same_outcome(moment: str) -> None:
    record = read_record()
    case, names = make_case(record), name_faults(record, moment)
    outcome = run_spark(case, ReplayedFaults(names))
    assert outcome_differences(case, outcome) == []
    assert outcome.struck == names
    assert len(outcome.batches) == len(record.batches)
    assert outcome.steps == len(record.batches) + record.repeated
    # The reasons that the record has, too.
    assert outcome.progress is not None
    assert outcome.progress.counts.keys() == record.counts.keys()
