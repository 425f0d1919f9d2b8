"""``collect_list``, ``last_values`` and ``distinct``: lists of values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from muntin.model.aggregates.aggregate import Aggregate, NullValues, null_options
from muntin.model.aggregates.entry import DISTINCT_VALUES, LIST, Sql, WindowRows, entry, every_value
from muntin.model.aggregates.plainly import once, rank
from muntin.model.shapes import ORDER, WHOLE


def _in_order(rows: WindowRows, agg: Aggregate) -> list[Any]:
    known = [(place, message[agg.column]) for place, message in rows]
    known = [(place, value) for place, value in known if value is not None]
    return [value for _, value in sorted(known, key=lambda row: (row[0], rank(row[1])))]


@entry(
    accepts=WHOLE,
    gives=LIST,
    empty=[],
    full_state=True,
    sql=Sql(("COLLECT_LIST", "ARRAY_AGG")),
    size=every_value,
    of_rows=_in_order,
)
def collect_list(column: Any) -> Aggregate:
    """All values that aren't null, by event time; of equal times, the least first."""
    return Aggregate("collect_list", column)


def _of_the_latest(rows: WindowRows, agg: Aggregate) -> list[Any]:
    if agg.skips_nulls:
        rows = [row for row in rows if row[1][agg.column] is not None]
    latest = max((place for place, _ in rows), default=None)
    return _in_order([row for row in rows if row[0] == latest], agg)


@entry(
    accepts=WHOLE,
    gives=LIST,
    empty=[],
    starts_empty=False,
    sql=Sql(("LAST_VALUES",)),
    of_rows=_of_the_latest,
)
def last_values(column: Any, *, nulls: NullValues = "keep") -> Aggregate:
    """The values of the latest message by event time, and of those that share its time.

    Without nulls; the least is first.

    Args:
        column: The column of values.
        nulls: ``skip`` looks at the latest messages that have a value, ``keep`` at the latest ones.
    """
    return Aggregate("last_values", column, options=null_options(nulls))


@entry(
    accepts=ORDER,
    gives=LIST,
    empty=[],
    full_state=True,
    sql=Sql(("COLLECT_SET", "DISTINCT_VALUES"), distinct=("COLLECT_LIST", "ARRAY_AGG")),
    size=every_value,
    value=lambda values, agg: once(values),
    formula=replace(DISTINCT_VALUES, lower=lambda lists, agg: lists.list.unique().list.sort()),
)
def distinct(column: Any) -> Aggregate:
    """The distinct values that aren't null, in ascending order, as a list."""
    return Aggregate("distinct", column)
