"""All kinds of windows, and those that are unions of panes."""

from __future__ import annotations

from muntin.model.axis import Length
from muntin.model.cumulating import Cumulating
from muntin.model.days import Days, days
from muntin.model.months import Months, in_months, months
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.windows import Windows, hopping, tumbling

Paned = Windows | Cumulating | Days | Months
Numbered = Paned | Sliding
"""Windows that have numbers, growing with their ends: all but sessions."""
Kind = Paned | Sliding | Sessions


def of_size(
    size: Length, slide: Length | None = None, *, zone: str | None = None, origin: int = 0
) -> Windows | Days:
    """Windows of one size and distance: of months, of days in a time zone, or of any length.

    Example:
        >>> str(of_size("1 month", zone="Europe/Berlin")), str(of_size("1 hour", "5 minutes"))
        ('tumbling 1 month in Europe/Berlin', 'hopping 1 hour by 5 minutes')
    """
    if in_months(size) is not None:
        return months(size, zone, slide=slide, origin=origin)
    if zone is not None:
        return days(size, zone, slide=slide, origin=origin)
    return tumbling(size, origin=origin) if slide is None else hopping(size, slide, origin=origin)
