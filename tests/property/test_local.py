"""What the local host says of drawn streams: what the oracle says."""

from __future__ import annotations

from hypothesis import given, settings
from tests.local_door import LocalDoor, LocalJoinDoor
from tests.property import agreement, joins
from tests.property.joins import Query
from tests.property.streams import EVERYTHING, Stream, any_streams

FEW = settings(max_examples=max(1, settings.default.max_examples // 2))


@FEW
@given(stream=any_streams(EVERYTHING))
def test_windows_say_what_the_oracle_says(stream: Stream) -> None:
    door = LocalDoor(2)
    if door.runs(stream.spec, stream.steps):
        assert agreement.differences(door, stream.spec, stream.steps) == []


@FEW
@given(query=joins.queries())
def test_joins_say_what_the_oracle_says(query: Query) -> None:
    door = LocalJoinDoor(restart=True)
    if door.runs(query.spec, query.steps):
        assert agreement.join_differences(door, query.spec, query.types, query.steps) == []
