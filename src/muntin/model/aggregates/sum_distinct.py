"""``sum_distinct``: the sum of the distinct values."""

from __future__ import annotations

from typing import Any

from muntin.model.aggregates.aggregate import Aggregate
from muntin.model.aggregates.entry import over_distinct
from muntin.model.aggregates.sums import sum
from muntin.model.shapes import NUMBER


@over_distinct(sum, accepts=NUMBER)
def sum_distinct(column: Any) -> Aggregate:
    """The sum of the distinct values, in the types and with the overflow of ``sum``."""
    return Aggregate("sum_distinct", column)
