"""All kinds of windows, and the functions that choose one by its options."""

from __future__ import annotations

from typing import TypeGuard

from muntin.model.axis import DAY, Length, Origin, Rows, check_length, parse_duration, parse_time
from muntin.model.cumulating import Cumulating, cumulating
from muntin.model.days import Days, Hours, cumulating_days, days
from muntin.model.errors import OptionError
from muntin.model.months import Months, count_months, months
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.trailing import Trailing
from muntin.model.windows import Windows, hopping
from muntin.model.zones import ZonedWindows, add_zone_column, check_zone_column

Paned = Windows | Cumulating | Days | Hours | Months
Numbered = Paned | Sliding | Trailing
"""Windows with numbers that grow with their ends: all kinds but sessions and a zone per key."""
Uniform = Numbered | Sessions
"""Windows on one axis for all keys."""
Kind = Uniform | ZonedWindows


MOST_OVERLAPPING = 100_000
"""Default of ``overlap``: the greatest number of windows that a message may be in."""


def of_size(
    size: Length,
    slide: Length | None = None,
    *,
    zone: str | None = None,
    zone_column: str | None = None,
    origin: Origin = None,
    offset: int = 0,
    overlap: int = MOST_OVERLAPPING,
) -> Windows | Days | ZonedWindows:
    """Return windows of one size and slide: of months, of days in a time zone, or of any length.

    A zone makes calendar windows, whose origin is read by ``find_local_origin``; ``zone_column``
    has each key's own. ``offset`` is the (local) time after the origin at which windows start,
    microseconds. ``overlap`` is the greatest number of windows that a message may be in.
    """
    zone = check_zone_column(zone_column, zone, origin)
    _check_size(size)
    windows: Windows | Days
    if count_months(size) is not None:
        windows = months(size, zone, slide=slide, origin=origin, offset=offset)
    elif zone is not None:
        windows = days(size, zone, slide=slide, origin=origin, offset=offset)
    else:
        step = size if slide is None else slide
        windows = hopping(size, step, origin=_position(origin, size) + offset)
    _check_overlap(windows, "slide", slide, overlap)
    return add_zone_column(windows, zone_column)


def cumulating_in(
    size: Length,
    step: Length,
    *,
    zone: str | None = None,
    zone_column: str | None = None,
    origin: Origin = None,
    offset: int = 0,
    overlap: int = MOST_OVERLAPPING,
) -> Cumulating | Days | ZonedWindows:
    """Return cumulating windows; with a zone, of its local days and parts of them."""
    zone = check_zone_column(zone_column, zone, origin)
    _check_size(size)
    windows: Cumulating | Days
    if zone is None:
        windows = cumulating(size, step, origin=_position(origin, size) + offset)
    else:
        windows = cumulating_days(size, step, zone, origin=origin, offset=offset)
    _check_overlap(windows, "step", step, overlap)
    return add_zone_column(windows, zone_column)


def _check_size(size: Length) -> None:
    """Refuse windows that are longer than calendars are."""
    if isinstance(size, Rows):
        return
    count = count_months(size)
    if count is None:
        parse_duration("size", size)
    else:
        check_length("size", size, count * 366 * DAY // 12)


def _check_overlap(windows: Paned, option: str, value: Length | None, overlap: int) -> None:
    """Refuse windows that overlap so much that a message would be in too many."""
    if not isinstance(overlap, int) or overlap < 1:
        raise OptionError("overlap", overlap, "isn't a number of windows", "give 1 or more")
    count = windows.overlap
    if count > overlap:
        hint = f"give a greater {option}, or overlap={count} if that is meant"
        raise OptionError(option, str(value), f"puts a message in {count:,} windows", hint)


def _position(origin: Origin, size: Length) -> int:
    if origin is None or isinstance(origin, int):
        return origin or 0
    if isinstance(size, Rows):
        hint = "give the number of a row at which some window starts, or leave it out"
        raise OptionError("origin", origin, "is a time, and the windows are of rows", hint)
    return parse_time("origin", origin)


def require_one_axis(windows: Kind | None) -> Uniform | None:
    """Return the windows of a side of a join; refuse a zone per key."""
    if windows is None:
        return None
    if windows.zone_column is not None:
        hint = 'give one zone, as zone="Europe/Paris"; or join the results of the windows'
        raise OptionError("zone_column", windows.zone_column, "isn't taken by joins", hint)
    return windows.in_zone("UTC")


def is_paned(windows: Kind | None) -> TypeGuard[Paned]:
    """Return whether windows consist of panes."""
    return windows is not None and windows.has_panes
