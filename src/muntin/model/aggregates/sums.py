"""``sum``, and the aggregates based on sums: ``mean``, ``variance`` and ``stddev``."""

from __future__ import annotations

import builtins
import math
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from muntin.model.aggregates.aggregate import Aggregate
from muntin.model.aggregates.entry import Sql, constant_size, entry
from muntin.model.shapes import NUMERIC

# Enough to add, multiply and divide decimals of 38 digits without rounding.
_DIGITS = 120


def _sum(values: list[Any], agg: Aggregate) -> Any:
    with localcontext(prec=_DIGITS):
        return builtins.sum(values)


def _mean(values: list[Any], agg: Aggregate) -> Any:
    if not isinstance(values[0], Decimal):
        return builtins.sum(values) / len(values)
    # Spark divides to 39 digits after the point, and then rounds to four more than the column has.
    with localcontext(prec=_DIGITS, rounding=ROUND_HALF_UP):
        scale = min(38, 4 - int(values[0].as_tuple().exponent))
        mean = builtins.sum(values) / len(values)
        return mean.quantize(Decimal(1).scaleb(-39)).quantize(Decimal(1).scaleb(-scale))


def _variance(values: list[Any], agg: Aggregate) -> float | None:
    if len(values) < 2:
        return None
    values = [float(value) if isinstance(value, Decimal) else value for value in values]
    mean = builtins.sum(values) / len(values)
    squares: float = builtins.sum((value - mean) * (value - mean) for value in values)
    return squares / (len(values) - 1)


def _stddev(values: list[Any], agg: Aggregate) -> float | None:
    variance = _variance(values, agg)
    return None if variance is None else math.sqrt(variance)


@entry(accepts=NUMERIC, adds=True, overflows=True, sql=Sql(("SUM",)), value=_sum)
def sum(column: Any) -> Aggregate:
    """Add the values; integers and decimals add exactly.

    A sum that doesn't fit into its type is null, and a rejected row with the reason ``overflow``
    names the window.

    Args:
        column: The column of values, or an expression.

    Returns:
        An aggregate for ``.agg(…)``: a ``long`` of integers, a ``double`` of floats, and of
        ``decimal(p, s)`` a ``decimal(p + 10, s)`` of at most 38 digits, as in Spark; NULL without
        values.

    Raises:
        OptionError: From ``.agg``, when the column isn't numeric.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [3, 5]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=sum("v")).results["x"].to_list()
        [8]
    """
    return Aggregate("sum", column)


@entry(accepts=NUMERIC, sql=Sql(("AVG", "MEAN")), value=_mean)
def mean(column: Any) -> Aggregate:
    """Average the values.

    The mean of decimals that doesn't fit its type is null, and is reported as rejected.

    Args:
        column: The column of values, or an expression.

    Returns:
        An aggregate for ``.agg(…)``: a ``double``. Of ``decimal(p, s)`` it is exact and rounded
        half up to a ``decimal(p + 4, s + 4)``; where that would be more than 38 digits the scale
        shrinks, so that up to 16 digits before the point stay. NULL without values.

    Raises:
        OptionError: From ``.agg``, when the column isn't numeric.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [3, 6]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=mean("v")).results["x"].to_list()
        [4.5]
    """
    return Aggregate("mean", column)


@entry(accepts=NUMERIC, sql=Sql(("VARIANCE", "VAR_SAMP")), size=constant_size(24), value=_variance)
def variance(column: Any) -> Aggregate:
    """Compute the sample variance, with the divisor ``n - 1``.

    States are merged by the formula of Chan, Golub and LeVeque, so that large values lose no
    digits.

    Args:
        column: The column of values, or an expression.

    Returns:
        An aggregate for ``.agg(…)``: a ``double``, NULL for fewer than two values.

    Raises:
        OptionError: From ``.agg``, when the column isn't numeric.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [3, 5]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=variance("v")).results["x"].to_list()
        [2.0]
    """
    return Aggregate("variance", column)


@entry(
    accepts=NUMERIC,
    sql=Sql(("STDDEV", "STDDEV_SAMP", "STD")),
    size=constant_size(24),
    value=_stddev,
)
def stddev(column: Any) -> Aggregate:
    """Compute the sample standard deviation, the root of ``variance``.

    Args:
        column: The column of values, or an expression.

    Returns:
        An aggregate for ``.agg(…)``: a ``double``, NULL for fewer than two values.

    Raises:
        OptionError: From ``.agg``, when the column isn't numeric.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [3.0, 5.0]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=stddev("v")).results["x"].to_list()
        [1.4142135623730951]
    """
    return Aggregate("stddev", column)
