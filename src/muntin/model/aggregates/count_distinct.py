"""``count_distinct``: how many distinct values, exactly."""

from __future__ import annotations

from typing import Any

from muntin.model.aggregates.aggregate import Aggregate
from muntin.model.aggregates.counts import count
from muntin.model.aggregates.entry import over_distinct
from muntin.model.shapes import ORDER


@over_distinct(count, accepts=ORDER, names=("COUNT_DISTINCT",))
def count_distinct(column: Any) -> Aggregate:
    """How many distinct values, exactly; keeps each of them. NaN is one value."""
    return Aggregate("count_distinct", column)
