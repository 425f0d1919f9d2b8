"""Aggregates whose partial holds values: the greatest few, or every value of the window.

A pane keeps the values of its messages as a list, and a window's list is concatenated when it
emits. The order of concatenation isn't fixed, so results that depend on an order are sorted.

Source: the message store of the Samza SQL window operator design, in columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from muntin.engine import columns
from muntin.engine.aggregates.algebra import Algebra
from muntin.engine.windows.compose import Line
from muntin.model.aggregates import Aggregate
from muntin.model.aggregates.entry import LIST

_AT, ROW = "__at", "__row"


class CollectedValues(Algebra):
    """An aggregate that is defined by formulas over lists of values."""

    slides = False

    def __init__(self, index: int, aggregate: Aggregate, dtype: pl.DataType) -> None:
        assert aggregate.entry.formula is not None
        self.aggregate, self.entry = aggregate, aggregate.entry
        self.formula = aggregate.entry.formula
        self.lists = [columns.partial(index, name) for name in self.formula.names]
        self.column = str(aggregate.column)
        self.dtype = dtype

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        return self._name_lists(self.formula.lift(self._drop_missing(), self.aggregate))

    def merge(self) -> list[pl.Expr]:
        joined = [pl.col(name).explode().drop_nulls() for name in self.lists]
        return self._name_lists(self.formula.merge(*joined, self.aggregate))

    def _name_lists(self, expressions: Sequence[pl.Expr]) -> list[pl.Expr]:
        return [
            expression.alias(name) for expression, name in zip(expressions, self.lists, strict=True)
        ]

    def _drop_missing(self) -> pl.Expr:
        values = pl.col(self.column).drop_nulls()
        return values.drop_nans() if self.entry.skips_nan and self.dtype.is_float() else values

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        value = self.formula.lower(*map(pl.col, self.lists), self.aggregate)
        if self.entry.empty is not None:
            listed = self.entry.gives == LIST
            value = value.fill_null(_empty_list(self.dtype) if listed else self.entry.empty)
        return frame.select(value.alias(self.lists[0])).to_series()


class Median(CollectedValues):
    """``median``: the mean of the middle two."""

    def _drop_missing(self) -> pl.Expr:
        values = super()._drop_missing()
        return values.cast(pl.Float64) if self.dtype.is_decimal() else values

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        medians = super().lower(frame).cast(pl.Float64)
        is_nan = medians.is_nan().fill_null(False)
        if not is_nan.any():
            return medians
        # Polars interpolates between the middle two, which gives NaN for infinities.
        values = pl.col(self.lists[0]).list.sort()
        count = values.list.len().cast(pl.Int64)
        low, high = (values.list.get(n // 2, null_on_oob=True) for n in (count - 1, count))
        middle = frame.select(((low + high) / 2).alias(medians.name)).to_series()
        return middle.zip_with(is_nan, medians)


class OverDistinct(CollectedValues):
    """Another aggregate over the distinct values, which is computed when a window emits."""

    def __init__(
        self, index: int, aggregate: Aggregate, dtype: pl.DataType, inner: Algebra
    ) -> None:
        super().__init__(index, aggregate, dtype)
        self.inner = inner

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return self.inner.lower(self._lift_inner(frame))

    def find_overflows(self, frame: pl.DataFrame) -> pl.Series | None:
        return self.inner.find_overflows(self._lift_inner(frame))

    def _lift_inner(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the partials of the inner aggregate over each row's values."""
        (list_name,) = self.lists
        distinct = self.formula.lower(pl.col(list_name), self.aggregate)
        values = frame.select(distinct).with_row_index(ROW).explode(list_name)
        values = values.with_columns(*self.inner.prepare())
        lifted = values.group_by(ROW).agg(*self.inner.lift(values))
        return join_by_row(frame, self.inner.settle(lifted))


class CollectedRows(Algebra):
    """All messages of a window: their positions and some columns, as parallel lists."""

    slides = False

    def __init__(self, index: int, names: list[str], schema: pl.Schema) -> None:
        self.at = columns.partial(index, "at")
        self.names = names
        self.columns = [columns.partial(index, f"c{i}") for i in range(len(names))]
        self.types = [schema[name] for name in names]

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        pairs = zip(self.names, self.columns, strict=True)
        return [
            pl.col(columns.TIME).alias(self.at),
            *(pl.col(name).alias(column) for name, column in pairs),
        ]

    def merge(self) -> list[pl.Expr]:
        return [pl.col(c).explode() for c in (self.at, *self.columns)]

    def sort_messages(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return all rows of all windows with the number of their window, in order."""
        lists = [self.at, *self.columns]
        numbered = frame.select(lists).with_row_index(ROW)
        rows = numbered.explode(lists).filter(pl.col(self.at).is_not_null())
        return rows.sort(ROW, *lists, nulls_last=True)


class CollectList(CollectedRows):
    """``collect_list``: the values that aren't null, by position, then value."""

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        value = self.columns[0]
        rows = self.sort_messages(frame).filter(pl.col(value).is_not_null())
        lists = rows.group_by(ROW, maintain_order=True).agg(value)
        return (
            join_by_row(frame, lists)
            .select(pl.col(value).fill_null(_empty_list(self.types[0])))
            .to_series()
        )


class LastValues(CollectList):
    """``last_values``: the values of the messages with the greatest time."""

    slides = True
    single = False

    def __init__(
        self, index: int, names: list[str], schema: pl.Schema, *, skips_nulls: bool = False
    ) -> None:
        super().__init__(index, names, schema)
        self.skips_nulls = skips_nulls

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        parts = [pl.col(name) for name in (columns.TIME, *self.names)]
        if self.skips_nulls:
            parts = [part.filter(pl.col(self.names[0]).is_not_null()) for part in parts]
        return self._latest(*parts)

    def merge(self) -> list[pl.Expr]:
        return self._latest(*(pl.col(c).explode() for c in (self.at, *self.columns)))

    def _latest(self, *parts: pl.Expr) -> list[pl.Expr]:
        at, *values = parts
        latest = [column.filter(at == at.max()) for column in (at, *values)]
        return [column.alias(c) for column, c in zip(latest, (self.at, *self.columns), strict=True)]

    def slide(self, cells: pl.DataFrame, line: Line) -> list[pl.Series]:
        # An ordinal rank, since cells of other keys may have the same time and must not win.
        rank = cells.select(pl.col(self.at).list.max().rank("ordinal")).to_series()
        return [line.winner(rank, cells[c]).alias(c) for c in (self.at, *self.columns)]


def join_by_row(frame: pl.DataFrame, values: pl.DataFrame) -> pl.DataFrame:
    """Join values by row number to the rows of a frame."""
    rows = frame.select(pl.int_range(pl.len(), dtype=pl.get_index_type()).alias(ROW))
    return rows.join(values, on=ROW, how="left", maintain_order="left")


def _empty_list(dtype: pl.DataType) -> pl.Expr:
    return pl.lit(pl.Series([[]], dtype=pl.List(dtype)))
