"""Placeholder."""

from typing import Any

LocalQuery = Any
SinkLike = Any


def start_query(*a: Any) -> Any: ...
