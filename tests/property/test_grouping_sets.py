"""Grouping sets: every runner agrees with the oracle on streams grouped by sets of keys."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.agreement import differences
from tests.property.streams import Range, Stream, any_streams
from tests.runners import EngineRunner, Runner, StandaloneRunner

from muntin.model.grouping_sets import GROUPING_ID

KINDS = Range(("fixed", "cumulating", "days", "sliding"), full_state=True, replays=True, wide=True)
RUNNERS: list[Runner] = [
    EngineRunner(),
    EngineRunner(3),
    EngineRunner(4, restart=True),
    EngineRunner(2, repeat=True),
    StandaloneRunner(),
    StandaloneRunner(restart=True),
    StandaloneRunner(single=True),
]


@st.composite
def streams_by_sets(draw: st.DrawFn) -> Stream:
    """Draw a stream whose query has some of the grouping sets of its keys, in any order."""
    stream = draw(any_streams(KINDS))
    number = st.integers(0, 2 ** len(stream.spec.keys) - 1)
    sets = tuple(draw(st.lists(number, min_size=1, unique=True)))
    return replace(
        stream, spec=replace(stream.spec, keys=(*stream.spec.keys, GROUPING_ID), sets=sets)
    )


@settings(max_examples=max(1, settings.default.max_examples // 2))
@given(stream=streams_by_sets(), runner=st.sampled_from(RUNNERS))
def test_runners_say_what_the_oracle_says(stream: Stream, runner: Runner) -> None:
    assert differences(runner, stream.spec, stream.steps) == []
