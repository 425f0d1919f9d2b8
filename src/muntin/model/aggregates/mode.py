"""``mode``: the most frequent value."""

from __future__ import annotations

from typing import Any

from muntin.model.aggregates.aggregate import Aggregate
from muntin.model.aggregates.entry import SAME, Expr, Formula, Sql, entry, every_value
from muntin.model.aggregates.plainly import once, rank
from muntin.model.shapes import ORDER


def _most_frequent(values: list[Any], agg: Aggregate) -> Any:
    ranks = [rank(value) for value in values]
    return max(once(values), key=lambda value: ranks.count(rank(value)))


def _counted(values: Expr, agg: Aggregate) -> tuple[Expr, Expr]:
    return _added(values, values.is_not_null().cast(int), agg)


def _added(values: Expr, counts: Expr, agg: Aggregate) -> tuple[Expr, Expr]:
    """Each value once, in ascending order, and how often it is there."""
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
        lift=_counted,
        merge=_added,
        # Of several that are as frequent the first, which is the least.
        lower=lambda values, counts, agg: values.list.get(counts.list.arg_max(), null_on_oob=True),
        names=("v", "n"),
    ),
)
def mode(column: Any) -> Aggregate:
    """The most frequent value that isn't null; of several, the least. NaN is one value.

    So it is the same however the input was cut. It is Spark's ``mode(x, true)``; Spark's
    ``mode(x)`` and DuckDB's give any of several. Each distinct value is kept, with its count.
    """
    return Aggregate("mode", column)
