"""The registry of algebras: formulas, and aggregates over distinct values, need no line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl

from muntin.engine import columns
from muntin.engine.aggregates.algebra import Algebra
from muntin.engine.aggregates.chosen import (
    ArgExtreme,
    Extreme,
    FloatExtreme,
    NestedArgExtreme,
    NestedExtreme,
)
from muntin.engine.aggregates.collected import (
    CollectedValues,
    CollectList,
    LastValues,
    Median,
    OverDistinct,
)
from muntin.engine.aggregates.decimals import DecimalMean, DecimalSum
from muntin.engine.aggregates.numeric import FloatSum, IntegerSum, MessageCount, Moments, Tally
from muntin.engine.aggregates.own import Apply, UserAggregate
from muntin.engine.aggregates.sketches import Distinct, Quantile
from muntin.engine.dtypes import find_shape
from muntin.model.aggregates import Aggregate
from muntin.model.spec import WindowSpec


@dataclass(frozen=True)
class BoundAggregate:
    """An aggregate of a query, with its number and the types of the columns."""

    index: int
    aggregate: Aggregate
    schema: pl.Schema
    reads_whole: bool = True

    @property
    def column(self) -> str:
        """The column that it reads."""
        return str(self.aggregate.column)

    @property
    def dtype(self) -> pl.DataType:
        """The type of the column that it reads."""
        return self.schema[self.column]


def _make_count(bound: BoundAggregate) -> Algebra:
    if bound.aggregate.column is None and bound.reads_whole:
        return MessageCount()
    column = columns.TIME if bound.aggregate.column is None else bound.column
    return Tally(bound.index, pl.col(column).is_not_null())


def _make_sum(bound: BoundAggregate) -> Algebra:
    if isinstance(bound.dtype, pl.Decimal):
        return DecimalSum(bound.index, bound.column, bound.dtype)
    return (FloatSum if bound.dtype.is_float() else IntegerSum)(bound.index, bound.column)


def _make_moments(bound: BoundAggregate) -> Algebra:
    if bound.aggregate.kind == "mean" and isinstance(bound.dtype, pl.Decimal):
        return DecimalMean(bound.index, bound.column, bound.dtype)
    return Moments(bound.index, bound.column, bound.aggregate.kind, bound.dtype)


def _make_extreme(bound: BoundAggregate) -> Algebra:
    greatest = bound.aggregate.kind in ("max", "bool_or")
    algebra_class = FloatExtreme if bound.dtype.is_float() else Extreme
    algebra_class = NestedExtreme if bound.dtype.is_nested() else algebra_class
    return algebra_class(bound.index, bound.column, greatest)


def _make_arg_extreme(bound: BoundAggregate) -> Algebra:
    greatest = bound.aggregate.kind in ("last", "arg_max")
    by = columns.TIME if bound.aggregate.by is None else str(bound.aggregate.by)
    nested = bound.dtype.is_nested() or bound.schema[by].is_nested()
    algebra_class = NestedArgExtreme if nested else ArgExtreme
    skips = bound.aggregate.skips_nulls
    return algebra_class(bound.index, bound.column, by, greatest, bound.schema, skips_nulls=skips)


def _make_quantile(bound: BoundAggregate) -> Algebra:
    q, k = (bound.aggregate.option(name) for name in ("q", "k"))
    return Quantile(bound.index, bound.column, q, k)


def _make_user(bound: BoundAggregate) -> Algebra:
    rows, functions = bound.aggregate.rows, bound.aggregate.functions
    if rows is not None:
        return Apply(bound.index, rows, bound.aggregate.option("result_type"), bound.schema)
    assert functions is not None
    return UserAggregate(bound.index, bound.column, functions)


_ALGEBRAS: dict[str, Callable[[BoundAggregate], Algebra]] = {
    "count": _make_count,
    "count_if": lambda a: Tally(a.index, pl.col(a.column)),
    "sum": _make_sum,
    **dict.fromkeys(("mean", "variance", "stddev"), _make_moments),
    **dict.fromkeys(("min", "max", "bool_and", "bool_or"), _make_extreme),
    **dict.fromkeys(("first", "last", "arg_min", "arg_max"), _make_arg_extreme),
    "approx_distinct": lambda a: Distinct(a.index, a.column, a.aggregate.option("lg_k")),
    "quantile": _make_quantile,
    "median": lambda a: Median(a.index, a.aggregate, a.dtype),
    "collect_list": lambda a: CollectList(a.index, [a.column], a.schema),
    "last_values": lambda a: LastValues(
        a.index, [a.column], a.schema, skips_nulls=a.aggregate.skips_nulls
    ),
    **dict.fromkeys(("apply", "user"), _make_user),
}


def make_algebra(
    index: int, aggregate: Aggregate, schema: pl.Schema, *, reads_whole: bool = True
) -> Algebra:
    """Return the algebra of an aggregate over columns of these types; refuse other types."""
    aggregate.check({str(name): find_shape(schema[name]) for name in aggregate.columns})
    bound, entry = BoundAggregate(index, aggregate, schema, reads_whole), aggregate.entry
    if entry.kind in _ALGEBRAS:
        return _ALGEBRAS[entry.kind](bound)
    if not entry.over:
        return CollectedValues(index, aggregate, bound.dtype)
    # The inner aggregate reads the values that this one keeps.
    values = columns.partial(index, "v")
    inner_aggregate = replace(aggregate, kind=entry.over, column=values)
    inner = make_algebra(index, inner_aggregate, pl.Schema({values: bound.dtype}))
    return OverDistinct(index, aggregate, bound.dtype, inner)


def make_algebras(spec: WindowSpec, schema: pl.Schema) -> list[Algebra]:
    """Return the algebras of a query, in the order of its aggregates."""
    windows = spec.windows
    return [
        make_algebra(
            number,
            aggregate,
            schema,
            reads_whole=windows.reads_whole(aggregate.frame),
        )
        for number, aggregate in enumerate(spec.aggregates.values())
    ]
