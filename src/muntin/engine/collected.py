"""Aggregates whose partial holds values: the greatest few, or every value of the window.

The latter are the message store of the Samza SQL window operator design in columns: a pane keeps
the values of its messages as a list, and a window's list is put together when it speaks. Since the
order in which lists are put together isn't fixed, whatever depends on order is sorted at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.algebra import Copied
from muntin.engine.sketches import TYPES
from muntin.model.aggregates import RowsFunction

_AT, _ROW = "__at", "__row"


class Values(Copied):
    """All values that aren't null: ``median``, ``exact_quantile`` and ``distinct`` come of them."""

    def __init__(self, index: int, column: str, dtype: pl.DataType) -> None:
        self.v = columns.partial(index, "v")
        self.column = column
        self.dtype = dtype

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        return [self._thin(self._known()).alias(self.v)]

    def merge(self) -> list[pl.Expr]:
        return [self._thin(pl.col(self.v).explode().drop_nulls())]

    def _known(self) -> pl.Expr:
        values = pl.col(self.column).drop_nulls()
        return values.drop_nans() if self.dtype.is_float() else values

    def _thin(self, values: pl.Expr) -> pl.Expr:
        """Leave out what no result needs."""
        return values

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        return frame.select(self._value(pl.col(self.v))).to_series()

    def _value(self, values: pl.Expr) -> pl.Expr:
        raise NotImplementedError


class Median(Values):
    """``median``: the mean of the middle two."""

    def _known(self) -> pl.Expr:
        values = super()._known()
        return values.cast(pl.Float64) if self.dtype.is_decimal() else values

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        found = super().lower(frame)
        wrong = found.is_nan().fill_null(False)
        if not wrong.any():
            return found
        # Polars goes from one of the middle two towards the other, which infinities don't allow.
        values = pl.col(self.v).list.sort()
        count = values.list.len().cast(pl.Int64)
        low, high = (values.list.get(n // 2, null_on_oob=True) for n in (count - 1, count))
        return frame.select(((low + high) / 2).alias(self.v)).to_series().zip_with(wrong, found)

    def _value(self, values: pl.Expr) -> pl.Expr:
        return values.list.median().cast(pl.Float64)


class ExactQuantile(Values):
    """``exact_quantile``: the value at a rank."""

    def __init__(self, index: int, column: str, dtype: pl.DataType, q: float) -> None:
        super().__init__(index, column, dtype)
        self.q = q

    def _value(self, values: pl.Expr) -> pl.Expr:
        place = (self.q * values.list.len()).ceil().cast(pl.Int64) - 1
        place = pl.when(place < 0).then(0).otherwise(place)
        return values.list.sort().list.get(place, null_on_oob=True)


class DistinctValues(Values):
    """``distinct``: each value once, in order."""

    def _known(self) -> pl.Expr:
        return pl.col(self.column).drop_nulls()

    def _thin(self, values: pl.Expr) -> pl.Expr:
        return values.unique()

    def _value(self, values: pl.Expr) -> pl.Expr:
        return values.list.unique().list.sort().fill_null(_nothing(self.dtype))


class TopK(Values):
    """``top_k``: never more than ``k`` values are kept."""

    def __init__(self, index: int, column: str, dtype: pl.DataType, k: int) -> None:
        super().__init__(index, column, dtype)
        self.k = k

    def _thin(self, values: pl.Expr) -> pl.Expr:
        return values.sort(descending=True).head(self.k)

    def _value(self, values: pl.Expr) -> pl.Expr:
        best = values.list.sort(descending=True).list.head(self.k)
        return best.fill_null(_nothing(self.dtype))


class Rows(Copied):
    """All messages: their places and some columns, as lists side by side."""

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

    def sorted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """All rows of all windows, with the number of the window, in order."""
        lists = [self.at, *self.columns]
        numbered = frame.select(lists).with_row_index(_ROW)
        rows = numbered.explode(lists).filter(pl.col(self.at).is_not_null())
        return rows.sort(_ROW, *lists, nulls_last=True)


class CollectList(Rows):
    """``collect_list``: the values that aren't null, by place, then value."""

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        value = self.columns[0]
        rows = self.sorted(frame).filter(pl.col(value).is_not_null())
        lists = rows.group_by(_ROW, maintain_order=True).agg(value)
        every = frame.select(pl.int_range(pl.len(), dtype=pl.get_index_type()).alias(_ROW))
        found = every.join(lists, on=_ROW, how="left", maintain_order="left")
        return found.select(pl.col(value).fill_null(_nothing(self.types[0]))).to_series()


class Apply(Rows):
    """``apply``: the user's function over a window's rows, called once a firing."""

    def __init__(self, index: int, rows: RowsFunction, result_type: str, schema: pl.Schema) -> None:
        super().__init__(index, [str(c) for c in rows.columns], schema)
        self.function: Callable[[list[dict[str, Any]]], Any] = rows.function
        self.result_type = TYPES[result_type]

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        rows = self.sorted(frame)
        named = dict(zip(self.columns, self.names, strict=True))
        parts = rows.partition_by(_ROW, as_dict=True, include_key=False)
        found = []
        for number in range(len(frame)):
            part = parts.get((number,))
            given = [] if part is None else part.drop(self.at).rename(named).to_dicts()
            found.append(self.function(given))
        return pl.Series(self.at, found, dtype=self.result_type)


def _nothing(dtype: pl.DataType) -> pl.Expr:
    return pl.lit(pl.Series([[]], dtype=pl.List(dtype)))
