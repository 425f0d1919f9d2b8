"""``count`` and ``count_if``: how many messages."""

from __future__ import annotations

from typing import Any

from muntin.model.aggregates.aggregate import Aggregate
from muntin.model.aggregates.entry import Sql, entry, fixed
from muntin.model.shapes import ANY, TRUTH


@entry(
    accepts=ANY,
    empty=0,
    sql=Sql(("COUNT",)),
    size=fixed(8),
    value=lambda values, agg: len(values),
)
def count(column: Any = None) -> Aggregate:
    """How many messages; with a column, how many where it isn't null."""
    return Aggregate("count", column)


@entry(
    accepts=TRUTH,
    empty=0,
    sql=Sql(("COUNT_IF",)),
    size=fixed(8),
    value=lambda values, agg: values.count(True),
)
def count_if(column: Any) -> Aggregate:
    """How many messages where a boolean column is true."""
    return Aggregate("count_if", column)
