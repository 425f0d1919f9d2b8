"""Small queries that the tests of the oracle share."""

from __future__ import annotations

from typing import Any

from muntin.model import aggregates
from muntin.model.kinds import Kind
from muntin.model.spec import WindowSpec
from muntin.testing.oracle.window import Placed

AGGREGATES = {"n": aggregates.count(), "sum": aggregates.sum("value")}


def build_time_spec(windows: Kind, **options: Any) -> WindowSpec:
    """Build a query on the time axis."""
    return WindowSpec(("key",), "time", windows, AGGREGATES, **options)


def build_arrival_spec(windows: Kind, **options: Any) -> WindowSpec:
    """Build a query on the rows axis whose positions count the messages of a key."""
    return WindowSpec(("key",), None, windows, AGGREGATES, **options)


def build_offset_spec(windows: Kind, **options: Any) -> WindowSpec:
    """Build a query on the rows axis whose positions are offsets."""
    offset_columns = ("partition", "offset")
    return WindowSpec(
        ("partition", "key"), None, windows, AGGREGATES, offset=offset_columns, **options
    )


def place_messages(*positions: int, key: tuple[Any, ...] = ("a",)) -> list[Placed]:
    """Return messages of one key at these positions."""
    return [Placed(key, position, {"value": position}) for position in positions]
