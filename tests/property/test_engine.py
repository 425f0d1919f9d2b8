"""Properties of every runner for any stream, and agreement of the engine with the oracle."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.agreement import (
    differences,
    get_message_counts,
    identify_window,
    last_revisions,
    revision_differences,
)
from tests.property.in_order import check_in_order
from tests.property.streams import (
    EVERYTHING,
    POSITIONS,
    Range,
    Stream,
    Twins,
    any_streams,
    twins_in_time,
)
from tests.runners import EngineRunner, OracleRunner, Runner

from muntin.model.cumulating import Cumulating
from muntin.model.days import Days
from muntin.model.sessions import Sessions
from muntin.model.spec import DUPLICATES, PARTLY_LATE, WindowSpec
from muntin.model.windows import Windows
from muntin.state import runs

LAYOUTS = [
    EngineRunner(),
    EngineRunner(3),
    EngineRunner(4, restart=True),
    EngineRunner(2, repeat=True),
]
KINDS = (*EVERYTHING.kinds, "own gaps", "longest", "cut", "trailing")
EACH_KIND = [Range((kind,), POSITIONS, True, True, True) for kind in KINDS]
FEWER = settings(max_examples=max(1, settings.default.max_examples // 4))


BOTH_RUNNERS = [
    pytest.param(OracleRunner, id="oracle"),
    pytest.param(lambda: EngineRunner(2, restart=True), id="engine-2-restarted"),
]


@pytest.fixture(autouse=True, scope="module")
def runs_are_folded_early() -> Iterator[None]:
    """Make streams of a few steps fold runs, which they wouldn't otherwise."""
    with mock.patch.object(runs, "MAX_RUNS", 2):
        yield


@pytest.mark.parametrize("drawn_from", EACH_KIND, ids=lambda r: r.kinds[0])
@FEWER
@given(data=st.data(), runner=st.sampled_from(LAYOUTS))
def test_engine_says_what_the_oracle_says(
    drawn_from: Range, data: st.DataObject, runner: EngineRunner
) -> None:
    stream: Stream = data.draw(any_streams(drawn_from))
    assert differences(runner, stream.spec, stream.steps) == []


@pytest.mark.parametrize("make_runner", BOTH_RUNNERS)
@FEWER
@given(twins=twins_in_time(EVERYTHING))
def test_last_revisions_are_the_same_however_the_input_arrives(
    make_runner: Callable[[], Runner], twins: Twins
) -> None:
    runner = make_runner()
    expected = last_revisions(OracleRunner(), twins.spec, twins.first)
    for arrangement in (twins.first, twins.second):
        actual = last_revisions(runner, twins.spec, arrangement)
        assert revision_differences(actual, expected) == []


@pytest.mark.parametrize("make_runner", BOTH_RUNNERS)
@FEWER
@given(stream=any_streams(EVERYTHING))
def test_every_message_is_accounted_for(make_runner: Callable[[], Runner], stream: Stream) -> None:
    for batch, step in zip(stream.steps, make_runner().run(stream.spec, stream.steps), strict=True):
        counts = get_message_counts(step)
        assert counts.pop("seen") == len(batch.messages)
        counted, duplicates = counts.pop("counted"), counts.pop(DUPLICATES)
        assert 0 <= counts.pop(PARTLY_LATE, 0) <= counted
        reasons = Counter(row["reason"] for row in step.rejected if row["reason"] != "overflow")
        assert +Counter(counts) == reasons
        assert counted + duplicates + reasons.total() == len(batch.messages)


@pytest.mark.parametrize("make_runner", BOTH_RUNNERS)
@FEWER
@given(stream=any_streams(EVERYTHING))
def test_windows_emit_in_order(make_runner: Callable[[], Runner], stream: Stream) -> None:
    rows_by_window: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for step in make_runner().run(stream.spec, stream.steps):
        windows = [identify_window(stream.spec, row) for row in step.firings]
        assert windows == sorted(set(windows))
        for row in step.firings:
            rows_by_window[identify_window(stream.spec, row)].append(row)
    for rows in rows_by_window.values():
        check_in_order(rows, stream.spec.firing.repeat)


@pytest.mark.parametrize("make_runner", BOTH_RUNNERS)
@FEWER
@given(stream=any_streams(Range(("fixed", "cumulating", "days", "sessions"))))
def test_every_counted_message_is_in_some_last_revision(
    make_runner: Callable[[], Runner], stream: Stream
) -> None:
    steps = make_runner().run(stream.spec, stream.steps)
    counted = sum(step.counts["counted"] for step in steps)
    firings = [row for step in steps for row in step.firings]
    if stream.spec.firing.accumulate:
        firings = list({identify_window(stream.spec, row): row for row in firings}.values())
    emitted = sum(row["n"] for row in firings if row["emission"] != "retract")
    assert counted <= emitted <= counted * count_windows_per_message(stream.spec)


def count_windows_per_message(spec: WindowSpec) -> int:
    """Return the greatest number of windows that a message may be in."""
    match spec.windows:
        case Sessions():
            return 1
        case Cumulating() as windows:
            return windows.steps
        case Windows(size, slide) | Days(Windows(size, slide)):
            return -(-size // slide)
    raise AssertionError(spec.windows)
