"""Due times as cron writes them: ``"0 9 * * mon-fri"``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from muntin.model.axis import SECOND
from muntin.model.days import known_zone
from muntin.model.errors import OptionError

_MONTHS = (
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
)  # fmt: skip
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("weekday", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
_PART = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?")
# The 29th of February is the same weekday again after 40 years at most.
_DAYS = 41 * 366


@dataclass(frozen=True)
class Crontab:
    """Minutes, hours, days, months and weekdays (0 is Sunday) of a zone's calendar.

    Where neither days nor weekdays begin with ``*``, it is either of them. An hour that clocks
    skip is the one behind it; one that they repeat counts once, unless every hour counts.

    Example:
        >>> nine = Crontab.parse("0 9 * * mon-fri", "UTC")
        >>> nine.after(0) // SECOND, nine.after(9 * 3600 * SECOND) // SECOND
        (32400, 118800)
    """

    text: str
    fields: tuple[tuple[int, ...], ...]
    either: bool
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str, timezone: Any) -> Crontab:
        """What an expression means in a time zone.

        Raises:
            OptionError: When it isn't five fields of what each may be, or no day is ever meant.
        """
        given = str(text).lower().split()
        if len(given) != len(_FIELDS):
            hint = 'write minute, hour, day, month and weekday, as in "0 9 * * mon-fri"'
            raise OptionError("crontab", text, f"has {len(given)} fields", hint)
        fields = [_numbers(text, one, *of) for one, of in zip(given, _FIELDS, strict=True)]
        fields[4] = {number % 7 for number in fields[4]}
        either = given[2][0] != "*" and given[4][0] != "*"
        zone = ZoneInfo(known_zone(str(timezone), "timezone"))
        made = cls(text, tuple(tuple(sorted(one)) for one in fields), either, zone)
        made.after(0)
        return made

    def after(self, time: int) -> int:
        """The first due time behind a time, microseconds."""
        first = datetime.fromtimestamp(time // SECOND, self.zone).date()
        for day in (first + timedelta(days=n) for n in range(_DAYS)):
            for due in self._on(day):
                if due > time:
                    return due
        raise OptionError("crontab", self.text, "is never due", "give a day that its months have")

    def _on(self, day: date) -> Iterator[int]:
        minutes, hours, days, months, weekdays = self.fields
        fits = day.day in days, day.isoweekday() % 7 in weekdays
        if day.month in months and (any(fits) if self.either else all(fits)):
            for hour in hours:
                for fold in (0, 1) if len(hours) == 24 else (0,):
                    for minute in minutes:
                        at = (day.year, day.month, day.day, hour, minute)
                        yield int(datetime(*at, tzinfo=self.zone, fold=fold).timestamp()) * SECOND


def _numbers(
    text: str, given: str, name: str, low: int, high: int, names: tuple[str, ...]
) -> set[int]:
    """The numbers that a field stands for."""

    def number(word: str) -> int:
        return int(word) if word.isdecimal() else low + names.index(word) if word in names else -1

    found: set[int] = set()
    for part in given.split(","):
        match = _PART.fullmatch(part)
        first, last, step = match.groups() if match else ("", None, None)
        start = low if first is None else number(first)
        end = number(last) if last else high if first is None or step else start
        if not low <= start <= end <= high or not int(step or 1):
            hint = f"give {low} to {high}, lists (1,2), ranges (1-5) or steps (*/2)"
            raise OptionError("crontab", text, f"has {given!r} for its {name}", hint)
        found.update(range(start, end + 1, int(step or 1)))
    return found
