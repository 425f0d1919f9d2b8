"""``mode``: the most frequent value."""

from __future__ import annotations

from typing import Any

from muntin.model.aggregates.aggregate import Aggregate
from muntin.model.aggregates.entry import SAME, EngineExpr, Formula, Sql, entry, every_value
from muntin.model.aggregates.plainly import rank, sort_distinct
from muntin.model.shapes import ORDER


def _most_frequent(values: list[Any], agg: Aggregate) -> Any:
    ranks = [rank(value) for value in values]
    return max(sort_distinct(values), key=lambda value: ranks.count(rank(value)))


def _lift_counts(values: EngineExpr, agg: Aggregate) -> tuple[EngineExpr, EngineExpr]:
    return _add_counts(values, values.is_not_null().cast(int), agg)


def _add_counts(
    values: EngineExpr, counts: EngineExpr, agg: Aggregate
) -> tuple[EngineExpr, EngineExpr]:
    """Return the distinct values in ascending order, and the count of each."""
    ordered = values.sort()
    ends = ordered.ne_missing(ordered.shift(-1))
    until = counts.sort_by(values).cum_sum().filter(ends)
    return ordered.filter(ends), until - until.shift(1).fill_null(0)


@entry(
    accepts=ORDER,
    gives=SAME,
    full_state=True,
    sql=Sql(("MODE",)),
    size=every_value,
    value=_most_frequent,
    formula=Formula(
        lift=_lift_counts,
        merge=_add_counts,
        # The first of several equally frequent values is the least one.
        lower=lambda values, counts, agg: values.list.get(counts.list.arg_max(), null_on_oob=True),
        names=("v", "n"),
    ),
)
def mode(column: Any) -> Aggregate:
    """Find the most frequent value that isn't null; of several, the least.

    NaN is one value. The result doesn't depend on how the input is cut into batches: it is Spark's
    ``mode(x, true)``, while Spark's ``mode(x)`` and DuckDB's return any of several. The state keeps
    each distinct value with its count.

    Args:
        column: The column of values, or an expression.

    Returns:
        An aggregate for ``.agg(…)``: the column's type, NULL without values.

    Raises:
        OptionError: From ``.agg``, when the column's type has no order, as maps.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01"] * 3, "v": [5, 3, 5]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=mode("v")).results["x"].to_list()
        [5]
    """
    return Aggregate("mode", column)
