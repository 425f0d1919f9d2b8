"""Aggregates that pick a value: by its size, by its time or by another column; and AND and OR."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import partial
from typing import Any

from muntin.model.aggregates.aggregate import Aggregate, NullValues, null_options
from muntin.model.aggregates.entry import SAME, Sql, WindowRows, constant_size, entry
from muntin.model.aggregates.plainly import rank
from muntin.model.shapes import ORDER, STORABLE, TRUTH

_ordered_entry = partial(entry, accepts=ORDER, gives=SAME, size=constant_size(8))
_message_entry = partial(entry, accepts=STORABLE, gives=SAME, starts_empty=False)
_boolean_entry = partial(entry, accepts=TRUTH, size=constant_size(1))


def _pick_by_position(rows: WindowRows, agg: Aggregate) -> Any:
    return _pick_extreme(agg, [(position, message[agg.column]) for position, message in rows])


def _pick_by_column(rows: WindowRows, agg: Aggregate) -> Any:
    pairs = [(message[agg.by], message[agg.column]) for _, message in rows]
    return _pick_extreme(agg, [(by, value) for by, value in pairs if by is not None])


def _pick_extreme(agg: Aggregate, rows: list[tuple[Any, Any]]) -> Any:
    """Return the value whose ``at`` is least or greatest; of several, the least or greatest one."""
    if agg.skips_nulls:
        rows = [(at, value) for at, value in rows if value is not None]
    if not rows:
        return None
    least = agg.kind in ("first", "arg_min")
    pick: Callable[..., Any] = builtins.min if least else builtins.max
    best = pick(rank(at) for at, _ in rows)
    tied = [value for at, value in rows if rank(at) == best and value is not None]
    return pick(tied, key=rank) if tied else None


@_ordered_entry(sql=Sql(("MIN",)), value=lambda values, agg: builtins.min(values, key=rank))
def min(column: Any) -> Aggregate:
    """Find the least value; as in Spark, NaN is greater than every number.

    Args:
        column: The column of values, or an expression.

    Returns:
        An aggregate for ``.agg(…)``: the column's type, NULL without values.

    Raises:
        OptionError: From ``.agg``, when the column's type has no order, such as a map.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [3, 5]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=min("v")).results["x"].to_list()
        [3]
    """
    return Aggregate("min", column)


@_ordered_entry(sql=Sql(("MAX",)), value=lambda values, agg: builtins.max(values, key=rank))
def max(column: Any) -> Aggregate:
    """Find the greatest value; as in Spark, NaN is greater than every number.

    Args:
        column: The column of values, or an expression.

    Returns:
        An aggregate for ``.agg(…)``: the column's type, NULL without values.

    Raises:
        OptionError: From ``.agg``, when the column's type has no order, such as a map.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [3, 5]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=max("v")).results["x"].to_list()
        [5]
    """
    return Aggregate("max", column)


@_message_entry(sql=Sql(("FIRST", "FIRST_VALUE", "ANY_VALUE")), of_rows=_pick_by_position)
def first(column: Any, *, nulls: NullValues = "keep") -> Aggregate:
    """Take the value of the earliest message by event time; of several, the least.

    Spark's ``first`` takes whichever message comes first.

    Args:
        column: The column of values, or an expression.
        nulls: Whether a null is a value like any other (``keep``), or only messages with a value
            count (``skip``).

    Returns:
        An aggregate for ``.agg(…)``: the column's type.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame(
        ...     {"at": ["2026-01-01 09:00", "2026-01-01 10:00", "2026-01-01 11:00"], "v": [5, 3, 4]}
        ... )
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=first("v")).results["x"].to_list()
        [5]
    """
    return Aggregate("first", column, options=null_options(nulls))


@_message_entry(sql=Sql(("LAST", "LAST_VALUE")), of_rows=_pick_by_position)
def last(column: Any, *, nulls: NullValues = "keep") -> Aggregate:
    """Take the value of the latest message by event time; of several, the greatest.

    Args:
        column: The column of values, or an expression.
        nulls: Whether a null is a value like any other (``keep``), or only messages with a value
            count (``skip``).

    Returns:
        An aggregate for ``.agg(…)``: the column's type.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame(
        ...     {"at": ["2026-01-01 09:00", "2026-01-01 10:00", "2026-01-01 11:00"], "v": [5, 3, 4]}
        ... )
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=last("v")).results["x"].to_list()
        [4]
        >>> str(last("temperature", nulls="skip"))
        'last(temperature, nulls=skip)'
    """
    return Aggregate("last", column, options=null_options(nulls))


@_message_entry(sql=Sql(("MIN_BY", "ARG_MIN"), "column"), of_rows=_pick_by_column)
def arg_min(column: Any, by: Any, *, nulls: NullValues = "keep") -> Aggregate:
    """Take the value of ``column`` where ``by`` is least; of several, the least value.

    Args:
        column: The column of values, or an expression.
        by: The column that is to be least; messages without it don't count.
        nulls: Whether a null is a value like any other (``keep``), or only messages with a value
            count (``skip``).

    Returns:
        An aggregate for ``.agg(…)``: the type of ``column``.

    Raises:
        OptionError: From ``.agg``, when the type of ``by`` has no order, such as a map.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame(
        ...     {"at": ["2026-01-01", "2026-01-01"], "v": [5, 3], "page": ["home", "cart"]}
        ... )
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=arg_min("page", "v")).results["x"].to_list()
        ['cart']
    """
    return Aggregate("arg_min", column, by, null_options(nulls))


@_message_entry(sql=Sql(("MAX_BY", "ARG_MAX"), "column"), of_rows=_pick_by_column)
def arg_max(column: Any, by: Any, *, nulls: NullValues = "keep") -> Aggregate:
    """Take the value of ``column`` where ``by`` is greatest; of several, the greatest value.

    Args:
        column: The column of values, or an expression.
        by: The column that is to be greatest; messages without it don't count.
        nulls: Whether a null is a value like any other (``keep``), or only messages with a value
            count (``skip``).

    Returns:
        An aggregate for ``.agg(…)``: the type of ``column``.

    Raises:
        OptionError: From ``.agg``, when the type of ``by`` has no order, such as a map.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame(
        ...     {"at": ["2026-01-01", "2026-01-01"], "v": [5, 3], "page": ["home", "cart"]}
        ... )
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=arg_max("page", "v")).results["x"].to_list()
        ['home']
    """
    return Aggregate("arg_max", column, by, null_options(nulls))


@_boolean_entry(sql=Sql(("BOOL_AND", "EVERY")), value=lambda values, agg: all(values))
def bool_and(column: Any) -> Aggregate:
    """Check whether every value is true; nulls are skipped.

    Args:
        column: The column of values, or an expression.

    Returns:
        An aggregate for ``.agg(…)``: a ``boolean``, NULL without values.

    Raises:
        OptionError: From ``.agg``, when the column isn't boolean.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [True, False]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=bool_and("v")).results["x"].to_list()
        [False]
    """
    return Aggregate("bool_and", column)


@_boolean_entry(sql=Sql(("BOOL_OR", "SOME")), value=lambda values, agg: any(values))
def bool_or(column: Any) -> Aggregate:
    """Check whether some value is true; nulls are skipped.

    Args:
        column: The column of values, or an expression.

    Returns:
        An aggregate for ``.agg(…)``: a ``boolean``, NULL without values.

    Raises:
        OptionError: From ``.agg``, when the column isn't boolean.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [True, False]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=bool_or("v")).results["x"].to_list()
        [True]
    """
    return Aggregate("bool_or", column)
