"""``approx_distinct`` and ``quantile``: sketches, exact while they are small."""

from __future__ import annotations

from typing import Any

from muntin.model.aggregates.aggregate import Aggregate
from muntin.model.aggregates.entry import WORD, Sql, entry
from muntin.model.aggregates.plainly import sort_distinct
from muntin.model.aggregates.ranked import find_at_rank
from muntin.model.errors import OptionError
from muntin.model.shapes import NUMERIC, ORDER


def _registers(agg: Aggregate, messages: float) -> float:
    return float(min(WORD * messages, float(1 << agg.option("lg_k"))))


@entry(
    accepts=ORDER,
    empty=0,
    sql=Sql(("APPROX_COUNT_DISTINCT", "APPROX_DISTINCT")),
    size=_registers,
    value=lambda values, agg: len(sort_distinct(values)),
)
def approx_distinct(column: Any, *, lg_k: int = 12) -> Aggregate:
    """Estimate the number of distinct values by HyperLogLog.

    The standard error is ``1.04 / sqrt(2**lg_k)``, 1.6 % by default. The estimate doesn't depend on
    how the input is cut into batches.

    Args:
        column: The column of values, or an expression.
        lg_k: The binary logarithm of the number of registers, 4 to 21.

    Returns:
        An aggregate for ``.agg(…)``: a ``long``, 0 without values.

    Raises:
        OptionError: When ``lg_k`` isn't within 4 and 21; from ``.agg``, when the column's type has
            no order.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [3, 3]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=approx_distinct("v")).results["x"].to_list()
        [1]
    """
    if not 4 <= lg_k <= 21:
        raise OptionError("lg_k", lg_k, "is out of range", "give a whole number from 4 to 21")
    return Aggregate("approx_distinct", column, options=(("lg_k", lg_k),))


@entry(
    accepts=NUMERIC,
    skips_nan=True,
    sql=Sql(("QUANTILE", "APPROX_PERCENTILE", "PERCENTILE_APPROX"), "number"),
    size=lambda agg, messages: 8 * min(messages, 2.0 * float(agg.option("k"))),
    value=lambda values, agg: find_at_rank([float(value) for value in values], agg),
)
def quantile(column: Any, q: float, *, k: int = 200) -> Aggregate:
    """Estimate the value at rank ``q`` by a KLL sketch.

    It is exact while a window holds at most ``k`` values, and then doesn't depend on how the input
    is cut into batches. Beyond that its rank error is about ``2.3 / k`` and depends on the order of
    merging. It never interpolates, so ``quantile("x", 0.5)`` isn't ``median("x")``. NaN and NULL
    are skipped.

    Args:
        column: The column of values, or an expression.
        q: The rank, from 0 to 1: 0.95 for p95.
        k: The size of the sketch, 8 to 65535.

    Returns:
        An aggregate for ``.agg(…)``: a ``double``, NULL without values.

    Raises:
        OptionError: When ``q`` isn't within 0 and 1, or ``k`` not within 8 and 65535; from
            ``.agg``, when the column isn't numeric.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [3, 5]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=quantile("v", 0.5)).results["x"].to_list()
        [3.0]
    """
    if not 0 <= q <= 1:
        raise OptionError("q", q, "isn't a rank", "give a number from 0 to 1, 0.95 for p95")
    if not 8 <= k <= 65535:
        raise OptionError("k", k, "is out of range", "give a whole number from 8 to 65535")
    return Aggregate("quantile", column, options=(("q", float(q)), ("k", k)))
