"""Random tuples: a UUID as two halves, a normally distributed value, and the time it was due."""

from __future__ import annotations

import math

import polars as pl

_TIME = pl.Datetime("us", "UTC")
TUPLE = pl.Schema({"high": pl.UInt64(), "low": pl.UInt64(), "val": pl.Int64(), "update_ts": _TIME})


def make_tuples(ticks: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Turn the rows of ``mt.ticks`` into tuples; the value is a normal number times 1000.

    Example:
        >>> ticks = pl.select(value=pl.int_range(1000), timestamp=pl.lit(0).cast(pl.Datetime("us")))
        >>> values = make_tuples(ticks, seed=1)["val"]
        >>> abs(values.mean()) < 100, 900 < values.std() < 1100
        (True, True)
    """
    # A normal number of two uniform ones, by Box and Muller.
    radius = (-2 * _draw_uniform(2 * seed).log()).sqrt()
    angle = 2 * math.pi * _draw_uniform(2 * seed + 1)
    identity = pl.struct("timestamp", "value")
    return ticks.select(
        high=identity.hash(1),
        low=identity.hash(2),
        val=(radius * angle.cos() * 1000).cast(pl.Int64),
        update_ts=pl.col("timestamp").cast(_TIME),
    )


def _draw_uniform(seed: int) -> pl.Expr:
    """Return numbers above 0, and at most 1, that depend on the number of the tick."""
    return (pl.col("value").hash(seed) // 2**11 + 1) / 2**53
