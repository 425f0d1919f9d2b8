"""All kinds of windows, and those that are unions of panes."""

from __future__ import annotations

from muntin.model.cumulating import Cumulating
from muntin.model.days import Days
from muntin.model.json_dataclass import Family
from muntin.model.months import Months
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.windows import Windows

Paned = Windows | Cumulating | Days
Numbered = Paned | Sliding
"""Windows that have numbers, growing with their ends: all but sessions."""
Kind = Paned | Sliding | Sessions

KINDS: Family[Kind] = Family(Windows, Cumulating, Days, Months, Sliding, Sessions)
