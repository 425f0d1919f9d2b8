"""A wall clock that jumps back stands still until it has caught up; one that jumps ahead skips."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.streams import EVERYTHING, Stream, any_streams
from tests.runners import Batch, StandaloneRunner
from tests.transcripts.comparison import row_differences, unordered_differences

FEWER = settings(max_examples=max(1, settings.default.max_examples // 3))
RUNNERS = [
    StandaloneRunner(),
    StandaloneRunner("memory", restart=True),
    StandaloneRunner(single=True),
]
HOUR = 3_600_000_000
JUMPS = st.sampled_from((0, 0, -HOUR, -1, 1, 7, 24 * HOUR)) | st.integers(-HOUR, HOUR)


def set_clocks(steps: list[Batch], walls: list[int]) -> list[Batch]:
    return [replace(step, wall=wall) for step, wall in zip(steps, walls, strict=True)]


@pytest.mark.parametrize("runner", RUNNERS, ids=["batches", "restarts", "single"])
@FEWER
@given(data=st.data(), stream=any_streams(EVERYTHING))
def test_the_clock_is_the_latest_that_was_told(
    runner: StandaloneRunner, data: st.DataObject, stream: Stream
) -> None:
    # The limit of future times applies to the clock as it is, wrong or right.
    spec = replace(stream.spec, max_ahead=None)
    jumping = [step.wall + data.draw(JUMPS) for step in stream.steps]
    steady = list(accumulate(jumping, max))
    actual = runner.run(spec, set_clocks(stream.steps, jumping))
    expected = runner.run(spec, set_clocks(stream.steps, steady))
    for number, (step, expected_step) in enumerate(zip(actual, expected, strict=True)):
        differ = row_differences("firing", step.firings, expected_step.firings)
        differ += unordered_differences("rejected", step.rejected, expected_step.rejected)
        assert differ == [], f"step {number}"
