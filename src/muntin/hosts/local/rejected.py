"""Fits the rejected messages of operators into one frame on the local host."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from muntin.engine.joins.joiner import SIDE
from muntin.hosts.chain import DEPTH
from muntin.hosts.rejected import RejectedLayout

MARK_KINDS: Mapping[str, pl.DataType] = {SIDE: pl.String(), DEPTH: pl.Int32()}
LocalLayout = RejectedLayout[pl.DataType]


def fit_own(layout: LocalLayout, rejected: pl.DataFrame) -> pl.DataFrame:
    """Return messages that the operator itself rejected, in the layout of the chain."""
    return _cast(layout, layout.add_columns(rejected))


def fit_upstream(layout: LocalLayout, rejected: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return messages that an upstream operator rejected, in the layout of the chain.

    Args:
        layout: The layout.
        rejected: The messages.
        name: The input that the operator feeds: the side of a join, or the empty text.
    """
    rejected = rejected.rename(dict(layout.upstream_names[name]), strict=False)
    if name and SIDE in rejected.columns:
        path = pl.concat_str([pl.lit(name), pl.col(SIDE)], separator="/", ignore_nulls=True)
        rejected = rejected.with_columns(path.alias(SIDE))
    elif name:
        rejected = rejected.with_columns(pl.lit(name).alias(SIDE))
    # A message without a depth was rejected by the first operator of the chain.
    values = {one: pl.lit(1 if one == DEPTH else None) for one in layout.kinds}
    lacking = [value.alias(one) for one, value in values.items() if one not in rejected.columns]
    return _cast(layout, rejected.with_columns(lacking))


def _cast(layout: LocalLayout, rejected: pl.DataFrame) -> pl.DataFrame:
    if rejected.columns == [*layout.kinds] and rejected.dtypes == [*layout.kinds.values()]:
        return rejected
    return rejected.select(pl.col(name).cast(kind) for name, kind in layout.kinds.items())
