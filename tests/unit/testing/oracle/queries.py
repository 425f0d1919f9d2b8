"""Small queries that the tests of the oracle share."""

from __future__ import annotations

from typing import Any

from muntin.model import aggregates
from muntin.model.kinds import Kind
from muntin.model.spec import WindowSpec
from muntin.testing.oracle.window import Placed

COUNTED = {"n": aggregates.count(), "sum": aggregates.sum("value")}


def by_time(windows: Kind, **options: Any) -> WindowSpec:
    """A query on the time axis."""
    return WindowSpec(("key",), "time", windows, COUNTED, **options)


def by_arrival(windows: Kind, **options: Any) -> WindowSpec:
    """A query on the rows axis whose positions count the messages of a key."""
    return WindowSpec(("key",), None, windows, COUNTED, **options)


def by_offset(windows: Kind, **options: Any) -> WindowSpec:
    """A query on the rows axis whose positions are offsets."""
    place = ("partition", "offset")
    return WindowSpec(("partition", "key"), None, windows, COUNTED, offset=place, **options)


def placed(*positions: int, key: tuple[Any, ...] = ("a",)) -> list[Placed]:
    """Messages of one key, each at its place."""
    return [Placed(key, position, {"value": position}) for position in positions]
