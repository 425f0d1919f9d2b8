"""``sum``, and what is made of sums: ``mean``, ``variance`` and ``stddev``."""

from __future__ import annotations

import builtins
import math
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from muntin.model.aggregates.aggregate import Aggregate
from muntin.model.aggregates.entry import Sql, entry, fixed
from muntin.model.shapes import NUMBER

# Enough to add, multiply and divide decimals of 38 without rounding anything away.
_DIGITS = 120


def _sum(values: list[Any], agg: Aggregate) -> Any:
    with localcontext(prec=_DIGITS):
        return builtins.sum(values)


def _mean(values: list[Any], agg: Aggregate) -> Any:
    if not isinstance(values[0], Decimal):
        return builtins.sum(values) / len(values)
    # Spark divides to 39 digits behind the point, and then rounds to four more than there were.
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


@entry(accepts=NUMBER, adds=True, overflows=True, sql=Sql(("SUM",)), value=_sum)
def sum(column: Any) -> Aggregate:
    """The sum; integers and decimals add exactly.

    Of integers it is a long, of ``decimal(p, s)`` a ``decimal(p + 10, s)`` (at most 38 digits), as
    in Spark. A sum that doesn't fit is null and reported as rejected, reason ``overflow``.
    """
    return Aggregate("sum", column)


@entry(accepts=NUMBER, sql=Sql(("AVG", "MEAN")), value=_mean)
def mean(column: Any) -> Aggregate:
    """The mean, a double.

    Of ``decimal(p, s)`` it is exact and rounded half up to a ``decimal(p + 4, s + 4)``. Where that
    are more than 38 digits, the scale gives, so that up to 16 digits before the point stay. One
    that doesn't fit is null and reported as rejected.
    """
    return Aggregate("mean", column)


@entry(accepts=NUMBER, sql=Sql(("VARIANCE", "VAR_SAMP")), size=fixed(24), value=_variance)
def variance(column: Any) -> Aggregate:
    """The sample variance (divisor n - 1), merged by Chan's formula; null for one value."""
    return Aggregate("variance", column)


@entry(accepts=NUMBER, sql=Sql(("STDDEV", "STDDEV_SAMP", "STD")), size=fixed(24), value=_stddev)
def stddev(column: Any) -> Aggregate:
    """The sample standard deviation; null for one value."""
    return Aggregate("stddev", column)
