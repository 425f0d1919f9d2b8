"""Aggregates that pick a value: the least, the greatest, or that at some position or column.

Nested values have Spark's order: arrays are compared by their first different element, structs by
their first different field, and null comes before every value.
"""

from __future__ import annotations

import polars as pl

from muntin.engine import columns
from muntin.engine.aggregates.algebra import Algebra
from muntin.engine.dtypes import fits_in_64_bits
from muntin.engine.windows.compose import Line
from muntin.engine.windows.dense import Scatter, dense_numbers


class Extreme(Algebra):
    """``min``, ``max``, ``bool_and`` and ``bool_or`` of any type that has an order."""

    scatters = True

    def __init__(self, index: int, column: str, greatest: bool) -> None:
        self.v = columns.partial(index, "v")
        self.column = column
        self.greatest = greatest

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        return [self._pick(pl.col(self.column)).alias(self.v)]

    def scatter(self, messages: pl.DataFrame, groups: Scatter) -> list[pl.Series] | None:
        column = messages[self.column]
        values = dense_numbers(column)
        if values is None:
            return None
        return [pl.Series(self.v, groups.extreme(values, self.greatest), dtype=column.dtype)]

    def merge(self) -> list[pl.Expr]:
        return [self._pick(pl.col(self.v)).alias(self.v)]

    def _pick(self, value: pl.Expr) -> pl.Expr:
        return value.max() if self.greatest else value.min()

    def slide(self, cells: pl.DataFrame, line: Line) -> list[pl.Series]:
        values = cells[self.v]
        if fits_in_64_bits(values.dtype) and not values.null_count():
            extremes = line.greatest(values.to_numpy(), self.greatest)
            return [pl.Series(self.v, extremes, dtype=values.dtype)]
        rank = values.rank("dense", descending=not self.greatest)
        return [line.winner(rank, values).alias(self.v)]

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return frame[self.v]


class FloatExtreme(Extreme):
    """``min`` and ``max`` of doubles, with NaN greater than every number as in Spark."""

    def _pick(self, value: pl.Expr) -> pl.Expr:
        return value.nan_max() if self.greatest else value.min()


class NestedExtreme(Extreme):
    """``min`` and ``max`` of arrays and structs, which Polars can sort but not aggregate."""

    def _pick(self, value: pl.Expr) -> pl.Expr:
        return _pick_sorted(value, self.greatest)


class ArgExtreme(Algebra):
    """``first``, ``last``, ``arg_min``, ``arg_max``: the value at the least or greatest ``by``."""

    def __init__(
        self,
        index: int,
        column: str,
        by: str,
        greatest: bool,
        schema: pl.Schema,
        *,
        skips_nulls: bool = False,
    ) -> None:
        self.skips_nulls = skips_nulls
        self.v, self.at = columns.partial(index, "v"), columns.partial(index, "at")
        self.column, self.by = column, by
        self.greatest = greatest
        self.floats = schema[column].is_float(), schema[by].is_float()

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        value, at = pl.col(self.column), pl.col(self.by)
        if self.skips_nulls:
            at = pl.when(value.is_not_null()).then(at)
        return self._choose(value, at)

    def merge(self) -> list[pl.Expr]:
        return self._choose(pl.col(self.v), pl.col(self.at))

    def _choose(self, value: pl.Expr, at: pl.Expr) -> list[pl.Expr]:
        best = self._best(at, self.floats[1])
        tied = self._best(value.filter(at == best), self.floats[0])
        return [tied.alias(self.v), best.alias(self.at)]

    def _best(self, values: pl.Expr, floats: bool) -> pl.Expr:
        if not self.greatest:
            return values.min()
        return values.nan_max() if floats else values.max()

    def slide(self, cells: pl.DataFrame, line: Line) -> list[pl.Series]:
        value, at = pl.col(self.v), pl.col(self.at)
        # The value breaks ties of the position, and null loses them.
        order = pl.struct(
            at.rank("dense", descending=not self.greatest),
            value.rank("dense", descending=not self.greatest).fill_null(0),
        )
        rank = cells.select(pl.when(at.is_not_null()).then(order.rank("dense"))).to_series()
        return [line.winner(rank, cells[c]).alias(c) for c in (self.v, self.at)]

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return frame[self.v]


class NestedArgExtreme(ArgExtreme):
    """``first``, ``last``, ``arg_min`` and ``arg_max`` of nested columns, which are sorted."""

    def _choose(self, value: pl.Expr, at: pl.Expr) -> list[pl.Expr]:
        has_position = at.is_not_null()
        # Among several values at the best position null loses, so it is sorted to the other end.
        order = [at.filter(has_position), value.filter(has_position)]
        sorted_ = value.filter(has_position).sort_by(order, nulls_last=not self.greatest)
        best = sorted_.last() if self.greatest else sorted_.first()
        return [best.alias(self.v), _pick_sorted(at, self.greatest).alias(self.at)]


def _pick_sorted(values: pl.Expr, greatest: bool) -> pl.Expr:
    ordered = values.drop_nulls().sort()
    return ordered.last() if greatest else ordered.first()
