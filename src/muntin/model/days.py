"""Windows of calendar days in a time zone, 23, 24 or 25 hours long, and of parts of such days.

Source: the window model ("sizes of whole days may take a time zone").
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from math import gcd
from typing import ClassVar, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from muntin.model.axis import (
    DAY,
    HOUR,
    Axis,
    Length,
    Origin,
    Rows,
    format_duration,
    parse_duration,
    parse_time,
)
from muntin.model.by_number import ByNumber
from muntin.model.cumulating import Cumulating
from muntin.model.errors import OptionError
from muntin.model.windows import Windows

_EPOCH = datetime(1970, 1, 1)
_FIRST_DAY = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_PLAIN_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Days(ByNumber):
    """Windows on a grid of local days.

    Attributes:
        grid: The windows counted in days; day 0 is 1970-01-01.
        shift: Local time at which a day begins, microseconds after midnight.

    Panes and windows are numbered as those of the grid. A day begins at the first instant with its
    date: at one o'clock if a change to summer time skips midnight. Where the calendar has no local
    date, before year 1 and after year 9999, days are those of UTC.

    Subclasses count other units than days, such as months or parts of a day. The methods speak of
    units, numbered from 1970 on.

    Example:
        >>> berlin = Days(Windows(1, 1), "Europe/Berlin")
        >>> day = berlin.pane_of(1_774_738_800_000_000)  # 2026-03-28T23:00Z, midnight in Berlin
        >>> (berlin.end(day) - berlin.start(day)) // 3_600_000_000
        23
    """

    KIND: ClassVar[str] = "days"
    even: ClassVar[bool] = False
    # The unit that the grid counts, and its length apart from the hour of a clock change.
    counts: ClassVar[str] = "day"
    shortest: ClassVar[int] = DAY
    longest: ClassVar[int] = DAY

    grid: Windows | Cumulating
    zone: str
    shift: int = 0

    @classmethod
    def of(cls, size: Length, slide: Length | None, zone: str, origin: LocalTime) -> Self:
        """Return windows of a number of units in a time zone."""
        length = cls.number("size", size)
        step = length if slide is None else cls.number("slide", slide)
        if step > length:
            hint = f"give {length} {cls.counts}s or less"
            raise OptionError("slide", slide, "is greater than the size", hint)
        return cls(Windows(length, step, origin.day % step, "rows"), zone, origin.time)

    @staticmethod
    def number(option: str, value: Length) -> int:
        """Return the number of days in a length."""
        length = 0 if isinstance(value, Rows) else parse_duration(option, value, zero=False)
        if isinstance(value, Rows) or length % DAY:
            hint = 'give whole days, as "1 day", or leave the zone away'
            raise OptionError(option, value, "isn't a whole number of days", hint)
        return length // DAY

    def first_day(self, number: int) -> int:
        """Return the first day of a unit."""
        return number

    def number_at(self, wall: int) -> int:
        """Return the unit that a local time is in, given in microseconds since local 1970."""
        return (wall - self.shift) // DAY

    def wall_start(self, number: int) -> int:
        """Return the local time at which a unit begins, microseconds since local 1970."""
        return self.first_day(number) * DAY + self.shift

    @property
    def axis(self) -> Axis:
        """The time axis."""
        return "time"

    @property
    def origin(self) -> int:
        return self.grid.origin

    @property
    def begins(self) -> str:
        return f"{self.counts} {self.origin}{self.first_moment}"

    @property
    def block(self) -> int:
        return self.grid.block

    def first_inside(self, window: int) -> int:
        return self.grid.first_inside(window)

    def pattern(self, window: int) -> int:
        return self.grid.pattern(window)

    @property
    def storage(self) -> str:
        return self.grid.storage

    @property
    def sole_bounds(self) -> tuple[str, ...]:
        """Either bound; none if windows overlap, since clock changes may join two bounds."""
        return ("window_start", "window_end") if self.grid.overlap == 1 else ()

    @property
    def length(self) -> int:
        return self.grid.size * self.longest

    @property
    def pace(self) -> int:
        return self.grid.pace * self.shortest

    @property
    def panes_per_window(self) -> int:
        return self.grid.panes_per_window

    def panes_within(self, length: int) -> int:
        return self.grid.panes_within(-(-length // self.shortest))

    def midnight(self, number: int) -> int:
        """Return the start of a unit, microseconds since the epoch."""
        return _first_instant(self.wall_start(number), self.zone)

    def day_of(self, position: int) -> int:
        """Return the unit that a time falls into.

        If clocks are set back across the start of a day, an hour has the date of the day before
        again. It belongs to the day that has begun, so that no day is split in two.
        """
        number = self.number_at(local_time(position, self.zone))
        while position < self.midnight(number):
            number -= 1
        while position >= self.midnight(number + 1):
            number += 1
        return number

    def numbers_around(self, day: int) -> range:
        """Return the numbers of all units that may contain a time of a day in UTC."""
        # Clocks are less than a day away from UTC.
        first, last = self.number_at((day - 1) * DAY), self.number_at((day + 2) * DAY)
        return range(first - 1, last + 2)

    def start(self, window: int) -> int:
        return self.midnight(self.grid.start(window))

    def end(self, window: int) -> int:
        return self.midnight(self.grid.end(window))

    def pane_of(self, position: int) -> int:
        return self.grid.pane_of(self.day_of(position))

    def pane_start(self, pane: int) -> int:
        return self.midnight(self.grid.pane_start(pane))

    def first_pane(self, window: int) -> int:
        return self.grid.first_pane(window)

    def last_pane(self, window: int) -> int:
        return self.grid.last_pane(window)

    def first_window(self, pane: int) -> int:
        return self.grid.first_window(pane)

    def last_window(self, pane: int) -> int:
        return self.grid.last_window(pane)

    def last_ended(self, position: int) -> int:
        return self.grid.last_ended(self.day_of(position))

    def __str__(self) -> str:
        return f"{str(self.grid).replace('row', self.counts)} in {self.zone}{self.first_moment}"

    @property
    def first_moment(self) -> str:
        """The local time at which windows begin, in words; empty for midnight."""
        return f", from {_format_time_of_day(self.shift)}" if self.shift else ""


@dataclass(frozen=True, slots=True)
class Hours(Days):
    """Windows on a grid of equal parts of local days, measured in local time.

    Attributes:
        grid: The windows counted in parts; part 0 begins 1970-01-01.
        shift: Local time at which the first part of a day begins, microseconds after midnight.
        part: Length of a part, microseconds; it divides a day.

    Parts that are skipped when clocks are set forward don't exist. A part that is repeated when
    clocks are set back is longer by that time.

    Example:
        >>> delhi = Hours(Windows(1, 1), "Asia/Kolkata", part=HOUR)
        >>> delhi.start(delhi.pane_of(0)) // 60_000_000  # 05:30 by the wall: the hour from 05:00
        -30
    """

    KIND: ClassVar[str] = "hours"
    counts: ClassVar[str] = "part"

    part: int = HOUR

    @classmethod
    def of(cls, size: Length, slide: Length | None, zone: str, origin: LocalTime) -> Self:
        """Return windows of a number of parts of local days."""
        length = parse_duration("size", size)  # type: ignore[arg-type]
        step = parse_duration("slide", size if slide is None else slide)  # type: ignore[arg-type]
        if step > length:
            hint = f"give {format_duration(length)} or less"
            raise OptionError("slide", slide, "is greater than the size", hint)
        part = gcd(length, step)
        if DAY % part:
            hint = "give whole days or parts of one, as 1 or 6 hours, or leave the zone away"
            raise OptionError(
                "size", format_duration(length), "doesn't divide a day of a zone", hint
            )
        number, shift = divmod(origin.day * DAY + origin.time, part)
        size_in_parts, slide_in_parts = length // part, step // part
        grid = Windows(size_in_parts, slide_in_parts, number % slide_in_parts, "rows")
        return cls(grid, zone, shift, part)

    @property
    def shortest(self) -> int:  # type: ignore[override]
        """Length of a part on most days."""
        return self.part

    @property
    def longest(self) -> int:  # type: ignore[override]
        """Length of a part when clocks are set back."""
        return self.part + HOUR

    def number_at(self, wall: int) -> int:
        return (wall - self.shift) // self.part

    def wall_start(self, number: int) -> int:
        return number * self.part + self.shift

    def __str__(self) -> str:
        grid = self.grid
        shown = type(grid)(grid.size * self.part, grid.pace * self.part)
        return f"{shown} in {self.zone}{self.first_moment}"


@dataclass(frozen=True, slots=True)
class LocalTime:
    """A local time: its day since 1970-01-01, and its time of day in microseconds."""

    day: int = 0
    time: int = 0


def find_local_origin(origin: Origin, zone: str, offset: int = 0) -> LocalTime:
    """Return the local time at which some window starts.

    ``origin`` is a point in time, or a plain date in the zone; ``None`` is 1970-01-01 in the zone.
    ``offset`` is the local time by which windows start later, microseconds.
    """
    if isinstance(origin, str) and _PLAIN_DATE.fullmatch(origin.strip()):
        wall = parse_time("origin", origin)
    elif isinstance(origin, date) and not isinstance(origin, datetime):
        wall = parse_time("origin", origin.isoformat())
    elif origin is None or origin == 0:
        wall = 0
    else:
        position = origin if isinstance(origin, int) else parse_time("origin", origin)
        wall = local_time(position, check_zone(zone))
    return LocalTime(*divmod(wall + offset, DAY))


def days(
    size: Length, zone: str, *, slide: Length | None = None, origin: Origin = None, offset: int = 0
) -> Days:
    """Return windows of local days or of parts of them, aligned by ``find_local_origin``.

    Example:
        >>> str(days("1 day", "America/New_York")), str(days("6 hours", "Asia/Kolkata"))
        ('tumbling 1 day in America/New_York', 'tumbling 6 hours in Asia/Kolkata')
    """
    begins = find_local_origin(origin, check_zone(zone), offset)
    lengths = [length for length in (size, slide) if length is not None]
    if any(isinstance(length, Rows) for length in lengths):
        hint = 'give a duration, as "1 day", or leave the zone away'
        raise OptionError("size", str(size), "is measured in rows, which have no zone", hint)
    whole = all(parse_duration("size", length, zero=False) % DAY == 0 for length in lengths)  # type: ignore[arg-type]
    return (Days if whole else Hours).of(size, slide, zone, begins)


def cumulating_days(
    size: Length, step: Length, zone: str, *, origin: Origin = None, offset: int = 0
) -> Days:
    """Return windows that start every few local days and end at each step of local time.

    Example:
        >>> str(cumulating_days("1 day", "6 hours", "Europe/Berlin"))
        'cumulating 1 day by 6 hours in Europe/Berlin'
    """
    windows = days(size, zone, slide=step, origin=origin, offset=offset)
    units, pace = windows.grid.size, windows.grid.pace
    if windows.pace <= HOUR:
        hint = "give steps of 2 hours or more, or leave the zone away"
        raise OptionError("step", str(step), "may be skipped by a change of clocks", hint)
    if units % pace:
        hint = f"give a step that {format_duration(parse_duration('size', size))} is a multiple of"  # type: ignore[arg-type]
        raise OptionError("step", str(step), "doesn't divide the size", hint)
    begins = find_local_origin(origin, zone, offset)
    start = windows.number_at(begins.day * DAY + begins.time)
    return replace(windows, grid=Cumulating(units, pace, start % units, "rows"))


def local_time(position: int, zone: str) -> int:
    """Return the local time in microseconds since 1970; UTC outside of the years 1 to 9999."""
    try:
        moment = (_EPOCH + timedelta(microseconds=position)).replace(tzinfo=UTC)
        wall = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    except OverflowError:
        return position
    return (wall - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=1 << 16)
def _first_instant(wall: int, zone: str) -> int:
    """Return the first instant at which the local time is a given one or later."""
    try:
        local = (_EPOCH + timedelta(microseconds=wall)).replace(tzinfo=ZoneInfo(zone))
        moments = [local.replace(fold=fold).astimezone(UTC) for fold in (0, 1)]
    except OverflowError:
        # Raising would stop the stream at one message with such a time, again on each restart.
        return wall
    epoch = _EPOCH.replace(tzinfo=UTC)
    first, before = ((moment - epoch) // _MICROSECOND for moment in moments)
    if before >= first:
        return first
    # A clock change between the two instants skips that time.
    while before + 1 < first:
        middle = (before + first) // 2
        before, first = (middle, first) if local_time(middle, zone) < wall else (before, middle)
    return first


def _format_time_of_day(time: int) -> str:
    """Format a time of day.

    Example:
        >>> _format_time_of_day(6 * HOUR), _format_time_of_day(1)
        ('06:00', '00:00:00.000001')
    """
    text = (_EPOCH + timedelta(microseconds=time)).time().isoformat()
    return text.removesuffix(":00")


def check_zone(zone: str, option: str = "zone") -> str:
    """Return a time zone's name; refuse it if there is no such zone."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = 'write an IANA name, for example "Europe/Berlin"'
        raise OptionError(option, zone, "isn't a known time zone", hint) from error
    return zone
