"""Parses the durations and points in time that users of tables write, into microseconds."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

from muntin.model.axis import SECOND, parse_duration, parse_time
from muntin.model.errors import OptionError

Seconds = float | timedelta | str
"""A duration: seconds, a ``timedelta``, ``"10 minutes"`` or ISO 8601."""
PointInTime = float | datetime | str
"""A point in time: seconds since the epoch, a ``datetime``, or ISO 8601."""


def parse_seconds(option: str, value: Seconds, *, zero: bool = True) -> int:
    """Convert a duration to microseconds.

    Example:
        >>> parse_seconds("size", 10.0), parse_seconds("size", "10 seconds")
        (10000000, 10000000)

    Raises:
        OptionError: When ``value`` isn't a duration, or zero without ``zero``.
    """
    if isinstance(value, str | timedelta):
        return parse_duration(option, value, zero=zero)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise OptionError(option, value, "isn't a duration", "give seconds, or '10 minutes'")
    try:
        return parse_duration(option, timedelta(seconds=value), zero=zero)
    except OverflowError:
        raise OptionError(option, value, "is too long", "give less than 1e14 seconds") from None
    except OptionError as error:
        # Show the value as the user wrote it.
        raise OptionError(option, value, error.problem, error.hint) from None


def parse_retention(value: Seconds | None) -> int | None:
    """Convert a retention to microseconds; ``None`` and zero mean forever, as in Faust."""
    return (parse_seconds("expires", value) or None) if value is not None else None


def parse_point_in_time(value: Any) -> int:
    """Convert a point in time to microseconds since the epoch; without a zone it is UTC.

    Example:
        >>> parse_point_in_time(1.5), parse_point_in_time("1970-01-01T00:00:01")
        (1500000, 1000000)

    Raises:
        ValueError: When ``value`` isn't a point in time.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ValueError(f"{value!r} isn't a point in time")
        return round(value * SECOND)
    return parse_time("time", value)


def to_seconds(time: int) -> float:
    """Convert microseconds to seconds since the epoch."""
    return time / SECOND
