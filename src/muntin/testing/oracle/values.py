"""Computes the value of an aggregate from all messages of a window."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from datetime import timedelta
from typing import Any

from muntin.model.aggregates import Aggregate
from muntin.testing.oracle.window import Placed

_LONG_LEAST, _LONG_GREATEST = -(2**63), 2**63 - 1


def value(agg: Aggregate, messages: Sequence[Placed]) -> Any:
    """Return the value of an aggregate; on the rows axis, positions replace times."""
    entry = agg.entry
    if not agg.columns:
        return len(messages)
    if entry.of_rows is not None:
        return entry.of_rows([(m.position, m.message) for m in messages], agg)
    assert entry.value is not None
    in_order = sorted(messages, key=lambda placed: placed.position)
    values = [m.message[agg.column] for m in in_order if m.message[agg.column] is not None]
    return entry.value(values, agg) if values else copy(entry.empty)


def to_micros(length: int | timedelta) -> int:
    """Return a length from a message, in microseconds."""
    return length if isinstance(length, int) else length // timedelta(microseconds=1)


def exceeds_type(value: Any) -> bool:
    """Return whether a whole number exceeds 64 bits."""
    return type(value) is int and not _LONG_LEAST <= value <= _LONG_GREATEST
