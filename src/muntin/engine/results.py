"""From partials to the rows that users see: values under their names, times for window numbers."""

from __future__ import annotations

import polars as pl

from muntin.engine import columns
from muntin.engine.aggregates import IntegerSum
from muntin.engine.combine import Combiner
from muntin.engine.panes import window_start


def results(told: pl.DataFrame, combiner: Combiner) -> pl.DataFrame:
    """Lower partials to values, in the order of window start, then key.

    Args:
        told: ``window``, the keys, the partials, ``emission`` and ``revision``.
        combiner: The query.

    Returns:
        The key columns, ``window_start`` and ``window_end`` (microseconds), the aggregates,
        ``emission``, ``revision``.
    """
    spec = combiner.spec
    told = told.sort(columns.WINDOW, *combiner.keys)
    start = window_start(pl.col(columns.WINDOW), spec.windows)
    identity = told.select(
        *_named_keys(combiner),
        start.alias(columns.WINDOW_START),
        (start + spec.windows.size).alias(columns.WINDOW_END),
    )
    named = zip(combiner.algebras, spec.aggregates, strict=True)
    values = [algebra.lower(told).alias(name) for algebra, name in named]
    return identity.with_columns(
        *values, told[columns.EMISSION], told[columns.REVISION].cast(pl.Int64)
    )


def overflows(told: pl.DataFrame, combiner: Combiner) -> pl.DataFrame:
    """A rejected row for each integer sum that doesn't fit 64 bits: its key and window start."""
    spec = combiner.spec
    rows = [combiner.nothing_rejected]
    for algebra in combiner.algebras:
        if not isinstance(algebra, IntegerSum):
            continue
        bad = told.filter(algebra.overflowed())
        if len(bad):
            start = window_start(pl.col(columns.WINDOW), spec.windows)
            rows.append(
                bad.select(
                    *(
                        pl.col(k).alias(name)
                        for k, name in zip(combiner.keys, spec.keys, strict=True)
                    ),
                    start.alias(columns.TIME),
                    pl.lit("overflow").alias(columns.REASON),
                )
            )
    return pl.concat(rows, how="diagonal")


def _named_keys(combiner: Combiner) -> list[pl.Expr]:
    pairs = zip(combiner.keys, combiner.spec.keys, strict=True)
    return [pl.col(key).alias(name) for key, name in pairs]
