"""Operators that run by themselves say what the oracle says, whatever happens to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.doors import Batch, OracleDoor, StandaloneDoor
from tests.property.streams import EVERYTHING, EXTREMES, Range, Stream, any_streams
from tests.property.test_engine import of_messages
from tests.transcripts.comparison import row_differences, unordered_differences

from muntin.engine import runs
from muntin.engine.oracle import Step
from muntin.model.spec import WindowSpec

EACH_KIND = [Range((kind,), full_state=True, replays=True) for kind in EVERYTHING.kinds]
EACH_KIND += [
    replace(EVERYTHING, positions=("arrival",)),
    replace(EVERYTHING, positions=("offset",)),
]
FEWER = settings(max_examples=max(1, settings.default.max_examples // 4))
BATCHES = [StandaloneDoor(), StandaloneDoor("memory", restart=True), StandaloneDoor(tables=True)]


@pytest.fixture(autouse=True, scope="module")
def runs_are_folded_early() -> Iterator[None]:
    """Streams of a few steps would fold no runs otherwise."""
    with mock.patch.object(runs, "MOST_RUNS", 2):
        yield


def named(drawn_from: Range) -> str:
    return f"{'-'.join(drawn_from.kinds)}-{'-'.join(drawn_from.positions)}"


@pytest.mark.parametrize("drawn_from", EACH_KIND, ids=named)
@FEWER
@given(data=st.data(), door=st.sampled_from(BATCHES))
def test_batches_say_what_the_oracle_says(
    drawn_from: Range, data: st.DataObject, door: StandaloneDoor
) -> None:
    stream: Stream = data.draw(any_streams(drawn_from))
    times = {message.get("time") for step in stream.steps for message in step.messages}
    # As timestamps, windows must lie within the years 1 to 9999.
    assume(not (door.tables and times & set(EXTREMES)))
    expected = OracleDoor().run(stream.spec, stream.steps)
    for number, (step, wanted) in enumerate(
        zip(door.run(stream.spec, stream.steps), expected, strict=True)
    ):
        found = row_differences("firing", step.firings, wanted.firings)
        found += unordered_differences("rejected", step.rejected, wanted.rejected)
        assert found == [], f"step {number}"
        assert of_messages(step) == of_messages(wanted), f"step {number}"
        assert stream.spec.axis == "rows" or step.watermark == wanted.watermark, f"step {number}"


@pytest.mark.parametrize("drawn_from", EACH_KIND, ids=named)
@FEWER
@given(data=st.data(), door=st.sampled_from([StandaloneDoor(single=True)]))
def test_single_messages_are_batches_of_one(
    drawn_from: Range, data: st.DataObject, door: StandaloneDoor
) -> None:
    stream: Stream = data.draw(any_streams(drawn_from))
    expected = one_by_one(stream.spec, stream.steps)
    for number, (step, wanted) in enumerate(
        zip(door.run(stream.spec, stream.steps), expected, strict=True)
    ):
        found = row_differences("firing", in_order(step.firings), in_order(wanted.firings))
        found += unordered_differences("rejected", of_rejected(step), of_rejected(wanted))
        assert found == [], f"step {number}"
        assert of_messages(step) == of_messages(wanted), f"step {number}"
        assert stream.spec.axis == "rows" or step.watermark == wanted.watermark, f"step {number}"


def one_by_one(spec: WindowSpec, steps: list[Batch]) -> list[Step]:
    """What the oracle says of the steps when each message is one, and each clock too."""
    wall, parts, counts = steps[0].wall, [], []
    for step in steps:
        mine = [Batch([message], wall) for message in step.messages]
        wall = step.wall
        mine.append(Batch([], wall, step.final))
        parts += mine
        counts.append(len(mine))
    told = iter(OracleDoor().run(spec, parts))
    return [joined([next(told) for _ in range(n)]) for n in counts]


def joined(told: list[Step]) -> Step:
    counts = {name: sum(step.counts[name] for step in told) for name in told[0].counts}
    return Step(
        [row for step in told for row in step.firings],
        [row for step in told for row in step.rejected],
        counts,
        told[-1].watermark,
    )


def in_order(firings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By window; what one window says stays in its order."""
    names = ("window_start", "partition", "key", "window_end")
    return sorted(firings, key=lambda row: tuple(row.get(name) for name in names))


def of_rejected(step: Step) -> list[dict[str, Any]]:
    """A window whose sum overflows isn't a message, and no message's watermark goes with it."""
    return [
        {**row, "watermark": None} if row["reason"] == "overflow" else row for row in step.rejected
    ]
