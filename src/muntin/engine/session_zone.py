"""Spark's session time zone in Polars, also if it is an offset or one of Java's names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

import polars as pl

from muntin.model.axis import SECOND

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?")
_UTC = ("Z", "UT")
_DAY = timedelta(days=1)
# ``ZoneId.SHORT_IDS``. Spark prefers them to the database's names: its EST has no summer time.
_SHORT = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia", "MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip


@dataclass(frozen=True)
class SessionZone:
    """A time zone: its name in Polars, and the microseconds by which local time is ahead of it."""

    name: str = "UTC"
    offset: int = 0

    def to_instants(self, local: pl.Series) -> pl.Series:
        """Convert local times to instants, with Java's rules for clock changes.

        A local time that occurs twice is the first of the two. One that is skipped is read as if
        clocks hadn't been changed yet.
        """
        if self.offset:
            return (local - timedelta(microseconds=self.offset)).dt.replace_time_zone("UTC")
        instants = self._convert(local)
        skipped = (instants.is_null() & local.is_not_null()).arg_true()
        if len(skipped):
            # No clock change skips more than a day.
            instants = instants.scatter(skipped, self._convert(local.gather(skipped) - _DAY) + _DAY)
        return instants

    def _convert(self, local: pl.Series) -> pl.Series:
        zoned = local.dt.replace_time_zone(self.name, ambiguous="earliest", non_existent="null")
        return zoned.dt.convert_time_zone("UTC")

    def local(self, moments: pl.Expr) -> tuple[pl.Expr, str]:
        """Return instants as local times, and the format string of their offset."""
        if not self.offset:
            return moments.dt.convert_time_zone(self.name), "%:z"
        hours, minutes = divmod(abs(self.offset) // (60 * SECOND), 60)
        shifted = moments.dt.convert_time_zone("UTC") + pl.duration(microseconds=self.offset)
        return shifted, f"{'-' if self.offset < 0 else '+'}{hours:02}:{minutes:02}"


@lru_cache(maxsize=100)
def find_session_zone(name: str) -> SessionZone | None:
    """Return a zone by its name in Spark; ``None`` if only Java has it (``SystemV/PST8``).

    Example:
        >>> find_session_zone("PST")
        SessionZone(name='America/Los_Angeles', offset=0)
        >>> find_session_zone("GMT+1")
        SessionZone(name='UTC', offset=3600000000)
    """
    name = "UTC" if name in _UTC else _SHORT.get(name, name)
    match = _OFFSET.fullmatch(name)
    if match is not None:
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        return SessionZone(offset=minutes * 60 * SECOND * (-1 if match[1] == "-" else 1))
    try:
        pl.Series([0]).cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(name)
    except pl.exceptions.PolarsError:
        return None
    return SessionZone(name)
