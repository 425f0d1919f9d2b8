"""``count`` and ``count_if``: numbers of messages."""

from __future__ import annotations

from typing import Any

from muntin.model.aggregates.aggregate import Aggregate
from muntin.model.aggregates.entry import Sql, constant_size, entry
from muntin.model.shapes import ANY, TRUTH


@entry(
    accepts=ANY,
    empty=0,
    sql=Sql(("COUNT",)),
    size=constant_size(8),
    value=lambda values, agg: len(values),
)
def count(column: Any = None) -> Aggregate:
    """Count messages; with a column, those in which it isn't null.

    Args:
        column: The column, or an expression. Default: every message counts.

    Returns:
        An aggregate for ``.agg(…)``: a ``long``, 0 where nothing counts.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [3, None]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=count("v")).results["x"].to_list()
        [1]
    """
    return Aggregate("count", column)


@entry(
    accepts=TRUTH,
    empty=0,
    sql=Sql(("COUNT_IF",)),
    size=constant_size(8),
    value=lambda values, agg: values.count(True),
)
def count_if(column: Any) -> Aggregate:
    """Count the messages for which a condition is true.

    Args:
        column: A boolean column, or an expression. NULL isn't true.

    Returns:
        An aggregate for ``.agg(…)``: a ``long``, 0 where none is.

    Raises:
        OptionError: From ``.agg``, when the column isn't boolean.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [3, 5]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=count_if(pl.col("v") > 3)).results["x"].to_list()
        [1]
    """
    return Aggregate("count_if", column)
