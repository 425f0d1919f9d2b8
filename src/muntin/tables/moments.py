"""Lengths and points in time as users of tables write them; inside all are microseconds."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

from muntin.model.axis import SECOND, instant, micros
from muntin.model.errors import OptionError

Seconds = float | timedelta | str
"""A length of time: seconds, a ``timedelta``, ``"10 minutes"`` or ISO 8601."""
PointInTime = float | datetime | str
"""A point in time: seconds since the epoch, a ``datetime``, or ISO 8601."""

# Before and behind every time there is.
BEGINNING = -(1 << 62)
END = 1 << 62


def length(option: str, value: Seconds, *, zero: bool = True) -> int:
    """A length in microseconds.

    Example:
        >>> length("size", 10.0) == length("size", "10 seconds") == 10_000_000
        True
    """
    if isinstance(value, str | timedelta):
        return micros(option, value, zero=zero)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise OptionError(option, value, "isn't a duration", "give seconds, or '10 minutes'")
    try:
        return micros(option, timedelta(seconds=value), zero=zero)
    except OverflowError:
        raise OptionError(option, value, "is too long", "give less than 1e14 seconds") from None
    except OptionError as error:
        # As it was given.
        raise OptionError(option, value, error.problem, error.hint) from None


def expiry(value: Seconds | None) -> int | None:
    """How long a window is kept after its end; nothing and zero mean indefinitely, as in Faust."""
    return (length("expires", value) or None) if value is not None else None


def moment(value: Any) -> int:
    """A point in time in microseconds since the epoch; without a zone it is UTC.

    Example:
        >>> moment(1.5), moment("1970-01-01T00:00:01")
        (1500000, 1000000)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ValueError(f"{value!r} isn't a point in time")
        return round(value * SECOND)
    return instant("time", value)


def seconds(time: int) -> float:
    """Seconds since the epoch, as Faust gives times."""
    return time / SECOND
