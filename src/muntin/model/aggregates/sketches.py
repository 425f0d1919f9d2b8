"""``approx_distinct`` and ``quantile``: sketches, exact while they are small."""

from __future__ import annotations

from typing import Any

from muntin.model.aggregates.aggregate import Aggregate
from muntin.model.aggregates.entry import WORD, Sql, entry
from muntin.model.aggregates.plainly import once
from muntin.model.aggregates.ranked import at_rank
from muntin.model.errors import OptionError
from muntin.model.shapes import NUMBER, ORDER


def _registers(agg: Aggregate, messages: float) -> float:
    return float(min(WORD * messages, float(1 << agg.option("lg_k"))))


@entry(
    accepts=ORDER,
    empty=0,
    sql=Sql(("APPROX_COUNT_DISTINCT", "APPROX_DISTINCT")),
    size=_registers,
    value=lambda values, agg: len(once(values)),
)
def approx_distinct(column: Any, *, lg_k: int = 12) -> Aggregate:
    """About how many distinct values (HyperLogLog; standard error ``1.04 / sqrt(2**lg_k)``)."""
    if not 4 <= lg_k <= 21:
        raise OptionError("lg_k", lg_k, "is out of range", "give a whole number from 4 to 21")
    return Aggregate("approx_distinct", column, options=(("lg_k", lg_k),))


@entry(
    accepts=NUMBER,
    skips_nan=True,
    sql=Sql(("QUANTILE", "APPROX_PERCENTILE", "PERCENTILE_APPROX"), "number"),
    size=lambda agg, messages: 8 * min(messages, 2.0 * float(agg.option("k"))),
    value=lambda values, agg: at_rank([float(value) for value in values], agg),
)
def quantile(column: Any, q: float, *, k: int = 200) -> Aggregate:
    """The value at rank ``q`` (KLL sketch).

    Exact while a window holds at most ``k`` values, and then the same however the input was cut;
    beyond, its rank error is about ``2.3 / k`` and depends on the order of merging. NaN is skipped.

    Raises:
        OptionError: When ``q`` isn't within 0 and 1, or ``k`` not within 8 and 65535.
    """
    if not 0 <= q <= 1:
        raise OptionError("q", q, "isn't a rank", "give a number from 0 to 1, 0.95 for p95")
    if not 8 <= k <= 65535:
        raise OptionError("k", k, "is out of range", "give a whole number from 8 to 65535")
    return Aggregate("quantile", column, options=(("q", float(q)), ("k", k)))
