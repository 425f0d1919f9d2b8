"""Grouping sets: every door says what the oracle says of the same streams by sets of their keys."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doors import Door, EngineDoor, StandaloneDoor
from tests.property.agreement import differences
from tests.property.streams import Range, Stream, any_streams

from muntin.model.grouping_sets import GROUPING_ID

KINDS = Range(("fixed", "cumulating", "days", "sliding"), full_state=True, replays=True, wide=True)
DOORS: list[Door] = [
    EngineDoor(),
    EngineDoor(3),
    EngineDoor(4, restart=True),
    EngineDoor(2, repeat=True),
    StandaloneDoor(),
    StandaloneDoor(restart=True),
    StandaloneDoor(single=True),
]


@st.composite
def streams_by_sets(draw: st.DrawFn) -> Stream:
    """A stream whose query has some of the sets that its keys allow, in any order."""
    stream = draw(any_streams(KINDS))
    number = st.integers(0, 2 ** len(stream.spec.keys) - 1)
    sets = tuple(draw(st.lists(number, min_size=1, unique=True)))
    return replace(
        stream, spec=replace(stream.spec, keys=(*stream.spec.keys, GROUPING_ID), sets=sets)
    )


@settings(max_examples=max(1, settings.default.max_examples // 2))
@given(stream=streams_by_sets(), door=st.sampled_from(DOORS))
def test_doors_say_what_the_oracle_says(stream: Stream, door: Door) -> None:
    assert differences(door, stream.spec, stream.steps) == []
