"""Windows of whole calendar months, quarters and years in a time zone.

Source: the window model ("sizes of whole days may take a time zone"), extended to months.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import ClassVar, Self

from muntin.model.axis import DAY, Length, Origin
from muntin.model.days import Days, LocalTime, check_zone, find_local_origin
from muntin.model.errors import OptionError

_SIZE = re.compile(r"(?:interval\s+)?'?(\d+)'?\s*(month|quarter|year)s?|p(\d+)([my])")
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "m": 1, "y": 12}
_FIRST_DAY = date(1970, 1, 1)
# The calendar repeats itself after this number of months, which is this number of days.
_CYCLE, _DAYS = 4800, 146_097


@dataclass(frozen=True, slots=True)
class Months(Days):
    """Windows on a grid of local months.

    Attributes:
        grid: The windows counted in months; month 0 is January 1970.
        shift: Local time at which a month begins, microseconds after midnight.
        day: The day of the month with which a month begins; its last day if it has no such day.

    Where the calendar has no local date, before year 1 and after year 9999, months are those of
    UTC.

    Example:
        >>> from muntin.model.windows import Windows
        >>> berlin = Months(Windows(1, 1), "Europe/Berlin")
        >>> month = berlin.pane_of(1_772_319_600_000_000)  # 2026-02-28T23:00Z
        >>> (berlin.end(month) - berlin.start(month)) // 3_600_000_000 == 31 * 24 - 1
        True
    """

    KIND: ClassVar[str] = "months"
    counts: ClassVar[str] = "month"
    shortest: ClassVar[int] = 28 * DAY
    longest: ClassVar[int] = 31 * DAY

    day: int = 1

    @classmethod
    def of(cls, size: Length, slide: Length | None, zone: str, origin: LocalTime) -> Self:
        first = _FIRST_DAY + timedelta(days=origin.day)
        month = (first.year - 1970) * 12 + first.month - 1
        whole = super(Months, cls).of(size, slide, zone, LocalTime(month, origin.time))
        return replace(whole, day=first.day)

    @staticmethod
    def number(option: str, value: Length) -> int:
        count = count_months(value)
        if not count:
            hint = 'give months, quarters or years alone, as "1 month"'
            raise OptionError(option, value, "isn't a whole number of months", hint)
        return count

    def first_day(self, number: int) -> int:
        cycles, month = divmod(number, _CYCLE)
        year, month = 1970 + month // 12, month % 12 + 1
        first = date(year, month, min(self.day, monthrange(year, month)[1]))
        return (first - _FIRST_DAY).days + _DAYS * cycles

    def number_at(self, wall: int) -> int:
        day = (wall - self.shift) // DAY
        cycles, rest = divmod(day, _DAYS)
        date_in_cycle = _FIRST_DAY + timedelta(days=rest)
        month = (date_in_cycle.year - 1970) * 12 + date_in_cycle.month - 1 + _CYCLE * cycles
        return month - int(day < self.first_day(month))

    @property
    def first_moment(self) -> str:
        clock = Days.first_moment.fget(self)  # type: ignore[attr-defined]
        return f", from day {self.day}{clock}" if self.day > 1 else clock


def count_months(size: Length) -> int | None:
    """Return the number of months in a size; ``None`` if it isn't in months, quarters or years.

    Example:
        >>> [count_months(size) for size in ("1 month", "INTERVAL '2' YEAR", "P3M", "3 days")]
        [1, 24, 3, None]
    """
    match = _SIZE.fullmatch(size.strip().lower()) if isinstance(size, str) else None
    if match is None:
        return None
    return int(Decimal(match[1] or match[3])) * _MONTHS[match[2] or match[4]]


def months(
    size: Length,
    zone: str | None,
    *,
    slide: Length | None = None,
    origin: Origin = None,
    offset: int = 0,
) -> Months:
    """Return windows of whole local months, quarters or years; in UTC if there is no zone.

    Example:
        >>> str(months("1 year", "Europe/Berlin"))
        'tumbling 12 months in Europe/Berlin'
    """
    local = check_zone("UTC" if zone is None else zone)
    return Months.of(size, slide, local, find_local_origin(origin, local, offset))
