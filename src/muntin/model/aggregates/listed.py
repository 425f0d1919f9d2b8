"""``collect_list``, ``last_values`` and ``distinct``: lists of values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from muntin.model.aggregates.aggregate import Aggregate, NullValues, null_options
from muntin.model.aggregates.entry import DISTINCT_VALUES, LIST, Sql, WindowRows, entry, every_value
from muntin.model.aggregates.plainly import rank, sort_distinct
from muntin.model.shapes import ORDER, STORABLE


def _list_in_order(rows: WindowRows, agg: Aggregate) -> list[Any]:
    pairs = [(position, message[agg.column]) for position, message in rows]
    pairs = [(position, value) for position, value in pairs if value is not None]
    return [value for _, value in sorted(pairs, key=lambda row: (row[0], rank(row[1])))]


@entry(
    accepts=STORABLE,
    gives=LIST,
    empty=[],
    full_state=True,
    sql=Sql(("COLLECT_LIST", "ARRAY_AGG")),
    size=every_value,
    of_rows=_list_in_order,
)
def collect_list(column: Any) -> Aggregate:
    """List all values that aren't null, by event time.

    Among equal times the least value is first. The state keeps all values of a window.

    Args:
        column: The column of values, or an expression.

    Returns:
        An aggregate for ``.agg(…)``: an array of the column's type, empty without values.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame(
        ...     {"at": ["2026-01-01 09:00", "2026-01-01 10:00", "2026-01-01 11:00"], "v": [5, 3, 4]}
        ... )
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=collect_list("v")).results["x"].to_list()
        [[5, 3, 4]]
    """
    return Aggregate("collect_list", column)


def _of_the_latest(rows: WindowRows, agg: Aggregate) -> list[Any]:
    if agg.skips_nulls:
        rows = [row for row in rows if row[1][agg.column] is not None]
    latest = max((position for position, _ in rows), default=None)
    return _list_in_order([row for row in rows if row[0] == latest], agg)


@entry(
    accepts=STORABLE,
    gives=LIST,
    empty=[],
    starts_empty=False,
    sql=Sql(("LAST_VALUES",)),
    of_rows=_of_the_latest,
)
def last_values(column: Any, *, nulls: NullValues = "keep") -> Aggregate:
    """List the values of the newest message by event time, and of those that share its time.

    The least value is first; nulls aren't listed.

    Args:
        column: The column of values, or an expression.
        nulls: ``skip`` looks at the newest messages that have a value, ``keep`` at the newest ones.

    Returns:
        An aggregate for ``.agg(…)``: an array of the column's type.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [5, 3]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=last_values("v")).results["x"].to_list()
        [[3, 5]]
    """
    return Aggregate("last_values", column, options=null_options(nulls))


@entry(
    accepts=ORDER,
    gives=LIST,
    empty=[],
    full_state=True,
    sql=Sql(("COLLECT_SET", "DISTINCT_VALUES"), distinct=("COLLECT_LIST", "ARRAY_AGG")),
    size=every_value,
    value=lambda values, agg: sort_distinct(values),
    formula=replace(DISTINCT_VALUES, lower=lambda lists, agg: lists.list.unique().list.sort()),
)
def distinct(column: Any) -> Aggregate:
    """List the distinct values that aren't null, in ascending order.

    The state keeps each distinct value.

    Args:
        column: The column of values, or an expression.

    Returns:
        An aggregate for ``.agg(…)``: an array of the column's type, empty without values.

    Raises:
        OptionError: From ``.agg``, when the column's type has no order, as maps.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01"] * 3, "v": [5, 3, 5]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=distinct("v")).results["x"].to_list()
        [[3, 5]]
    """
    return Aggregate("distinct", column)
