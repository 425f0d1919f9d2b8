"""``top_k``, ``median`` and ``exact_quantile``: values by their rank."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from muntin.model.aggregates.aggregate import Aggregate
from muntin.model.aggregates.entry import (
    ALL_VALUES,
    LIST,
    SAME,
    Expr,
    Formula,
    Sql,
    entry,
    every_value,
)
from muntin.model.aggregates.plainly import numbers
from muntin.model.errors import OptionError
from muntin.model.shapes import NUMBER, ORDER


def _greatest(values: Expr, agg: Aggregate) -> tuple[Expr]:
    return (values.sort(descending=True).head(agg.option("k")),)


def _greatest_of(lists: Expr, agg: Aggregate) -> Expr:
    return lists.list.sort(descending=True).list.head(agg.option("k"))


@entry(
    accepts=ORDER,
    gives=LIST,
    empty=[],
    skips_nan=True,
    sql=Sql(("TOP_K",), "whole number"),
    size=lambda agg, messages: 8 * min(messages, float(agg.option("k"))),
    value=lambda values, agg: numbers(values)[::-1][: agg.option("k")],
    formula=Formula(lift=_greatest, merge=_greatest, lower=_greatest_of),
)
def top_k(column: Any, k: int) -> Aggregate:
    """The ``k`` greatest values, greatest first, as a list; nulls and NaN are skipped.

    Raises:
        OptionError: When ``k`` isn't within 1 and 10 000.
    """
    if not 1 <= k <= 10_000:
        raise OptionError("k", k, "is out of range", "give a whole number from 1 to 10000")
    return Aggregate("top_k", column, options=(("k", k),))


def _middle(values: list[Any], agg: Aggregate) -> float | None:
    ordered = [float(number) for number in numbers(values)]
    if not ordered:
        return None
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


@entry(
    accepts=NUMBER,
    skips_nan=True,
    full_state=True,
    sql=Sql(("MEDIAN",)),
    size=every_value,
    value=_middle,
    formula=replace(ALL_VALUES, lower=lambda lists, agg: lists.list.median()),
)
def median(column: Any) -> Aggregate:
    """The exact median, a double: the middle value, or the mean of the middle two.

    It keeps all values of a window (the message store of the Samza design), so its state is as
    large as its input. Nulls and NaN are skipped.
    """
    return Aggregate("median", column)


def at_rank(values: list[Any], agg: Aggregate) -> Any:
    """The value at the rank ``q`` of an aggregate."""
    ordered = numbers(values)
    place = math.ceil(agg.option("q") * len(ordered))
    return ordered[max(1, place) - 1] if ordered else None


def _at_place(lists: Expr, agg: Aggregate) -> Expr:
    place = ((agg.option("q") * lists.list.len()).ceil().cast(int) - 1).clip(0)
    return lists.list.sort().list.get(place, null_on_oob=True)


@entry(
    accepts=ORDER,
    gives=SAME,
    skips_nan=True,
    full_state=True,
    sql=Sql(("EXACT_QUANTILE",), "number", within=("PERCENTILE_DISC",)),
    size=every_value,
    value=at_rank,
    formula=replace(ALL_VALUES, lower=_at_place),
)
def exact_quantile(column: Any, q: float) -> Aggregate:
    """The value at rank ``q`` of all values: the least that ``q`` of them don't exceed.

    Raises:
        OptionError: When ``q`` isn't within 0 and 1.
    """
    if not 0 <= q <= 1:
        raise OptionError("q", q, "isn't a rank", "give a number from 0 to 1, 0.95 for p95")
    return Aggregate("exact_quantile", column, options=(("q", float(q)),))
