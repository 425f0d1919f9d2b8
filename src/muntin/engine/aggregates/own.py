"""Aggregates of the user's functions, which are called per value, per state or per window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.aggregates.algebra import Algebra
from muntin.engine.aggregates.collected import ROW, CollectedRows
from muntin.engine.function_times import locate_function, name_function, watch_function
from muntin.model.aggregates import RowsFunction, UserFunctions

_TYPES: dict[str, Any] = {
    "long": pl.Int64,
    "double": pl.Float64,
    "string": pl.String,
    "binary": pl.Binary,
    "boolean": pl.Boolean,
}


class UserAggregate(Algebra):
    """A user's initializer, aggregator and merger, called one value or state at a time.

    Every message starts its own state, and only the merger combines states. So it doesn't matter
    which messages were read together, whatever the initializer is.
    """

    slides = False

    def __init__(self, index: int, column: str, functions: UserFunctions) -> None:
        self.states = columns.partial(index, "u")
        self.values = columns.partial(index, "values")
        self.column = column
        self.functions = functions

    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        # Values are folded in ``settle``: Polars would replace an exception that a function raises
        # within an expression by one of its own.
        return [pl.col(self.column).drop_nulls().implode().alias(self.values)]

    def merge(self) -> list[pl.Expr]:
        return [pl.col(self.states).explode().drop_nulls()]

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        if self.values in frame.columns:
            begin, add = self.functions.initializer, self.functions.aggregator
            groups = frame[self.values].to_list()
            with watch_function(add):
                folded = [self._merge(add(begin(), v) for v in values or ()) for values in groups]
            states = self._make_column(folded, add).alias(self.values)
            return frame.with_columns(states).rename({self.values: self.states})
        if not frame.select((pl.col(self.states).list.len() > 1).any()).item():
            return frame
        merger = self.functions.merger
        with watch_function(merger):
            merged = [self._merge(states or ()) for states in frame[self.states].to_list()]
        return frame.with_columns(self._make_column(merged, merger).alias(self.states))

    def _make_column(self, states: Sequence[Any], function: Callable[..., Any]) -> pl.Series:
        """Return a column of lists of at most one state."""
        column = _convert_results(states, "state_type", self.functions.state_type, function)
        return column.reshape((-1, 1)).arr.to_list().list.drop_nulls()

    def _merge(self, states: Iterable[Any]) -> Any:
        """Merge several states into one; ``None`` is no state."""
        remaining = (state for state in states if state is not None)
        result = next(remaining, None)
        for state in remaining:
            result = state if result is None else self.functions.merger(result, state)
        return result

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        states = [self._merge(s or ()) for s in frame[self.states].to_list()]
        finisher = self.functions.finisher
        with watch_function(finisher):
            finished = [None if s is None else finisher(s) for s in states]
        return _convert_results(finished, "result_type", self.functions.result_type, finisher)


class Apply(CollectedRows):
    """``apply``: the user's function over a window's rows, called once per firing."""

    def __init__(self, index: int, rows: RowsFunction, result_type: str, schema: pl.Schema) -> None:
        super().__init__(index, [str(c) for c in rows.columns], schema)
        self.function: Callable[[list[dict[str, Any]]], Any] = rows.function
        self.result_type = result_type

    def lower(self, frame: pl.DataFrame) -> pl.Series:
        rows = self.sort_messages(frame)
        column_names = dict(zip(self.columns, self.names, strict=True))
        parts = rows.partition_by(ROW, as_dict=True, include_key=False)
        results = []
        with watch_function(self.function):
            for number in range(len(frame)):
                part = parts.get((number,))
                window_rows = (
                    [] if part is None else part.drop(self.at).rename(column_names).to_dicts()
                )
                results.append(self.function(window_rows))
        return _convert_results(results, "result_type", self.result_type, self.function)


def _convert_results(
    values: Sequence[Any], option: str, name: str, function: Callable[..., Any]
) -> pl.Series:
    """Convert the results of a function to a column of the type that the option names.

    Raises:
        TypeError: When a result isn't of that type; the note tells where the function is.
    """
    dtype = _TYPES[name]
    try:
        return pl.Series(values, dtype=dtype)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        unfit = next((value for value in values if not _fits(value, dtype)), values[0])
        problem = f"can't hold {str(unfit)[:80]!r}, which {name_function(function)} returned"
        hint = "return a value of that type, or None; or name another type"
        mistake = TypeError(f"{option}={name!r} {problem}: {hint}")
        if (location := locate_function(function)) is not None:
            mistake.add_note(location)
        raise mistake from None


def _fits(value: Any, dtype: Any) -> bool:
    try:
        pl.Series([value], dtype=dtype)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return False
    return True
