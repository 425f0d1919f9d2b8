"""Standalone operators agree with the oracle, for batches, restarts and single messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.property.agreement import differences
from tests.property.streams import EVERYTHING, Range, Stream, any_streams
from tests.runners import StandaloneRunner

from muntin.state import runs

EACH_KIND = [
    Range((kind,), full_state=True, replays=True)
    for kind in (*EVERYTHING.kinds, "trailing", "own gaps", "longest")
]
EACH_KIND += [
    replace(EVERYTHING, positions=("arrival",)),
    replace(EVERYTHING, positions=("offset",)),
]
FEWER = settings(max_examples=max(1, settings.default.max_examples // 4))
BATCHES = [
    StandaloneRunner(),
    StandaloneRunner("memory", restart=True),
    StandaloneRunner(tables=True),
]


@pytest.fixture(autouse=True, scope="module")
def runs_are_folded_early() -> Iterator[None]:
    """Make streams of a few steps fold runs, which they wouldn't otherwise."""
    with mock.patch.object(runs, "MAX_RUNS", 2):
        yield


def name_range(drawn_from: Range) -> str:
    return f"{'-'.join(drawn_from.kinds)}-{'-'.join(drawn_from.positions)}"


@pytest.mark.parametrize("drawn_from", EACH_KIND, ids=name_range)
@FEWER
@given(data=st.data(), runner=st.sampled_from(BATCHES))
def test_batches_say_what_the_oracle_says(
    drawn_from: Range, data: st.DataObject, runner: StandaloneRunner
) -> None:
    stream: Stream = data.draw(any_streams(drawn_from))
    assume(runner.runs(stream.spec, stream.steps))
    assert differences(runner, stream.spec, stream.steps) == []


@pytest.mark.parametrize("drawn_from", EACH_KIND, ids=name_range)
@FEWER
@given(data=st.data(), runner=st.sampled_from([StandaloneRunner(single=True)]))
def test_single_messages_are_batches_of_one(
    drawn_from: Range, data: st.DataObject, runner: StandaloneRunner
) -> None:
    stream: Stream = data.draw(any_streams(drawn_from))
    assume(runner.runs(stream.spec, stream.steps))
    assert differences(runner, stream.spec, stream.steps) == []
