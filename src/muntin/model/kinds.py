"""All kinds of windows, and those that are unions of panes."""

from __future__ import annotations

from muntin.model.axis import DAY, Length, Origin, Rows, instant, micros
from muntin.model.cumulating import Cumulating, cumulating
from muntin.model.days import Days, Hours, cumulating_days, days
from muntin.model.errors import OptionError
from muntin.model.months import Months, in_months, months
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.windows import Windows, hopping

Paned = Windows | Cumulating | Days | Hours | Months
Numbered = Paned | Sliding
"""Windows that have numbers, growing with their ends: all but sessions."""
Kind = Paned | Sliding | Sessions


MOST_OVERLAPPING = 100_000
"""In how many windows a message may be, where no other number is given."""
# The calendar has 9999 years; a longer window is a mistaken unit.
_LONGEST = 1000 * 366 * DAY


def of_size(
    size: Length,
    slide: Length | None = None,
    *,
    zone: str | None = None,
    origin: Origin = None,
    offset: int = 0,
    overlap: int = MOST_OVERLAPPING,
) -> Windows | Days:
    """Windows of one size and distance: of months, of days in a time zone, or of any length.

    Args:
        size: Length of a window.
        slide: Distance between two starts; ``None``: the size.
        zone: The time zone of calendar windows.
        origin: Where some window starts; see ``local_origin`` where there is a zone.
        offset: How much later windows start than there, microseconds; in a zone by its clocks.
        overlap: In how many windows a message may be.

    Example:
        >>> str(of_size("1 month", zone="Europe/Berlin")), str(of_size("1 hour", "5 minutes"))
        ('tumbling 1 month in Europe/Berlin', 'hopping 1 hour by 5 minutes')
    """
    _check_size(size)
    found: Windows | Days
    if in_months(size) is not None:
        found = months(size, zone, slide=slide, origin=origin, offset=offset)
    elif zone is not None:
        found = days(size, zone, slide=slide, origin=origin, offset=offset)
    else:
        step = size if slide is None else slide
        found = hopping(size, step, origin=_position(origin) + offset)
    _check_overlap(found, "slide", slide, overlap)
    return found


def cumulating_in(
    size: Length,
    step: Length,
    *,
    zone: str | None = None,
    origin: Origin = None,
    offset: int = 0,
    overlap: int = MOST_OVERLAPPING,
) -> Cumulating | Days:
    """Windows that cumulate, of local days and parts of them where there is a zone."""
    _check_size(size)
    found: Cumulating | Days
    if zone is None:
        found = cumulating(size, step, origin=_position(origin) + offset)
    else:
        found = cumulating_days(size, step, zone, origin=origin, offset=offset)
    _check_overlap(found, "step", step, overlap)
    return found


def _check_size(size: Length) -> None:
    """Refuse windows that are longer than calendars are."""
    if isinstance(size, Rows):
        return
    count = in_months(size)
    length = micros("size", size) if count is None else count * 31 * DAY
    if length > _LONGEST:
        hint = "give 1000 years or less, and check the unit"
        raise OptionError("size", size, "is longer than calendars are", hint)


def _check_overlap(windows: Paned, option: str, value: Length | None, overlap: int) -> None:
    """Refuse windows of which a message would be in absurdly many."""
    if not isinstance(overlap, int) or overlap < 1:
        raise OptionError("overlap", overlap, "isn't a number of windows", "give 1 or more")
    grid = windows.grid if isinstance(windows, Days) else windows
    count = -(-grid.size // (grid.step if isinstance(grid, Cumulating) else grid.slide))
    if count > overlap:
        hint = f"give a greater {option}, or overlap={count} if that is meant"
        raise OptionError(option, str(value), f"puts a message in {count:,} windows", hint)


def _position(origin: Origin) -> int:
    if origin is None or isinstance(origin, int):
        return origin or 0
    return instant("origin", origin)
