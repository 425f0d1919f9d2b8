"""Calendar windows in the time zone of each key, such as each shop's own day.

Source: the window model ("sizes of whole days may take a time zone"), extended to a zone per key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar
from zoneinfo import available_timezones

from muntin.model.axis import Axis, Origin
from muntin.model.by_number import WindowKind
from muntin.model.days import Days, Hours
from muntin.model.errors import OptionError
from muntin.model.months import Months

# Names of the machine's own zone, which differs from one machine to the next.
_OF_MACHINE = frozenset({"localtime", "posixrules", "Factory"})


@dataclass(frozen=True, slots=True)
class ZonedWindows(WindowKind):
    """Calendar windows in the time zone that a key column names.

    Attributes:
        calendar: The windows, in UTC; those of a zone are the same by its clocks.
        column: The key column with the names of zones.

    Each zone is an axis of its own: windows of different zones have different bounds, so their
    numbers don't compare.

    Example:
        >>> from muntin.model.days import days
        >>> own_days = ZonedWindows(days("1 day", "UTC"), "tz")
        >>> str(own_days), str(own_days.in_zone("Asia/Tokyo"))
        ("tumbling 1 day in each key's zone (tz)", 'tumbling 1 day in Asia/Tokyo')
    """

    KIND: ClassVar[str] = "zoned"
    is_numbered: ClassVar[Literal[True]] = True

    calendar: Days | Hours | Months
    column: str

    @property
    def zone_column(self) -> str:
        return self.column

    @property
    def can_reopen(self) -> bool:
        """False, since the windows of each zone have numbers of their own."""
        return False

    @property
    def sole_bounds(self) -> tuple[str, ...]:
        """Those of the calendar: a key has one zone."""
        return self.calendar.sole_bounds

    @property
    def columns(self) -> dict[str, Any]:
        """The column of zones."""
        return {"column": self.column}

    def in_zone(self, zone: str) -> Days:  # type: ignore[override]
        """Return the windows of one zone."""
        return replace(self.calendar, zone=zone)

    def complete_keys(
        self, keys: tuple[Any, ...], offset: tuple[str, str] | None
    ) -> tuple[Any, ...]:
        """Return keys with the column of zones as the last one, unless it is among them."""
        is_key = any(isinstance(key, str) and key == self.column for key in keys)
        return keys if is_key else (*keys, self.column)

    @property
    def axis(self) -> Axis:
        """The time axis."""
        return "time"

    @property
    def origin(self) -> int:
        return self.calendar.origin

    @property
    def begins(self) -> str:
        return self.calendar.begins

    @property
    def storage(self) -> str:
        """The panes that messages are stored in, in words."""
        return self.calendar.storage

    @property
    def in_any_zone(self) -> Days:
        """The windows with a description of their zone in place of its name."""
        return self.in_zone(f"each key's zone ({self.column})")

    def __str__(self) -> str:
        return str(self.in_any_zone)


W = TypeVar("W")


def add_zone_column(windows: W, column: str | None) -> W | ZonedWindows:
    """Return calendar windows in the zones of a column; without one, the windows as they are."""
    return windows if column is None else ZonedWindows(windows, column)  # type: ignore[arg-type]


@cache
def list_zones() -> frozenset[str]:
    """Return the names of all time zones, without those of the machine's own zone."""
    return frozenset(available_timezones()) - _OF_MACHINE


def check_zone_column(column: object, zone: str | None, origin: Origin) -> str | None:
    """Return the zone that windows are computed in; with a column of zones, that is UTC.

    Raises:
        OptionError: When ``column`` isn't the name of a column, or another option contradicts it.
    """
    if column is None:
        return zone
    if not isinstance(column, str) or not column:
        hint = 'give the name of a column, as zone_column="tz"'
        raise OptionError("zone_column", column, "isn't the name of a column", hint)
    if zone is not None:
        hint = "give the one zone of all keys, or the column with each key's zone"
        raise OptionError("zone_column", column, f"stands beside zone={zone}", hint)
    if isinstance(origin, str):
        try:
            has_zone = datetime.fromisoformat(origin.strip()).tzinfo is not None
        except ValueError:
            has_zone = False  # It is refused where it is read.
    elif isinstance(origin, datetime):
        has_zone = origin.tzinfo is not None
    else:
        has_zone = origin not in (None, 0) and not isinstance(origin, date)
    if has_zone:
        hint = 'give a date or a local time, as "2026-01-01T06:00"'
        raise OptionError("origin", origin, "is another local time in each zone", hint)
    return "UTC"
