"""``sum_distinct``: the sum of the distinct values."""

from __future__ import annotations

from typing import Any

from muntin.model.aggregates.aggregate import Aggregate
from muntin.model.aggregates.entry import over_distinct
from muntin.model.aggregates.sums import sum
from muntin.model.shapes import NUMERIC


@over_distinct(sum, accepts=NUMERIC)
def sum_distinct(column: Any) -> Aggregate:
    """Add the distinct values, in the types and with the overflow of ``sum``.

    Args:
        column: The column of values, or an expression.

    Returns:
        An aggregate for ``.agg(…)``: the type of ``sum``, NULL without values.

    Raises:
        OptionError: From ``.agg``, when the column isn't numeric.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01"] * 3, "v": [5, 3, 5]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=sum_distinct("v")).results["x"].to_list()
        [8]
    """
    return Aggregate("sum_distinct", column)
