"""Windows of whole calendar days in a time zone, 23, 24 or 25 hours long.

Source: the window model ("sizes of whole days may take a time zone").
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import ClassVar, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from muntin.model.axis import DAY, Axis, Length, Rows, micros
from muntin.model.by_number import ByNumber
from muntin.model.errors import OptionError
from muntin.model.windows import Windows

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Days(ByNumber):
    """Windows on a grid of local days.

    Attributes:
        grid: The windows counted in days; day 0 is 1970-01-01.
        zone: The time zone, by its IANA name.

    Panes and windows are numbered as those of the grid. A day begins at the first moment that
    bears its date: where a change to summer time skips midnight, at one o'clock. Where the
    calendar has no local date, before year 1 and after year 9999, days are those of UTC.

    Other calendar windows count something else than days; what they count begins with a day.

    Example:
        >>> berlin = Days(Windows(1, 1), "Europe/Berlin")
        >>> day = berlin.pane_of(1_774_738_800_000_000)  # 2026-03-28T23:00Z, midnight in Berlin
        >>> (berlin.end(day) - berlin.start(day)) // 3_600_000_000
        23
    """

    KIND: ClassVar[str] = "days"
    even: ClassVar[bool] = False
    # What the grid counts, and how long that is but for the hour that clocks are changed by.
    counts: ClassVar[str] = "day"
    shortest: ClassVar[int] = DAY
    longest: ClassVar[int] = DAY

    grid: Windows
    zone: str

    @classmethod
    def of(cls, size: Length, slide: Length | None, zone: str, origin: int) -> Self:
        """Windows of so many days, or of what else is counted; see ``days``."""
        length = cls.number("size", size)
        step = length if slide is None else cls.number("slide", slide)
        if step > length:
            hint = f"give {length} {cls.counts}s or less"
            raise OptionError("slide", slide, "is greater than the size", hint)
        first = cls(Windows(1, 1), known_zone(zone)).day_of(origin)
        return cls(Windows(length, step, first % step, "rows"), zone)

    @staticmethod
    def number(option: str, value: Length) -> int:
        """How many days a length has."""
        length = 0 if isinstance(value, Rows) else micros(option, value, zero=False)
        if isinstance(value, Rows) or length % DAY:
            hint = 'give whole days, as "1 day", or leave the zone away'
            raise OptionError(option, value, "isn't a whole number of days", hint)
        return length // DAY

    def first_day(self, number: int) -> int:
        """The day that one of what is counted begins with."""
        return number

    def beside(self, day: int) -> int:
        """The one of what is counted that a day is in."""
        return day

    @property
    def axis(self) -> Axis:
        """Days are stretches of time."""
        return "time"

    @property
    def origin(self) -> int:
        return self.grid.origin

    @property
    def begins(self) -> str:
        return f"{self.counts} {self.origin}"

    @property
    def stored(self) -> str:
        return self.grid.stored

    @property
    def length(self) -> int:
        return self.grid.size * self.longest

    @property
    def pace(self) -> int:
        return self.grid.slide * self.shortest

    @property
    def panes_per_window(self) -> int:
        return self.grid.panes_per_window

    def panes_within(self, length: int) -> int:
        return self.grid.panes_within(-(-length // self.shortest))

    def midnight(self, number: int) -> int:
        """When a local day, or what else is counted, begins, microseconds since the epoch."""
        return self._midnight(self.first_day(number))

    def _midnight(self, day: int) -> int:
        try:
            local = datetime.combine(_FIRST_DAY + timedelta(days=day), time(), ZoneInfo(self.zone))
            return (local.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
        except OverflowError:
            # One message with such a time may not stop the stream: it comes again and again.
            return day * DAY

    def day_of(self, position: int) -> int:
        """The local day, or what else is counted, that a time falls into.

        Where clocks are set back over midnight an hour bears the date of the day before again; it
        belongs to the day that has begun, so that no day is in two pieces.
        """
        try:
            moment = _EPOCH + timedelta(microseconds=position)
            day = (moment.astimezone(ZoneInfo(self.zone)).date() - _FIRST_DAY).days
        except OverflowError:
            day = position // DAY
            # West of Greenwich the first local day begins after the one of UTC.
            day -= int(position < self._midnight(day))
        return self.beside(day + 1 if position >= self._midnight(day + 1) else day)

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

    def ended(self, position: int) -> int:
        return self.grid.ended(self.day_of(position))

    def __str__(self) -> str:
        return f"{str(self.grid).replace('row', self.counts)} in {self.zone}"


def days(size: Length, zone: str, *, slide: Length | None = None, origin: int = 0) -> Days:
    """Windows of whole local days; the origin is a time in the day at which some window starts.

    Example:
        >>> str(days("1 day", "America/New_York"))
        'tumbling 1 day in America/New_York'
    """
    return Days.of(size, slide, zone, origin)


def known_zone(zone: str, option: str = "zone") -> str:
    """A time zone's name, if there is one of that name."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = 'write an IANA name, for example "Europe/Berlin"'
        raise OptionError(option, zone, "isn't a known time zone", hint) from error
    return zone
