"""``count_distinct``: the exact number of distinct values."""

from __future__ import annotations

from typing import Any

from muntin.model.aggregates.aggregate import Aggregate
from muntin.model.aggregates.counts import count
from muntin.model.aggregates.entry import over_distinct
from muntin.model.shapes import ORDER


@over_distinct(count, accepts=ORDER, names=("COUNT_DISTINCT",))
def count_distinct(column: Any) -> Aggregate:
    """Count the distinct values exactly; NaN is one value.

    The state keeps each distinct value. ``approx_distinct`` estimates in bounded state.

    Args:
        column: The column of values, or an expression.

    Returns:
        An aggregate for ``.agg(…)``: a ``long``, 0 without values.

    Raises:
        OptionError: From ``.agg``, when the column's type has no order, as maps.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01"] * 3, "v": [5, 3, 5]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=count_distinct("v")).results["x"].to_list()
        [2]
    """
    return Aggregate("count_distinct", column)
