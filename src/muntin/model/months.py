"""Windows of whole calendar months, quarters and years in a time zone.

Source: the window model ("sizes of whole days may take a time zone"), carried on to months.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import ClassVar
from zoneinfo import ZoneInfo

from muntin.model.axis import DAY, Length
from muntin.model.days import Days, on_grid
from muntin.model.errors import OptionError

_SIZE = re.compile(r"(?:interval\s+)?'?(\d{1,6})'?\s*(month|quarter|year)s?|p(\d{1,6})([my])")
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "m": 1, "y": 12}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# After so many months, and days, the calendar repeats itself.
_CYCLE, _DAYS = 4800, 146_097


@dataclass(frozen=True, slots=True)
class Months(Days):
    """Windows on a grid of local months.

    Attributes:
        grid: The windows counted in months; month 0 is January 1970.
        zone: The time zone, by its IANA name.

    A month begins with its first day. Where the calendar has no local date, before year 1 and after
    year 9999, months are those of UTC.

    Example:
        >>> from muntin.model.windows import Windows
        >>> berlin = Months(Windows(1, 1), "Europe/Berlin")
        >>> month = berlin.pane_of(1_772_319_600_000_000)  # 2026-02-28T23:00Z
        >>> (berlin.end(month) - berlin.start(month)) // 3_600_000_000 == 31 * 24 - 1
        True
    """

    KIND: ClassVar[str] = "months"
    counts: ClassVar[str] = "month"

    @property
    def begins(self) -> str:
        """The same in words."""
        return f"month {self.origin}"

    @property
    def length(self) -> int:
        """How long a window is at most."""
        return self.grid.size * 31 * DAY

    @property
    def pace(self) -> int:
        """The distance between two starts, at least."""
        return self.grid.slide * 28 * DAY

    def panes_within(self, length: int) -> int:
        """How many panes there are in a length at most."""
        return self.grid.panes_within(-(-length // (28 * DAY)))

    def midnight(self, day: int) -> int:
        """When a month begins, microseconds since the epoch."""
        cycles, month = divmod(day, _CYCLE)
        year, number = 1970 + month // 12, month % 12 + 1
        try:
            first = date(year + 400 * cycles, number, 1)
            local = datetime(first.year, number, 1, tzinfo=ZoneInfo(self.zone))
            return (local.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
        except (OverflowError, ValueError):
            # One message with such a time may not stop the stream: it comes again and again.
            return ((date(year, number, 1) - _EPOCH.date()).days + _DAYS * cycles) * DAY

    def day_of(self, position: int) -> int:
        """The local month that a time falls into."""
        month = self.beside(position // DAY)
        while position < self.midnight(month):
            month -= 1
        while position >= self.midnight(month + 1):
            month += 1
        return month

    def beside(self, day: int) -> int:
        """The month of a day of UTC's."""
        cycles, rest = divmod(day, _DAYS)
        found = _EPOCH.date() + timedelta(days=rest)
        return (found.year - 1970) * 12 + found.month - 1 + _CYCLE * cycles


def in_months(size: Length) -> int | None:
    """How many months a size has; ``None`` where it isn't given in months, quarters or years.

    Example:
        >>> [in_months(size) for size in ("1 month", "INTERVAL '2' YEAR", "P3M", "3 days")]
        [1, 24, 3, None]
    """
    found = _SIZE.fullmatch(size.strip().lower()) if isinstance(size, str) else None
    return None if found is None else int(found[1] or found[3]) * _MONTHS[found[2] or found[4]]


def months(
    size: Length, zone: str | None, *, slide: Length | None = None, origin: int = 0
) -> Months:
    """Windows of whole local months; of UTC's where no zone is given.

    Args:
        size: Months, quarters or years.
        zone: An IANA name, ``Europe/Berlin``.
        slide: The same; the size where it isn't given.
        origin: A time in the month at which some window starts, microseconds.

    Example:
        >>> str(months("1 year", "Europe/Berlin"))
        'tumbling 12 months in Europe/Berlin'
    """
    return on_grid(Months, _whole, size, slide, "UTC" if zone is None else zone, origin)


def _whole(option: str, value: Length) -> int:
    count = in_months(value)
    if not count:
        hint = 'give months, quarters or years alone, as "1 month"'
        raise OptionError(option, value, "isn't a whole number of months", hint)
    return count
