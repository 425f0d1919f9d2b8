"""Schedules in cron's notation: ``"0 9 * * mon-fri"``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from muntin.model.axis import SECOND
from muntin.model.days import check_zone
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
# The 29th of February repeats its weekday within 40 years.
_DAYS = 41 * 366


@dataclass(frozen=True)
class Crontab:
    """A schedule of minutes, hours, days, months and weekdays (0 is Sunday) in a time zone.

    If neither days nor weekdays start with ``*``, either of them has to match. A time that clocks
    skip is due an hour later; one that they repeat is due once, unless every hour is due.

    Example:
        >>> nine = Crontab.parse("0 9 * * mon-fri", "UTC")
        >>> nine.next_due(0) // SECOND, nine.next_due(9 * 3600 * SECOND) // SECOND
        (32400, 118800)
    """

    text: str
    fields: tuple[tuple[int, ...], ...]
    either: bool
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str, timezone: Any) -> Crontab:
        """Parse an expression in a time zone.

        Raises:
            OptionError: When the expression doesn't have five valid fields, or is never due.
        """
        words = str(text).lower().split()
        if len(words) != len(_FIELDS):
            hint = 'write minute, hour, day, month and weekday, as in "0 9 * * mon-fri"'
            raise OptionError("crontab", text, f"has {len(words)} fields", hint)
        fields = [
            _parse_field(text, word, *limits) for word, limits in zip(words, _FIELDS, strict=True)
        ]
        fields[4] = {number % 7 for number in fields[4]}
        either = words[2][0] != "*" and words[4][0] != "*"
        zone = ZoneInfo(check_zone(str(timezone), "timezone"))
        schedule = cls(text, tuple(tuple(sorted(word)) for word in fields), either, zone)
        schedule.next_due(0)
        return schedule

    def next_due(self, time: int) -> int:
        """Return the first due time after ``time``, in microseconds."""
        first = datetime.fromtimestamp(time // SECOND, self.zone).date()
        for day in (first + timedelta(days=n) for n in range(_DAYS)):
            for due in self._list_due_times(day):
                if due > time:
                    return due
        raise OptionError("crontab", self.text, "is never due", "give a day that its months have")

    def _list_due_times(self, day: date) -> Iterator[int]:
        minutes, hours, days, months, weekdays = self.fields
        day_matches = day.day in days, day.isoweekday() % 7 in weekdays
        if day.month in months and (any(day_matches) if self.either else all(day_matches)):
            for hour in hours:
                for fold in (0, 1) if len(hours) == 24 else (0,):
                    for minute in minutes:
                        local_minute = (day.year, day.month, day.day, hour, minute)
                        yield (
                            int(datetime(*local_minute, tzinfo=self.zone, fold=fold).timestamp())
                            * SECOND
                        )


def _parse_field(
    text: str, field: str, name: str, low: int, high: int, names: tuple[str, ...]
) -> set[int]:
    def to_number(word: str) -> int:
        return int(word) if word.isdecimal() else low + names.index(word) if word in names else -1

    numbers: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        first, last, step = match.groups() if match else ("", None, None)
        start = low if first is None else to_number(first)
        end = to_number(last) if last else high if first is None or step else start
        if not low <= start <= end <= high or not int(step or 1):
            hint = f"give {low} to {high}, lists (1,2), ranges (1-5) or steps (*/2)"
            raise OptionError("crontab", text, f"has {field!r} for its {name}", hint)
        numbers.update(range(start, end + 1, int(step or 1)))
    return numbers
